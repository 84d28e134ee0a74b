//! What every cached kind has in common: metadata, and a decoder from the bytes that it travels in.

use crate::intern::Interner;
use crate::meta::Meta;
use crate::protobuf;

/// Decodes one object from its bytes, sharing recurring strings through the interner.
pub type Decoder<T> = fn(&[u8], &mut Interner) -> Result<T, DecodeError>;

/// A Kubernetes object in the slim form that a cache holds.
///
/// Implementations decode only what some controller reads. Fields they do not know are skipped.
pub trait Object: Send + Sync + Sized + 'static {
    /// The group and version, as an object's `apiVersion` spells it: `v1`, `apps/v1`.
    const API_VERSION: &'static str;
    /// The kind, as an object's `kind` spells it: `Pod`.
    const KIND: &'static str;
    /// The decoder from the object's protobuf message, for a kind that is read in protobuf where the
    /// server has it. It gives what [`Object::decode`] gives from the same object's JSON.
    const PROTOBUF: Option<Decoder<Self>> = None;

    /// The object's metadata.
    fn meta(&self) -> &Meta;

    /// Decodes one object from its JSON, sharing recurring strings through `interner`.
    ///
    /// `apiVersion` and `kind` are not looked at: the items of a list do not carry them.
    ///
    /// # Errors
    ///
    /// Where the bytes are not JSON, or a field that is read has another type than the API's.
    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError>;
}

/// Why bytes could not be decoded into an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode {kind}: {source}")]
pub struct DecodeError {
    /// What was being decoded: a kind, or the name of an envelope such as `watch event`.
    pub kind: &'static str,
    /// What the parser found.
    #[source]
    pub source: Unreadable,
}

/// What is wrong with bytes, by the form that they should have.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// What the JSON parser found, with line and column.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// What the reader of protobuf found.
    #[error(transparent)]
    Protobuf(#[from] protobuf::Malformed),
}

impl DecodeError {
    /// An adapter for `map_err` that remembers what was being decoded.
    pub fn of<E: Into<Unreadable>>(kind: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self { kind, source: error.into() }
    }
}
