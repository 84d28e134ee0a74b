//! Resource quotas (API-17).

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields};

use super::pod::resources::{
    is_huge_page_resource, is_integer_resource, validate_quantity_value, validate_resource_name,
};
use super::{Errors, IMMUTABLE, Path, internal};

const SPEC: Path<'_> = Path::new("spec");
const STATUS: Path<'_> = Path::new("status");

/// What a quota can count, beside huge pages and objects by `count/`.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Checks a quota's spec.
pub fn validate_spec(quota: &Object, errors: &mut Errors) {
    let Some(spec) = quota.object("spec") else { return };
    validate_list(spec, "hard", &SPEC, errors);
    validate_scopes(spec, errors);
    validate_selector(spec, errors);
}

/// Checks a quota's status.
pub fn validate_status(quota: &Object, errors: &mut Errors) {
    let Some(status) = quota.object("status") else { return };
    for list in ["hard", "used"] {
        validate_list(status, list, &STATUS, errors);
    }
}

/// The scopes of a quota never change.
pub fn validate_scopes_unchanged(quota: &Object, old: &Object, errors: &mut Errors) {
    let of = |o: &Object| -> BTreeSet<String> {
        o.object("spec").map(|s| s.strings("scopes").map(str::to_owned).collect()).unwrap_or_default()
    };
    if of(quota) != of(old) {
        let spec = quota.object("spec");
        let shown = spec.map_or(Shown::Bare("null".to_owned()), scopes_shown);
        errors.push(FieldError::invalid(SPEC.child("scopes"), shown, IMMUTABLE));
    }
}

fn validate_list(parent: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child(field);
    for (resource, quantity) in parent.pairs(field) {
        let at = list.key(resource);
        validate_resource_name(resource, &at, errors);
        if !resource.contains('/') && !is_standard(resource) {
            errors.push(FieldError::invalid(at, resource, "must be a standard resource for quota"));
        }
        validate_quantity_value(quantity, is_integer_resource(resource), &at, errors);
    }
}

fn is_standard(resource: &str) -> bool {
    STANDARD.contains(&resource) || is_huge_page_resource(resource) || resource.starts_with("requests.hugepages-")
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

/// Whether a scope narrows what the resource counts.
fn scope_fits(scope: &str, resource: &str) -> bool {
    let compute =
        matches!(resource, "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory");
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || compute
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn scopes_shown(spec: &Object) -> Shown {
    match spec.get("scopes") {
        Some(Value::Array(list)) => Shown::Json(Value::Array(list.clone())),
        _ => Shown::Bare("null".to_owned()),
    }
}

const OPPOSITES: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

fn validate_scopes(spec: &Object, errors: &mut Errors) {
    let path = SPEC.child("scopes");
    let scopes: Vec<&str> = spec.strings("scopes").collect();
    for scope in &scopes {
        if !is_scope(scope) {
            errors.push(FieldError::invalid(path, scopes_shown(spec), "unsupported scope"));
        }
        for (resource, _) in spec.pairs("hard") {
            if is_standard(resource) && !scope_fits(scope, resource) {
                errors.push(FieldError::invalid(path, scopes_shown(spec), "unsupported scope applied to resource"));
            }
        }
    }
    for (one, other) in OPPOSITES {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.push(FieldError::invalid(path, scopes_shown(spec), "conflicting scopes"));
        }
    }
}

fn validate_selector(spec: &Object, errors: &mut Errors) {
    let Some(selector) = spec.object("scopeSelector") else { return };
    let selector_path = SPEC.child("scopeSelector");
    let path = selector_path.child("matchExpressions");
    let mut scopes = Vec::new();
    for requirement in selector.items("matchExpressions") {
        let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
        let values = requirement.list("values");
        if !is_scope(scope) {
            errors.push(FieldError::invalid(path.child("scopeName"), scope, "unsupported scope"));
        }
        for (resource, _) in spec.pairs("hard") {
            if is_standard(resource) && !scope_fits(scope, resource) {
                errors.push(FieldError::invalid(
                    path,
                    internal::shown("ScopeSelector", selector),
                    "unsupported scope applied to resource",
                ));
            }
        }
        let exists_only = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if exists_only && operator != "Exists" {
            errors.push(FieldError::invalid(
                path.child("operator"),
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ));
        }
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    errors.push(FieldError::required(
                        path.child("values"),
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                    ));
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    errors.push(FieldError::invalid(
                        path.child("values"),
                        Shown::Json(Value::Array(values.to_vec().into())),
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                    ));
                }
            }
            other => {
                errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"));
            }
        }
        scopes.push(scope);
    }
    for (one, other) in OPPOSITES {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.push(FieldError::invalid(path, scopes_shown(spec), "conflicting scopes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn quotas_by_the_table() {
        let cases = [
            (json!({"hard": {"pods": "10", "requests.cpu": "1", "count/deployments.apps": "2"}}), vec![]),
            (json!({"hard": {"pods": "1.5"}}), vec!["spec.hard[pods]: Invalid value: \"1.5\": must be an integer"]),
            (
                json!({"hard": {"foo": "1"}}),
                vec![
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
                ],
            ),
            (
                json!({"hard": {"services": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}),
                vec![
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
                ],
            ),
        ];
        for (spec, want) in cases {
            let mut errors = Errors::new();
            let quota = Object::from_iter([("spec".to_owned(), spec.clone())]);
            validate_spec(&quota, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{spec}");
        }
    }
}
