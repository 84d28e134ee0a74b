//! JSON with its members in the order in which Go's types declare them, as some messages show it.

use serde_json::{Map, Value};

use super::Model;
use crate::codec::json_patch::Touched;
use crate::schema::table::{Kind, Shape, Table, Type};

/// An object that a patch may have gone through: what it opened is sorted, the rest is in the types' order.
pub(super) fn to_string(model: &Model<'_>, value: &Value, touched: Option<&Touched>) -> String {
    let table = Table::get();
    let ty = table.kind(model.group, model.version, model.kind).map(|id| table.ty(id));
    let mut out = String::new();
    write(&mut out, value, ty.map(Place::Struct), touched);
    out
}

/// What the schema says of a place.
#[derive(Clone, Copy)]
enum Place {
    Struct(&'static Type),
    Shape(&'static Shape),
}

impl Place {
    fn new(shape: &'static Shape) -> Self {
        match &shape.kind {
            Kind::Struct(id) => Self::Struct(Table::get().ty(*id)),
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

fn write(out: &mut String, value: &Value, place: Option<Place>, touched: Option<&Touched>) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (index, key) in keys(members, place, touched).into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                text(out, key);
                out.push(':');
                let below = touched.and_then(|t| t.below(key));
                write(out, &members[key], place.and_then(|p| p.member(key)), below);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let below = touched.and_then(|t| t.below(&index.to_string()));
                write(out, item, place.and_then(Place::element), below);
            }
            out.push(']');
        }
        Value::String(s) => text(out, s),
        other => out.push_str(&other.to_string()),
    }
}

fn keys<'v>(members: &'v Map<String, Value>, place: Option<Place>, touched: Option<&Touched>) -> Vec<&'v str> {
    let mut keys: Vec<&str> = members.keys().map(String::as_str).collect();
    keys.sort_unstable();
    if let (Some(Place::Struct(ty)), None) = (place, touched) {
        keys.sort_by_key(|key| ty.index(key).unwrap_or(usize::MAX));
    }
    keys
}

/// A string as Go's encoder writes it: safe inside HTML.
fn text(out: &mut String, s: &str) {
    let quoted = Value::from(s).to_string();
    for c in quoted.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
}
