//! Leases (API-17).

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};

use super::{Errors, NEGATIVE, Path};

/// Checks a lease's spec.
pub fn validate_spec(lease: &Object, errors: &mut Errors) {
    let path = Path::new("spec");
    let Some(spec) = lease.object("spec") else { return };
    if let Some(seconds) = spec.maybe_int("leaseDurationSeconds").filter(|s| *s <= 0) {
        errors.push(FieldError::invalid(path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(transitions) = spec.maybe_int("leaseTransitions").filter(|t| *t < 0) {
        errors.push(FieldError::invalid(path.child("leaseTransitions"), transitions, NEGATIVE));
    }
}
