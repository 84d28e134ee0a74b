//! DaemonSet.

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, cells, defaults, workload};
use crate::model::{Fields as _, metadata};
use crate::validation::{self, daemonset as rules};

/// A pod on each node.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default,
        prepare,
        validate: rules::validate,
        validate_part: |_, object, old, errors| rules::validate_status(object, old, errors),
        warnings,
        hidden_annotation: Some(TEMPLATE_GENERATION),
        complete_zero: |object| set_template_generation(object, 0),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("apps", "v1", "DaemonSet", "daemonsets")
                .short(&["ds"])
                .in_all()
                .parts(&[Subresource::Status]),
        )
    }
}

static COLUMNS: [Column; 11] = [
    NAME_COLUMN,
    Column::number(
        "Desired",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    )
    .number_at("/status/desiredNumberScheduled"),
    Column::number(
        "Current",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    )
    .number_at("/status/currentNumberScheduled"),
    Column::number(
        "Ready",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
    )
    .number_at("/status/numberReady"),
    Column::number("Up-to-date", "The total number of nodes that are running updated daemon pod")
        .number_at("/status/updatedNumberScheduled"),
    Column::number(
        "Available",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
    )
    .number_at("/status/numberAvailable"),
    Column::text(
        "Node Selector",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
    )
    .by(|object, _| {
        let pod = object.part("spec").part("template").part("spec");
        cells::labels(pod.object("nodeSelector")).into()
    }),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .by(cells::selector),
];

/// The annotation that counts changes of the template; an older version of the kind has a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    defaults::template(spec, "template");
    let strategy = spec.object_or_new("updateStrategy");
    strategy.set_if_empty("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.object_or_new("rollingUpdate");
        rolling.set_if_absent("maxUnavailable", 1);
    }
    if let Some(rolling) = strategy.object_mut("rollingUpdate") {
        rolling.set_if_absent("maxUnavailable", 0);
        rolling.set_if_absent("maxSurge", 0);
    }
    spec.set_if_absent("revisionHistoryLimit", 10);
    let generation = template_generation(object);
    set_template_generation(object, generation);
}

fn prepare(part: Part, object: &mut Object, old: Option<&Object>) {
    workload::prepare(part, object, old);
    let generation = match old {
        None => template_generation(object).max(1),
        Some(old) => {
            let template = |object: &Object| object.part("spec").part("template").clone();
            let changed = part == Part::Main && template(object) != template(old);
            template_generation(old) + i64::from(changed)
        }
    };
    set_template_generation(object, generation);
}

fn template_generation(object: &Object) -> i64 {
    metadata(object).part("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Object, generation: i64) {
    let annotations = object.object_or_new("metadata").object_or_new("annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

/// Unlike that of other kinds, the name of a new DaemonSet is not warned of.
fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    match old {
        Some(old) if template_generation(old) == template_generation(object) => Vec::new(),
        old => validation::workload::template_warnings(object, old),
    }
}
