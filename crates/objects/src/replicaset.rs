//! The ReplicaSet: what its controller reads, and the status that it writes.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::condition::Condition;
use crate::intern::Interner;
use crate::labels::Annotations;
use crate::meta::Meta;
use crate::object::{DecodeError, Object};
use crate::selector::{LabelSelector, Selector, SelectorError};
use crate::template::Template;
use crate::wire::{MetaWire, StringMap};

/// An apps/v1 ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// The metadata.
    pub meta: Meta,
    /// The annotations; a Deployment keeps its book in them.
    pub annotations: Annotations,
    /// `spec.replicas`: how many pods are wanted; never negative. Absent counts as 1, the default.
    pub replicas: i32,
    /// `spec.minReadySeconds`: how long a pod must be ready to count as available, in seconds.
    pub min_ready_seconds: i32,
    /// `spec.selector` as it is written.
    pub label_selector: Arc<LabelSelector>,
    /// `spec.selector`, parsed once; an error is reported and never retried (RS-20).
    pub selector: Result<Selector, SelectorError>,
    /// `spec.template`.
    pub template: Arc<Template>,
    /// The status as the server has it.
    pub status: ReplicaSetStatus,
}

impl Object for ReplicaSet {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "ReplicaSet";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: ReplicaSetWire<'_> = serde_json::from_slice(json).map_err(DecodeError::of(Self::KIND))?;
        let mut metadata = wire.metadata.unwrap_or_default();
        let annotations = metadata.annotations.take().map(|annotations| annotations.to_labels()).unwrap_or_default();
        let spec = wire.spec.unwrap_or_default();
        let template = Template::of_spec(spec.template, interner)?;
        let selector = LabelSelector::parsed(spec.selector.as_ref());
        Ok(Self {
            meta: metadata.into_meta(interner),
            annotations,
            replicas: spec.replicas.unwrap_or(1).max(0),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            label_selector: Arc::new(spec.selector.unwrap_or_default()),
            selector,
            template: Arc::new(template),
            status: wire.status.unwrap_or_default(),
        })
    }
}

#[derive(Deserialize)]
struct ReplicaSetWire<'a> {
    #[serde(borrow)]
    metadata: Option<MetaWire<'a, StringMap<'a>>>,
    #[serde(borrow)]
    spec: Option<SpecWire<'a>>,
    status: Option<ReplicaSetStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    selector: Option<LabelSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
}

/// A ReplicaSet's status (RS-15). Serialises as Go writes it: zero counts but `replicas` are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// Claimed active pods.
    #[serde(default, deserialize_with = "or_default")]
    pub replicas: i32,
    /// Of these, the ones that carry all of the template's labels.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Of these, the ones that are ready.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Of these, the ones that are ready for at least `minReadySeconds`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Claimed pods that are being deleted and not finished; `None` where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation of the spec that this status answers to.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero_generation")]
    pub observed_generation: i64,
    /// The conditions.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) fn is_zero(count: &i32) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) fn is_zero_generation(generation: &i64) -> bool {
    *generation == 0
}
