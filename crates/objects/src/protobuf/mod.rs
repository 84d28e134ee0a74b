//! Kubernetes' protobuf, read for the few fields that matter (`application/vnd.kubernetes.protobuf`).
//!
//! ```text
//!   body:   k8s\0 Unknown{ typeMeta{apiVersion, kind}, raw }        raw: the object's message
//!   watch:  length WatchEvent{ type, object{ raw: a body } }        length: 4 bytes, big endian
//! ```
//!
//! Only pods are read in it. They are the mass of what a controller reads, and nothing of a pod is handed
//! on. A ReplicaSet, a ReplicationController and a Deployment carry a pod template that goes on byte for
//! byte as JSON; out of protobuf that could only be made by knowing every field of every type, and a
//! field that is not known would be lost. They stay with JSON, as everything does where the server has
//! no protobuf.
//!
//! The field numbers are those of `generated.proto` in `k8s.io/api/core/v1` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1`. A field that came twice counts as upstream's generated code
//! counts it: the last value of a scalar, the union of messages.

mod reader;
mod stream;

pub use self::reader::{Field, Fields, Malformed};

/// The media type of one object in protobuf.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What stands before every object, so that it is told from JSON.
const MAGIC: &[u8] = b"k8s\0";

/// An object as it travels: its message, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The kind, such as `Pod` or `Status`.
    pub kind: &'a str,
    /// The object's message.
    pub message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes a body apart without looking into the object.
    ///
    /// # Errors
    ///
    /// Where the magic bytes are missing, or what follows is no `runtime.Unknown`.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let unknown = body.strip_prefix(MAGIC).ok_or(Malformed::Magic)?;
        let mut envelope = Self { kind: "", message: &[] };
        for field in Fields::of(unknown) {
            let field = field?;
            match field.number {
                1 => {
                    for field in Fields::of(field.bytes()?) {
                        let field = field?;
                        if field.number == 2 {
                            envelope.kind = field.text()?;
                        }
                    }
                }
                2 => envelope.message = field.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}
