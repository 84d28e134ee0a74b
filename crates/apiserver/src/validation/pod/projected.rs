//! Files that come from the pod itself or from several sources at once.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path};

use super::sources::{key_to_path, local_path, mode};
use super::{Context, env};

/// The fields of a pod that a file can hold.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The shortest life of a projected token, in seconds.
const TOKEN_MIN: i64 = 600;
/// The longest life of a projected token, in seconds.
const TOKEN_MAX: i64 = 1 << 32;

pub(super) fn validate_downward(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for file in source.items("items") {
        validate_file(file, path, errors);
    }
}

/// One file of the downward API. Its errors are reported under the source, not under its place.
fn validate_file(file: &Object, path: &Path<'_>, errors: &mut Errors) {
    let own = file.text("path");
    if own.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    local_path(own, &path.child("path"), errors);
    match (file.object("fieldRef"), file.object("resourceFieldRef")) {
        (Some(field), resource) => {
            env::validate_field_ref(field, &FILE_FIELDS, &path.child("fieldRef"), errors);
            if resource.is_some() {
                errors.push(FieldError::invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                ));
            }
        }
        (None, Some(resource)) => {
            env::validate_resource_ref(resource, true, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => {
            errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    mode(file, "mode", path, errors);
}

pub(super) fn validate(context: &Context<'_>, source: &Object, path: &Path<'_>, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    let mut taken = BTreeSet::new();
    let list = path.child("sources");
    for (i, part) in source.items("sources").enumerate() {
        let at = list.index(i);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(keys) = part.object(field) else { continue };
            count += 1;
            let own = keys.text("name");
            let at = at.child(field);
            if own.is_empty() {
                errors.push(FieldError::required(at.child("name"), ""));
            }
            for (j, item) in keys.items("items").enumerate() {
                key_to_path(item, &at.child("items").index(j), errors);
                take(item.text("path"), own, &mut taken, path, errors);
            }
        }
        if let Some(downward) = part.object("downwardAPI") {
            count += 1;
            for file in downward.items("items") {
                validate_file(file, &at.child("downwardAPI"), errors);
                take(file.text("path"), file.text("path"), &mut taken, path, errors);
            }
        }
        if let Some(token) = part.object("serviceAccountToken") {
            count += 1;
            let seconds = token.int("expirationSeconds");
            let token_path = at.child("serviceAccountToken");
            if seconds < TOKEN_MIN {
                errors.push(FieldError::invalid(
                    token_path.child("expirationSeconds"),
                    seconds,
                    "may not specify a duration less than 10 minutes",
                ));
            }
            if seconds > TOKEN_MAX {
                errors.push(FieldError::invalid(
                    token_path.child("expirationSeconds"),
                    seconds,
                    "may not specify a duration larger than 2^32 seconds",
                ));
            }
            let own = token.text("path");
            if own.is_empty() {
                errors.push(FieldError::required(path.child("path"), ""));
            } else if !context.options.any_token_path {
                local_path(own, &path.child("path"), errors);
            }
        }
        if count > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type per source"));
        }
    }
}

/// Takes a path for a source; two sources may not have the same one.
fn take<'a>(own: &'a str, shown: &str, taken: &mut BTreeSet<&'a str>, path: &Path<'_>, errors: &mut Errors) {
    if !own.is_empty() && !taken.insert(own) {
        errors.push(FieldError::invalid(path, shown, "conflicting duplicate paths"));
    }
}
