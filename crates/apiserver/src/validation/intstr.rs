//! Numbers that may also be percentages, as Deployments and disruption budgets have them.

use muster_tree::Value;

use crate::field::FieldError;

use super::{Errors, Path, complain, name, non_negative};

/// Checks a number or percentage: not negative, and a percentage well formed.
pub fn non_negative_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => complain(text, name::is_percent(text), path, errors),
        other => non_negative(other.as_i64().unwrap_or_default(), path, errors),
    }
}

/// The percentage, where the value is a well formed one.
#[must_use]
pub fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !name::is_percent(text).is_empty() {
        return None;
    }
    // A number too large to hold is larger than any limit it is compared with.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// The number, or the percentage's number; 0 for what is neither.
#[must_use]
pub fn amount(value: &Value) -> i64 {
    percent(value).unwrap_or_else(|| match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    })
}

/// Checks that a percentage is at most 100.
pub fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if percent(value).is_some_and(|p| p > 100) {
        errors.push(FieldError::invalid(path, value, "must not be greater than 100%"));
    }
}
