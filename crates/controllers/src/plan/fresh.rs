//! The few fields of an object that was just read from the server, enough to decide about it again.

use muster_objects::Labels;
use muster_objects::meta::{OwnerReference, ResourceVersion, Uid};
use muster_objects::time::Timestamp;
use serde::Deserialize;

/// An object's metadata, of any kind.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Fresh {
    metadata: FreshMeta,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FreshMeta {
    #[serde(default)]
    pub(super) uid: Uid,
    #[serde(default)]
    pub(super) resource_version: ResourceVersion,
    #[serde(default)]
    pub(super) generation: i64,
    #[serde(default)]
    pub(super) deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub(super) labels: Option<Labels>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
}

impl FreshMeta {
    /// Reads the metadata of the object in `json`, or returns the parser's error.
    pub(super) fn decode(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice::<Fresh>(json).map(|fresh| fresh.metadata).map_err(|error| error.to_string())
    }

    /// Whether `owner` is the controller.
    pub(super) fn is_controlled_by(&self, owner: &Uid) -> bool {
        self.controller() == Some(owner)
    }

    /// The uid of the controller.
    pub(super) fn controller(&self) -> Option<&Uid> {
        let references = self.owner_references.as_deref().unwrap_or_default();
        references.iter().find(|reference| reference.controller == Some(true)).map(|reference| &reference.uid)
    }
}
