//! The metadata of a custom object, and of the whole objects that may be inside one: read as `ObjectMeta` is read.

use muster_tree::Value;

use super::Object;
use super::structural::Structural;
use crate::field::{FieldError, Shown};
use crate::model::NameRule;
use crate::schema::decode::decode_type;
use crate::validation::{Errors, meta, name};

/// The type of metadata.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Reads an object's own metadata; unknown fields of it go, and are told by their paths.
///
/// # Errors
/// What Go says of metadata that is none.
pub fn read(object: &mut Object) -> Result<Vec<String>, String> {
    read_at(object, "")
}

fn read_at(object: &mut Object, path: &str) -> Result<Vec<String>, String> {
    let Some(found) = object.get("metadata") else { return Ok(Vec::new()) };
    let (mut metadata, complaints) = decode_type(OBJECT_META, found)?;
    if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
        metadata.remove("creationTimestamp");
    }
    object.insert("metadata", Value::Object(metadata));
    let prefix = child(path, "metadata");
    Ok(complaints
        .iter()
        .filter_map(|complaint| complaint.split('"').nth(1))
        .map(|field| format!("{prefix}.{field}"))
        .collect())
}

/// Reads the metadata of the whole objects inside; answers the paths of unknown fields of it, sorted.
///
/// # Errors
/// The field that is none.
pub fn coerce(object: &mut Object, schema: &Structural) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    members(object, schema, false, "", &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

/// As [`coerce`], of a value that stands at a path.
///
/// # Errors
/// The field that is none.
pub fn coerce_value(value: &mut Value, schema: &Structural, path: &str) -> Result<(), FieldError> {
    walk(value, schema, path, &mut Vec::new())
}

/// As [`coerce`], for a whole object, where what is none is dropped.
pub fn coerce_dropping(object: &mut Object, schema: &Structural) {
    drop_malformed(object);
    for (name, value) in object.iter_mut() {
        if let Some(schema) = schema.member(name) {
            drop_below(value, schema);
        }
    }
}

fn drop_below(value: &mut Value, schema: &Structural) {
    match value {
        _ if !schema.holds.embedded => {}
        Value::Object(object) => {
            if schema.embedded {
                drop_malformed(object);
            }
            for (name, value) in object.iter_mut() {
                if let Some(schema) = schema.member(name) {
                    drop_below(value, schema);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                list.iter_mut().for_each(|value| drop_below(value, items));
            }
        }
        _ => {}
    }
}

/// Drops what is no metadata; field by field, where it is not all wrong.
pub fn drop_malformed(object: &mut Object) {
    object.retain(|name, value| !matches!(name.as_str(), "apiVersion" | "kind") || value.is_string());
    if read(object).is_ok() {
        return;
    }
    let Some(Value::Object(fields)) = object.get("metadata") else { return };
    let mut kept = Object::new();
    for (name, value) in fields {
        let one = Value::Object(Object::from_iter([(name.clone(), value.clone())]));
        if let Ok((field, _)) = decode_type(OBJECT_META, &one) {
            kept.extend(field);
        }
    }
    object.insert("metadata", Value::Object(kept));
}

fn walk(value: &mut Value, schema: &Structural, path: &str, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    match value {
        _ if !schema.holds.embedded => Ok(()),
        Value::Object(object) => members(object, schema, schema.embedded, path, unknown),
        Value::Array(list) => {
            let Some(items) = &schema.items else { return Ok(()) };
            for (index, value) in list.iter_mut().enumerate() {
                walk(value, items, &format!("{path}[{index}]"), unknown)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn members(
    object: &mut Object,
    schema: &Structural,
    whole: bool,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    if whole {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name)
                && !value.is_string()
            {
                return Err(FieldError::invalid(child(path, name), value, "must be a string"));
            }
        }
        match read_at(object, path) {
            Ok(found) => unknown.extend(found),
            Err(why) => {
                let shown = object.get("metadata").map_or(Shown::Bare("null".to_owned()), Shown::from);
                return Err(FieldError::invalid(child(path, "metadata"), shown, why));
            }
        }
    }
    if !schema.holds.embedded {
        return Ok(());
    }
    for (name, value) in object.iter_mut() {
        if let Some(property) = schema.property(name) {
            walk(value, property, &child(path, name), unknown)?;
        } else if let Some(additional) = schema.additional() {
            walk(value, additional, &format!("{path}[{name}]"), unknown)?;
        }
    }
    Ok(())
}

/// What is wrong with the whole objects inside an object.
pub fn validate(object: &Object, schema: &Structural, errors: &mut Errors) {
    validate_members(object, schema, "", errors);
}

/// What is wrong with a value at a path; `root` says that it is a whole object, whatever its schema says.
pub fn validate_value(value: &Value, schema: &Structural, root: bool, path: &str, errors: &mut Errors) {
    match value {
        Value::Object(object) => {
            if root || schema.embedded {
                validate_embedded(object, path, errors);
            }
            validate_members(object, schema, path, errors);
        }
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            for (index, value) in list.iter().enumerate() {
                validate_value(value, items, false, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn validate_members(object: &Object, schema: &Structural, path: &str, errors: &mut Errors) {
    if !schema.holds.embedded {
        return;
    }
    for (name, value) in object {
        if let Some(property) = schema.property(name) {
            validate_value(value, property, false, &child(path, name), errors);
        } else if let Some(additional) = schema.additional() {
            validate_value(value, additional, false, &format!("{path}[{name}]"), errors);
        }
    }
}

fn validate_embedded(object: &Object, path: &str, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        if !object.contains_key(name) {
            errors.push(FieldError::required(child(path, name), ""));
        }
    }
    for (name, value) in object {
        let field = child(path, name);
        match (name.as_str(), value) {
            ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, value, "must not be empty"));
            }
            ("apiVersion", Value::String(text)) if text.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid(field, value, why));
            }
            ("kind", Value::String(text)) => {
                let complaints = name::is_dns1035_label(&text.to_lowercase());
                if !complaints.is_empty() {
                    errors.push(FieldError::invalid(field, value, mixed_case(&complaints)));
                }
            }
            ("apiVersion" | "kind", value) if !value.is_string() => {
                errors.push(FieldError::invalid(field, value, "must be a string"));
            }
            ("metadata", value) => match decode_type(OBJECT_META, value) {
                Err(why) => errors.push(FieldError::invalid(field, value, why)),
                Ok((mut metadata, _)) => {
                    if metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
                        metadata.insert("name", Value::from("fakename"));
                    }
                    let namespaced = !metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty();
                    let mut found = Errors::new();
                    meta::validate(&metadata, namespaced, NameRule::PathSegment, &mut found);
                    errors.extend(
                        found.into_iter().map(|error| FieldError { field: child(path, &error.field), ..error }),
                    );
                }
            },
            _ => {}
        }
    }
}

/// What is said of a kind that is no name.
#[must_use]
pub fn mixed_case(complaints: &[String]) -> String {
    format!("may have mixed case, but should otherwise match: {}", complaints.join(","))
}

/// The path of a member.
#[must_use]
pub fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
