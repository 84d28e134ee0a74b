//! What a pod may not say for the operating system that it names.

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path};

use super::{Context, every_container};

/// Fields of a pod's security context that Windows does not know, in the order in which they are reported;
/// those of the spec itself are marked.
const POD_FIELDS: [(&str, bool); 15] = [
    ("appArmorProfile", false),
    ("seLinuxOptions", false),
    ("hostUsers", true),
    ("hostPID", true),
    ("hostIPC", true),
    ("seccompProfile", false),
    ("fsGroup", false),
    ("fsGroupChangePolicy", false),
    ("sysctls", false),
    ("shareProcessNamespace", true),
    ("runAsUser", false),
    ("runAsGroup", false),
    ("supplementalGroups", false),
    ("supplementalGroupsPolicy", false),
    ("seLinuxChangePolicy", false),
];

/// Fields of a container's security context that Windows does not know.
const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

pub(super) fn validate(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Some(os) = context.os else { return };
    let at = path.child("os");
    match os {
        "" => errors.push(FieldError::required(at.child("name"), "")),
        "linux" => validate_linux(context.spec, path, errors),
        "windows" => validate_windows(context.spec, path, errors),
        other => errors.push(FieldError::not_supported(at, other, &["linux", "windows"])),
    }
}

fn validate_linux(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut check = |parent: &Object, path: &Path<'_>| {
        if parent.object("securityContext").is_some_and(|c| c.contains_key("windowsOptions")) {
            errors.push(FieldError::forbidden(
                path.child("securityContext").child("windowsOptions"),
                "windows options cannot be set for a linux pod",
            ));
        }
    };
    check(spec, path);
    every_container(spec, path, |container, path| check(container, path));
}

fn validate_windows(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.object("securityContext");
    for (field, of_spec) in POD_FIELDS {
        let set = match field {
            "hostPID" | "hostIPC" => spec.flag(field),
            _ if of_spec => spec.contains_key(field),
            _ => context.is_some_and(|c| c.contains_key(field)),
        };
        if set {
            let context_path = path.child("securityContext");
            let at = if of_spec { path.child(field) } else { context_path.child(field) };
            errors.push(FieldError::forbidden(at, WHY));
        }
    }
    every_container(spec, path, |container, path| {
        let Some(context) = container.object("securityContext") else { return };
        for field in CONTAINER_FIELDS {
            if context.contains_key(field) {
                errors.push(FieldError::forbidden(path.child("securityContext").child(field), WHY));
            }
        }
    });
}
