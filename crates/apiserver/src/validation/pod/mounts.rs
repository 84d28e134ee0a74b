//! Where volumes appear in a container: as directories, or as devices.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path};

use super::sources::{descending_path, has_backsteps};
use super::volumes::Volumes;

/// Checks `volumeMounts`.
pub(super) fn validate(container: &Object, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut points = BTreeSet::new();
    for (i, mount) in container.items("volumeMounts").enumerate() {
        let at = path.index(i);
        let (own, point) = (mount.text("name"), mount.text("mountPath"));
        if own.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        if !volumes.contains_key(own) {
            errors.push(FieldError::not_found(at.child("name"), own));
        }
        if point.is_empty() {
            errors.push(FieldError::required(at.child("mountPath"), ""));
        }
        if !points.insert(point) {
            errors.push(FieldError::invalid(at.child("mountPath"), point, "must be unique"));
        }
        if container.items("volumeDevices").any(|d| d.text("name") == own) {
            errors.push(FieldError::invalid(at.child("name"), own, "must not already exist in volumeDevices"));
        }
        if has_path(container, "volumeDevices", "devicePath", point) {
            errors.push(FieldError::invalid(
                at.child("mountPath"),
                point,
                "must not already exist as a path in volumeDevices",
            ));
        }
        let (sub, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        // From here on upstream forgets the index; so do we.
        if !sub.is_empty() {
            descending_path(sub, &path.child("subPath"), errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                errors.push(FieldError::invalid(
                    at.child("subPathExpr"),
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                ));
            }
            descending_path(expression, &path.child("subPathExpr"), errors);
        }
        propagation(mount, container, &path.child("mountPropagation"), errors);
        recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
    }
}

fn propagation(mount: &Object, container: &Object, path: &Path<'_>, errors: &mut Errors) {
    const MODES: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let Some(mode) = mount.maybe_text("mountPropagation") else { return };
    if !MODES.contains(&mode) {
        errors.push(FieldError::not_supported(path, mode, &MODES));
    }
    let privileged = container.object("securityContext").is_some_and(|c| c.flag("privileged"));
    if mode == "Bidirectional" && !privileged {
        errors.push(FieldError::forbidden(
            path,
            "Bidirectional mount propagation is available only to privileged containers",
        ));
    }
}

fn recursive_read_only(mount: &Object, path: &Path<'_>, errors: &mut Errors) {
    match mount.maybe_text("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
            }
            if mount.maybe_text("mountPropagation").is_some_and(|p| p != "None") {
                errors.push(FieldError::forbidden(
                    path,
                    "may only be specified when mountPropagation is None or not specified",
                ));
            }
        }
        Some(other) => errors.push(FieldError::not_supported(path, other, &["Disabled", "Enabled", "IfPossible"])),
    }
}

/// Checks `volumeDevices`.
pub(super) fn validate_devices(container: &Object, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in container.items("volumeDevices").enumerate() {
        let at = path.index(i);
        let (own, point) = (device.text("name"), device.text("devicePath"));
        let volume = volumes.get(own);
        if own.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        if names.contains(own) {
            errors.push(FieldError::invalid(at.child("name"), own, "must be unique"));
        }
        match volume {
            None => errors.push(FieldError::not_found(at.child("name"), own)),
            Some(v) if !v.contains_key("persistentVolumeClaim") && !v.contains_key("ephemeral") => {
                errors.push(FieldError::invalid(
                    at.child("name"),
                    own,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                ));
            }
            Some(_) => {}
        }
        if point.is_empty() {
            errors.push(FieldError::required(at.child("devicePath"), ""));
        }
        if paths.contains(point) {
            errors.push(FieldError::invalid(at.child("devicePath"), point, "must be unique"));
        }
        if !point.is_empty() && has_backsteps(point) {
            errors.push(FieldError::invalid(at.child("devicePath"), point, "can not contain backsteps ('..')"));
        } else {
            paths.insert(point);
        }
        if container.items("volumeMounts").any(|m| m.text("name") == own) {
            errors.push(FieldError::invalid(at.child("name"), own, "must not already exist in volumeMounts"));
        }
        if has_path(container, "volumeMounts", "mountPath", point) {
            errors.push(FieldError::invalid(
                at.child("devicePath"),
                point,
                "must not already exist as a path in volumeMounts",
            ));
        }
        if !own.is_empty() {
            names.insert(own);
        }
    }
}

/// Whether the list has an entry with this path; of entries with the same name only the last counts.
fn has_path(container: &Object, list: &str, field: &str, path: &str) -> bool {
    let entries: Vec<&Object> = container.items(list).collect();
    entries.iter().enumerate().any(|(i, entry)| {
        entry.text(field) == path && entries[i + 1..].iter().all(|later| later.text("name") != entry.text("name"))
    })
}
