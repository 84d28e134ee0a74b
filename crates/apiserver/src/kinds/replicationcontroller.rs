//! ReplicationController.

use muster_tree::Value;

use super::{
    AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Propagation, Resource, Row, Subresource, cells, defaults, workload,
};
use crate::model::Fields as _;
use crate::validation::{meta::Look, workload as rules};

/// So many pods of one template, with the selector of old.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        propagation: Propagation::Orphan,
        metadata: Look::CHANGE.any_prefix(),
        default,
        prepare,
        validate: rules::validate_replication_controller,
        validate_part: |_, object, _, errors| rules::validate_replica_set_status(object, errors),
        warnings,
        columns: &COLUMNS,
        scale_selector,
        ..Row::new(
            Resource::namespaced("", "v1", "ReplicationController", "replicationcontrollers")
                .short(&["rc"])
                .in_all()
                .parts(&[Subresource::Scale, Subresource::Status])
                .labels(&["status.replicas"])
                .stored_under("controllers"),
        )
    }
}

/// Of an update they are those that a change back would have, as in the reference.
fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    old.map_or_else(|| rules::warnings(object, None), |old| rules::template_warnings(old, Some(object)))
}

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::number(
        "Desired",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    )
    .number_at("/spec/replicas"),
    Column::number(
        "Current",
        "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    )
    .number_at("/status/replicas"),
    Column::number("Ready", "The number of ready replicas for this replication controller.")
        .number_at("/status/readyReplicas"),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .by(|object, _| cells::labels(object.part("spec").object("selector")).into()),
];

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_absent("replicas", 1);
    // Without a template there is nothing to default; validation says that one is required.
    if spec.object("template").is_some() {
        defaults::template(spec, "template");
    }
    let labels = spec.part("template").part("metadata").part("labels").clone();
    if !labels.is_empty() && spec.part("selector").is_empty() {
        spec.insert("selector", Value::Object(labels));
    }
    label(object);
    object.object_or_new("status").set_if_absent("replicas", 0);
}

/// One without labels has those of its pods, also after a write of its status that takes them away: the reference defaults whatever it
/// reads of its storage.
fn prepare(part: Part, object: &mut Object, old: Option<&Object>) {
    workload::prepare(part, object, old);
    label(object);
}

fn label(object: &mut Object) {
    let labels = object.part("spec").part("template").part("metadata").part("labels").clone();
    let metadata = object.object_or_new("metadata");
    if !labels.is_empty() && metadata.part("labels").is_empty() {
        metadata.insert("labels", Value::Object(labels));
    }
}

fn scale_selector(object: &Object) -> String {
    let mut pairs: Vec<String> =
        object.part("spec").pairs("selector").map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort_unstable();
    pairs.join(",")
}
