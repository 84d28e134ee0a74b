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
            if own.object("matchLabels").is_none_or(Object::is_empty) && own.list("matchExpressions").is_empty() {
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
    let empty = Object::new();
    let template = spec.object("template").unwrap_or(&empty);
    let path = SPEC.child("template");
    if !parsed.is_everything() {
        let meta = template.object("metadata").unwrap_or(&empty);
        if !selector::matches(&parsed, meta) {
            let meta_path = path.child("metadata");
            errors.push(FieldError::invalid(
                meta_path.child("labels"),
                selector::shown_labels(meta.object("labels")),
                "`selector` does not match template `labels`",
            ));
        }
    }
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
fn validate_long_running(template: &Object, kind: &str, path: &Path<'_>, errors: &mut Errors) {
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
    let Some(status) = object.object("status") else { return };
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    for field in fields {
        non_negative(status.int(field), &STATUS.child(field), errors);
    }
    not_more(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], errors);
}

/// None of the counts may exceed the replicas, nor the available ones the ready ones.
pub fn not_more(status: &Object, counts: &[&str], errors: &mut Errors) {
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
            "cannot be greater than readyReplicas",
        ));
    }
}

/// Warnings of a kind with a pod template: a name that makes no good host name, and what its pods
/// would be warned of. A change is warned of where the spec changed.
#[must_use]
pub fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = Vec::new();
    match old {
        None => warnings.extend(name_warning(
            object,
            "this is used in Pod names and hostnames, which can result in surprising behavior",
        )),
        Some(old) if metadata(old).get("generation") == metadata(object).get("generation") => return warnings,
        Some(_) => {}
    }
    fn template(object: &Object) -> Option<&Object> {
        object.object("spec")?.object("template")
    }
    if let Some(new) = template(object) {
        warnings.extend(pod::warnings::template(&SPEC.child("template"), new, old.and_then(template)));
    }
    warnings
}

/// The warning that a name makes no good host name, if so.
#[must_use]
pub fn name_warning(object: &Object, why: &str) -> Option<String> {
    let complaints = name::is_dns1123_label(metadata(object).text("name"));
    // The list is printed as Go prints a slice of strings.
    (!complaints.is_empty())
        .then(|| format!("metadata.name: {why}; a DNS label is recommended: [{}]", complaints.join(" ")))
}
