//! The data of ConfigMaps (API-17).

use serde_json::Value;

use crate::field::FieldError;
use crate::kinds::{Object, fields::Fields};

use super::{Errors, Path, complain, name};

/// All values of one object may not be larger than this together, in bytes.
pub const MAX_SIZE: usize = 1024 * 1024;

/// Checks keys and total size.
pub fn validate_config_map(object: &Object, errors: &mut Errors) {
    let mut size = 0;
    let binary = object.object("binaryData");
    let path = Path::new("data");
    for (key, value) in object.pairs("data") {
        let path = path.key(key);
        complain(key, name::is_config_map_key(key), &path, errors);
        if binary.is_some_and(|b| b.contains_key(key)) {
            errors.push(FieldError::invalid(path, key, "duplicate of key present in binaryData"));
        }
        size += value.len();
    }
    let path = Path::new("binaryData");
    for (key, value) in object.pairs("binaryData") {
        complain(key, name::is_config_map_key(key), &path.key(key), errors);
        size += decoded_len(value);
    }
    if size > MAX_SIZE {
        // The empty path says that it is the whole object that is too long.
        errors.push(FieldError::too_long("", MAX_SIZE));
    }
}

/// Checks a change of one that may be immutable.
pub fn validate_config_map_change(object: &Object, old: &Object, errors: &mut Errors) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if !old.flag("immutable") {
        return;
    }
    if !object.flag("immutable") {
        errors.push(FieldError::forbidden("immutable", WHY));
    }
    for field in ["data", "binaryData"] {
        let some = |o: &Object| o.get(field).filter(|v| v.as_object().is_some_and(|m| !m.is_empty())).cloned();
        let (new, old): (Option<Value>, Option<Value>) = (some(object), some(old));
        if new != old {
            errors.push(FieldError::forbidden(field, WHY));
        }
    }
}

/// The number of bytes that a base64 text stands for.
#[must_use]
pub fn decoded_len(base64: &str) -> usize {
    let trimmed = base64.trim_end_matches('=').len();
    trimmed * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn config_maps_by_the_table() {
        let cases = [
            (json!({"data": {"a.b-c_D": "x"}}), vec![]),
            (
                json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}),
                vec!["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
            (json!({"data": {"..x": ""}}), vec!["data[..x]: Invalid value: \"..x\": must not start with '..'"]),
            (
                json!({"data": {"a b": ""}}),
                vec![
                    "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                ],
            ),
        ];
        for (object, want) in cases {
            let mut errors = Errors::new();
            validate_config_map(object.as_object().expect("object"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{object}");
        }
        let mut errors = Errors::new();
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let new = json!({"data": {"a": "2"}});
        validate_config_map_change(new.as_object().expect("object"), old.as_object().expect("object"), &mut errors);
        assert_eq!(errors.len(), 2);
    }
}
