//! What owns pods by a template: ReplicaSets, and what they have in common with Deployments (API-17).

use crate::field::{FieldError, Shown};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, IMMUTABLE, Path, name, non_negative, pod, selector};

const SPEC: Path<'_> = Path::new("spec");
const STATUS: Path<'_> = Path::new("status");

/// Checks a ReplicaSet's spec.
pub fn validate_replica_set(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    non_negative(spec.int("replicas"), &SPEC.child("replicas"), errors);
    non_negative(spec.int("minReadySeconds"), &SPEC.child("minReadySeconds"), errors);
    validate_selector_and_template(spec, old.and_then(|o| o.object("spec")), errors);
}

/// Checks the selector of a spec, its template, and that the one matches the other.
pub fn validate_selector_and_template(spec: &Object, old_spec: Option<&Object>, errors: &mut Errors) {
    let path = SPEC.child("selector");
    let own = spec.object("selector");
    match own {
        None => errors.push(FieldError::required(path, "")),
        Some(own) => {
            selector::validate(own, false, &path, errors);
            if selector::is_empty(own) {
                errors.push(FieldError::invalid(
                    path,
                    Shown::Bare("{}".to_owned()),
                    "empty selector is invalid for deployment",
                ));
            }
        }
    }
    let Ok(parsed) = selector::parse(own) else {
        errors.push(FieldError::invalid(path, selector::shown(own), "invalid label selector"));
        return;
    };
    let template = spec.part("template");
    let path = SPEC.child("template");
    selector::matches_template(&parsed, template, &path, errors);
    let old_template = old_spec.and_then(|s| s.object("template"));
    pod::validate_template(template, old_template, &path, errors);
    validate_long_running(template, "ReplicaSet", &path, errors);
}

/// Checks a ReplicationController's spec, whose selector is a plain map of labels.
pub fn validate_replication_controller(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    non_negative(spec.int("minReadySeconds"), &SPEC.child("minReadySeconds"), errors);
    let selector = spec.object("selector").filter(|s| !s.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required(SPEC.child("selector"), ""));
    }
    non_negative(spec.int("replicas"), &SPEC.child("replicas"), errors);
    let path = SPEC.child("template");
    let Some(template) = spec.object("template") else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    if selector.is_some() {
        let meta = template.object("metadata").unwrap_or(&empty);
        let labels = meta.object("labels").unwrap_or(&empty);
        if !spec.pairs("selector").all(|(key, value)| labels.maybe_text(key) == Some(value)) {
            let meta_path = path.child("metadata");
            errors.push(FieldError::invalid(
                meta_path.child("labels"),
                selector::shown_labels(meta.object("labels")),
                "`selector` does not match template `labels`",
            ));
        }
    }
    let old_template = old.and_then(|o| o.object("spec")).and_then(|s| s.object("template"));
    pod::validate_template(template, old_template, &path, errors);
    validate_long_running(template, "ReplicationController", &path, errors);
}

/// Pods of a template that is to be kept running restart always and have no deadline.
pub(super) fn validate_long_running(template: &Object, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = template.object("spec").unwrap_or(&empty);
    let path = path.child("spec");
    if spec.text("restartPolicy") != "Always" {
        errors.push(FieldError::not_supported(path.child("restartPolicy"), spec.text("restartPolicy"), &["Always"]));
    }
    if spec.contains_key("activeDeadlineSeconds") {
        errors.push(FieldError::forbidden(
            path.child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        ));
    }
}

/// A field that cannot change has not; `shown` is how the message shows what it would be.
pub fn not_changed(
    new: &Object,
    old: &Object,
    field: &str,
    shown: impl Into<Shown>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if new.get(field) != old.get(field) {
        errors.push(FieldError::invalid(path, shown, IMMUTABLE));
    }
}

/// A selector never changes.
pub fn validate_selector_unchanged(object: &Object, old: &Object, errors: &mut Errors) {
    let of = |o: &Object| o.object("spec").and_then(|s| s.object("selector")).cloned();
    let (new, old) = (of(object), of(old));
    if selector::shown(new.as_ref()) != selector::shown(old.as_ref()) {
        errors.push(FieldError::invalid(SPEC.child("selector"), selector::shown(new.as_ref()), IMMUTABLE));
    }
}

/// Checks a ReplicaSet's status.
pub fn validate_replica_set_status(object: &Object, errors: &mut Errors) {
    let status = object.part("status");
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    validate_counts(status, &fields, errors);
    not_more(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "readyReplicas", errors);
}

/// The counts of a status are not negative.
pub fn validate_counts(status: &Object, counts: &[&str], errors: &mut Errors) {
    for count in counts {
        non_negative(status.int(count), &STATUS.child(count), errors);
    }
}

/// Collisions of a hash are counted up only.
pub fn validate_collisions(object: &Object, old: &Object, errors: &mut Errors) {
    let (now, before) = (object.part("status"), old.part("status").maybe_int("collisionCount"));
    if before.is_some_and(|before| now.maybe_int("collisionCount").is_none_or(|now| now < before)) {
        let path = STATUS.child("collisionCount");
        errors.push(FieldError::invalid(path, now.int("collisionCount"), "cannot be decremented"));
    }
}

/// None of the counts may exceed the replicas, nor the available ones the ready ones, which the message calls `ready`.
pub fn not_more(status: &Object, counts: &[&str], ready: &str, errors: &mut Errors) {
    for field in counts {
        if status.int(field) > status.int("replicas") {
            errors.push(FieldError::invalid(
                STATUS.child(field),
                status.int(field),
                "cannot be greater than status.replicas",
            ));
        }
    }
    if status.int("availableReplicas") > status.int("readyReplicas") {
        errors.push(FieldError::invalid(
            STATUS.child("availableReplicas"),
            status.int("availableReplicas"),
            format!("cannot be greater than {ready}"),
        ));
    }
}

/// Warnings of a kind with a pod template: a name that makes no good host name, and what its pods
/// would be warned of. A change is warned of where the spec changed.
#[must_use]
pub fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = new_name_warning(object, old);
    warnings.extend(template_warnings(object, old));
    warnings
}

/// The warning that the name of a new object, which its pods get as well, makes no good host name.
#[must_use]
pub fn new_name_warning(object: &Object, old: Option<&Object>) -> Vec<String> {
    let why = "this is used in Pod names and hostnames, which can result in surprising behavior";
    if old.is_some() { Vec::new() } else { name_warning(object, why).into_iter().collect() }
}

/// What the pods of a template would be warned of, where the object is new or its generation has risen.
#[must_use]
pub fn template_warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some_and(|old| metadata(old).get("generation") == metadata(object).get("generation")) {
        return Vec::new();
    }
    fn template(object: &Object) -> Option<&Object> {
        object.part("spec").object("template")
    }
    let old = old.and_then(template);
    template(object).map(|new| pod::warnings::template(&SPEC.child("template"), new, old)).unwrap_or_default()
}

/// The warning that a name makes no good host name, if so.
#[must_use]
pub fn name_warning(object: &Object, why: &str) -> Option<String> {
    let complaints = name::is_dns1123_label(metadata(object).text("name"));
    // The list is printed as Go prints a slice of strings.
    (!complaints.is_empty())
        .then(|| format!("metadata.name: {why}; a DNS label is recommended: [{}]", complaints.join(" ")))
}
