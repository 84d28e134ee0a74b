//! Nodes (API-17).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::{FieldError, Shown, go_quote};
use crate::model::{Object, fields::Fields};

use super::pod::resources::{is_integer_resource, validate_quantity_value};
use super::{Errors, Path, complain, ip, name};

/// Checks a node without its metadata.
pub fn validate(node: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = node.object("spec").unwrap_or(&empty);
    let meta = Path::new("metadata");
    // Upstream names taints under metadata; so do we.
    validate_taints(spec, &meta.child("taints"), errors);
    validate_resources(node, errors);
    let swap = node.part("status").part("nodeInfo").part("swap").maybe_int("capacity");
    if let Some(capacity) = swap.filter(|capacity| *capacity <= 0) {
        // The path is the reference's.
        errors.push(FieldError::invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero"));
    }
    validate_features(node, errors);
    let spec_path = Path::new("spec");
    let path = spec_path.child("podCIDRs");
    let cidrs: Vec<&str> = spec.strings("podCIDRs").collect();
    for (i, cidr) in cidrs.iter().enumerate() {
        ip::validate_legacy_cidr(cidr, &path.index(i), errors);
    }
    let family = |(at, cidr): (usize, &&str)| {
        let no_cidr = || format!("invalid CIDR[{at}]: <nil> (invalid CIDR address: {cidr})");
        ip::cidr_is_ipv6(cidr).ok_or_else(no_cidr)
    };
    let families: Vec<Result<bool, String>> = cidrs.iter().enumerate().map(family).collect();
    let found = Shown::from(&Value::from(spec.list("podCIDRs").to_vec()));
    ip::one_of_each_family(&families, (&path, found, "CIDR"), "invalid PodCIDRs. failed to check with", errors);
}

/// The features that a node says it has: names in order.
fn validate_features(node: &Object, errors: &mut Errors) {
    const FORM: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., \
        MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
    let status = Path::new("status");
    let list = status.child("declaredFeatures");
    let features: Vec<&str> = node.part("status").strings("declaredFeatures").collect();
    for (at, feature) in features.iter().enumerate() {
        let well_formed = |(nth, part): (usize, &str)| {
            part.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && part.starts_with(
                    |first: char| if nth == 0 { first.is_ascii_uppercase() } else { first.is_ascii_alphabetic() },
                )
        };
        let why = match feature.len() {
            254.. => Some("must be no more than 253 characters"),
            _ if !feature.split('/').enumerate().all(well_formed) => Some(FORM),
            _ => None,
        };
        if let Some(why) = why {
            let why = format!("invalid feature name {}: {why}", go_quote(feature));
            errors.push(FieldError::invalid(list.index(at), *feature, why));
        }
        if let Some(next) = features.get(at + 1) {
            match feature.cmp(next) {
                Ordering::Less => {}
                Ordering::Equal => errors.push(FieldError::duplicate(list.index(at + 1), *next)),
                Ordering::Greater => {
                    let why = "list must be sorted alphabetically";
                    errors.push(FieldError::invalid(list.index(at + 1), *next, why));
                }
            }
        }
    }
}

/// Checks a change of a node, or of its status.
pub fn validate_change(node: &Object, old: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = node.object("spec").unwrap_or(&empty);
    let before = old.object("spec").unwrap_or(&empty);
    validate_resources(node, errors);
    validate_features(node, errors);
    let status_path = Path::new("status");
    let addresses = status_path.child("addresses");
    let mut seen = BTreeSet::new();
    for (i, address) in node.object("status").into_iter().flat_map(|s| s.items("addresses")).enumerate() {
        let (kind, value) = (address.text("type"), address.text("address"));
        if !seen.insert((kind, value)) {
            errors.push(FieldError::duplicate(
                addresses.index(i),
                Shown::Bare(format!("{{\"Type\":{},\"Address\":{}}}", Value::from(kind), Value::from(value))),
            ));
        }
    }
    let path = Path::new("spec");
    let (old_cidrs, cidrs) = (before.list("podCIDRs"), spec.list("podCIDRs"));
    if !old_cidrs.is_empty() {
        let changes = if old_cidrs.len() == cidrs.len() {
            old_cidrs.iter().zip(cidrs).filter(|(a, b)| a != b).count()
        } else {
            1
        };
        for _ in 0..changes {
            errors.push(FieldError::forbidden(
                path.child("podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
    }
    if !before.text("providerID").is_empty() && before.text("providerID") != spec.text("providerID") {
        errors.push(FieldError::forbidden(
            path.child("providerID"),
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    let meta = Path::new("metadata");
    validate_taints(spec, &meta.child("taints"), errors);
    if spec.text("externalID") != before.text("externalID") {
        errors.push(FieldError::forbidden(path.child("externalID"), "may not be updated"));
    }
}

fn validate_taints(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, taint) in spec.items("taints").enumerate() {
        let path = path.index(i);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        complain(key, name::is_qualified_name(key), &path.child("key"), errors);
        let complaints = name::is_label_value(value);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(path.child("value"), value, complaints.join(";")));
        }
        validate_taint_effect(effect, false, &path.child("effect"), errors);
        if !seen.insert((effect, key)) {
            let mut error = FieldError::duplicate(
                path,
                Shown::Bare(format!(
                    "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                    Value::from(key),
                    Value::from(value),
                    Value::from(effect),
                    taint.get("timeAdded").unwrap_or(&Value::Null)
                )),
            );
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

/// Checks a taint's effect, or that of a toleration (which may be empty).
pub fn validate_taint_effect(effect: &str, may_be_empty: bool, path: &Path<'_>, errors: &mut Errors) {
    if effect.is_empty() && !may_be_empty {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        errors.push(FieldError::not_supported(path, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
    }
}

fn validate_resources(node: &Object, errors: &mut Errors) {
    let Some(status) = node.object("status") else { return };
    let path = Path::new("status");
    for list in ["capacity", "allocatable"] {
        let path = path.child(list);
        for (resource, quantity) in status.pairs(list) {
            validate_quantity_value(quantity, is_integer_resource(resource), &path.child(resource), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn taints_and_networks_of_a_node() {
        let node = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "X"}], "podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}});
        let mut errors = Errors::new();
        validate(node.as_object().expect("object"), &mut errors);
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for each IP family",
            ]
        );
    }
}
