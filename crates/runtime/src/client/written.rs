//! What a write's answer says of the object that was written.

use std::borrow::Cow;

use http::Method;
use muster_objects::json;
use muster_objects::meta::ResourceVersion;
use serde::Deserialize;

use super::{Answer, BoxError, ClientError, Encoding, protobuf};

/// What a writer needs to know of the object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name, by which a generated one is learnt; empty where the answer is a Status.
    pub name: String,
    /// Its uid; empty where the answer is a Status.
    pub uid: String,
    /// Its version after the write; none where the answer is a Status (an object removed at once).
    pub resource_version: Option<ResourceVersion>,
}

/// Reads the name, uid and version out of an object, whatever its form. A Status gives none of them.
pub(super) fn written(method: &Method, path: &str, answer: &Answer) -> Result<Written, ClientError> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, default)]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        metadata: Metadata<'a>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        uid: Cow<'a, str>,
        #[serde(borrow)]
        resource_version: Cow<'a, str>,
    }
    let unreadable = |source| ClientError::Answer { method: method.clone(), path: path.to_owned(), source };
    if answer.encoding() == Encoding::Protobuf {
        return protobuf::written(&answer.body).map_err(|error| unreadable(Box::new(error) as BoxError));
    }
    let object: Object<'_> = json::from_slice(&answer.body).map_err(|error| unreadable(Box::new(error) as BoxError))?;
    let version = &object.metadata.resource_version;
    let resource_version = if object.kind == "Status" || version.is_empty() {
        None
    } else {
        Some(version.parse::<ResourceVersion>().map_err(|error| unreadable(Box::new(error) as BoxError))?)
    };
    Ok(Written { name: object.metadata.name.into_owned(), uid: object.metadata.uid.into_owned(), resource_version })
}
