//! Job.

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{
    AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Propagation, Resource, Row, Subresource, cells, defaults, workload,
};
use crate::field::go_quote;
use crate::model::column::human_duration;
use crate::model::{Fields as _, metadata};
use crate::validation::job::{NAME_LABELS, UID_LABELS};
use crate::validation::meta::Look;
use crate::validation::{Path, job as rules, pod, workload as templates};

/// Pods that run to their end.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        // Once there were no deletions of dependents, and so it stayed.
        propagation: Propagation::Orphan,
        deletion_warning: Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        ),
        metadata: Look::WHOLE,
        default,
        prepare,
        // What is read again has defaults again.
        canonicalize: label_as_template,
        validate: rules::validate,
        validate_part: |_, object, old, errors| rules::validate_status(object, old, errors),
        warnings: |object, old| {
            let mut warnings = templates::new_name_warning(object, old);
            warnings.extend(spec_warnings(object, old, &Path::new("spec"), |object| object.part("spec")));
            warnings
        },
        columns: &COLUMNS,
        field: Some(|object, label| {
            (label == "status.successful").then(|| object.part("status").int("succeeded").to_string())
        }),
        ..Row::new(Resource {
            unknown_label: |label| format!("field label {} not supported for Job", go_quote(label)),
            ..Resource::namespaced("batch", "v1", "Job", "jobs")
                .in_all()
                .parts(&[Subresource::Status])
                .labels(&["status.successful"])
        })
    }
}

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::text("Status", "Status of the job.").by(|object, _| state(object).into()),
    Column::text(
        "Completions",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
    )
    .by(|object, _| completions(object).into()),
    Column::text("Duration", "Time required to complete the job.").by(duration),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .by(cells::selector),
];

fn state(object: &Object) -> &'static str {
    let status = object.part("status");
    let is =
        |wanted: &&str| status.items("conditions").any(|c| c.text("type") == *wanted && c.text("status") == "True");
    if let Some(end) = ["Complete", "Failed"].into_iter().find(is) {
        return end;
    }
    if metadata(object).contains_key("deletionTimestamp") {
        return "Terminating";
    }
    ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(is).unwrap_or("Running")
}

fn completions(object: &Object) -> String {
    let (spec, succeeded) = (object.part("spec"), object.part("status").int("succeeded"));
    match (spec.maybe_int("completions"), spec.int("parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(object: &Object, now: Timestamp) -> Value {
    let status = object.part("status");
    let time = |field: &str| Timestamp::parse(status.text(field)).ok();
    match time("startTime") {
        Some(start) => human_duration(time("completionTime").unwrap_or(now).nanos_since(start)).into(),
        None => "".into(),
    }
}

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    defaults::template(spec, "template");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.set_if_absent("completions", 1);
    }
    spec.set_if_absent("parallelism", 1);
    let retries = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    spec.set_if_absent("backoffLimit", retries);
    spec.set_if_absent("completionMode", "NonIndexed");
    spec.set_if_absent("suspend", false);
    let replaced = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.set_if_absent("podReplacementPolicy", replaced);
    spec.set_if_absent("manualSelector", false);
    failure_patterns(spec);
    label_as_template(object);
}

/// Defaults of a Job's spec wherever it stands: a pod's condition is one that is true.
pub(super) fn failure_patterns(spec: &mut Object) {
    let Some(policy) = spec.object_mut("podFailurePolicy") else { return };
    for pattern in policy.items_mut("rules").flat_map(|rule| rule.items_mut("onPodConditions")) {
        pattern.set_if_empty("status", "True");
    }
}

fn prepare(part: Part, object: &mut Object, old: Option<&Object>) {
    workload::prepare(part, object, old);
    if old.is_some() || object.part("spec").flag("manualSelector") {
        return;
    }
    // Where the labels are the template's own, by default, the reference has one map of both, unless it made a copy for
    // a name of its own choice: what comes into the one comes into the other.
    let template = |object: &Object| object.part("spec").part("template").part("metadata").object("labels").cloned();
    let (meta, prefix) = (metadata(object), metadata(object).text("generateName"));
    let named = prefix.is_empty() || !meta.text("name").starts_with(prefix);
    let one = meta.object("labels").zip(template(object)).is_some_and(|(own, other)| own.is_shared_with(&other));
    generate_selector(object);
    if one && named {
        let labels = template(object).unwrap_or_default();
        object.object_or_new("metadata").insert("labels", Value::Object(labels));
    }
}

/// A Job without labels has those of its pods.
fn label_as_template(object: &mut Object) {
    let labels = object.part("spec").part("template").part("metadata").object("labels").cloned();
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()) {
        let meta = object.object_or_new("metadata");
        if meta.part("labels").is_empty() {
            meta.insert("labels", Value::Object(labels));
        }
    }
}

/// Makes the Job select the pods of its uid. What labels there are already stays; validation says if it is wrong.
fn generate_selector(object: &mut Object) {
    let (uid, name) = (metadata(object).text("uid").to_owned(), metadata(object).text("name").to_owned());
    let spec = object.object_or_new("spec");
    let labels = spec.object_or_new("template").object_or_new("metadata").object_or_new("labels");
    for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for key in keys {
            labels.set_if_absent(key, value.as_str());
        }
    }
    spec.object_or_new("selector").object_or_new("matchLabels").set_if_absent(UID_LABELS[1], uid);
}

/// Warnings for the spec of a Job that `of` finds at a path, where it is new or the generation has risen.
pub(super) fn spec_warnings(
    object: &Object,
    old: Option<&Object>,
    path: &Path<'_>,
    of: fn(&Object) -> &Object,
) -> Vec<String> {
    if old.is_some_and(|old| metadata(old).get("generation") == metadata(object).get("generation")) {
        return Vec::new();
    }
    let spec = of(object);
    let mut warnings = Vec::new();
    let many = spec.int("completions") > 100_000 && spec.int("parallelism") > 10_000;
    if spec.text("completionMode") == "Indexed" && many {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let before = old.map(|old| of(old).part("template"));
    warnings.extend(pod::warnings::template(&path.child("template"), spec.part("template"), before));
    warnings
}
