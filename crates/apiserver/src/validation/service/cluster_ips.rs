//! The cluster IPs of a Service, and their families: what goes with what.

use std::collections::BTreeSet;
use std::net::IpAddr;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::service::is_headless;
use crate::model::{Object, fields::Fields};
use crate::validation::ip::{parse_sloppy, validate_legacy_ip};
use crate::validation::{Errors, Path};

const SPEC: Path<'_> = Path::new("spec");

/// Checks `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` of a spec.
pub fn validate_cluster_ips(spec: &Object, old: Option<&Object>, errors: &mut Errors) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let path = SPEC.child("clusterIPs");
    let all = Value::Array(spec.list("clusterIPs").to_vec().into());
    let ips: Vec<&str> = spec.strings("clusterIPs").collect();
    match (spec.text("clusterIP"), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.push(FieldError::invalid(path, &all, "must be empty when `clusterIP` is not specified"));
        }
        (_, None) => errors.push(FieldError::required(path, "")),
        (own, Some(first)) if own != *first => {
            errors.push(FieldError::invalid(path, &all, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    validate_families(spec, errors);
    if let Some(policy) = spec.maybe_text("ipFamilyPolicy")
        && !matches!(policy, "SingleStack" | "PreferDualStack" | "RequireDualStack")
    {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.push(FieldError::not_supported(SPEC.child("ipFamilyPolicy"), policy, &known));
    }

    let before: Vec<&str> = old.map(|old| old.strings("clusterIPs").collect()).unwrap_or_default();
    let mut wrong = false;
    for (index, ip) in ips.iter().enumerate() {
        let found = errors.len();
        if index == 0 && *ip == "None" {
            if ips.len() > 1 {
                errors.push(FieldError::invalid(path, &all, "'None' must be the first and only value"));
            }
        } else {
            validate_legacy_ip(ip, &before, &path.index(index), errors);
        }
        wrong |= errors.len() > found;
    }
    if ips.len() > 2 {
        errors.push(FieldError::invalid(path, &all, "may only hold up to 2 values"));
    }
    if wrong {
        return;
    }
    let is_v6 = |ip: &str| parse_sloppy(ip).is_some_and(|ip| matches!(ip, IpAddr::V6(_)));
    if ips.len() > 1 && ips.iter().all(|ip| is_v6(ip) == is_v6(ips[0])) {
        errors.push(FieldError::invalid(path, &all, "may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(spec.strings("ipFamilies")).enumerate() {
        let other = if is_v6(ip) { "IPv4" } else { "IPv6" };
        if family == other {
            let why = format!("expected an {other} value as indicated by `ipFamilies[{index}]`");
            errors.push(FieldError::invalid(path.index(index), *ip, why));
        }
    }
}

fn validate_families(spec: &Object, errors: &mut Errors) {
    let list = SPEC.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in spec.strings("ipFamilies").enumerate() {
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(list.index(index), family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(list.index(index), family));
        }
    }
}
