//! What the server knows of types: one table, and everything that follows from it.
//!
//! ```text
//!              table.deflate (written by tools/schema)
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
pub mod quantity;
mod scan;
pub mod strategic;
pub mod table;
mod time;
mod unstructured;
mod yaml;

pub use decode::{DecodeError, Format, Validation, decode, round_trip};
pub use strategic::strategic_merge;
pub use unstructured::from_unstructured;
pub use yaml::yaml_to_json;

/// A JSON object, as everything here takes and gives it.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// Parses JSON of any shape, with the reference's words for what is wrong with its syntax.
///
/// # Errors
///
/// The bare message, such as `unexpected end of JSON input`.
pub fn read_json(json: &[u8]) -> Result<serde_json::Value, String> {
    scan::check(json)?;
    serde_json::from_slice(json).map_err(|error| error.to_string())
}
