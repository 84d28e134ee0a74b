//! What of an object a person wrote: without what servers and controllers put there.

use muster_apiserver::model::Object;
use muster_apiserver::model::fields::{Fields as _, metadata};
use muster_tree::Value;

/// Kinds whose objects come and go with the cluster that they are in, by group and kind.
const LEFT_OUT: [(&str, &str); 15] = [
    ("", "ComponentStatus"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Node"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("coordination.k8s.io", "Lease"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("events.k8s.io", "Event"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "ResourceSlice"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// What every cluster or namespace has without anybody's doing.
const OWN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const OWN_CONFIG: [&str; 3] =
    ["kube-root-ca.crt", "extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"];

/// What metadata keeps.
const METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];
/// Annotations that others put there.
const ANNOTATIONS: [&str; 9] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "kubernetes.io/service-account.uid",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
/// Labels that a Job gives itself and its pods.
const JOB_LABELS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
/// The volume in which a pod is given its service account's token.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Whether no object of a kind is exported.
pub(crate) fn is_left_out(group: &str, kind: &str) -> bool {
    LEFT_OUT.contains(&(group, kind))
}

/// The object as somebody would write it; `None` where nobody wrote it, or it is going.
pub(crate) fn cleaned(mut object: Object) -> Option<Object> {
    let kind = object.text("kind").to_owned();
    if is_made_by_others(&object, &kind) {
        return None;
    }
    object.remove("status");
    let said = (kind == "Service").then(|| said_of_service(metadata(&object)));
    clean_metadata(object.object_or_new("metadata"));
    match kind.as_str() {
        "Namespace" => {
            object.remove("spec");
            unlabel(&mut object, &["kubernetes.io/metadata.name"]);
        }
        "Service" => clean_service(object.object_or_new("spec"), said.unwrap_or_default()),
        "ServiceAccount" => drop(object.remove("secrets")),
        "Secret" if object.text("type") == "kubernetes.io/service-account-token" => drop(object.remove("data")),
        "Pod" => clean_pod(object.object_or_new("spec")),
        "Job" => clean_job(&mut object),
        "ClusterRole" if object.contains_key("aggregationRule") => drop(object.remove("rules")),
        "PersistentVolume" => {
            if let Some(Value::Object(claim)) = object.object_or_new("spec").get_mut("claimRef") {
                claim.retain(|field, _| field != "uid" && field != "resourceVersion");
            }
        }
        "CustomResourceDefinition" => {
            let spec = object.object_or_new("spec");
            if spec.part("conversion").text("strategy") == "None" {
                spec.remove("conversion");
            }
        }
        _ => {}
    }
    object.object_or_new("metadata").retain(|_, value| !is_empty(value));
    Some(object)
}

fn is_made_by_others(object: &Object, kind: &str) -> bool {
    let meta = metadata(object);
    let (namespace, name) = (meta.text("namespace"), meta.text("name"));
    let (labels, annotations) = (meta.part("labels"), meta.part("annotations"));
    let owned = meta.items("ownerReferences").any(|owner| owner.flag("controller"));
    let own = match kind {
        "Namespace" => OWN_NAMESPACES.contains(&name),
        "ConfigMap" => OWN_CONFIG.contains(&name),
        "Service" => (namespace, name) == ("default", "kubernetes"),
        "ServiceAccount" => name == "default" && labels.is_empty() && object.list("imagePullSecrets").is_empty(),
        "PriorityClass" => name.starts_with("system-"),
        "FlowSchema" | "PriorityLevelConfiguration" => {
            matches!(name, "exempt" | "catch-all") || annotations.text("apf.kubernetes.io/autoupdate-spec") == "true"
        }
        "EndpointSlice" => {
            labels.text("endpointslice.kubernetes.io/managed-by").ends_with("controller.k8s.io")
                || (namespace, name) == ("default", "kubernetes")
        }
        "APIService" => !object.part("spec").contains_key("service"),
        _ => labels.text("kubernetes.io/bootstrapping") == "rbac-defaults",
    };
    owned || own || meta.contains_key("deletionTimestamp")
}

fn clean_metadata(metadata: &mut Object) {
    metadata.retain(|field, _| METADATA.contains(&field.as_str()));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    }
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        // The server's own come by themselves.
        finalizers.retain(|name| {
            let group = name.as_str().and_then(|name| name.split_once('/')).map_or("", |(group, _)| group);
            !(group.is_empty()
                || group == "kubernetes.io"
                || group.ends_with(".k8s.io")
                || group.ends_with(".kubernetes.io"))
        });
    }
}

/// Whether somebody has said the address of a Service, and a port of its nodes: what was given is in nobody's fields.
fn said_of_service(metadata: &Object) -> (bool, bool) {
    let spec = |entry: &Object| entry.part("fieldsV1").part("f:spec").clone();
    let specs: Vec<Object> = metadata.items("managedFields").map(spec).collect();
    let address = specs.iter().any(|spec| spec.contains_key("f:clusterIP") || spec.contains_key("f:clusterIPs"));
    let ports = specs.iter().flat_map(|spec| spec.part("f:ports").values());
    let port = ports.filter_map(Value::as_object).any(|port| port.contains_key("f:nodePort"));
    (address, port)
}

/// Addresses and ports are given by the cluster that it is in, but for those that were asked for.
fn clean_service(spec: &mut Object, (address, port): (bool, bool)) {
    if !address && spec.text("clusterIP") != "None" {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    if spec.text("ipFamilyPolicy") == "SingleStack" {
        spec.remove("ipFamilyPolicy");
        spec.remove("ipFamilies");
    }
    spec.remove("healthCheckNodePort");
    if let Some(Value::Array(ports)) = spec.get_mut("ports").filter(|_| !port) {
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
    }
}

/// Where it runs and by which token is for its cluster to say.
fn clean_pod(spec: &mut Object) {
    let given = |item: &Value| item["name"].as_str().is_some_and(|name| name.starts_with(TOKEN_VOLUME));
    spec.remove("nodeName");
    without(spec, "volumes", given);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            without(container, "volumeMounts", given);
        }
    }
    // They are added to a pod that runs, and not applied.
    spec.remove("ephemeralContainers");
}

/// The selector and its labels name the uid that it had.
fn clean_job(job: &mut Object) {
    if job.part("spec").flag("manualSelector") {
        return;
    }
    unlabel(job, &JOB_LABELS);
    let spec = job.object_or_new("spec");
    spec.remove("selector");
    unlabel(spec.object_or_new("template"), &JOB_LABELS);
}

/// Removes labels of an object, or of a template.
fn unlabel(object: &mut Object, labels: &[&str]) {
    if let Some(Value::Object(present)) = object.object_or_new("metadata").get_mut("labels") {
        present.retain(|label, _| !labels.contains(&label.as_str()));
    }
}

/// Removes items of a list, and the list where nothing is left.
fn without(object: &mut Object, field: &str, gone: impl Fn(&Value) -> bool) {
    let Some(Value::Array(items)) = object.get_mut(field) else { return };
    items.retain(|item| !gone(item));
    if items.is_empty() {
        object.remove(field);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn exported(object: Value) -> Option<Value> {
        let Value::Object(object) = object else { panic!("an object") };
        cleaned(object).map(Value::Object)
    }

    /// Contract: API-37
    #[test]
    fn a_service_keeps_the_address_and_the_ports_that_somebody_asked_for() {
        let service = |fields: Value| {
            exported(json!({
                "kind": "Service",
                "metadata": {"name": "s", "managedFields": [{"fieldsV1": {"f:spec": fields}}]},
                "spec": {"clusterIP": "10.96.0.88", "clusterIPs": ["10.96.0.88"], "ports": [{"port": 80, "nodePort": 30080}]},
            }))
            .expect("somebody made it")["spec"]
                .clone()
        };
        let port = "k:{\"port\":80,\"protocol\":\"TCP\"}";
        let given = json!({"f:ports": {port: {".": {}, "f:port": {}}}, "f:selector": {}});
        assert_eq!(service(given), json!({"ports": [{"port": 80}]}));
        let address = json!({"f:clusterIP": {}, "f:ports": {port: {"f:port": {}}}});
        let kept = json!({"clusterIP": "10.96.0.88", "clusterIPs": ["10.96.0.88"], "ports": [{"port": 80}]});
        assert_eq!(service(address), kept);
        let node = json!({"f:ports": {port: {"f:port": {}, "f:nodePort": {}}}});
        assert_eq!(service(node), json!({"ports": [{"port": 80, "nodePort": 30080}]}));
    }

    /// Contract: API-37
    #[test]
    fn slices_that_a_controller_keeps_are_left_out_and_others_are_not() {
        let slice = |by: &str| {
            let labels = json!({"endpointslice.kubernetes.io/managed-by": by});
            exported(json!({"kind": "EndpointSlice", "metadata": {"name": "s", "labels": labels}, "endpoints": []}))
        };
        assert!(slice("endpointslice-controller.k8s.io").is_none());
        assert!(slice("endpointslicemirroring-controller.k8s.io").is_none());
        assert!(slice("somebody.example.com").is_some());
    }
}
