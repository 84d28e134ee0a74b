//! ReplicaSet.

use muster_tree::Value;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, Subresource, cells, defaults, workload};
use crate::model::Fields as _;
use crate::validation::workload as rules;

/// So many pods of one template.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default,
        prepare: workload::prepare,
        validate: |object, old, errors| {
            rules::validate_replica_set(object, old, errors);
            if let Some(old) = old {
                rules::validate_selector_unchanged(object, old, errors);
            }
        },
        validate_part: |_, object, _, errors| rules::validate_replica_set_status(object, errors),
        warnings: rules::warnings,
        complete_zero: workload::no_replicas,
        columns: &COLUMNS,
        scale_selector: workload::scale_selector,
        ..Row::new(
            Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets")
                .short(&["rs"])
                .in_all()
                .parts(&[Subresource::Scale, Subresource::Status]),
        )
    }
}

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::number(
        "Desired",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    )
    .number_at("/spec/replicas"),
    Column::number(
        "Current",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    )
    .number_at("/status/replicas"),
    Column::number("Ready", "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.")
        .number_at("/status/readyReplicas"),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .by(cells::selector),
];

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_absent("replicas", 1);
    spec.entry("selector").or_insert(Value::Null);
    defaults::template(spec, "template");
    object.object_or_new("status").set_if_absent("replicas", 0);
}
