//! Environment variables, and the references to fields that they share with files.

use std::collections::BTreeMap;

use crate::field::FieldError;
use crate::model::{NameRule, Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name};
use muster_schema::quantity::Quantity;

use super::{every_container, sources};

/// The fields of a pod that a variable can hold.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields that a reference may name at all.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that a variable or file can hold.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks `env` of a container.
pub(super) fn validate(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (i, variable) in container.items("env").enumerate() {
        let path = path.index(i);
        let own = variable.text("name");
        if own.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else {
            complain(own, name::is_relaxed_env_name(own), &path.child("name"), errors);
        }
        if let Some(from) = variable.object("valueFrom") {
            validate_source(from, !variable.text("value").is_empty(), &path.child("valueFrom"), errors);
        }
    }
}

fn validate_source(from: &Object, has_value: bool, path: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    if let Some(field) = from.object("fieldRef") {
        count += 1;
        validate_field_ref(field, &ENV_FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = from.object("resourceFieldRef") {
        count += 1;
        validate_resource_ref(resource, false, &path.child("resourceFieldRef"), errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = from.object(kind) {
            count += 1;
            validate_key_ref(reference, &path.child(kind), errors);
        }
    }
    if let Some(reference) = from.object("fileKeyRef") {
        count += 1;
        validate_file_ref(reference, &path.child("fileKeyRef"), errors);
    }
    let why = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if has_value {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, "", why));
}

/// Checks a reference to one of the pod's own fields.
pub(super) fn validate_field_ref(reference: &Object, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let (version, field) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version.is_empty() {
        errors.push(FieldError::required(path.child("apiVersion"), ""));
        return;
    }
    if field.is_empty() {
        errors.push(FieldError::required(path.child("fieldPath"), ""));
        return;
    }
    let subscripted = split_subscript(field);
    let problem = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if let Some((own, _)) = subscripted {
        (!matches!(own, "metadata.annotations" | "metadata.labels"))
            .then(|| format!("field label does not support subscript: {field}"))
    } else {
        (field != "spec.host" && !KNOWN_FIELDS.contains(&field)).then(|| format!("field label not supported: {field}"))
    };
    if let Some(problem) = problem {
        let problem = format!("error converting fieldPath: {problem}");
        errors.push(FieldError::invalid(path.child("fieldPath"), field, problem));
        return;
    }
    match subscripted {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            complain(&key, name::is_qualified_name(&key), path, errors);
        }
        Some((_, key)) => complain(key, name::is_qualified_name(key), path, errors),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !allowed.contains(&field) {
                errors.push(FieldError::not_supported(path.child("fieldPath"), field, allowed));
            }
        }
    }
}

/// `metadata.labels['x']` as `metadata.labels` and `x`.
fn split_subscript(field: &str) -> Option<(&str, &str)> {
    let (own, key) = field.strip_suffix("']")?.split_once("['")?;
    (!own.is_empty()).then_some((own, key))
}

/// Checks a reference to a container's resource; `file` where it stands for a file's content.
pub(super) fn validate_resource_ref(reference: &Object, file: bool, path: &Path<'_>, errors: &mut Errors) {
    let resource = reference.text("resource");
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if file && reference.text("containerName").is_empty() {
        errors.push(FieldError::required(path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.push(FieldError::not_supported(path.child("resource"), resource, &RESOURCES));
    }
    let divisor = Quantity::of(reference.text("divisor"));
    if divisor.is_zero() {
        return;
    }
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let divisor = divisor.to_string();
    let of_size = SIZES.split(", ").any(|size| size == divisor);
    let problem = match resource {
        "limits.cpu" | "requests.cpu" => (!matches!(divisor.as_str(), "1" | "1m"))
            .then(|| "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()),
        "limits.memory" | "requests.memory" => {
            (!of_size).then(|| format!("only divisor's values {SIZES} are supported with the memory resource"))
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (!of_size)
            .then(|| format!("only divisor's values {SIZES} are supported with the local ephemeral storage resource")),
        _ if huge => {
            (!of_size).then(|| format!("only divisor's values {SIZES} are supported with the hugepages resource"))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        errors.push(FieldError::invalid(path.child("divisor"), resource, problem));
    }
}

/// A key of a config map or secret.
fn validate_key_ref(reference: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (own, key) = (reference.text("name"), reference.text("key"));
    complain(own, name::is_dns1123_subdomain(own), &path.child("name"), errors);
    if key.is_empty() {
        errors.push(FieldError::required(path.child("key"), ""));
    } else {
        complain(key, name::is_config_map_key(key), &path.child("key"), errors);
    }
}

/// A key in a file of a volume.
fn validate_file_ref(reference: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (key, volume, file) = (reference.text("key"), reference.text("volumeName"), reference.text("path"));
    if key.is_empty() {
        errors.push(FieldError::required(path.child("key"), ""));
    } else {
        complain(key, name::is_relaxed_env_name(key), &path.child("key"), errors);
    }
    if volume.is_empty() {
        errors.push(FieldError::required(path.child("volumeName"), ""));
    } else {
        complain(volume, name::is_dns1123_label(volume), &path.child("volumeName"), errors);
    }
    if file.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    } else {
        sources::no_backsteps(file, &path.child("path"), errors);
    }
}

/// Checks `envFrom` of a container.
pub(super) fn validate_from(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (i, source) in container.items("envFrom").enumerate() {
        let at = path.index(i);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            complain(prefix, name::is_relaxed_env_name(prefix), &at.child("prefix"), errors);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = source.object(kind) else { continue };
            count += 1;
            let at = at.child(kind);
            let own = reference.text("name");
            if own.is_empty() {
                errors.push(FieldError::required(at.child("name"), ""));
            } else {
                complain(own, name::by_rule(NameRule::Subdomain, own, true), &at.child("name"), errors);
            }
        }
        if count == 0 {
            errors.push(FieldError::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"));
        } else if count > 1 {
            errors.push(FieldError::invalid(path, "", "may not have more than one field specified at a time"));
        }
    }
}

/// A variable from a file needs a volume that is an empty directory.
pub(super) fn validate_file_key_volumes(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut volumes: BTreeMap<&str, &Object> = BTreeMap::new();
    let mut known = false;
    every_container(spec, path, |container, at| {
        for (i, variable) in container.items("env").enumerate() {
            let Some(reference) = variable.object("valueFrom").and_then(|v| v.object("fileKeyRef")) else { continue };
            if !known {
                known = true;
                volumes = spec.items("volumes").map(|v| (v.text("name"), v)).collect();
            }
            let volume = reference.text("volumeName");
            let list = at.child("env");
            let variable = list.index(i);
            let from = variable.child("valueFrom");
            let file = from.child("fileKeyRef");
            let at = file.child("volumeName");
            match volumes.get(volume) {
                None => errors.push(FieldError::not_found(at, volume)),
                Some(found) if !found.contains_key("emptyDir") => {
                    errors.push(FieldError::invalid(at, volume, "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    });
}
