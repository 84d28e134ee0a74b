//! Namespaces (API-17, API-20).

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, Path, complain, name};

/// Checks the finalizers of the spec; `indexed` where each is to be named by its place.
pub fn validate_finalizers(namespace: &Object, indexed: bool, errors: &mut Errors) {
    let Some(spec) = namespace.object("spec") else { return };
    let path = Path::new("spec");
    let list = path.child("finalizers");
    for (i, finalizer) in spec.strings("finalizers").enumerate() {
        let at = if indexed { list.index(i) } else { list };
        complain(finalizer, name::is_qualified_name(finalizer), &at, errors);
        if !finalizer.contains('/') && !super::meta::is_standard_finalizer(finalizer) {
            errors.push(FieldError::invalid(
                at,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// The phase follows the deletion timestamp.
pub fn validate_phase(namespace: &Object, errors: &mut Errors) {
    let phase = namespace.object("status").map_or("", |s| s.text("phase"));
    let deleting = metadata(namespace).contains_key("deletionTimestamp");
    let path = Path::new("status");
    if !deleting && phase != "Active" {
        errors.push(FieldError::invalid(
            path.child("Phase"),
            phase,
            "may only be 'Active' if `deletionTimestamp` is empty",
        ));
    } else if deleting && phase != "Terminating" {
        errors.push(FieldError::invalid(
            path.child("Phase"),
            phase,
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        ));
    }
}
