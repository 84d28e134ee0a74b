//! Validation: what the reference server says of an object, in its words and in its order.
//!
//! The registry calls [`create`] and [`update`]; a kind's own `validate_*` calls the smaller parts.

pub mod data;
pub mod deployment;
pub mod endpoints;
pub mod endpointslice;
pub mod event;
pub mod horizontalpodautoscaler;
pub mod internal;
pub mod intstr;
pub mod ip;
pub mod labels;
pub mod lease;
pub mod meta;
pub mod name;
pub mod namespace;
pub mod node;
pub mod path;
pub mod pod;
pub mod quota;
pub mod selector;
pub mod service;
pub mod workload;

use crate::field::FieldError;
use crate::kinds::{Kind, NameRule, Object, Part, fields::metadata};

pub use path::Path;

/// Errors found so far; every check adds to it.
pub type Errors = Vec<FieldError>;

/// Everything that is wrong with a new object: the kind's checks, metadata included, in the order
/// in which the reference server reports them (API-14, API-17).
#[must_use]
pub fn create(kind: &dyn Kind, object: &Object) -> Errors {
    kind.validate_create(object)
}

/// Everything that is wrong with a change. Metadata is looked at twice, by the rules common to all kinds
/// and by the kind's, and an error of both is a cause twice: clients of the reference server see that.
#[must_use]
pub fn update(kind: &dyn Kind, part: Part, object: &Object, old: &Object) -> Errors {
    let mut errors = Vec::new();
    meta::validate(metadata(object), kind.resource().namespaced, NameRule::PathSegment, &mut errors);
    meta::validate_update(metadata(object), metadata(old), &mut errors);
    errors.extend(kind.validate_update(part, object, old));
    errors
}

/// `must be greater than or equal to 0`, where a number is negative.
pub fn non_negative(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if value < 0 {
        errors.push(FieldError::invalid(path, value, NEGATIVE));
    }
}

/// One `Invalid value` error for each complaint.
pub fn complain(value: &str, complaints: Vec<String>, path: &Path<'_>, errors: &mut Errors) {
    for complaint in complaints {
        errors.push(FieldError::invalid(path, value, complaint));
    }
}

/// What is said of a negative number.
pub const NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a change to a field that cannot change.
pub const IMMUTABLE: &str = "field is immutable";
