//! The data of ConfigMaps and Secrets (API-17).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tree::Value;

use crate::field::{FieldError, json_word};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, IMMUTABLE, Path, complain, name};
use crate::schema;

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
        // It is the whole object that is too long, which upstream names by an empty path.
        errors.push(FieldError::too_long("[]", MAX_SIZE));
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

/// Checks a secret's keys, its size, and what its type needs.
pub fn validate_secret(object: &Object, errors: &mut Errors) {
    let path = Path::new("data");
    let empty = Object::new();
    let data = object.object("data").unwrap_or(&empty);
    let mut size = 0;
    for (key, value) in object.pairs("data") {
        complain(key, name::is_config_map_key(key), &path.key(key), errors);
        size += decoded_len(value);
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long(path, MAX_SIZE));
    }
    let mut required = |key: &str| errors.push(FieldError::required(path.key(key), ""));
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let annotations = metadata(object).object("annotations");
            if annotations.is_none_or(|a| a.text(ACCOUNT).is_empty()) {
                let meta = Path::new("metadata");
                errors.push(FieldError::required(meta.child("annotations").key(ACCOUNT), ""));
            }
        }
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", &path, errors),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", &path, errors),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            required("username");
            required("password");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            required("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    required(key);
                }
            }
        }
        _ => {}
    }
}

/// The credentials of image registries are JSON. What is wrong with it is not told beyond that: it is a secret.
fn docker_config(data: &Object, key: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.key(key);
    let Some(encoded) = data.maybe_text(key) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let why = match schema::read_json(&STANDARD.decode(encoded).unwrap_or_default()) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_word(&other))
        }
        Err(why) => why,
    };
    errors.push(FieldError::invalid(path, "<secret contents redacted>", why));
}

/// Checks a change of a secret, which may be immutable; its type always is.
pub fn validate_secret_change(object: &Object, old: &Object, errors: &mut Errors) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if object.text("type") != old.text("type") {
        errors.push(FieldError::invalid("type", object.text("type"), IMMUTABLE));
    }
    if !old.flag("immutable") {
        return;
    }
    if !object.flag("immutable") {
        errors.push(FieldError::forbidden("immutable", WHY));
    }
    let some = |o: &Object| o.object("data").filter(|m| !m.is_empty()).cloned();
    if some(object) != some(old) {
        errors.push(FieldError::forbidden("data", WHY));
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
    use muster_tree::json;

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
