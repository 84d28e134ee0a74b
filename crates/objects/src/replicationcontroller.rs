//! The ReplicationController: the ReplicaSet's older form, with a plain map for a selector.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::intern::Interner;
use crate::labels::Labels;
use crate::meta::Meta;
use crate::object::{DecodeError, Object};
use crate::replicaset::ReplicaSetStatus;
use crate::selector::{LabelSelector, Selector, SelectorError};
use crate::template::Template;
use crate::wire::MetaWire;

/// A v1 ReplicationController.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationController {
    /// The metadata.
    pub meta: Meta,
    /// `spec.replicas`: how many pods are wanted; never negative. Absent counts as 1, the default.
    pub replicas: i32,
    /// `spec.minReadySeconds`: how long a pod must be ready to count as available, in seconds.
    pub min_ready_seconds: i32,
    /// `spec.selector`, parsed once: every label of the map.
    pub selector: Result<Selector, SelectorError>,
    /// `spec.template`.
    pub template: Arc<Template>,
    /// The status as the server has it. A ReplicationController's never has `terminatingReplicas`.
    pub status: ReplicaSetStatus,
}

impl Object for ReplicationController {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicationController";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: ControllerWire<'_> = serde_json::from_slice(json).map_err(DecodeError::of(Self::KIND))?;
        let spec = wire.spec.unwrap_or_default();
        let template = Template::of_spec(spec.template, interner)?;
        let selector = LabelSelector::parsed(spec.selector.as_ref());
        Ok(Self {
            meta: wire.metadata.unwrap_or_default().into_meta(interner),
            replicas: spec.replicas.unwrap_or(1).max(0),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            selector,
            template: Arc::new(template),
            status: ReplicaSetStatus { terminating_replicas: None, ..wire.status.unwrap_or_default() },
        })
    }
}

#[derive(Deserialize)]
struct ControllerWire<'a> {
    #[serde(borrow)]
    metadata: Option<MetaWire<'a, serde::de::IgnoredAny>>,
    #[serde(borrow)]
    spec: Option<SpecWire<'a>>,
    status: Option<ReplicaSetStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    #[serde(default, deserialize_with = "match_labels")]
    selector: Option<LabelSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
}

/// The plain map of this kind as the selector that later kinds have.
fn match_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelSelector>, D::Error> {
    let labels = Option::<Labels>::deserialize(deserializer)?;
    Ok(labels.map(LabelSelector::from_labels))
}
