//! Devices (API-43): what is said of classes of them, of claims to them, and of those that a driver offers.
//!
//! What the reference also declares beside its types is refused here as its own code words it, which is what it answers.

mod claim;
mod slice;
mod status;

use std::collections::BTreeSet;

use muster_schema::quantity::Quantity;
use muster_tree::{Text, Value};

use super::csi::validate_driver_name;
use super::expression::Wrong;
use super::{Errors, Path, complain, name};
use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object};

pub use claim::{validate_claim, validate_template};
pub use slice::validate_slice;
pub use status::{DeviceId, validate_status};

const SPEC: Path<'_> = Path::new("spec");
/// A claim asks for no more than this many devices, each by a request of its own or as one of many.
pub const MOST_REQUESTS: usize = 32;
/// How many configurations there may be.
const MOST_CONFIGS: usize = 32;
/// How many selectors there may be.
const MOST_SELECTORS: usize = 32;
/// A selector's expression may be this long, in bytes.
const EXPRESSION_MAX: usize = 10 * 1024;
/// What is meant for a driver may be this long, in bytes.
const PARAMETERS_MAX: usize = 10 * 1024;
/// How many conditions there may be before a device is bound, and as many that say that it cannot be.
const MOST_CONDITIONS: usize = 4;
/// The name of a pool may be this long, in bytes.
const POOL_MAX: usize = 253;
/// What comes after the domain of a qualified name may be this long, in bytes.
const ID_MAX: usize = 32;
/// What tolerations and taints do.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Checks the expression of a selector.
pub type Check = fn(&str) -> Result<(), Wrong>;

/// Checks a DeviceClass.
pub fn validate_class(class: &Object, old: Option<&Object>, check: Check, errors: &mut Errors) {
    let spec = class.part("spec");
    validate_selectors(spec, check, &SPEC, errors);
    // What was there before there was a limit stays.
    let known = old.is_some_and(|old| old.part("spec").get("config") == spec.get("config"));
    each(spec, "config", MOST_CONFIGS, &SPEC, errors, |config, path, errors| {
        validate_configuration(config, known, path, errors);
    });
    if let Some(resource) = spec.maybe_text("extendedResourceName")
        && !super::pod::resources::is_extended_resource(resource)
    {
        let path = SPEC.child("extendedResourceName");
        errors.push(FieldError::invalid(path, resource, "must be a valid extended resource name"));
    }
}

/// Checks the objects of a list that is not too long; whether it was not.
fn each(
    parent: &Object,
    field: &str,
    most: usize,
    path: &Path<'_>,
    errors: &mut Errors,
    mut check: impl FnMut(&Object, &Path<'_>, &mut Errors),
) -> bool {
    let (list, count) = (path.child(field), parent.list(field).len());
    if count > most {
        errors.push(FieldError::too_many(list, count, most));
        return false;
    }
    for (at, item) in parent.items(field).enumerate() {
        check(item, &list.index(at), errors);
    }
    true
}

/// The same for texts, each of which may be there once.
fn each_text(
    parent: &Object,
    field: &str,
    most: usize,
    path: &Path<'_>,
    errors: &mut Errors,
    mut check: impl FnMut(&str, &Path<'_>, &mut Errors),
) {
    let (list, count) = (path.child(field), parent.list(field).len());
    if count > most {
        errors.push(FieldError::too_many(list, count, most));
        return;
    }
    for (at, item) in parent.strings(field).enumerate() {
        check(item, &list.index(at), errors);
    }
    once(parent.strings(field), &list, errors);
}

/// Each of these may be there once.
fn once<K: Ord + Clone + Into<Shown>>(keys: impl Iterator<Item = K>, list: &Path<'_>, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (at, key) in keys.enumerate() {
        if !known.insert(key.clone()) {
            errors.push(FieldError::duplicate(list.index(at), key));
        }
    }
}

/// Whether two objects say the same: an amount may be written in another way.
fn is_same(one: &Object, other: &Object) -> bool {
    let is_same_member = |(name, one): (&Text, &Value)| match (name.as_str(), one, other.get(name)) {
        (_, _, None) => false,
        ("capacity", Value::Object(one), Some(Value::Object(other))) => {
            is_same_amounts(one.part("requests"), other.part("requests"))
        }
        ("consumedCapacity", Value::Object(one), Some(Value::Object(other))) => is_same_amounts(one, other),
        // What drivers get to know has no amounts that are known as such.
        ("parameters", one, Some(other)) => one == other,
        (_, one, Some(other)) => is_same_value(one, other),
    };
    one.len() == other.len() && one.iter().all(is_same_member)
}

fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => is_same(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_value(one, other))
        }
        _ => one == other,
    }
}

fn is_same_amounts(one: &Object, other: &Object) -> bool {
    let is_same = |(name, amount): (&Text, &Value)| match (amount.as_str(), other.maybe_text(name)) {
        (Some(one), Some(other)) => Quantity::of(one).compare(&Quantity::of(other)).is_eq(),
        _ => false,
    };
    one.len() == other.len() && one.iter().all(is_same)
}

fn validate_label(value: &str, path: &Path<'_>, errors: &mut Errors) {
    complain(value, name::is_dns1123_label(value), path, errors);
}

fn validate_selectors(parent: &Object, check: Check, path: &Path<'_>, errors: &mut Errors) {
    each(parent, "selectors", MOST_SELECTORS, path, errors, |selector, path, errors| {
        let path = path.child("cel");
        let Some(selector) = selector.object("cel") else { return errors.push(FieldError::required(path, "")) };
        let (path, text) = (path.child("expression"), selector.text("expression"));
        if text.len() > EXPRESSION_MAX {
            return errors.push(FieldError::too_long(path, EXPRESSION_MAX));
        }
        if let Err(wrong) = check(text) {
            errors.push(wrong.of(path, text));
        }
    });
}

/// What a driver gets to know; `known` says that it was there before.
fn validate_configuration(config: &Object, known: bool, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("opaque");
    let Some(opaque) = config.object("opaque") else { return errors.push(FieldError::required(path, "")) };
    validate_driver_name(opaque.text("driver"), &path.child("driver"), errors);
    let most = if known { usize::MAX } else { PARAMETERS_MAX };
    validate_raw(opaque.get("parameters"), most, &path.child("parameters"), errors);
}

/// An object of anybody's.
fn validate_raw(value: Option<&Value>, most: usize, path: &Path<'_>, errors: &mut Errors) {
    match value {
        None | Some(Value::Null) => errors.push(FieldError::required(path, "")),
        Some(value) if value.to_string().len() > most => errors.push(FieldError::too_long(path, most)),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object")),
    }
}

fn validate_toleration(toleration: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (key, value, effect) = (toleration.text("key"), toleration.text("value"), toleration.text("effect"));
    if !key.is_empty() {
        complain(key, name::is_qualified_name(key), &path.child("key"), errors);
    }
    match toleration.text("operator") {
        "Exists" if value.is_empty() => {}
        "Exists" => {
            errors.push(FieldError::invalid(path.child("value"), value, "must be empty for operator `Exists`"));
        }
        "Equal" => complain(value, name::is_label_value(value), &path.child("value"), errors),
        "" => errors.push(FieldError::required(path.child("operator"), "")),
        other => errors.push(FieldError::not_supported(path.child("operator"), other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(path.child("effect"), effect, &EFFECTS));
    }
}

/// The name of an attribute or a capacity, with a domain or without.
fn validate_qualified_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let identifier = |id: &str, errors: &mut Errors| {
        if id.len() > ID_MAX {
            errors.push(FieldError::too_long(path, ID_MAX));
        }
        complain(id, name::is_c_identifier(id), path, errors);
    };
    match value.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(id, errors),
        [domain, id] => {
            match *domain {
                "" => errors.push(FieldError::invalid(path, "", "the domain must not be empty")),
                domain => validate_driver_name(domain, path, errors),
            }
            match *id {
                "" => errors.push(FieldError::invalid(path, "", "the name must not be empty")),
                id => identifier(id, errors),
            }
        }
        // As in the reference, what has more parts is taken as it is.
        _ => {}
    }
}

fn validate_pool_name(pool: &str, path: &Path<'_>, errors: &mut Errors) {
    if pool.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    // Its parts, of which there may be very many, are not told then.
    if pool.len() > POOL_MAX {
        return errors.push(FieldError::too_long(path, POOL_MAX));
    }
    for part in pool.split('/') {
        complain(part, name::is_dns1123_subdomain(part), path, errors);
    }
}

/// The conditions that a device waits for before it is bound, and those that say that it cannot be.
fn validate_binding(device: &Object, path: &Path<'_>, errors: &mut Errors) {
    const NEEDED: &str = "bindingConditions";
    const FAILED: &str = "bindingFailureConditions";
    for field in [NEEDED, FAILED] {
        let (list, count) = (path.child(field), device.list(field).len());
        if count > MOST_CONDITIONS {
            errors.push(FieldError::too_many(list, count, MOST_CONDITIONS));
            continue;
        }
        for (at, condition) in device.strings(field).enumerate() {
            complain(condition, name::is_qualified_name(condition), &list.index(at), errors);
        }
    }
    once(device.strings(NEEDED), &path.child(NEEDED), errors);
    let failures = path.child(FAILED);
    let needed: BTreeSet<&str> = device.strings(NEEDED).collect();
    let mut known = BTreeSet::new();
    for (at, condition) in device.strings(FAILED).enumerate() {
        if !known.insert(condition) {
            errors.push(FieldError::duplicate(failures.index(at), condition));
        }
        if needed.contains(condition) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(FieldError::invalid(failures.index(at), condition, why));
        }
    }
    let empty = |field| device.list(field).is_empty();
    for (missing, used) in [(NEEDED, FAILED), (FAILED, NEEDED)] {
        if empty(missing) && !empty(used) {
            let shown = Shown::from(device.get(missing).unwrap_or(&Value::Null));
            errors.push(FieldError::invalid(
                path.child(missing),
                shown,
                format!("{missing} are required to use {used}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests;
