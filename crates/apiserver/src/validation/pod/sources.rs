//! The sources that a volume can have.

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name};

use super::{one_of, one_of_set, shown_list};

/// What is said of a mode that is no file mode.
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// `Required value` for each text field that is empty.
pub(in crate::validation) fn required(source: &Object, fields: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for field in fields {
        if source.text(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
}

pub(in crate::validation) fn host_path(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let own = source.text("path");
    if own.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
        return;
    }
    no_backsteps(own, &path.child("path"), errors);
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    one_of(source, "type", &TYPES, false, path, errors);
}

pub(super) fn git_repo(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["repository"], path, errors);
    descending_path(source.text("directory"), &path.child("directory"), errors);
}

/// A disk with an identity and perhaps a partition.
pub(in crate::validation) fn disk(source: &Object, id: &str, path: &Path<'_>, errors: &mut Errors) {
    required(source, &[id], path, errors);
    let partition = source.int("partition");
    if !(0..=255).contains(&partition) {
        errors.push(FieldError::invalid(path.child("partition"), partition, name::inclusive_range(1, 255)));
    }
}

/// Files from the keys of a secret or config map, whose name is in `name_field`.
pub(super) fn files(source: &Object, name_field: &str, path: &Path<'_>, errors: &mut Errors) {
    required(source, &[name_field], path, errors);
    mode(source, "defaultMode", path, errors);
    let items = path.child("items");
    for (i, item) in source.items("items").enumerate() {
        key_to_path(item, &items.index(i), errors);
    }
}

/// One key and the file that it becomes.
pub(super) fn key_to_path(item: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(item, &["key", "path"], path, errors);
    local_path(item.text("path"), &path.child("path"), errors);
    mode(item, "mode", path, errors);
}

/// Checks a file mode.
pub(super) fn mode(parent: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = parent.maybe_int(field).filter(|m| !(0..=0o777).contains(m)) {
        errors.push(FieldError::invalid(path.child(field), mode, FILE_MODE));
    }
}

pub(in crate::validation) fn nfs(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["server", "path"], path, errors);
    if !source.text("path").starts_with('/') {
        errors.push(FieldError::invalid(path.child("path"), source.text("path"), "must be an absolute path"));
    }
}

pub(super) fn iscsi(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["targetPortal"], path, errors);
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.push(FieldError::required(path.child("iqn"), ""));
    } else {
        iscsi_name(iqn, &path.child("iqn"), errors);
    }
    let lun = source.int("lun");
    if !(0..=255).contains(&lun) {
        errors.push(FieldError::invalid(path.child("lun"), lun, name::inclusive_range(0, 255)));
    }
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.contains_key("secretRef") {
        errors.push(FieldError::required(path.child("secretRef"), ""));
    }
    if let Some(initiator) = source.maybe_text("initiatorName") {
        iscsi_name(initiator, &path.child("initiatorname"), errors);
    }
}

fn iscsi_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    match is_iscsi_name(value) {
        None => {
            errors.push(FieldError::invalid(path, value, "must be valid format starting with iqn, eui, or naa"));
        }
        Some(false) => errors.push(FieldError::invalid(path, value, "must be valid format")),
        Some(true) => {}
    }
}

/// Whether a value is a qualified iSCSI name in one of its three formats; `None` where it begins like none of them.
pub(in crate::validation) fn is_iscsi_name(value: &str) -> Option<bool> {
    let fixed = |rest: &str, n: usize| {
        // Any one character stands between the prefix and the number.
        let mut chars = rest.chars();
        chars.next().is_some() && chars.as_str().len() == n && chars.all(|c| c.is_ascii_alphanumeric())
    };
    if let Some(rest) = value.strip_prefix("iqn") {
        Some(iqn(rest))
    } else if let Some(rest) = value.strip_prefix("eui") {
        Some(fixed(rest, 16))
    } else {
        value.strip_prefix("naa").map(|rest| fixed(rest, 32))
    }
}

/// What follows `iqn`: a month, a reversed domain, and a colon with a name.
fn iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let month = bytes.len() > 9
        && bytes[0] == b'.'
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b'-'
        && bytes[6..8].iter().all(u8::is_ascii_digit)
        && bytes[8] == b'.';
    month
        && rest[9..].split_once(':').is_some_and(|(domain, own)| {
            !domain.is_empty()
                && domain.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
                && !own.is_empty()
                && own.chars().all(|c| !",;*&$|".contains(c) && !c.is_ascii_whitespace())
        })
}

pub(in crate::validation) fn flocker(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (dataset, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if dataset.is_empty() && uuid.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !dataset.is_empty() && !uuid.is_empty() {
        errors.push(FieldError::invalid(
            path,
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        ));
    }
    if dataset.contains('/') {
        errors.push(FieldError::invalid(path.child("datasetName"), dataset, "must not contain '/'"));
    }
}

/// Ceph, as a block device or as a file system.
pub(in crate::validation) fn ceph(source: &Object, block: bool, path: &Path<'_>, errors: &mut Errors) {
    if source.list("monitors").is_empty() {
        errors.push(FieldError::required(path.child("monitors"), ""));
    }
    if block {
        required(source, &["image"], path, errors);
    }
}

pub(super) fn cinder(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["volumeID"], path, errors);
    secret_name(source, "secretRef", path, errors);
}

/// A reference to a secret needs a name.
fn secret_name(source: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if source.object(field).is_some_and(|s| s.text("name").is_empty()) {
        errors.push(FieldError::required(path.child(field).child("name"), ""));
    }
}

pub(in crate::validation) fn quobyte(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(path.child("registry"), PAIRS));
    } else if source.text("tenant").len() >= 65 {
        errors.push(FieldError::required(
            path.child("tenant"),
            "must be a UUID and may not exceed a length of 64 characters",
        ));
    } else {
        for pair in registry.split(',') {
            let fine = match pair.strip_prefix('[') {
                Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains(':')),
                None => pair.bytes().filter(|c| *c == b':').count() == 1,
            };
            if !fine {
                errors.push(FieldError::invalid(path.child("registry"), registry, PAIRS));
            }
        }
    }
    required(source, &["volume"], path, errors);
}

pub(in crate::validation) fn fibre_channel(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (names, ids) = (source.list("targetWWNs"), source.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(
            path.child("targetWWNs"),
            "must specify either targetWWNs or wwids, but not both",
        ));
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        errors.push(FieldError::invalid(
            path.child("targetWWNs"),
            shown_list(source, "targetWWNs"),
            "targetWWNs and wwids can not be specified simultaneously",
        ));
    }
    match source.maybe_int("lun") {
        None => errors.push(FieldError::required(path.child("lun"), "lun is required if targetWWNs is specified")),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.push(FieldError::invalid(path.child("lun"), lun, name::inclusive_range(0, 255)));
        }
        Some(_) => {}
    }
}

pub(in crate::validation) fn flex(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["driver"], path, errors);
    for (key, _) in source.pairs("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let dotted = format!(".{}", namespace.to_lowercase());
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            errors.push(FieldError::invalid(
                path.child("options").key(key),
                key,
                "kubernetes.io and k8s.io namespaces are reserved",
            ));
        }
    }
}

pub(in crate::validation) fn azure_disk(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(source, &["diskName", "diskURI"], path, errors);
    one_of_set(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], path, errors);
    one_of_set(source, "kind", &["Dedicated", "Managed", "Shared"], path, errors);
    let (Some(kind), uri) = (source.maybe_text("kind"), source.text("diskURI")) else { return };
    let (prefix, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(path.child("diskURI"), uri, &[form]));
    }
}

pub(super) fn storage_os(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (volume, namespace) = (source.text("volumeName"), source.text("volumeNamespace"));
    if volume.is_empty() {
        errors.push(FieldError::required(path.child("volumeName"), ""));
    } else {
        complain(volume, name::is_dns1123_label(volume), &path.child("volumeName"), errors);
    }
    if !namespace.is_empty() {
        complain(namespace, name::is_dns1123_label(namespace), &path.child("volumeNamespace"), errors);
    }
    secret_name(source, "secretRef", path, errors);
}

pub(super) fn csi(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    crate::validation::csi::validate_driver_name(source.text("driver"), &path.child("driver"), errors);
    secret_name(source, "nodePublishSecretRef", path, errors);
    let secret = source.object("nodePublishSecretRef").map_or("", |s| s.text("name"));
    if !secret.is_empty() {
        complain(secret, name::is_dns1123_subdomain(secret), &path.child("name"), errors);
    }
}

/// An image as a volume. A template may leave the reference to be filled in.
pub(super) fn image(source: &Object, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    if is_pod {
        required(source, &["reference"], path, errors);
    }
    one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], true, path, errors);
}

/// A path that stays below where it begins and does not begin with two dots.
pub(super) fn local_path(value: &str, path: &Path<'_>, errors: &mut Errors) {
    descending_path(value, path, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(FieldError::invalid(path, value, "must not start with '..'"));
    }
}

/// A relative path that stays below where it begins.
pub(super) fn descending_path(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(value, path, errors);
}

/// A path without `..` among its parts.
pub(in crate::validation) fn no_backsteps(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if has_backsteps(value) {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

/// Whether `..` is among the path's parts.
pub(super) fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|part| part == "..")
}
