//! Places in an object, and how field managers share what is there.

use serde_json::{Map, Value};

use crate::schema::fields;
use crate::schema::table::{Field, Kind, Shape, Table, Topology};

/// A place in the object: its type, and how managers share it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Its type.
    pub(super) shape: &'a Shape,
    /// The field that holds it, where it is a field.
    pub(super) field: Option<&'a Field>,
}

/// What managers own of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    /// The whole.
    Whole,
    /// Each field or member.
    Members,
    /// Each element.
    Elements,
}

impl<'a> Place<'a> {
    /// The place of a field.
    pub(super) fn field(field: &'a Field) -> Self {
        Self { shape: &field.shape, field: Some(field) }
    }

    /// A whole object of a type, or an element.
    pub(super) fn of(shape: &'a Shape) -> Self {
        Self { shape, field: None }
    }

    /// The field or member with this name. `None` where a struct does not have it, or there are no members.
    pub(super) fn member(self, name: &str) -> Option<Place<'a>> {
        match &self.shape.kind {
            Kind::Struct(id) => Table::get().ty(*id).field(name).map(Place::field),
            Kind::Map(inner) => Some(Place::of(inner)),
            _ => None,
        }
    }

    /// What the elements of a list are.
    pub(super) fn element(self) -> Option<Place<'a>> {
        match &self.shape.kind {
            Kind::List(inner) => Some(Place::of(inner)),
            _ => None,
        }
    }

    /// The path element of one of the elements.
    pub(super) fn element_path(self, item: &Value) -> Result<String, String> {
        match &self.shape.kind {
            Kind::List(inner) => element_path(inner, self.field, item),
            _ => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    /// How managers share it.
    pub(super) fn topology(self) -> Topology {
        let declared = self.field.map_or(Topology::Default, |f| f.topology);
        match (&self.shape.kind, declared) {
            (Kind::List(_), Topology::Default) => Topology::Atomic,
            (Kind::Struct(id), Topology::Default) if Table::get().ty(*id).atomic => Topology::Atomic,
            (_, declared) => declared,
        }
    }

    /// What managers own of it.
    pub(super) fn granularity(self) -> Granularity {
        match (&self.shape.kind, self.topology()) {
            (_, Topology::Atomic) => Granularity::Whole,
            (Kind::Struct(_) | Kind::Map(_), _) => Granularity::Members,
            (Kind::List(_), _) => Granularity::Elements,
            _ => Granularity::Whole,
        }
    }
}

/// The path element of a list's element.
///
/// # Errors
///
/// What the element lacks, in the reference's words.
pub(super) fn element_path(inner: &Shape, field: Option<&Field>, item: &Value) -> Result<String, String> {
    let keys = field.map_or(&[][..], |f| f.list_keys.as_slice());
    if keys.is_empty() {
        return match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(format!("v:{scalar}")),
        };
    }
    let Kind::Struct(id) = inner.kind else { return Err("associative list may not have non-map types".to_owned()) };
    let entries = match item {
        Value::Object(entries) => entries,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    if let ([key], Some(Value::String(value))) = (keys, entries.get(keys[0])) {
        // By far the most common: one key, a string.
        let mut out = String::with_capacity(key.len() + value.len() + 9);
        out.push_str("k:{\"");
        out.push_str(key);
        out.push_str("\":");
        out.push_str(&Value::String(value.clone()).to_string());
        out.push('}');
        return Ok(out);
    }
    let ty = Table::get().ty(id);
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let value = entries.get(*key).cloned().or_else(|| ty.field(key).and_then(default));
        // An element that lacks a key is another one than any that has it.
        found.extend(value.map(|value| ((*key).to_owned(), value)));
    }
    if found.is_empty() {
        let quoted: Vec<String> = keys.iter().map(|k| crate::field::go_quote(k)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            quoted.join(" ")
        ));
    }
    Ok(fields::element_key(found))
}

/// The default of a field: by its marker, or the empty value of what Go always writes.
fn default(field: &Field) -> Option<Value> {
    if let Some(marker) = field.markers.split(';').find_map(|m| m.strip_prefix("default=")) {
        return serde_json::from_str(marker).ok();
    }
    if field.omitted || field.pointer {
        return None;
    }
    match field.shape.kind {
        Kind::String => Some(Value::String(String::new())),
        Kind::Int32 | Kind::Int64 | Kind::Float => Some(Value::from(0)),
        Kind::Bool => Some(Value::Bool(false)),
        _ => None,
    }
}

/// A path element as messages show it: `.name`, `[name="c"]`, `[="x"]`, `[0]`.
pub(super) fn shown(element: &str) -> String {
    let Some((kind, rest)) = element.split_once(':') else { return element.to_owned() };
    match kind {
        "f" => format!(".{rest}"),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let mut keys: Vec<(&String, &Value)> = keys.iter().collect();
            keys.sort_by_key(|(name, _)| *name);
            let parts: Vec<String> =
                keys.into_iter().map(|(name, value)| format!("{name}={}", scalar(value))).collect();
            format!("[{}]", parts.join(","))
        }
        "v" => format!("[={}]", serde_json::from_str(rest).map_or_else(|_| rest.to_owned(), |v| scalar(&v))),
        _ => format!("[{rest}]"),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => crate::field::go_quote(text),
        other => other.to_string(),
    }
}
