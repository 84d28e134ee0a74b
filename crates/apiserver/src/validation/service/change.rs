//! What of a Service may not change: the addresses that others have been told of.

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::service::{is_headless, needs_health_check};
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, IMMUTABLE, Path};

const SPEC: Path<'_> = Path::new("spec");
const SET: &str = "may not change once set";

/// Checks what has changed.
pub fn validate(object: &Object, old: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    let old = old.object("spec").unwrap_or(&empty);
    let external_name = [spec, old].iter().any(|spec| spec.text("type") == "ExternalName");
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    let without_addresses = headless && was_headless;
    if !external_name && !without_addresses {
        validate_list(spec, old, &CLUSTER_IPS, errors);
    }
    if !external_name && !headless && !was_headless {
        validate_list(spec, old, &FAMILIES, errors);
    }
    let both = |kind: &str| spec.text("type") == kind && old.text("type") == kind;
    if both("LoadBalancer") && spec.get("loadBalancerClass") != old.get("loadBalancerClass") {
        let class = spec.get("loadBalancerClass").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(SPEC.child("loadBalancerClass"), class, SET));
    }
    // The class is looked at once more with the change.
    super::validate_class(spec, errors);
    if needs_health_check(spec)
        && needs_health_check(old)
        && spec.int("healthCheckNodePort") != old.int("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(SPEC.child("healthCheckNodePort"), IMMUTABLE));
    }
}

/// A list whose first element stays, and whose second may come and go.
struct Stacked {
    field: &'static str,
    /// What the first and the second element are called.
    what: &'static str,
    /// The list that a message about a changed first element shows: the addresses, also for families.
    shown: &'static str,
    /// Whether the error of an element of lists of the same length names that element, or else the first.
    by_index: bool,
}

const CLUSTER_IPS: Stacked = Stacked { field: "clusterIPs", what: "clusterIP", shown: "clusterIPs", by_index: true };
const FAMILIES: Stacked = Stacked { field: "ipFamilies", what: "ipFamily", shown: "clusterIPs", by_index: false };

fn validate_list(spec: &Object, old: &Object, stacked: &Stacked, errors: &mut Errors) {
    let list = SPEC.child(stacked.field);
    let (new, before) = (spec.list(stacked.field), old.list(stacked.field));
    let shown = |field: &str| match spec.list(field) {
        [] => Shown::Bare("null".to_owned()),
        list => Shown::Json(Value::Array(list.to_vec().into())),
    };
    if new.len() == before.len() {
        for (index, _) in new.iter().zip(before).enumerate().filter(|(_, (new, old))| new != old) {
            let index = if stacked.by_index { index } else { 0 };
            errors.push(FieldError::invalid(list.index(index), shown(stacked.field), SET));
        }
        return;
    }
    if new.len() < before.len() && spec.list("clusterIPs").is_empty() {
        let why = format!("primary {} can not be unset", stacked.what);
        errors.push(FieldError::invalid(list.index(0), shown(stacked.field), why));
    }
    if let (Some(new), Some(before)) = (new.first(), before.first())
        && new != before
    {
        errors.push(FieldError::invalid(list.index(0), shown(stacked.shown), SET));
    }
    if new.len() < before.len() && new.len() == 1 && spec.text("ipFamilyPolicy") != "SingleStack" {
        let policy = spec.get("ipFamilyPolicy").unwrap_or(&Value::Null);
        let why = format!("must be set to 'SingleStack' when releasing the secondary {}", stacked.what);
        errors.push(FieldError::invalid(SPEC.child("ipFamilyPolicy"), policy, why));
    }
}
