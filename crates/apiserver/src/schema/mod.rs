//! What the server knows of types: one table, and everything that follows from it.
//!
//! ```text
//!              table (muster-schema)
//!                    │
//!      ┌───────┬─────┴──────┬─────────────┬──────────┐
//!   decode  unstructured  strategic    managed    openapi
//!   (bodies) (patch results) (patches) (managedFields) (documents)
//! ```
//!
//! Every part works on `serde_json` trees and the table; none knows a kind by name, so a kind that the
//! table has is served without code of its own here.

pub mod decode;
mod fields;
pub mod go;
pub mod managed;
mod normal;
pub mod openapi;
mod scan;
pub mod strategic;
pub(crate) mod time;
mod unstructured;
mod yaml;

pub use muster_schema::{quantity, table};

pub(crate) use decode::DEEPEST;
pub use decode::{DecodeError, Format, Validation, decode, read_checked, read_json, read_noting, round_trip, summary};
pub use normal::base64;
pub use strategic::strategic_merge;
pub use unstructured::from_unstructured;
pub use yaml::{duplicates as yaml_duplicates, yaml_to_json};

use crate::model::{Model, Object};

/// A field of a kind with nothing in it, as Go writes it: the status of a new object.
#[must_use]
pub fn zero_field(model: &Model<'_>, field: &str) -> muster_tree::Value {
    let table = table::Table::get();
    let id = table.kind(model.group, model.version, model.kind);
    id.and_then(|id| table.ty(id).field(field)).map(|field| normal::zero(&field.shape)).unwrap_or_default()
}

/// An object of a kind with nothing in it, as Go writes it: what bookmarks are made of.
#[must_use]
pub fn zero(model: &Model<'_>) -> Object {
    let id = table::Table::get().kind(model.group, model.version, model.kind);
    let mut object = Object::new();
    object.insert("kind", model.kind.into());
    object.insert("apiVersion", crate::model::api_version(model.group, model.version).into());
    object.insert("metadata", Object::new().into());
    object.extend(id.map(normal::zero_struct).unwrap_or_default());
    object
}
