//! Labels and annotations: keys, values and total size (API-14).

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};

use super::{Errors, Path, complain, name};

/// Annotations of one object may not be larger than this, keys and values together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks the labels in `parent[field]`.
pub fn validate_labels(parent: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in parent.pairs(field) {
        complain(key, name::is_qualified_name(key), path, errors);
        complain(value, name::is_label_value(value), path, errors);
    }
}

/// Checks the metadata of what objects are made from, which has labels and annotations only.
pub fn validate_metadata_of_template(metadata: &Object, path: &Path<'_>, errors: &mut Errors) {
    // In the order of Go's type, and with its names for an error.
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    validate_annotations(metadata, "annotations", &path.child("annotations"), errors);
    validate_labels(metadata, "labels", &path.child("labels"), errors);
    for (field, shown) in OTHERS {
        if metadata.get(field).is_some_and(|value| !value.is_null()) {
            errors.push(FieldError::forbidden(path.child(shown), "cannot be set"));
        }
    }
}

/// Checks the annotations in `parent[field]`. Keys are compared without regard to case.
pub fn validate_annotations(parent: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in parent.pairs(field) {
        size += key.len() + value.len();
        let complaints = if key.bytes().any(|c| c.is_ascii_uppercase() || !c.is_ascii()) {
            name::is_qualified_name(&key.to_lowercase())
        } else {
            name::is_qualified_name(key)
        };
        complain(key, complaints, path, errors);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
}
