//! Pod.

mod prepare;
mod row;

use std::sync::LazyLock;

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, Object, Part, Resource, Subresource, defaults};
use crate::field::FieldError;
use crate::model::fields::Fields;
use crate::validation::{self, Errors, Path};

pub use row::summary;

/// Containers that live and die together on one node.
#[derive(Debug)]
pub struct Pod;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "Pod", "pods")
        .short(&["po"])
        .in_all()
        .parts(&[
            Subresource::Attach,
            Subresource::Binding,
            Subresource::EphemeralContainers,
            Subresource::Eviction,
            Subresource::Exec,
            Subresource::Log,
            Subresource::PortForward,
            Subresource::Proxy,
            Subresource::Resize,
            Subresource::Status,
        ])
        .labels(&[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
            "spec.host",
        ])
        .returns_deleted()
});

static COLUMNS: [Column; 9] = [
    NAME_COLUMN,
    Column::text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    Column::text("Status", "The aggregate status of the containers in this pod."),
    Column::text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
    ),
    AGE_COLUMN,
    Column::wide_text(
        "IP",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
    ),
    Column::wide_text(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    ),
    Column::wide_text(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
    ),
    Column::wide_text(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    ),
];

impl Kind for Pod {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        defaults::pod(object);
    }
    fn prepare_create(&self, object: &mut Object) {
        prepare::create(object);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        prepare::update(part, object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::pod::validate_create(object, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        match part {
            Part::Status => validation::pod::validate_status_update(object, old, &mut errors),
            Part::EphemeralContainers => validation::pod::validate_ephemeral_update(object, old, &mut errors),
            Part::Resize => validation::pod::validate_resize(object, old, &mut errors),
            _ => validation::pod::validate_update(object, old, &mut errors),
        }
        errors
    }
    fn early_warnings(&self, object: &Object) -> Vec<String> {
        validation::pod::warnings::annotations(object)
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings: Vec<String> = validation::workload::name_warning(
            object,
            "this is used in the Pod's hostname, which can result in surprising behavior",
        )
        .into_iter()
        .collect();
        warnings.extend(validation::pod::warnings::pod(object));
        warnings
    }
    fn part_warnings(&self, part: Part, object: &Object) -> Vec<String> {
        let path = Path::new("status");
        let mut warnings = Vec::new();
        for list in ["podIPs", "hostIPs"].into_iter().filter(|_| part == Part::Status) {
            let path = path.child(list);
            for (i, address) in object.part("status").items(list).enumerate() {
                warnings.extend(validation::ip::ip_warnings(&path.index(i).child("ip"), address.text("ip")));
            }
        }
        warnings
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let spec = || object.object("spec");
        let status = || object.object("status");
        let field = match label {
            "spec.nodeName" | "spec.host" => spec()?.text("nodeName"),
            "spec.restartPolicy" => spec()?.text("restartPolicy"),
            "spec.schedulerName" => spec()?.text("schedulerName"),
            "spec.serviceAccountName" => spec()?.text("serviceAccountName"),
            "spec.hostNetwork" => {
                if spec().is_some_and(|s| s.flag("hostNetwork")) {
                    "true"
                } else {
                    "false"
                }
            }
            "status.phase" => status()?.text("phase"),
            "status.podIP" => status()?.text("podIP"),
            "status.nominatedNodeName" => status()?.text("nominatedNodeName"),
            _ => return None,
        };
        Some(Cow::Borrowed(field))
    }
    fn grace(&self, object: &Object, requested: Option<i64>) -> Option<i64> {
        let spec = object.object("spec");
        let own = || spec.and_then(|s| s.maybe_int("terminationGracePeriodSeconds")).unwrap_or_default();
        let scheduled = spec.is_some_and(|s| !s.text("nodeName").is_empty());
        let finished = matches!(object.object("status").map_or("", |s| s.text("phase")), "Failed" | "Succeeded");
        // Nothing runs that could use the time.
        if !scheduled || finished {
            return Some(0);
        }
        let period = requested.unwrap_or_else(own);
        Some(if period < 0 { 1 } else { period })
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        row::cells(object, now)
    }
    fn row_conditions(&self, object: &Object) -> Vec<Value> {
        row::conditions(object)
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-18
    #[test]
    fn grace_by_the_table() {
        let cases = [
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}), None, 30),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}), Some(5), 5),
            (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}), Some(-5), 1),
            (json!({"spec": {"nodeName": "n"}}), None, 0),
            (json!({"spec": {"terminationGracePeriodSeconds": 30}}), None, 0),
            (json!({"spec": {"terminationGracePeriodSeconds": 30}}), Some(60), 0),
            (
                json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Failed"}}),
                None,
                0,
            ),
            (
                json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}}),
                Some(0),
                0,
            ),
        ];
        for (pod, requested, want) in cases {
            assert_eq!(Pod.grace(pod.as_object().expect("object"), requested), Some(want), "{pod} {requested:?}");
        }
    }

    /// Contract: API-10
    #[test]
    fn fields_that_select() {
        let pod =
            json!({"spec": {"nodeName": "n", "hostNetwork": true}, "status": {"phase": "Running", "podIP": "1.1.1.1"}});
        let pod = pod.as_object().expect("object");
        for (label, want) in [
            ("spec.nodeName", Some("n")),
            ("spec.host", Some("n")),
            ("spec.hostNetwork", Some("true")),
            ("status.phase", Some("Running")),
            ("status.podIP", Some("1.1.1.1")),
            ("status.podIPs", None),
            ("spec.schedulerName", Some("")),
        ] {
            assert_eq!(Pod.field(pod, label).as_deref(), want, "{label}");
        }
    }
}
