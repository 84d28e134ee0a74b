//! IPAddress and ServiceCIDR: what each may say (API-17).

use muster_tree::Value;

use super::ip::{cidr_is_ipv6, validate_strict_cidr};
use super::meta::validate_core_update;
use super::{Errors, IMMUTABLE, Path, complain, internal, name};
use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, metadata};

const SPEC: Path<'_> = Path::new("spec");

/// Checks an IPAddress: what it is attached to is said, and stays.
pub fn validate_address(address: &Object, old: Option<&Object>, errors: &mut Errors) {
    let path = SPEC.child("parentRef");
    let parent = address.part("spec").object("parentRef");
    match parent {
        None => errors.push(FieldError::required(path, "")),
        Some(parent) => {
            let group = parent.text("group");
            if !group.is_empty() {
                complain(group, name::is_dns1123_subdomain(group), &path.child("group"), errors);
            }
            for (field, required) in [("resource", true), ("name", true), ("namespace", false)] {
                match parent.text(field) {
                    "" if required => errors.push(FieldError::required(path.child(field), "")),
                    "" => {}
                    value => complain(value, name::is_path_segment(value, false), &path.child(field), errors),
                }
            }
        }
    }
    let Some(old) = old else { return };
    validate_core_update(metadata(address), metadata(old), errors);
    if parent != old.part("spec").object("parentRef") {
        let shown = parent.map_or(Shown::from(&Value::Null), |parent| internal::shown("ParentReference", parent));
        errors.push(FieldError::invalid(path, shown, IMMUTABLE));
    }
}

/// Checks a ServiceCIDR: one range, or one of each family, the second of which may come later.
pub fn validate_range(range: &Object, old: Option<&Object>, errors: &mut Errors) {
    let path = SPEC.child("cidrs");
    let spec = range.part("spec");
    let ranges: Vec<&str> = spec.strings("cidrs").collect();
    let Some(old) = old else { return validate_cidrs(spec, &ranges, errors) };
    let before: Vec<&str> = old.part("spec").strings("cidrs").collect();
    let grows = before.len() == 1 && ranges.len() == 2;
    if !grows && before.len() != ranges.len() {
        let shown = spec.get("cidrs").unwrap_or(&Value::Null);
        return errors.push(FieldError::invalid(path, shown, IMMUTABLE));
    }
    for (index, (now, _)) in ranges.iter().zip(&before).enumerate().filter(|(_, (now, was))| now != was) {
        errors.push(FieldError::invalid(path.index(index), *now, IMMUTABLE));
    }
    if grows {
        validate_cidrs(spec, &ranges, errors);
    }
}

fn validate_cidrs(spec: &Object, ranges: &[&str], errors: &mut Errors) {
    let path = SPEC.child("cidrs");
    match ranges.len() {
        0 => return errors.push(FieldError::required(path, "at least one CIDR required")),
        1 | 2 => {}
        _ => {
            let shown = internal::shown("ServiceCIDRSpec", spec);
            return errors.push(FieldError::invalid(path, shown, "may only hold up to 2 values"));
        }
    }
    for (index, range) in ranges.iter().enumerate() {
        validate_strict_cidr(range, &path.index(index), errors);
    }
    if let [first, second] = ranges
        && let (Some(first), Some(second)) = (cidr_is_ipv6(first), cidr_is_ipv6(second))
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, spec.get("cidrs").unwrap_or(&Value::Null), why));
    }
}
