//! The few fields of an object that was just read from the server, enough to decide about it again.

use muster_objects::Labels;
use muster_objects::meta::{OwnerReference, ResourceVersion, Uid};
use muster_objects::time::Timestamp;
use serde::Deserialize;

/// An object of any kind.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Fresh {
    metadata: FreshMeta,
    #[serde(default)]
    status: FreshStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct FreshStatus {
    #[serde(default)]
    conditions: Option<Vec<FreshCondition>>,
}

#[derive(Debug, Clone, Deserialize)]
struct FreshCondition {
    r#type: String,
    status: String,
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
    /// Whether its condition `Ready` is True.
    #[serde(skip)]
    pub(super) ready: bool,
}

impl FreshMeta {
    /// Reads the metadata of the object in `json`, and whether it is ready, or returns the parser's error.
    pub(super) fn decode(json: &[u8]) -> Result<Self, String> {
        let Fresh { metadata, status } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let is_ready = |condition: &FreshCondition| condition.r#type == "Ready" && condition.status == "True";
        let ready = status.conditions.is_some_and(|conditions| conditions.iter().any(is_ready));
        Ok(Self { ready, ..metadata })
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
