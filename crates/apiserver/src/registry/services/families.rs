//! Which families of addresses a Service has, in a cluster of IPv4 alone.

use muster_tree::{Value, json};

use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::model::service::is_headless;
use crate::validation::Path;
use crate::validation::ip::parse_sloppy;
use crate::validation::service::cluster_ips::validate_cluster_ips;

const SPEC: Path<'_> = Path::new("spec");

/// The family that this cluster has addresses of.
const FAMILY: &str = "IPv4";
/// The other one.
const OTHER_FAMILY: &str = "IPv6";

/// Sets `ipFamilyPolicy` and `ipFamilies`.
pub(super) fn set(service: &mut Object, old: Option<&Object>) -> Result<(), Vec<FieldError>> {
    let empty = Object::new();
    let old = old.map(|old| old.object("spec").unwrap_or(&empty));
    let spec = service.object_or_new("spec");
    if spec.text("type") == "ExternalName" || old.is_some_and(|old| stays_as_preferred(spec, old)) {
        return Ok(());
    }
    let selects = spec.object("selector").is_some_and(|selector| !selector.is_empty());
    let own_endpoints = spec.text("clusterIP") == "None" && !selects;
    if !spec.contains_key("ipFamilyPolicy") {
        match old.and_then(|old| old.get("ipFamilyPolicy")) {
            Some(policy) => spec.insert("ipFamilyPolicy", policy.clone()),
            // Whoever keeps its endpoints may give it any.
            None if own_endpoints => spec.insert("ipFamilyPolicy", json!("RequireDualStack")),
            None => spec.insert("ipFamilyPolicy", json!("SingleStack")),
        };
    }
    let mut errors = Vec::new();
    validate_cluster_ips(spec, old, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy = spec.text("ipFamilyPolicy").to_owned();
    check_policy(spec, old, &policy, &mut errors);
    infer(spec, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }

    if own_endpoints {
        let mut families = spec.list("ipFamilies").to_vec();
        if families.is_empty() {
            families.push(json!(FAMILY));
        }
        if families.len() < 2 && policy != "SingleStack" {
            families.push(if families[0] == FAMILY { json!(OTHER_FAMILY) } else { json!(FAMILY) });
        }
        spec.insert("ipFamilies", Value::Array(families.into()));
        return Ok(());
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(SPEC.child("ipFamilyPolicy"), policy.as_str(), why));
    }
    for (index, family) in spec.strings("ipFamilies").enumerate().filter(|(_, family)| *family != FAMILY) {
        let path = SPEC.child("ipFamilies");
        errors.push(FieldError::invalid(path.index(index), family, "not configured on this cluster"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if spec.list("ipFamilies").is_empty() {
        spec.insert("ipFamilies", json!([FAMILY]));
    }
    Ok(())
}

/// Whether an update leaves alone a Service that takes what families there are.
fn stays_as_preferred(spec: &Object, old: &Object) -> bool {
    let same = |field: &str| spec.get(field) == old.get(field);
    spec.text("ipFamilyPolicy") == "PreferDualStack"
        && ["type", "ipFamilyPolicy", "clusterIP", "clusterIPs", "ipFamilies"].into_iter().all(same)
}

/// Checks that the policy goes with how many addresses and families are named; where it is one of each, second ones
/// go.
fn check_policy(spec: &mut Object, old: Option<&Object>, policy: &str, errors: &mut Vec<FieldError>) {
    let path = SPEC.child("ipFamilyPolicy");
    let single = policy == "SingleStack";
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let Some(before) = old.map(|old| old.list(field)) else { continue };
        if single && before == spec.list(field) && before.len() > 1 {
            spec.insert(field.to_owned(), Value::Array(before[..1].to_vec().into()));
        }
        if !single && before.len() > spec.list(field).len() && !spec.list(field).is_empty() {
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(FieldError::invalid(path, policy, why));
        }
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if single && spec.list(field).len() == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid(path, policy, why));
        }
    }
}

/// The families of the addresses that are named.
fn infer(spec: &mut Object, errors: &mut Vec<FieldError>) {
    if is_headless(spec) {
        return;
    }
    let mut families = spec.list("ipFamilies").to_vec();
    for (index, ip) in spec.strings("clusterIPs").enumerate().skip(families.len()) {
        if parse_sloppy(ip).is_some_and(|ip| ip.is_ipv4()) {
            families.push(json!(FAMILY));
        } else {
            let list = SPEC.child("clusterIPs");
            let named = Value::Array(spec.list("clusterIPs").to_vec().into());
            let why = format!("{OTHER_FAMILY} is not configured on this cluster");
            errors.push(FieldError::invalid(list.index(index), &named, why));
        }
    }
    if !families.is_empty() {
        spec.insert("ipFamilies", Value::Array(families.into()));
    }
}
