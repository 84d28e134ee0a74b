//! Conditions as most kinds have them (`metav1.Condition`).

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};

use super::{Errors, Path, complain, name};

/// A reason may be this many bytes long.
const REASON_MAX: usize = 1024;
/// A message may be this many bytes long.
const MESSAGE_MAX: usize = 32 * 1024;

/// Checks the conditions of a status at `path`: each type once, and each condition well formed.
pub fn validate(status: &Object, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("conditions");
    let mut types: Vec<&str> = Vec::new();
    for (i, condition) in status.items("conditions").enumerate() {
        let path = path.index(i);
        let own = condition.text("type");
        if types.contains(&own) {
            errors.push(FieldError::duplicate(path.child("type"), own));
        }
        types.push(own);
        validate_condition(condition, &path, errors);
    }
}

fn validate_condition(condition: &Object, path: &Path<'_>, errors: &mut Errors) {
    let own = condition.text("type");
    complain(own, name::is_qualified_name(own), &path.child("type"), errors);
    let statuses = ["False", "True", "Unknown"];
    if !statuses.contains(&condition.text("status")) {
        errors.push(FieldError::not_supported(path.child("status"), condition.text("status"), &statuses));
    }
    let observed = condition.int("observedGeneration");
    if observed < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(path.child("observedGeneration"), observed, why));
    }
    if condition.text("lastTransitionTime").is_empty() {
        errors.push(FieldError::required(path.child("lastTransitionTime"), ""));
    }
    let (reason, reason_path) = (condition.text("reason"), path.child("reason"));
    if reason.is_empty() {
        errors.push(FieldError::required(reason_path, ""));
    } else {
        complain(reason, is_reason(reason), &reason_path, errors);
        if reason.len() > REASON_MAX {
            errors.push(FieldError::too_long(reason_path, REASON_MAX));
        }
    }
    if condition.text("message").len() > MESSAGE_MAX {
        errors.push(FieldError::too_long(path.child("message"), MESSAGE_MAX));
    }
}

/// A word, or several joined by commas and colons.
fn is_reason(value: &str) -> name::Complaints {
    let bytes = value.as_bytes();
    let inner = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let fine = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().copied().is_some_and(inner)
        && bytes.iter().all(|c| inner(*c) || matches!(c, b',' | b':'));
    if fine {
        return Vec::new();
    }
    vec![name::regex_error(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}
