//! The order in which objects can be applied: what others need comes first.

use muster_apiserver::model::Object;
use muster_apiserver::model::fields::{Fields as _, metadata};

/// Kinds that come before all others, in this order.
const FIRST: [&str; 18] = [
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "RuntimeClass",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "PodDisruptionBudget",
];

/// Kinds that come after all others: they may refuse what comes behind them.
const LAST: [&str; 7] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

/// Where an object comes.
pub(super) fn place(object: &Object) -> (usize, bool, String, String, String, String) {
    let text = |field| object.text(field).to_owned();
    let kind = object.text("kind");
    let first = FIRST.iter().position(|known| *known == kind);
    let last = LAST.iter().position(|known| *known == kind).map(|at| FIRST.len() + 1 + at);
    let place = first.or(last).unwrap_or(FIRST.len());
    // Kinds of a definition come after those that the server has by itself.
    let group = object.text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let custom = group.contains('.') && !group.ends_with(".k8s.io");
    let of = |field| metadata(object).text(field).to_owned();
    (place, custom, text("kind"), text("apiVersion"), of("namespace"), of("name"))
}
