//! What the client itself reads in protobuf: errors, and the metadata of written objects.

use muster_objects::{
    meta::ResourceVersion,
    protobuf::{Envelope, Fields, Malformed},
};

use super::{
    Written,
    error::{ApiError, Cause, Details},
};

/// The `Status` in the body of an answer; `None` if it holds something else.
pub(super) fn status(body: &[u8]) -> Option<ApiError> {
    let envelope = Envelope::decode(body).ok()?;
    if envelope.kind == "Status" { status_message(envelope.message).ok() } else { None }
}

/// A `Status` from its message.
pub(super) fn status_message(message: &[u8]) -> Result<ApiError, Malformed> {
    let mut error = ApiError::default();
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            3 => error.message = field.text()?.to_owned(),
            4 => error.reason = field.text()?.to_owned(),
            5 => merge_details(error.details.get_or_insert_with(Details::default), field.bytes()?)?,
            6 => error.code = u16::try_from(field.int32()?).unwrap_or(0),
            _ => {}
        }
    }
    Ok(error)
}

fn merge_details(details: &mut Details, message: &[u8]) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => details.name = field.text()?.to_owned(),
            2 => details.group = field.text()?.to_owned(),
            3 => details.kind = field.text()?.to_owned(),
            4 => details.causes.push(cause(field.bytes()?)?),
            5 => details.retry_after_seconds = u64::try_from(field.int32()?).unwrap_or(0),
            6 => details.uid = field.text()?.to_owned(),
            _ => {}
        }
    }
    Ok(())
}

fn cause(message: &[u8]) -> Result<Cause, Malformed> {
    let mut cause = Cause::default();
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => cause.reason = field.text()?.to_owned(),
            2 => cause.message = field.text()?.to_owned(),
            3 => cause.field = field.text()?.to_owned(),
            _ => {}
        }
    }
    Ok(cause)
}

/// The name, uid and version in the body of an object of whatever kind. A Status gives none of them.
pub(super) fn written(body: &[u8]) -> Result<Written, Malformed> {
    let envelope = Envelope::decode(body)?;
    let mut written = Written { name: String::new(), uid: String::new(), resource_version: None };
    if envelope.kind == "Status" {
        return Ok(written);
    }
    for field in Fields::of_metadata(envelope.message) {
        let field = field?;
        match field.number {
            1 => written.name = field.text()?.to_owned(),
            5 => written.uid = field.text()?.to_owned(),
            6 => written.resource_version = version(field.text()?)?,
            _ => {}
        }
    }
    Ok(written)
}

fn version(text: &str) -> Result<Option<ResourceVersion>, Malformed> {
    if text.is_empty() { Ok(None) } else { Ok(Some(text.parse()?)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What kube-apiserver 1.36.2 answers to a GET of a pod that does not exist.
    const NOT_FOUND: &[u8] = include_bytes!("../../../objects/tests/vectors/protobuf/not-found.pb");
    /// And to a GET of the metadata of one that is.
    const METADATA: &[u8] = include_bytes!("../../../objects/tests/vectors/protobuf/metadata.pb");

    #[test]
    fn a_recorded_refusal_is_read() {
        let error = status(NOT_FOUND).unwrap();
        assert_eq!((error.code, &*error.reason, &*error.message), (404, "NotFound", "pods \"nope\" not found"));
        let details = error.details.unwrap();
        assert_eq!((&*details.name, &*details.kind, details.retry_after_seconds), ("nope", "pods", 0));
        assert_eq!(status(METADATA), None, "an object is no refusal");
        assert_eq!(written(NOT_FOUND).unwrap(), Written { name: "".into(), uid: "".into(), resource_version: None });
    }

    #[test]
    fn recorded_metadata_names_the_object() {
        let written = written(METADATA).unwrap();
        assert_eq!((&*written.name, written.uid.len()), ("plain", 36));
        assert_eq!(written.resource_version, Some(ResourceVersion(219)));
    }

    #[test]
    fn causes_and_the_wait_are_read() {
        // details{causes{reason, message, field}, retryAfterSeconds}, code
        let message = b"\x2a\x15\x22\x11\x0a\x01R\x12\x05words\x1a\x05.spec\x28\x07\x30\xad\x03";
        let error = status_message(message).unwrap();
        assert!(error.has_cause("R"));
        assert_eq!(error.details.as_ref().unwrap().causes[0].field, ".spec");
        assert_eq!((error.code, error.retry_after()), (429, Some(std::time::Duration::from_secs(7))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = status_message(&bytes);
            let _ = written(&[b"k8s\0", &*bytes].concat());
        }
    }
}
