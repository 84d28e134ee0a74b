//! Jobs (API-25): their specs, which CronJobs have as well, and what of them may change.

mod indexes;
mod policies;
mod status;

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::workload::not_changed;
use super::{Errors, Path, domain, internal, meta, name, non_negative, pod, selector};

pub use status::validate_status;

const SPEC: Path<'_> = Path::new("spec");
const METADATA: Path<'_> = Path::new("metadata");

/// The labels that tell a Job's pods from others': by the Job's uid, and by its name. Each has an older name without a
/// domain.
pub const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
/// See [`UID_LABELS`].
pub const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// An Indexed Job may run this many pods at once.
const MOST_PARALLEL: i64 = 100_000;
/// So many indexes may fail.
const MOST_FAILED: i64 = 100_000;
/// From so many completions on, less may run and fail where failures are counted for each index.
const MANY_COMPLETIONS: i64 = 100_000;
/// What may run and fail then.
const MOST_OF_MANY: i64 = 10_000;
/// `managedBy` may be this many bytes long.
const MANAGED_BY_MAX: usize = 63;

/// Checks a Job.
pub fn validate(job: &Object, old: Option<&Object>, errors: &mut Errors) {
    let Some(old) = old else {
        return validate_whole(job, None, errors);
    };
    // The reference looks at the Job as if it were new, and then at the change, of which the spec is the first part.
    validate_whole(job, Some(old), errors);
    meta::validate_core_update(metadata(job), metadata(old), errors);
    validate_selected_spec(job.part("spec"), Some(old), errors);
    validate_change(job.part("spec"), old, errors);
}

fn validate_whole(job: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = job.part("spec");
    validate_generated_selector(job, old, errors);
    validate_selected_spec(spec, old, errors);
    let completions = spec.int("completions");
    if is_indexed(spec) && completions > 0 {
        let own = metadata(job).text("name");
        let last = format!("{own}-{}", completions - 1);
        if !name::is_dns1123_label(&last).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {last}");
            errors.push(FieldError::invalid(METADATA.child("name"), own, why));
        }
    }
}

/// A selector that was generated selects by the labels that were generated with it, and the template has them.
fn validate_generated_selector(job: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = job.part("spec");
    if spec.flag("manualSelector") {
        return;
    }
    let Some(own) = spec.object("selector") else { return };
    let labels_of = |job: &Object| job.part("spec").part("template").part("metadata").object("labels").cloned();
    // Jobs of old have the older labels alone.
    let both = old
        .and_then(labels_of)
        .is_none_or(|labels| labels.contains_key(UID_LABELS[1]) && labels.contains_key(NAME_LABELS[1]));
    let labels = labels_of(job);
    let (uid, own_name) = (metadata(job).text("uid"), metadata(job).text("name"));
    let mut expected = Object::new();
    let template_path = SPEC.child("template");
    let meta_path = template_path.child("metadata");
    let path = meta_path.child("labels");
    for at in 0..if both { 2 } else { 1 } {
        for (key, value) in [(UID_LABELS[at], uid), (NAME_LABELS[at], own_name)] {
            let why = format!("must be '{value}'");
            match labels.as_ref().and_then(|labels| labels.maybe_text(key)) {
                None => errors.push(FieldError::required(path.key(key), why)),
                Some(found) if found != value => {
                    errors.push(FieldError::invalid(path.key(key), selector::shown_labels(labels.as_ref()), why));
                }
                Some(_) => {}
            }
            expected.insert(key, value.into());
        }
    }
    let selects = |parsed: muster_objects::Selector| parsed.matches_fn(|key| expected.maybe_text(key));
    if selector::parse(Some(own)).is_ok_and(|parsed| !selects(parsed)) {
        let shown = selector::shown(Some(own));
        errors.push(FieldError::invalid(SPEC.child("selector"), shown, "`selector` not auto-generated"));
    }
}

fn validate_selected_spec(spec: &Object, old: Option<&Object>, errors: &mut Errors) {
    validate_spec(spec, old.map(|old| old.part("spec")), &SPEC, errors);
    let own = spec.object("selector");
    match own {
        None => errors.push(FieldError::required(SPEC.child("selector"), "")),
        Some(own) => selector::validate(own, false, &SPEC.child("selector"), errors),
    }
    if let Ok(parsed) = selector::parse(own) {
        selector::matches_template(&parsed, spec.part("template"), &SPEC.child("template"), errors);
    }
}

/// Checks the spec of a Job, or of a CronJob's template of one, but for its selector.
pub fn validate_spec(spec: &Object, old: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for field in counts {
        non_negative(spec.int(field), &path.child(field), errors);
    }
    if spec.contains_key("maxFailedIndexes") && !spec.contains_key("backoffLimitPerIndex") {
        errors.push(FieldError::required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec.maybe_text("managedBy") {
        let path = path.child("managedBy");
        domain::validate_prefixed_path(manager, &path, errors);
        if manager.len() > MANAGED_BY_MAX {
            errors.push(FieldError::too_long(path, MANAGED_BY_MAX));
        }
    }
    match spec.maybe_text("completionMode") {
        Some("Indexed") => validate_indexed(spec, path, errors),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.maybe_int(field) {
                    errors.push(FieldError::invalid(path.child(field), number, "requires indexed completion mode"));
                }
            }
        }
        Some(other) => {
            let modes = ["NonIndexed", "Indexed"];
            errors.push(FieldError::not_supported(path.child("completionMode"), other, &modes));
        }
    }
    policies::validate(spec, path, errors);
    let (template, template_path) = (spec.part("template"), path.child("template"));
    let before = old.map(|old| old.part("template"));
    pod::validate_template(template, before, &template_path, errors);
    let pod_path = template_path.child("spec");
    let path = pod_path.child("restartPolicy");
    match template.part("spec").text("restartPolicy") {
        "" | "Always" => errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" if !spec.contains_key("podFailurePolicy") => {}
        "OnFailure" => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(path, "OnFailure", why));
        }
        other => errors.push(FieldError::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

fn validate_indexed(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.maybe_int("completions"), spec.maybe_int("parallelism"));
    let failed = spec.maybe_int("maxFailedIndexes");
    let failed_path = path.child("maxFailedIndexes");
    let parallelism_path = path.child("parallelism");
    if completions.is_none() {
        errors.push(FieldError::required(path.child("completions"), "when completion mode is Indexed"));
    }
    if let Some(number) = parallelism.filter(|n| *n > MOST_PARALLEL) {
        let why = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        errors.push(FieldError::invalid(parallelism_path, number, why));
    }
    if let Some(number) = failed.filter(|n| completions.is_some_and(|all| *n > all)) {
        errors.push(FieldError::invalid(failed_path, number, "must be less than or equal to completions"));
    }
    if let Some(number) = failed.filter(|n| *n > MOST_FAILED) {
        let why = format!("must be less than or equal to {MOST_FAILED}");
        errors.push(FieldError::invalid(failed_path, number, why));
    }
    if completions.is_none_or(|n| n <= MANY_COMPLETIONS) || !spec.contains_key("backoffLimitPerIndex") {
        return;
    }
    if failed.is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(FieldError::required(failed_path, why));
    }
    for (path, number) in [(parallelism_path, parallelism), (failed_path, failed)] {
        if let Some(number) = number.filter(|n| *n > MOST_OF_MANY) {
            let why = format!(
                "must be less than or equal to {MOST_OF_MANY} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            );
            errors.push(FieldError::invalid(path, number, why));
        }
    }
}

/// What of a Job's spec may change: how much of it runs at once, when it ends, and while it has not begun, what its
/// pods need.
fn validate_change(spec: &Object, old: &Object, errors: &mut Errors) {
    let before = old.part("spec");
    let value = |field: &str| spec.get(field).unwrap_or(&Value::Null);
    let completions = SPEC.child("completions");
    if !is_indexed(spec) {
        not_changed(spec, before, "completions", value("completions"), &completions, errors);
    } else if let Some(number) = spec.maybe_int("completions").filter(|n| before.maybe_int("completions") != Some(*n))
        && number != spec.int("parallelism")
    {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(completions, number, why));
    }
    let own = selector::shown(spec.object("selector"));
    not_changed(spec, before, "selector", own, &SPEC.child("selector"), errors);
    validate_template_change(spec, old, errors);
    let internal = |field: &str, type_name: &str| match spec.object(field) {
        Some(value) => internal::shown(type_name, value),
        None => Shown::Bare("null".to_owned()),
    };
    let fields: [(&str, Shown); 5] = [
        ("completionMode", value("completionMode").into()),
        ("podFailurePolicy", internal("podFailurePolicy", "PodFailurePolicy")),
        ("backoffLimitPerIndex", value("backoffLimitPerIndex").into()),
        ("managedBy", value("managedBy").into()),
        ("successPolicy", internal("successPolicy", "SuccessPolicy")),
    ];
    for (field, shown) in fields {
        not_changed(spec, before, field, shown, &SPEC.child(field), errors);
    }
}

fn validate_template_change(spec: &Object, old: &Object, errors: &mut Errors) {
    let before = old.part("spec");
    let template = spec.part("template");
    let mut allowed = before.part("template").clone();
    let status = old.part("status");
    let rests = !status.contains_key("startTime") || status::is_true(status, "Suspended");
    let path = SPEC.child("template");
    if !(before.flag("suspend") && rests && status.int("active") == 0) {
        if *template != allowed {
            let shown = internal::shown("PodTemplateSpec", template);
            errors.push(FieldError::invalid(path, shown, super::IMMUTABLE));
        }
        return;
    }
    allow_scheduling(&mut allowed, template);
    let (pod, mut allowed) = (template.part("spec"), allowed.part("spec").clone());
    for list in ["containers", "initContainers"] {
        if pod.list(list).len() == allowed.list(list).len() {
            let containers = allowed.items_mut(list).zip(pod.items(list));
            for (container, new) in containers.filter(|(old, new)| old.text("name") == new.text("name")) {
                container.carry("resources", new);
            }
        }
    }
    if *pod != allowed {
        let shown = internal::shown("PodSpec", pod);
        errors.push(FieldError::invalid(path.child("spec"), shown, super::IMMUTABLE));
    }
}

/// Takes over what says where pods run.
fn allow_scheduling(allowed: &mut Object, template: &Object) {
    let new = template.part("spec");
    let pod = allowed.object_or_new("spec");
    match (new.object("affinity"), pod.object_mut("affinity")) {
        (None, Some(affinity)) => {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                pod.remove("affinity");
            }
        }
        (Some(affinity), _) => pod.object_or_new("affinity").carry("nodeAffinity", affinity),
        (None, None) => {}
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        pod.carry(field, new);
    }
}

fn is_indexed(spec: &Object) -> bool {
    spec.text("completionMode") == "Indexed"
}

#[cfg(test)]
mod tests;
