//! Claims, and templates of claims.

use std::collections::{BTreeMap, BTreeSet};

use super::super::labels::validate_metadata_of_template;
use super::super::{IMMUTABLE, internal};
use super::{
    Check, Errors, FieldError, MOST_CONFIGS, MOST_REQUESTS, Object, Path, SPEC, Value, complain, each, each_text,
    is_same, name, once, validate_configuration, validate_label, validate_qualified_name, validate_selectors,
    validate_toleration,
};
use crate::field::Shown;
use crate::model::Fields as _;

/// How many constraints there may be.
const MOST_CONSTRAINTS: usize = 32;
/// How many alternatives a request may have.
const MOST_ALTERNATIVES: usize = 8;

/// Checks a ResourceClaim, whose spec stays.
pub fn validate_claim(claim: &Object, old: Option<&Object>, check: Check, errors: &mut Errors) {
    match old {
        None => validate_spec(claim.part("spec"), check, &SPEC, errors),
        Some(old) => stays(claim, old, "ResourceClaimSpec", errors),
    }
}

/// Checks a ResourceClaimTemplate, whose spec stays.
pub fn validate_template(template: &Object, old: Option<&Object>, check: Check, errors: &mut Errors) {
    let spec = template.part("spec");
    validate_metadata_of_template(spec.part("metadata"), &SPEC.child("metadata"), errors);
    validate_spec(spec.part("spec"), check, &SPEC.child("spec"), errors);
    if let Some(old) = old {
        stays(template, old, "ResourceClaimTemplateSpec", errors);
    }
}

fn stays(object: &Object, old: &Object, type_name: &str, errors: &mut Errors) {
    if !is_same(object.part("spec"), old.part("spec")) {
        errors.push(FieldError::invalid(SPEC, internal::shown(type_name, object.part("spec")), IMMUTABLE));
    }
}

/// The names of a claim's requests, each with those of its alternatives.
pub(super) struct Requests<'o>(BTreeMap<&'o str, BTreeSet<&'o str>>);

impl<'o> Requests<'o> {
    pub(super) fn of(devices: &'o Object) -> Self {
        let alternatives = |request: &'o Object| request.items("firstAvailable").map(|one| one.text("name")).collect();
        Self(devices.items("requests").map(|request| (request.text("name"), alternatives(request))).collect())
    }

    /// Checks a reference to a request, or to an alternative of it.
    pub(super) fn validate(&self, reference: &str, path: &Path<'_>, errors: &mut Errors) {
        const WHY: &str =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let parts: Vec<&str> = reference.split('/').collect();
        let (request, alternative) = match parts.as_slice() {
            [request] => (*request, None),
            [request, alternative] => (*request, Some(*alternative)),
            _ => return errors.push(FieldError::invalid(path, reference, WHY)),
        };
        for part in parts {
            validate_label(part, path, errors);
        }
        let known = self.0.get(request);
        if !known.is_some_and(|known| alternative.is_none_or(|alternative| known.contains(alternative))) {
            errors.push(FieldError::invalid(path, reference, WHY));
        }
    }

    /// Checks the references of a list.
    pub(super) fn validate_all(&self, parent: &Object, path: &Path<'_>, errors: &mut Errors) {
        each_text(parent, "requests", MOST_REQUESTS, path, errors, |reference, path, errors| {
            self.validate(reference, path, errors);
        });
    }
}

fn validate_spec(spec: &Object, check: Check, path: &Path<'_>, errors: &mut Errors) {
    let (devices, path) = (spec.part("devices"), path.child("devices"));
    let requests = Requests::of(devices);
    let looked = each(devices, "requests", MOST_REQUESTS, &path, errors, |request, path, errors| {
        validate_request(request, check, path, errors);
    });
    if looked {
        once(devices.items("requests").map(|request| request.text("name")), &path.child("requests"), errors);
    }
    each(devices, "constraints", MOST_CONSTRAINTS, &path, errors, |constraint, path, errors| {
        validate_constraint(constraint, &requests, path, errors);
    });
    each(devices, "config", MOST_CONFIGS, &path, errors, |config, path, errors| {
        requests.validate_all(config, path, errors);
        validate_configuration(config, false, path, errors);
    });
}

fn validate_request(request: &Object, check: Check, path: &Path<'_>, errors: &mut Errors) {
    validate_label(request.text("name"), &path.child("name"), errors);
    match (request.object("exactly"), request.list("firstAvailable").is_empty()) {
        (None, true) => {
            errors.push(FieldError::required(path, "exactly one of `exactly` or `firstAvailable` is required"));
        }
        (Some(_), false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(FieldError::invalid(path, Shown::from(&Value::Null), why));
        }
        (Some(exactly), true) => validate_devices(exactly, check, &path.child("exactly"), errors),
        (None, false) => {
            let field = "firstAvailable";
            let looked = each(request, field, MOST_ALTERNATIVES, path, errors, |alternative, path, errors| {
                validate_label(alternative.text("name"), &path.child("name"), errors);
                validate_devices(alternative, check, path, errors);
            });
            if looked {
                once(request.items(field).map(|one| one.text("name")), &path.child(field), errors);
            }
        }
    }
}

/// Which devices are asked for, and how many.
fn validate_devices(request: &Object, check: Check, path: &Path<'_>, errors: &mut Errors) {
    let class_path = path.child("deviceClassName");
    match request.text("deviceClassName") {
        "" => errors.push(FieldError::required(class_path, "")),
        class => complain(class, name::is_dns1123_subdomain(class), &class_path, errors),
    }
    validate_selectors(request, check, path, errors);
    let (count, count_path) = (request.int("count"), path.child("count"));
    match request.text("allocationMode") {
        "All" if count != 0 => {
            errors.push(FieldError::invalid(count_path, count, "must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if count <= 0 => errors.push(FieldError::invalid(count_path, count, "must be greater than zero")),
        "All" | "ExactCount" => {}
        other => errors.push(FieldError::not_supported(path.child("allocationMode"), other, &["All", "ExactCount"])),
    }
    each(request, "tolerations", usize::MAX, path, errors, validate_toleration);
}

fn validate_constraint(constraint: &Object, requests: &Requests<'_>, path: &Path<'_>, errors: &mut Errors) {
    requests.validate_all(constraint, path, errors);
    let named = ["matchAttribute", "distinctAttribute"].map(|field| (field, constraint.maybe_text(field)));
    let Some((field, attribute)) = named.into_iter().find_map(|(field, name)| Some((field, name?))) else {
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        return errors.push(FieldError::required(path, why));
    };
    let path = path.child(field);
    validate_qualified_name(attribute, &path, errors);
    if !attribute.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(path, attribute, why));
    }
}
