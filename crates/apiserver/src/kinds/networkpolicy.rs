//! NetworkPolicy.

use muster_tree::json;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, cells};
use crate::model::Fields as _;
use crate::validation::networkpolicy;

/// Which traffic of pods is let through.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default,
        validate: networkpolicy::validate,
        warnings: |object, _| networkpolicy::warnings(object),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]),
        )
    }
}

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Pod-Selector",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
    )
    .by(|object, _| cells::label_selector(object.object("spec").and_then(|s| s.object("podSelector"))).into()),
    AGE_COLUMN,
];

fn default(policy: &mut Object) {
    let spec = policy.object_or_new("spec");
    for direction in ["ingress", "egress"] {
        for rule in spec.items_mut(direction) {
            rule.items_mut("ports").for_each(|port| port.set_if_absent("protocol", "TCP"));
        }
    }
    if spec.list("policyTypes").is_empty() {
        let types = if spec.list("egress").is_empty() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        spec.insert("policyTypes", types);
    }
}
