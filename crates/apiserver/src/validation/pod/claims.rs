//! Claims: of devices, and the template of a volume claim.

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields as _};
use crate::validation::labels::validate_metadata_of_template;
use crate::validation::{Errors, Path, complain, name, selector};
use muster_schema::quantity::Quantity;

use super::resources::validate_quantity_value;
use super::{Context, one_of_set};

/// Checks `resourceClaims` of a pod.
pub(super) fn validate_pod_claims(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mirror = context
        .meta
        .and_then(|m| m.object("annotations"))
        .is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
    let mut names = BTreeSet::new();
    for (i, claim) in context.spec.items("resourceClaims").enumerate() {
        if mirror {
            errors.push(FieldError::forbidden("[]", "static pods do not support resource claims"));
            continue;
        }
        let path = path.index(i);
        let own = claim.text("name");
        if own.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if names.contains(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        } else {
            complain(own, name::is_dns1123_label(own), &path.child("name"), errors);
            names.insert(own);
        }
        let (claim_name, template) =
            (claim.maybe_text("resourceClaimName"), claim.maybe_text("resourceClaimTemplateName"));
        let shown = || {
            Shown::Bare(format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(own),
                Value::from(claim_name),
                Value::from(template)
            ))
        };
        match (claim_name, template) {
            (Some(_), Some(_)) => errors.push(FieldError::invalid(
                path,
                shown(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )),
            (None, None) => errors.push(FieldError::invalid(
                path,
                shown(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )),
            _ => {}
        }
        for (field, value) in [("resourceClaimName", claim_name), ("resourceClaimTemplateName", template)] {
            if let Some(value) = value {
                complain(value, name::is_dns1123_subdomain(value), &path.child(field), errors);
            }
        }
    }
}

/// Checks that each claim that a container uses is one of the pod's.
pub(super) fn validate_used_claims(resources: &Object, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let known: BTreeSet<&str> =
        spec.items("resourceClaims").map(|c| c.text("name")).filter(|n| !n.is_empty()).collect();
    let mut used: BTreeSet<String> = BTreeSet::new();
    for (i, claim) in resources.items("claims").enumerate() {
        let path = path.index(i);
        let own = claim.text("name");
        if own.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        if used.contains(own) {
            errors.push(FieldError::duplicate(path, own));
        } else {
            let request = claim.text("request");
            let mut key = own.to_owned();
            if !request.is_empty() {
                complain(request, name::is_dns1123_label(request), &path.child("request"), errors);
                key = format!("{own}/{request}");
            }
            if used.contains(&key) {
                errors.push(FieldError::duplicate(path, key.as_str()));
            } else if request.is_empty() {
                for _ in used.iter().filter(|k| k.split_once('/').is_some_and(|(name, _)| name == own)) {
                    errors.push(FieldError::duplicate(path, own));
                }
            }
            used.insert(key);
        }
        if !known.contains(own) {
            let mut error = FieldError::not_found(path, own);
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if known.is_empty() {
                error.detail.push_str(" which is empty");
            } else {
                let names: Vec<&str> = known.iter().copied().collect();
                error.detail.push_str(&format!(": {}", names.join(", ")));
            }
            errors.push(error);
        }
    }
}

/// Checks the template of a claim that is made for the pod.
pub(super) fn validate_claim_template(template: &Object, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    validate_metadata_of_template(template.part("metadata"), &path.child("metadata"), errors);
    validate_claim_spec(template.object("spec").unwrap_or(&empty), None, &path.child("spec"), errors);
}

/// Checks the spec of a volume claim. What an old one had wrong already, a new one may keep.
pub fn validate_claim_spec(spec: &Object, old: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    if spec.list("accessModes").is_empty() {
        errors.push(FieldError::required(path.child("accessModes"), "at least 1 access mode is required"));
    }
    if let Some(own) = spec.object("selector") {
        let mut known = Errors::new();
        if let Some(old) = old.and_then(|old| old.object("selector")) {
            selector::validate(old, false, path, &mut known);
        }
        selector::validate(own, !known.is_empty(), &path.child("selector"), errors);
    }
    validate_access_modes(spec, path, errors);
    let resources_path = path.child("resources");
    let storage_path = resources_path.key("storage");
    match spec.object("resources").and_then(|r| r.object("requests")).and_then(|r| r.maybe_text("storage")) {
        None => errors.push(FieldError::required(storage_path, "")),
        Some(storage) if !Quantity::of(storage).is_positive() => {
            errors.push(FieldError::invalid(storage_path, storage, "must be greater than zero"));
        }
        Some(storage) => validate_quantity_value(storage, false, &storage_path, errors),
    }
    let class = |field: &str, errors: &mut Errors| {
        let class = spec.text(field);
        if !class.is_empty() {
            complain(class, name::is_dns1123_subdomain(class), &path.child(field), errors);
        }
    };
    class("storageClassName", errors);
    one_of_set(spec, "volumeMode", &["Block", "Filesystem"], path, errors);
    let any_group = old.is_some_and(has_group);
    let (source, reference) = (spec.object("dataSource"), spec.object("dataSourceRef"));
    if let Some(source) = source {
        validate_data_source(source, any_group, &path.child("dataSource"), errors);
    }
    if let Some(reference) = reference {
        let at = path.child("dataSourceRef");
        validate_data_source(reference, any_group, &at, errors);
        let namespace = reference.text("namespace");
        if !namespace.is_empty() {
            complain(namespace, name::is_dns1123_label(namespace), &at.child("namespace"), errors);
        }
    }
    if let (Some(source), Some(reference)) = (source, reference) {
        let same = ["apiGroup", "kind", "name"].iter().all(|f| source.get(f) == reference.get(f));
        let why = if reference.text("namespace").is_empty() {
            (!same).then_some("must match dataSourceRef")
        } else {
            Some("may not be specified when dataSourceRef.namespace is specified")
        };
        if let Some(why) = why {
            // Upstream hands over a path for the value; its JSON is an empty object.
            errors.push(FieldError::invalid(path, Shown::Bare("{}".to_owned()), why));
        }
    }
    class("volumeAttributesClassName", errors);
}

/// Checks the ways in which a volume can be mounted.
pub(in crate::validation) fn validate_access_modes(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let path = path.child("accessModes");
    let (mut alone, mut shared) = (false, false);
    for mode in spec.strings("accessModes") {
        if !MODES.contains(&mode) {
            errors.push(FieldError::not_supported(path, mode, &MODES));
        } else if mode == "ReadWriteOncePod" {
            alone = true;
        } else {
            shared = true;
        }
    }
    if alone && shared {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Whether a claim's source names a group: then a change of it is not asked for a well-formed one.
fn has_group(spec: &Object) -> bool {
    let mut sources = ["dataSource", "dataSourceRef"].into_iter().filter_map(|field| spec.object(field));
    sources.any(|source| source.contains_key("apiGroup"))
}

fn validate_data_source(source: &Object, any_group: bool, path: &Path<'_>, errors: &mut Errors) {
    for field in ["name", "kind"] {
        if source.text(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    let group = source.text("apiGroup");
    if group.is_empty() {
        if source.text("kind") != "PersistentVolumeClaim" {
            errors.push(FieldError::invalid(
                path,
                source.text("kind"),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ));
        }
    } else if !any_group {
        complain(group, name::is_dns1123_subdomain(group), &path.child("apiGroup"), errors);
    }
}
