//! Places in an object, and how field managers share what is there.

use muster_tree::{Map, Text, Value};

use super::open::{Atom, Items, Members, Node, Scalar};
use crate::schema::fields;
use crate::schema::table::{Field, Kind, Shape, Table, Topology, TypeId};

/// A place in the object: its type, and how managers share it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// A whole object of the table.
    Whole(TypeId),
    /// A value of a type of the table, and the field that holds it, where it is a field.
    Typed(&'a Shape, Option<&'a Field>),
    /// A value that is what it looks like.
    Atom(&'a Atom),
    /// A map.
    Members(&'a Members),
    /// A list.
    Items(&'a Items),
    /// A scalar.
    Scalar(Scalar),
    /// Anything, of which each member of a map is owned for itself.
    Deduced,
    /// A map of such.
    DeducedMap,
    /// Anything, owned as a whole.
    Untyped,
}

/// What a value at a place has to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    /// A map.
    Map,
    /// A list.
    List,
    /// A scalar of the table.
    Leaf(&'a Kind),
    /// A scalar.
    Scalar(Scalar),
    /// Anything.
    Any,
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
        Self::Typed(&field.shape, Some(field))
    }

    /// An element, or a member of a map.
    pub(super) fn of(shape: &'a Shape) -> Self {
        Self::Typed(shape, None)
    }

    /// A type that came at run time.
    pub(super) fn node(node: &'a Node) -> Self {
        match node {
            Node::Typed(shape) => Self::of(shape),
            Node::Scalar(scalar) => Self::Scalar(*scalar),
            Node::Atom(atom) => Self::Atom(atom),
            Node::Deduced => Self::Deduced,
            Node::Untyped => Self::Untyped,
        }
    }

    /// The place, where a value stands there: what may be several things is what the value is.
    pub(super) fn seen(self, value: Option<&Value>) -> Self {
        match (self, value) {
            (Self::Deduced, Some(Value::Object(_))) => Self::DeducedMap,
            (Self::Deduced, _) => Self::Untyped,
            (Self::Atom(atom), value) => {
                let map = || atom.map.as_ref().map(Self::Members);
                let list = || atom.list.as_ref().map(Self::Items);
                let scalar = || atom.scalar.map(Self::Scalar);
                let fits = match value {
                    Some(Value::Object(_)) => map(),
                    Some(Value::Array(_)) => list(),
                    None | Some(Value::Null) => None,
                    Some(_) => scalar(),
                };
                fits.or_else(map).or_else(scalar).or_else(list).unwrap_or(Self::Untyped)
            }
            (place, _) => place,
        }
    }

    fn struct_id(self) -> Option<TypeId> {
        match self {
            Self::Whole(id) => Some(id),
            Self::Typed(Shape { kind: Kind::Struct(id), .. }, _) => Some(*id),
            _ => None,
        }
    }

    fn members(self) -> Option<&'a Members> {
        match self {
            Self::Atom(atom) => atom.map.as_ref(),
            Self::Members(members) => Some(members),
            _ => None,
        }
    }

    /// What a value here has to be.
    pub(super) fn form(self) -> Form<'a> {
        match self {
            Self::Whole(_) | Self::Members(_) | Self::DeducedMap => Form::Map,
            Self::Typed(shape, _) => match &shape.kind {
                Kind::Struct(_) | Kind::Map(_) => Form::Map,
                Kind::List(_) => Form::List,
                kind => Form::Leaf(kind),
            },
            Self::Items(_) => Form::List,
            Self::Scalar(scalar) => Form::Scalar(scalar),
            Self::Atom(_) | Self::Deduced | Self::Untyped => Form::Any,
        }
    }

    /// The field or member with this name. `None` where a struct does not have it, or there are no members.
    pub(super) fn member(self, name: &str) -> Option<Place<'a>> {
        if let Some(id) = self.struct_id() {
            return Table::get().ty(id).field(name).map(Place::field);
        }
        match self {
            Self::Typed(Shape { kind: Kind::Map(inner), .. }, _) => Some(Place::of(inner)),
            Self::Deduced | Self::DeducedMap => Some(Self::Deduced),
            _ => {
                let members = self.members()?;
                let named = members.member(name).map(|member| &member.node);
                named.or(members.others.as_deref()).map(Self::node)
            }
        }
    }

    /// Whether there is a field of this name.
    pub(super) fn declares(self, name: &str) -> bool {
        match self.struct_id() {
            Some(id) => Table::get().ty(id).field(name).is_some(),
            None => self.members().is_some_and(|members| members.member(name).is_some()),
        }
    }

    /// The path element of a field or member with this name, which is this place.
    pub(super) fn path(self, name: &str) -> String {
        if let Self::Typed(_, Some(field)) = self {
            return field.path.clone();
        }
        let mut out = String::with_capacity(name.len() + 2);
        out.push_str("f:");
        out.push_str(name);
        out
    }

    /// What the elements of a list are.
    pub(super) fn element(self) -> Option<Place<'a>> {
        match self {
            Self::Typed(Shape { kind: Kind::List(inner), .. }, _) => Some(Place::of(inner)),
            Self::Items(items) => Some(Self::node(&items.element)),
            Self::Atom(atom) => atom.list.as_ref().map(|items| Self::node(&items.element)),
            _ => None,
        }
    }

    /// The path element of one of the elements.
    pub(super) fn element_path(self, item: &Value) -> Result<String, String> {
        match self {
            Self::Typed(Shape { kind: Kind::List(inner), .. }, field) => {
                let keys = field.map_or(&[][..], |f| f.list_keys.as_slice());
                let Kind::Struct(id) = inner.kind else {
                    return if keys.is_empty() { value_path(item) } else { Err(NO_MAPS.to_owned()) };
                };
                element_path(keys, item, |key| Table::get().ty(id).field(key).and_then(default))
            }
            Self::Items(items) => {
                let element = Self::node(&items.element);
                element_path(&items.keys, item, |key| element.members()?.member(key)?.default.as_deref().cloned())
            }
            _ => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    /// How managers share it.
    pub(super) fn topology(self) -> Topology {
        match self {
            Self::Whole(id) if Table::get().ty(id).atomic => Topology::Atomic,
            Self::Typed(shape, field) => {
                let declared = field.map_or(Topology::Default, |f| f.topology);
                match (&shape.kind, declared) {
                    (Kind::List(_), Topology::Default) => Topology::Atomic,
                    (Kind::Struct(id), Topology::Default) if Table::get().ty(*id).atomic => Topology::Atomic,
                    (_, declared) => declared,
                }
            }
            Self::Members(members) if members.atomic => Topology::Atomic,
            Self::Items(items) => items.topology,
            Self::Untyped => Topology::Atomic,
            _ => Topology::Default,
        }
    }

    /// What managers own of it.
    pub(super) fn granularity(self) -> Granularity {
        match (self.form(), self.topology()) {
            (_, Topology::Atomic) => Granularity::Whole,
            (Form::Map, _) => Granularity::Members,
            (Form::List, _) => Granularity::Elements,
            _ => Granularity::Whole,
        }
    }
}

const NO_MAPS: &str = "associative list may not have non-map types";

/// The path element of a set's element.
fn value_path(item: &Value) -> Result<String, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(format!("v:{scalar}")),
    }
}

/// The path element of a list's element.
///
/// # Errors
///
/// What the element lacks, in the reference's words.
fn element_path<K: AsRef<str>>(
    keys: &[K],
    item: &Value,
    default: impl Fn(&str) -> Option<Value>,
) -> Result<String, String> {
    if keys.is_empty() {
        return value_path(item);
    }
    let entries = match item {
        Value::Object(entries) => entries,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    if let [key] = keys
        && let Some(Value::String(value)) = entries.get(key.as_ref())
    {
        // By far the most common: one key, a string.
        let key = key.as_ref();
        let mut out = Vec::with_capacity(key.len() + value.len() + 9);
        out.extend_from_slice(b"k:{\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        muster_tree::write_text(&mut out, value);
        out.push(b'}');
        // What is written of strings is UTF-8.
        return Ok(String::from_utf8(out).unwrap_or_default());
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let key = key.as_ref();
        let value = entries.get(key).cloned().or_else(|| default(key));
        // An element that lacks a key is another one than any that has it.
        found.extend(value.map(|value| (Text::from(key), value)));
    }
    if found.is_empty() {
        let quoted: Vec<String> = keys.iter().map(|k| crate::field::go_quote(k.as_ref())).collect();
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
        Kind::String => Some(Value::String(String::new().into())),
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
            let keys: Map = serde_json::from_str(rest).unwrap_or_default();
            let mut keys: Vec<(&Text, &Value)> = keys.iter().collect();
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
        Value::Object(members) => members.iter().map(|(name, value)| format!("{name}={}", scalar(value))).collect(),
        other => other.to_string(),
    }
}
