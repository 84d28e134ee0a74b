//! JSON with its members in the order in which Go's types declare them, as answers and some messages show it.

use muster_tree::{Map, Text, Value};
use serde::{Serialize, Serializer};

use super::Model;
use crate::codec::json_patch::Touched;
use crate::model::json;
use crate::schema::openapi::STATUS;
use crate::schema::table::{Kind, Shape, Table, Type, TypeId};

/// What the reference writes first of an object whose type the table does not have.
const FIRST: &[&str] = &["kind", "apiVersion", "metadata"];

/// An object that a patch may have gone through: what it opened is sorted, the rest is in the types' order.
pub(super) fn to_string(model: &Model<'_>, value: &Value, touched: Option<&Touched>) -> String {
    let place = Table::get().kind(model.group, model.version, model.kind).map(Place::of);
    let mut out = Vec::new();
    json::write_for_html(&mut out, &Ordered { value, place, touched, first: &[] }, false);
    // What is serialised from strings is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// An answer of any type, as the reference writes it (API-35).
pub(super) fn write(out: &mut Vec<u8>, value: &Value, pretty: bool) {
    json::write_for_html(out, &Ordered { value, place: place_of(value), touched: None, first: FIRST }, pretty);
}

/// What the table says of an answer, by what it says of itself.
fn place_of(value: &Value) -> Option<Place> {
    let table = Table::get();
    let (kind, api_version) = (value["kind"].as_str()?, value["apiVersion"].as_str()?);
    if (kind, api_version) == ("Status", "v1") {
        return table.named(STATUS).map(Place::of);
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    table.kind(group, version, kind).map(Place::of)
}

/// What the schema says of a place.
#[derive(Clone, Copy)]
enum Place {
    Struct(&'static Type),
    Shape(&'static Shape),
}

impl Place {
    fn of(id: TypeId) -> Self {
        Self::Struct(Table::get().ty(id))
    }

    fn new(shape: &'static Shape) -> Self {
        match &shape.kind {
            Kind::Struct(id) => Self::of(*id),
            _ => Self::Shape(shape),
        }
    }

    fn member(self, key: &str) -> Option<Self> {
        match self {
            Self::Struct(ty) => ty.field(key).map(|field| Self::new(&field.shape)),
            Self::Shape(Shape { kind: Kind::Map(inner), .. }) => Some(Self::new(inner)),
            Self::Shape(_) => None,
        }
    }

    fn element(self) -> Option<Self> {
        match self {
            Self::Shape(Shape { kind: Kind::List(inner), .. }) => Some(Self::new(inner)),
            _ => None,
        }
    }
}

/// A value whose members come in the order of its type; those of what has no type are sorted.
struct Ordered<'v> {
    value: &'v Value,
    place: Option<Place>,
    touched: Option<&'v Touched>,
    /// Of the outermost object without a type, what every object begins with.
    first: &'static [&'static str],
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { value, place, touched, first } = *self;
        match value {
            Value::Object(members) => to.collect_map(keys(members, place, touched, first).into_iter().map(|key| {
                let (place, touched) = (place.and_then(|p| p.member(key)), touched.and_then(|t| t.below(key)));
                (key, Ordered { value: &members[key], place, touched, first: &[] })
            })),
            Value::Array(items) => to.collect_seq(items.iter().enumerate().map(|(index, value)| {
                let touched = touched.and_then(|t| t.below(&index.to_string()));
                Ordered { value, place: place.and_then(Place::element), touched, first: &[] }
            })),
            other => other.serialize(to),
        }
    }
}

fn keys<'v>(members: &'v Map, place: Option<Place>, touched: Option<&Touched>, first: &[&str]) -> Vec<&'v str> {
    let mut keys: Vec<&str> = members.keys().map(Text::as_str).collect();
    keys.sort_unstable();
    match (place, touched) {
        (Some(Place::Struct(ty)), None) => keys.sort_by_key(|key| ty.index(key).unwrap_or(usize::MAX)),
        _ if first.is_empty() => {}
        _ => keys.sort_by_key(|key| first.iter().position(|first| first == key).unwrap_or(usize::MAX)),
    }
    keys
}
