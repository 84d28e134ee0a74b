//! When a Job has failed, when it has succeeded, and when pods are replaced.

use muster_tree::Value;

use super::{indexes, is_indexed};
use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, internal, name, non_negative};

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_CONDITIONS: usize = 20;
/// How long a text of indexes may be, in bytes.
const INDEXES_MAX: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Checks the policies of a Job's spec at `path`.
pub(super) fn validate(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    if spec.contains_key("podFailurePolicy") {
        validate_failure(spec, &path.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = spec.object("successPolicy") {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            validate_success(spec, policy, &path, errors);
        } else {
            let shown = internal::shown("SuccessPolicy", policy);
            errors.push(FieldError::invalid(path, shown, "requires indexed completion mode"));
        }
    }
    if let Some(policy) = spec.maybe_text("podReplacementPolicy") {
        let known: &[&str] =
            if spec.contains_key("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        if !known.contains(&policy) {
            errors.push(FieldError::not_supported(path.child("podReplacementPolicy"), policy, known));
        }
    }
}

fn validate_failure(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let policy = spec.part("podFailurePolicy");
    let rules_path = path.child("rules");
    let count = policy.list("rules").len();
    if count > MOST_RULES {
        errors.push(FieldError::too_many(rules_path, count, MOST_RULES));
    }
    for (i, rule) in policy.items("rules").enumerate() {
        let path = rules_path.index(i);
        let action_path = path.child("action");
        match rule.text("action") {
            "" => errors.push(FieldError::required(action_path, valid_values(&ACTIONS))),
            "FailIndex" if !spec.contains_key("backoffLimitPerIndex") => {
                let why = "requires the backoffLimitPerIndex to be set";
                errors.push(FieldError::invalid(action_path, "FailIndex", why));
            }
            action if ACTIONS.contains(&action) => {}
            other => errors.push(FieldError::not_supported(action_path, other, &ACTIONS)),
        }
        let codes = rule.object("onExitCodes");
        if let Some(codes) = codes {
            validate_exit_codes(codes, spec, &path.child("onExitCodes"), errors);
        }
        let conditions = !rule.list("onPodConditions").is_empty();
        if conditions {
            validate_conditions(rule, &path.child("onPodConditions"), errors);
        }
        match (codes.is_some(), conditions) {
            (true, true) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.push(FieldError::wrong(path, why));
            }
            (false, false) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.push(FieldError::wrong(path, why));
            }
            _ => {}
        }
    }
}

fn validate_conditions(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let count = rule.list("onPodConditions").len();
    if count > MOST_CONDITIONS {
        errors.push(FieldError::too_many(path, count, MOST_CONDITIONS));
    }
    for (i, pattern) in rule.items("onPodConditions").enumerate() {
        let path = path.index(i);
        let own = pattern.text("type");
        complain(own, name::is_qualified_name(own), &path.child("type"), errors);
        one_of(pattern.text("status"), &STATUSES, &path.child("status"), errors);
    }
}

fn validate_exit_codes(codes: &Object, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let operator = codes.text("operator");
    one_of(operator, &OPERATORS, &path.child("operator"), errors);
    let pod = spec.part("template").part("spec");
    let named =
        |own: &str| ["containers", "initContainers"].iter().any(|l| pod.items(l).any(|c| c.text("name") == own));
    if let Some(own) = codes.maybe_text("containerName").filter(|own| !named(own)) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(path.child("containerName"), own, why));
    }
    let path = path.child("values");
    let all = codes.get("values").cloned().unwrap_or_default();
    let values: Vec<i64> = codes.list("values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.push(FieldError::invalid(path, &all, "at least one value is required"));
    } else if values.len() > MOST_EXIT_CODES {
        errors.push(FieldError::too_many(path, values.len(), MOST_EXIT_CODES));
    }
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(FieldError::invalid(path.index(i), 0_i64, "must not be 0 for the In operator"));
        }
        if values[..i].contains(value) {
            errors.push(FieldError::duplicate(path.index(i), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(path, &all, "must be ordered"));
    }
}

fn validate_success(spec: &Object, policy: &Object, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("rules");
    let count = policy.list("rules").len();
    if count == 0 {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(path, why));
    }
    if count > MOST_RULES {
        errors.push(FieldError::too_many(path, count, MOST_RULES));
    }
    let completions = spec.int("completions");
    for (i, rule) in policy.items("rules").enumerate() {
        let path = path.index(i);
        let (indexes, succeeded) = (rule.maybe_text("succeededIndexes"), rule.maybe_int("succeededCount"));
        if indexes.is_none() && succeeded.is_none() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(path, why));
        }
        let mut total = 0;
        if let Some(text) = indexes {
            let path = path.child("succeededIndexes");
            if text.len() > INDEXES_MAX {
                errors.push(FieldError::too_long(path, INDEXES_MAX));
            }
            match indexes::count(text, completions) {
                Ok(count) => total = count,
                Err(why) => {
                    let why = format!("error parsing succeededIndexes: {why}");
                    errors.push(FieldError::invalid(path, text, why));
                }
            }
        }
        let Some(count) = succeeded else { continue };
        let path = path.child("succeededCount");
        non_negative(count, &path, errors);
        if count > completions {
            let why = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(FieldError::invalid(path, count, why));
        }
        if indexes.is_some() && count > total {
            let why = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.push(FieldError::invalid(path, count, why));
        }
    }
}

fn one_of(value: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        errors.push(FieldError::required(path, valid_values(known)));
    } else if !known.contains(&value) {
        errors.push(FieldError::not_supported(path, value, known));
    }
}

fn valid_values(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}
