//! Protobuf answers: the envelope, and an object, a list or metadata by its type's field numbers (API-05).

use muster_tree::{Map, Value};

use super::{MAGIC, embedded};
use crate::schema::table::{Kind, Shape, Table, Type};

/// An object as a body; `None` where protobuf has no form for its kind.
pub(in crate::codec) fn body(value: &Value) -> Option<Vec<u8>> {
    let object = value.as_object()?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = message_of(api_version, kind, object)?;
    let mut type_meta = Vec::new();
    bytes(1, api_version.as_bytes(), &mut type_meta);
    bytes(2, kind.as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    bytes(1, &type_meta, &mut out);
    bytes(2, &raw, &mut out);
    // Neither encoded nor of another type.
    bytes(3, &[], &mut out);
    bytes(4, &[], &mut out);
    Some(out)
}

/// An event of a watch as a frame: its length in four bytes, and itself.
pub(in crate::codec) fn frame(word: &str, object: &Value) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    bytes(1, &body(object)?, &mut raw);
    let mut event = Vec::new();
    bytes(1, word.as_bytes(), &mut event);
    bytes(2, &raw, &mut event);
    let mut out = u32::try_from(event.len()).ok()?.to_be_bytes().to_vec();
    out.extend_from_slice(&event);
    Some(out)
}

fn message_of(api_version: &str, kind: &str, object: &Map) -> Option<Vec<u8>> {
    let table = Table::get();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(id) = table.kind(group, version, kind) {
        return Some(structure(table.ty(id), object, None));
    }
    match kind {
        "PartialObjectMetadata" => Some(metadata_only(object)),
        "PartialObjectMetadataList" => {
            let mut out = metadata(object, "ListMeta");
            let items = object.get("items").and_then(Value::as_array).map_or(&[][..], muster_tree::List::as_slice);
            items.iter().filter_map(Value::as_object).for_each(|item| bytes(2, &metadata_only(item), &mut out));
            Some(out)
        }
        _ => None,
    }
}

fn metadata_only(object: &Map) -> Vec<u8> {
    metadata(object, "ObjectMeta")
}

/// The metadata of an object or a list, as its first field.
fn metadata(object: &Map, ty: &str) -> Vec<u8> {
    let table = Table::get();
    let mut out = Vec::new();
    let ty = table.named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{ty}"));
    if let (Some(id), Some(Value::Object(metadata))) = (ty, object.get("metadata")) {
        bytes(1, &structure(table.ty(id), metadata, None), &mut out);
    }
    out
}

/// The fields of a struct, or those of one that it embeds under a number of its own, in the order of their numbers.
fn structure(ty: &'static Type, object: &Map, inline: Option<usize>) -> Vec<u8> {
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    for declared in &ty.fields {
        let here = declared.inline == inline
            || (inline.is_none() && declared.inline.is_some_and(|index| ty.inlines[index].tag == 0));
        if let Some(value) = object.get(declared.json).filter(|_| here && declared.tag != 0) {
            let mut part = Vec::new();
            field(declared.tag, &declared.shape, value, &mut part);
            parts.push((declared.tag, part));
        }
    }
    for index in embedded(ty, inline) {
        let (mut part, tag) = (Vec::new(), ty.inlines[index].tag);
        bytes(tag, &structure(ty, object, Some(index)), &mut part);
        parts.push((tag, part));
    }
    parts.sort_by_key(|(number, _)| *number);
    parts.into_iter().flat_map(|(_, part)| part).collect()
}

/// A field with its number; nothing for null.
fn field(number: u32, shape: &'static Shape, value: &Value, out: &mut Vec<u8>) {
    match (&shape.kind, value) {
        // A null among the values of a list.
        (Kind::Json, Value::Null) => bytes(number, &[], out),
        (_, Value::Null) => {}
        (Kind::List(element), Value::Array(items)) => items.iter().for_each(|item| field(number, element, item, out)),
        (Kind::Map(element), Value::Object(members)) => {
            for (key, value) in members {
                let mut entry = Vec::new();
                bytes(1, key.as_bytes(), &mut entry);
                if let Kind::List(_) = element.kind {
                    // There are no maps of lists: each list is in a message of its own.
                    let mut list = Vec::new();
                    field(1, element, value, &mut list);
                    bytes(2, &list, &mut entry);
                } else {
                    field(2, element, value, &mut entry);
                }
                bytes(number, &entry, out);
            }
        }
        (Kind::Int32 | Kind::Int64, value) => varint_field(number, value.as_i64().unwrap_or_default(), out),
        (Kind::Bool, value) => varint_field(number, i64::from(value == &Value::Bool(true)), out),
        (Kind::Float, value) => {
            key(number, 1, out);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_bits().to_le_bytes());
        }
        (_, value) => bytes(number, &content(shape, value), out),
    }
}

/// The content of a field that stands there with its length.
fn content(shape: &'static Shape, value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    let mut out = Vec::new();
    match &shape.kind {
        Kind::Bytes => {
            use base64::Engine as _;
            // What is stored has been read as base64.
            return base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        }
        Kind::Quantity => bytes(1, text.as_bytes(), &mut out),
        Kind::Time | Kind::MicroTime => {
            let (seconds, nanos) = crate::schema::time::parts(text).unwrap_or_default();
            varint_field(1, seconds, &mut out);
            varint_field(2, nanos, &mut out);
        }
        Kind::IntOrString => {
            varint_field(1, i64::from(value.is_string()), &mut out);
            varint_field(2, value.as_i64().unwrap_or_default(), &mut out);
            bytes(3, text.as_bytes(), &mut out);
        }
        Kind::Fields | Kind::Raw | Kind::Json => bytes(1, value.to_string().as_bytes(), &mut out),
        Kind::Either(id) => {
            let ty = Table::get().ty(*id);
            let first = match value {
                Value::Object(_) => b'{',
                Value::Array(_) => b'[',
                _ => b't',
            };
            if let (b'{', Some(allows)) = (first, ty.either(b't')) {
                varint_field(allows.tag, 1, &mut out);
            }
            if let Some(chosen) = ty.either(first) {
                field(chosen.tag, &chosen.shape, value, &mut out);
            }
        }
        Kind::Struct(id) => {
            if let Value::Object(members) = value {
                return structure(Table::get().ty(*id), members, None);
            }
        }
        _ => return text.as_bytes().to_vec(),
    }
    out
}

fn key(number: u32, wire: u8, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | u64::from(wire), out);
}

pub(in crate::codec) fn varint_field(number: u32, value: i64, out: &mut Vec<u8>) {
    key(number, 0, out);
    // A negative number is written as the 64 bits that it is.
    #[allow(clippy::cast_sign_loss)]
    varint(value as u64, out);
}

pub(in crate::codec) fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    key(number, 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        // The low seven bits, and the mark that more follow.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::super::{object, open};
    use super::*;

    /// What protobuf does not tell from what is not there.
    fn without_empty(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(without_empty);
                members.retain(|_, value| !value.is_null() && *value != json!({}) && *value != json!([]));
            }
            Value::Array(items) => items.iter_mut().for_each(without_empty),
            _ => {}
        }
    }

    fn read_back(value: &Value) -> Value {
        let body = body(value).expect("protobuf has a form for it");
        let unknown = open(&body).expect("an envelope");
        let (group, version) = unknown.api_version.split_once('/').unwrap_or(("", &unknown.api_version));
        let table = Table::get();
        let id = table.kind(group, version, &unknown.kind).expect("the type is known");
        let mut read = object(table.ty(id), unknown.raw).expect("an object");
        read.insert("apiVersion", json!(unknown.api_version));
        read.insert("kind", json!(unknown.kind));
        Value::Object(read)
    }

    /// Every object that the reference server stored in the vectors.
    ///
    /// Contract: API-05
    #[test]
    fn what_is_written_is_read_back() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../tests/vectors/kinds.json")).expect("the vectors are JSON");
        let mut seen = 0;
        for group in vectors["kinds"].as_array().expect("a list") {
            let all = ["creates", "updates"].map(|list| group[list].as_array().expect("a list"));
            for vector in all.into_iter().flatten() {
                let Some(mut object) = vector.get("stored").cloned() else { continue };
                let table = Table::get();
                let kinds = crate::kinds::all();
                let known = kinds.iter().map(|kind| kind.resource());
                let resource = known.into_iter().find(|r| *r.kind == group["kind"]).expect("a served kind");
                assert!(table.kind(&resource.group, &resource.version, &resource.kind).is_some());
                object["apiVersion"] = json!(crate::model::api_version(&resource.group, &resource.version));
                object["kind"] = json!(resource.kind);
                object["metadata"] = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:01Z"});
                let mut read = read_back(&object);
                without_empty(&mut read);
                without_empty(&mut object);
                assert_eq!(read, object);
                seen += 1;
            }
        }
        assert!(seen > 150, "{seen}");
    }

    /// Contract: API-05, API-28
    #[test]
    fn types_with_two_forms_and_nested_embeddings_are_read_back() {
        let schema = json!({
            "type": "object",
            "properties": {
                "one": {"items": {"type": "string"}, "default": {"a": [1, null]}, "additionalItems": false},
                "many": {"items": [{"type": "string"}, {"type": "integer"}], "enum": ["a", 1]},
                "open": {"additionalProperties": true, "maximum": 1.5},
                "typed": {"additionalProperties": {"type": "string"}},
                "bound": {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            },
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "a"},
            "spec": {"group": "g", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
        });
        assert_eq!(read_back(&definition), definition);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "a"},
            "spec": {"matchConstraints": {"resourceRules": [{
                "resourceNames": ["n"],
                "operations": ["CREATE"],
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "resources": ["deployments"],
                "scope": "*",
            }]}},
        });
        assert_eq!(read_back(&policy), policy);
        // The rule stands in a message of its own, in that of the operations.
        let written = body(&policy).expect("protobuf has a form for it");
        let nested = b"\x0a\x06CREATE\x12\x1a\x0a\x04apps\x12\x02v1\x1a\x0bdeployments\"\x01*";
        assert!(written.windows(nested.len()).any(|w| w == nested), "{written:?}");
        // A schema in place of a boolean says that more is allowed as well.
        let allows = b"\x08\x01\x12\x08\x2a\x06string";
        let written = body(&definition).expect("protobuf has a form for it");
        assert!(written.windows(allows.len()).any(|w| w == allows), "{written:?}");
    }

    /// Contract: API-05, API-32
    #[test]
    fn a_list_in_a_map_stands_in_a_message_of_its_own() {
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "a"},
            "spec": {"extra": {"k": ["v", "w"], "none": []}},
        });
        assert_eq!(read_back(&request), request);
        let written = body(&request).expect("protobuf has a form for it");
        let entry = b"\x0a\x01k\x12\x06\x0a\x01v\x0a\x01w";
        assert!(written.windows(entry.len()).any(|w| w == entry), "{written:?}");
    }

    /// Contract: API-05
    #[test]
    fn lists_and_metadata_have_forms_and_tables_have_none() {
        let item = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let list = json!({
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "7", "remainingItemCount": 3},
            "items": [item, item],
        });
        let written = body(&list).expect("protobuf has a form for it");
        let unknown = open(&written).expect("an envelope");
        assert_eq!((unknown.api_version.as_str(), unknown.kind.as_str()), ("v1", "ConfigMapList"));
        // ListMeta: the version and the count. Then the first item.
        assert_eq!(unknown.raw[..9], [10, 5, 18, 1, b'7', 32, 3, 18, 13]);

        let partial =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
        let written = body(&partial).expect("protobuf has a form for it");
        assert_eq!(open(&written).expect("an envelope").raw, [10, 3, 10, 1, b'a']);
        let partials = json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7"},
            "items": [partial],
        });
        let written = body(&partials).expect("protobuf has a form for it");
        assert_eq!(open(&written).expect("an envelope").raw, [10, 3, 18, 1, b'7', 18, 5, 10, 3, 10, 1, b'a']);
        assert_eq!(body(&json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})), None);
    }

    /// Contract: API-09
    #[test]
    fn a_frame_begins_with_its_length() {
        let config_map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
        let frame = frame("ADDED", &config_map).expect("protobuf has a form for it");
        let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
        assert_eq!(length as usize, frame.len() - 4);
        assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
        let inner = body(&config_map).expect("protobuf has a form for it");
        assert!(frame.ends_with(&inner));
    }
}
