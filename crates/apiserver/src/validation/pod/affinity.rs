//! Affinity to nodes and to other pods.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name, selector};

use super::options::Options;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks `affinity`.
pub(super) fn validate(affinity: &Object, options: &Options, path: &Path<'_>, errors: &mut Errors) {
    if let Some(node) = affinity.object("nodeAffinity") {
        validate_node(node, options, &path.child("nodeAffinity"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.object(kind) else { continue };
        let path = path.child(kind);
        let list = path.child(REQUIRED);
        for (i, term) in terms.items(REQUIRED).enumerate() {
            validate_term(term, options, &list.index(i), errors);
        }
        let list = path.child(PREFERRED);
        let empty = Object::new();
        for (i, weighted) in terms.items(PREFERRED).enumerate() {
            let path = list.index(i);
            weight(weighted, &path, errors);
            let term = weighted.object("podAffinityTerm").unwrap_or(&empty);
            validate_term(term, options, &path.child("podAffinityTerm"), errors);
        }
    }
}

fn weight(weighted: &Object, path: &Path<'_>, errors: &mut Errors) {
    let weight = weighted.int("weight");
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(path.child("weight"), weight, "must be in the range 1-100"));
    }
}

fn validate_term(term: &Object, options: &Options, path: &Path<'_>, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(own) = term.object(field) {
            selector::validate(own, options.invalid_affinity_selectors, &path.child(field), errors);
        }
    }
    for namespace in term.strings("namespaces") {
        complain(namespace, name::is_dns1123_label(namespace), &path.child("namespace"), errors);
    }
    validate_label_keys(term, path, errors);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
    }
    complain(key, name::is_qualified_name(key), &path.child("topologyKey"), errors);
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys` against each other and against the selector, into
/// which they have been merged.
pub(super) fn validate_label_keys(term: &Object, path: &Path<'_>, errors: &mut Errors) {
    let selector = term.object("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.list(field).is_empty() {
            continue;
        }
        let path = path.child(field);
        if selector.is_none() {
            errors.push(FieldError::forbidden(path, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (i, key) in term.strings(field).enumerate() {
            complain(key, name::is_qualified_name(key), &path.index(i), errors);
        }
    }
    let matching: Vec<&str> = term.strings("matchLabelKeys").collect();
    if matching.is_empty() {
        return;
    }
    if let Some(selector) = selector {
        let mut seen: BTreeSet<&str> = selector.pairs("matchLabels").map(|(key, _)| key).collect();
        for requirement in selector.items("matchExpressions") {
            let key = requirement.text("key");
            if let Some(i) = matching.iter().rposition(|k| *k == key).filter(|_| seen.contains(key)) {
                errors.push(FieldError::invalid(path.index(i), key, "exists in both matchLabelKeys and labelSelector"));
            }
            seen.insert(key);
        }
    }
    let list = path.child("matchLabelKeys");
    for (i, key) in matching.iter().enumerate() {
        if term.strings("mismatchLabelKeys").any(|k| k == *key) {
            errors.push(FieldError::invalid(
                list.index(i),
                *key,
                "exists in both matchLabelKeys and mismatchLabelKeys",
            ));
        }
    }
}

fn validate_node(node: &Object, options: &Options, path: &Path<'_>, errors: &mut Errors) {
    if let Some(required) = node.object(REQUIRED) {
        validate_node_selector(required, options.invalid_node_affinity, &path.child(REQUIRED), errors);
    }
    let list = path.child(PREFERRED);
    let empty = Object::new();
    for (i, preferred) in node.items(PREFERRED).enumerate() {
        let path = list.index(i);
        weight(preferred, &path, errors);
        let term = preferred.object("preference").unwrap_or(&empty);
        // Invalid values have always been let pass here.
        validate_node_term(term, true, &path.child("preference"), errors);
    }
}

/// Checks a node selector. `any_value` leaves values alone that an older version stored.
pub(in crate::validation) fn validate_node_selector(
    selector: &Object,
    any_value: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let terms = path.child("nodeSelectorTerms");
    if selector.list("nodeSelectorTerms").is_empty() {
        errors.push(FieldError::required(terms, "must have at least one node selector term"));
    }
    for (i, term) in selector.items("nodeSelectorTerms").enumerate() {
        validate_node_term(term, any_value, &terms.index(i), errors);
    }
}

fn validate_node_term(term: &Object, any_value: bool, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("matchExpressions");
    for (i, requirement) in term.items("matchExpressions").enumerate() {
        let path = list.index(i);
        let (key, operator) = (requirement.text("key"), requirement.text("operator"));
        let count = requirement.list("values").len();
        let values = path.child("values");
        match operator {
            "In" | "NotIn" if count == 0 => {
                errors.push(FieldError::required(values, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if count > 0 => errors.push(FieldError::forbidden(
                values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if count != 1 => errors
                .push(FieldError::required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"));
            }
        }
        complain(key, name::is_qualified_name(key), &path.child("key"), errors);
        if !any_value {
            for (j, value) in requirement.strings("values").enumerate() {
                complain(value, name::is_label_value(value), &values.index(j), errors);
            }
        }
    }
    let list = path.child("matchFields");
    for (i, requirement) in term.items("matchFields").enumerate() {
        let path = list.index(i);
        let (key, operator) = (requirement.text("key"), requirement.text("operator"));
        let values = path.child("values");
        match operator {
            "In" | "NotIn" => {
                if requirement.list("values").len() != 1 {
                    errors.push(FieldError::required(
                        values,
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                    ));
                }
            }
            other => {
                errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"));
            }
        }
        if key == "metadata.name" {
            for (j, value) in requirement.strings("values").enumerate() {
                complain(value, name::is_dns1123_subdomain(value), &values.index(j), errors);
            }
        } else {
            errors.push(FieldError::invalid(path.child("key"), key, "not a valid field selector key"));
        }
    }
}

/// The requirements of every label selector in the affinity terms of a spec.
pub(super) fn selector_requirements(spec: &Object) -> Vec<&Object> {
    let Some(affinity) = spec.object("affinity") else { return Vec::new() };
    let mut out = Vec::new();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.object(kind) else { continue };
        let weighted = terms.items(PREFERRED).filter_map(|w| w.object("podAffinityTerm"));
        for term in terms.items(REQUIRED).chain(weighted) {
            for field in ["labelSelector", "namespaceSelector"] {
                out.extend(term.object(field).into_iter().flat_map(|s| s.items("matchExpressions")));
            }
        }
    }
    out
}

/// The requirements of the required node affinity of a spec.
pub(super) fn required_node_requirements(spec: &Object) -> Vec<&Object> {
    let required = spec.object("affinity").and_then(|a| a.object("nodeAffinity")).and_then(|n| n.object(REQUIRED));
    required.into_iter().flat_map(|r| r.items("nodeSelectorTerms")).flat_map(|t| t.items("matchExpressions")).collect()
}

/// The terms of the required node affinity.
pub(super) fn required_node_terms(affinity: Option<&Object>) -> Option<&[muster_tree::Value]> {
    Some(affinity?.object("nodeAffinity")?.object(REQUIRED)?.list("nodeSelectorTerms"))
}
