//! Metadata that the slim objects do not keep: who wrote `spec.replicas` of a ReplicaSet, and whether a namespace is
//! being deleted.
//!
//! A ReplicaSet of a Deployment is scaled by the Deployment's controller, and sometimes by a person:
//! `metadata.managedFields` names the manager of `spec.replicas`. In a namespace that is being deleted nothing can be
//! created, so writes there are not waited for. Both are watched as metadata only.

use std::sync::Arc;

use muster_machinery::Cached;
use muster_objects::intern::Interner;
use muster_objects::meta::{Meta, ResourceVersion, Uid};
use muster_objects::{DecodeError, Object, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The metadata of an object of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Name, namespace, uid, version and deletionTimestamp; nothing else is read.
    meta: Meta,
    /// The manager of `spec.replicas`; `None` if there is none.
    pub(super) writer_of_replicas: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    metadata: MetaWire,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaWire {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: Uid,
    #[serde(default)]
    resource_version: ResourceVersion,
    #[serde(default)]
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    managed_fields: Option<Vec<Managed>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managed {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    fields_v1: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "f:spec", default)]
    spec: Option<Spec>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "f:replicas", default)]
    replicas: Option<IgnoredAny>,
}

impl Managed {
    fn has_replicas(&self) -> bool {
        let spec = self.fields_v1.as_ref().and_then(|fields| fields.spec.as_ref());
        spec.is_some_and(|spec| spec.replicas.is_some())
    }
}

impl Object for Metadata {
    const API_VERSION: &'static str = "meta.k8s.io/v1";
    const KIND: &'static str = "PartialObjectMetadata";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let Wire { metadata } = serde_json::from_slice(json).map_err(DecodeError::of(Self::KIND))?;
        let managed = metadata.managed_fields.unwrap_or_default();
        Ok(Self {
            writer_of_replicas: managed.iter().find(|entry| entry.has_replicas()).map(|entry| entry.manager.clone()),
            meta: Meta {
                namespace: interner.text(&metadata.namespace),
                name: Arc::from(metadata.name),
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                deletion_timestamp: metadata.deletion_timestamp,
                ..Meta::default()
            },
        })
    }
}

impl Cached for Metadata {
    type Indexes = ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_write_the_size_is_its_writer() {
        let json = br#"{"kind":"PartialObjectMetadata","metadata":{"name":"web","namespace":"default","uid":"u",
            "resourceVersion":"12","managedFields":[
            {"manager":"kubectl","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{".":{}}}}},
            {"manager":"scaler","operation":"Update","subresource":"scale","fieldsV1":{"f:spec":{"f:replicas":{}}}},
            {"manager":"kube-controller-manager","operation":"Update","subresource":"status",
             "fieldsV1":{"f:status":{"f:replicas":{}}}}]}}"#;
        let read = Metadata::decode(json, &mut Interner::default()).unwrap();
        assert_eq!(read.writer_of_replicas.as_deref(), Some("scaler"));
        assert_eq!((&*read.meta.name, read.meta.resource_version), ("web", ResourceVersion(12)));
        let bare = Metadata::decode(br#"{"metadata":{"name":"web"}}"#, &mut Interner::default()).unwrap();
        assert!(!bare.meta.is_being_deleted());
        let leaving = br#"{"metadata":{"name":"shop","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        assert!(Metadata::decode(leaving, &mut Interner::default()).unwrap().meta.is_being_deleted());
        assert_eq!(bare.writer_of_replicas, None);
    }
}
