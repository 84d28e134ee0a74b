//! `/openapi/v2` in protobuf, the form in which client-go asks for it: the messages of gnostic's `openapi.v2`.

use muster_tree::{Map, Value};

use super::protobuf::write::{bytes, varint_field};

/// A document with a title, a version and definitions.
#[must_use]
pub fn to_protobuf(document: &Value) -> Vec<u8> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut info = Vec::new();
    bytes(1, text("/info/title").as_bytes(), &mut info);
    bytes(2, text("/info/version").as_bytes(), &mut info);
    let mut out = Vec::new();
    bytes(1, text("/swagger").as_bytes(), &mut out);
    bytes(2, &info, &mut out);
    // No paths.
    bytes(8, &[], &mut out);
    bytes(9, &named(document.get("definitions")), &mut out);
    out
}

/// Schemas by name.
fn named(schemas: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in schemas.and_then(Value::as_object).into_iter().flatten() {
        bytes(1, &pair(name, &schema(value)), &mut out);
    }
    out
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(1, name.as_bytes(), &mut out);
    bytes(2, value, &mut out);
    out
}

fn schema(value: &Value) -> Vec<u8> {
    let none = Map::new();
    let fields = value.as_object().unwrap_or(&none);
    let mut out = Vec::new();
    for (number, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        if let Some(text) = fields.get(name).and_then(Value::as_str) {
            bytes(number, text.as_bytes(), &mut out);
        }
    }
    if let Some(default) = fields.get("default") {
        bytes(5, &any(default), &mut out);
    }
    let list = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    list("required").filter_map(Value::as_str).for_each(|name| bytes(19, name.as_bytes(), &mut out));
    list("enum").for_each(|value| bytes(20, &any(value), &mut out));
    match fields.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Vec::new();
            varint_field(2, i64::from(*allowed), &mut item);
            bytes(21, &item, &mut out);
        }
        Some(value) => bytes(21, &only(&schema(value)), &mut out),
        None => {}
    }
    if let Some(kind) = fields.get("type").and_then(Value::as_str) {
        bytes(22, &only(kind.as_bytes()), &mut out);
    }
    if let Some(items) = fields.get("items") {
        bytes(23, &only(&schema(items)), &mut out);
    }
    if fields.contains_key("properties") {
        bytes(25, &named(fields.get("properties")), &mut out);
    }
    if let Some(docs) = fields.get("externalDocs").and_then(Value::as_object) {
        let mut message = Vec::new();
        for (number, name) in [(1, "description"), (2, "url")] {
            if let Some(text) = docs.get(name).and_then(Value::as_str) {
                bytes(number, text.as_bytes(), &mut message);
            }
        }
        bytes(29, &message, &mut out);
    }
    if let Some(example) = fields.get("example") {
        bytes(30, &any(example), &mut out);
    }
    for (name, value) in fields.iter().filter(|(name, _)| name.starts_with("x-")) {
        bytes(31, &pair(name, &any(value)), &mut out);
    }
    out
}

/// A message with one field.
fn only(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(1, content, &mut out);
    out
}

/// Any value, as YAML; JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(2, value.to_string().as_bytes(), &mut out);
    out
}
