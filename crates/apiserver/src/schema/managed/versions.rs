//! One object in the versions of its kind that its managers wrote.

use serde_json::Value;

use crate::schema::Object;
use crate::schema::table::{Kind, Shape, Table, TypeId};

/// Tells an object, which says what it is, in another `apiVersion`; `None` where there is no such version.
pub type Convert<'a> = dyn Fn(&Object, &str) -> Option<Object> + 'a;

/// The versions of a kind.
pub(super) struct Versions<'a> {
    kind: &'a str,
    own: String,
    convert: &'a Convert<'a>,
}

impl<'a> Versions<'a> {
    /// The versions of a kind, of which one is applied.
    pub(super) fn new(group: &str, version: &str, kind: &'a str, convert: &'a Convert<'a>) -> Self {
        let own = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Self { kind, own, convert }
    }

    /// The `apiVersion` that is applied.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// The type of an `apiVersion`.
    pub(super) fn type_of(&self, api_version: &str) -> Option<TypeId> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Table::get().kind(group, version, self.kind)
    }

    /// As [`Versions::type_of`], as the shape of a place.
    pub(super) fn shape_of(&self, api_version: &str) -> Option<Shape> {
        Some(Shape { kind: Kind::Struct(self.type_of(api_version)?), named: None })
    }

    /// An object in an `apiVersion`.
    pub(super) fn tell(&self, object: &Value, api_version: &str) -> Option<Value> {
        if object["apiVersion"] == api_version {
            return Some(object.clone());
        }
        (self.convert)(object.as_object()?, api_version).map(Value::Object)
    }
}
