//! Classes of volumes: how they are made, and what may be changed of them later (API-17).

use std::collections::{BTreeMap, BTreeSet};

use crate::field::FieldError;
use crate::model::{Fields as _, Object};

use super::{Errors, Path, complain, name};

/// Parameters may not be more than this.
const PARAMETERS_MOST: usize = 512;
/// Parameters may not be larger than this, keys and values together, in bytes.
const PARAMETERS_MAX: usize = 256 * 1024;

/// Checks a StorageClass.
pub fn validate(class: &Object, errors: &mut Errors) {
    validate_provisioner(class, "provisioner", errors);
    validate_parameters(class, true, errors);
    let policies = ["Delete", "Retain"];
    let policy = class.text("reclaimPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(FieldError::not_supported(Path::new("reclaimPolicy"), policy, &policies));
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    let path = Path::new("volumeBindingMode");
    match class.maybe_text("volumeBindingMode") {
        None => errors.push(FieldError::required(path, "")),
        Some(mode) if !modes.contains(&mode) => errors.push(FieldError::not_supported(path, mode, &modes)),
        Some(_) => {}
    }
    validate_topologies(class, errors);
}

/// Checks a VolumeAttributesClass.
pub fn validate_attributes(class: &Object, old: Option<&Object>, errors: &mut Errors) {
    if let Some(old) = old {
        if class.text("driverName") != old.text("driverName") {
            errors.push(FieldError::forbidden(Path::new("driverName"), "updates to driverName are forbidden."));
        }
        if class.get("parameters") != old.get("parameters") {
            errors.push(FieldError::forbidden(Path::new("parameters"), "updates to parameters are forbidden."));
        }
    }
    validate_provisioner(class, "driverName", errors);
    validate_parameters(class, false, errors);
}

fn validate_provisioner(class: &Object, field: &str, errors: &mut Errors) {
    let path = Path::new(field);
    match class.text(field) {
        "" => errors.push(FieldError::required(path, "")),
        provisioner => {
            let lower = provisioner.to_lowercase();
            complain(&lower, name::is_qualified_name(&lower), &path, errors);
        }
    }
}

fn validate_parameters(class: &Object, may_be_empty: bool, errors: &mut Errors) {
    let path = Path::new("parameters");
    let count = class.object("parameters").map_or(0, Object::len);
    if count > PARAMETERS_MOST {
        errors.push(FieldError::too_long(path, PARAMETERS_MOST));
        return;
    }
    let mut size = 0;
    for (key, value) in class.pairs("parameters") {
        if key.is_empty() {
            errors.push(FieldError::invalid(path, key, "field can not be empty."));
        }
        size += key.len() + value.len();
    }
    if size > PARAMETERS_MAX {
        errors.push(FieldError::too_long(path, PARAMETERS_MAX));
    }
    if !may_be_empty && count == 0 {
        errors.push(FieldError::required(path, "must contain at least one key/value pair"));
    }
}

fn validate_topologies(class: &Object, errors: &mut Errors) {
    let list = Path::new("allowedTopologies");
    let terms = class.list("allowedTopologies").len();
    // Upstream begins with as many empty terms as there are terms: an empty one is a duplicate of each.
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new(); terms];
    for (i, term) in class.items("allowedTopologies").enumerate() {
        let path = list.index(i);
        let expressions = path.child("matchLabelExpressions");
        let mut own: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (j, requirement) in term.items("matchLabelExpressions").enumerate() {
            let path = expressions.index(j);
            let values_path = path.child("values");
            if requirement.list("values").is_empty() {
                errors.push(FieldError::required(values_path, ""));
            }
            let mut values = BTreeSet::new();
            for (k, value) in requirement.strings("values").enumerate() {
                if !values.insert(value) {
                    errors.push(FieldError::duplicate(values_path.index(k), value));
                }
            }
            let key = requirement.text("key");
            complain(key, name::is_qualified_name(key), &path.child("key"), errors);
            if own.contains_key(key) {
                errors.push(FieldError::duplicate(path.child("key"), key));
            }
            own.insert(key, values);
        }
        for _ in seen.iter().filter(|other| **other == own) {
            errors.push(FieldError::duplicate(expressions, ""));
        }
        seen.push(own);
    }
}

/// Warnings for a StorageClass: labels that have got another name.
#[must_use]
pub fn warnings(class: &Object) -> Vec<String> {
    let mut out = Vec::new();
    for (i, term) in class.items("allowedTopologies").enumerate() {
        for (j, requirement) in term.items("matchLabelExpressions").enumerate() {
            if let Some(why) = super::pod::warnings::deprecated_node_label(requirement.text("key")) {
                out.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {why}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    fn texts(check: impl Fn(&Object, &mut Errors), object: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(object.as_object().expect("an object"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-25
    #[test]
    fn classes_by_the_table() {
        let with = |field: &str, value: Value| {
            let mut class = json!({"provisioner": "a.io/p", "volumeBindingMode": "Immediate"});
            class[field] = value;
            class
        };
        let zone = |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
        let long = "x".repeat(PARAMETERS_MAX);
        let cases = [
            (with("reclaimPolicy", json!("Delete")), vec![]),
            (with("volumeBindingMode", json!(null)), vec!["volumeBindingMode: Required value"]),
            (with("parameters", json!({"k": long})), vec!["parameters: Too long: may not be more than 262144 bytes"]),
            (
                with("allowedTopologies", json!([zone(json!(["a", "a"])), zone(json!(["a"]))])),
                vec![
                    "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                    "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
                ],
            ),
            (
                with("allowedTopologies", json!([{}])),
                vec!["allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\""],
            ),
        ];
        for (class, want) in cases {
            assert_eq!(texts(validate, &class), want);
        }
    }

    /// Contract: API-25
    #[test]
    fn attributes_never_change() {
        let class = json!({"driverName": "a.io", "parameters": {"k": "v"}});
        let other = json!({"driverName": "b.io", "parameters": {}});
        let old = class.as_object();
        assert_eq!(texts(|o, e| validate_attributes(o, old, e), &class), Vec::<String>::new());
        assert_eq!(
            texts(|o, e| validate_attributes(o, old, e), &other),
            [
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
                "parameters: Required value: must contain at least one key/value pair",
            ]
        );
    }
}
