//! Least privilege: the manager runs as a ServiceAccount with the grants that are shipped, and everything goes.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::audit::Asked;
use crate::control_plane::ControlPlane;
use crate::workloads::{Kind, deployment, replicaset, replication_controller};
use crate::world::World;

/// What deploy/ grants a manager.
const ROLE: &str = include_str!("../../deploy/manifests/rbac.yaml");
/// What deploy/ grants a shadow.
const SHADOW_ROLE: &str = include_str!("../../deploy/manifests-shadow/rbac.yaml");

/// The kubeconfig of a manager that is granted what deploy/ grants, and no more.
pub(crate) fn least(plane: &ControlPlane) -> PathBuf {
    granted(plane, ROLE)
}

/// The kubeconfig of a shadow, likewise.
pub(crate) fn reading(plane: &ControlPlane) -> PathBuf {
    granted(plane, SHADOW_ROLE)
}

fn granted(plane: &ControlPlane, grants: &str) -> PathBuf {
    let objects: Vec<Value> = serde_saphyr::from_multiple(grants).expect("the grants are YAML");
    let account = objects.iter().find(|object| object["kind"] == "ServiceAccount").expect("a ServiceAccount");
    let (namespace, name) = (text_of(account, "/metadata/namespace"), text_of(account, "/metadata/name"));
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for object in [&space].into_iter().chain(&objects) {
        let applied = plane.api.apply(&path_of(object), object);
        applied.unwrap_or_else(|refusal| panic!("{}: {refusal}", path_of(object)));
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer = plane.api.create(&path, &request).expect("a token of the ServiceAccount");
    plane.kubeconfig_by_token(&name, &text_of(&answer, "/status/token"))
}

/// Fails where the server refused a manager something in that namespace for want of a grant.
pub(crate) fn nothing_was_refused(plane: &ControlPlane, namespace: &str) {
    let refused: Vec<Asked> =
        plane.asked().into_iter().filter(|asked| asked.forbidden && asked.namespace == namespace).collect();
    assert!(refused.is_empty(), "refused in {namespace}: {refused:#?}");
}

/// Everything that the manager asks of the server when it does everything that it can, the election and its Event
/// among it.
///
/// Contract: CM-04
pub(crate) fn everything_is_granted_and_no_secret_is_read(world: &World) {
    world.shared("permissions", |space| {
        space.create(&replicaset("web", 2));
        space.create(&replication_controller("classic", 2));
        space.create(&deployment("site", 2));
        space.ready(Kind::ReplicaSet, "web", 2);
        space.ready(Kind::ReplicationController, "classic", 2);
        space.complete("site");
        for kind in [Kind::ReplicaSet, Kind::ReplicationController] {
            let name = if kind == Kind::ReplicaSet { "web" } else { "classic" };
            space.merge(kind, name, &json!({"spec": {"replicas": 1}}));
            space.ready(kind, name, 1);
        }
        space.event("site", "ScalingReplicaSet");
        space.event("web", "SuccessfulDelete");

        let asked = space.plane.asked();
        let refused: Vec<&Asked> = asked.iter().filter(|asked| asked.forbidden).collect();
        assert!(refused.is_empty(), "refused: {refused:#?}");
        assert!(asked.iter().all(|asked| !asked.resource.starts_with("secrets")), "a secret was asked for");
        for (verb, resource) in [("list", "pods"), ("create", "pods"), ("delete", "pods"), ("create", "leases")] {
            let found = asked.iter().any(|asked| asked.verb == verb && asked.resource == resource);
            let watched = resource == "pods" && verb == "list" && asked.iter().any(|a| a.verb == "watch");
            assert!(found || watched, "the log of requests lacks {verb} of {resource}");
        }
    });
}

/// Where an object of those that grants are made of is.
fn path_of(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => "namespaces",
        "ServiceAccount" => "serviceaccounts",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        other => panic!("an object of kind {other:?} among the grants"),
    };
    let version = text_of(object, "/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let within = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let within = within.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    format!("/{root}/{version}/{within}{plural}/{}", text_of(object, "/metadata/name"))
}

fn text_of(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("no text at {pointer} of {object}")).to_owned()
}
