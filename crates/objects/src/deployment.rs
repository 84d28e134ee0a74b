//! The Deployment: what its controller reads, and the status that it writes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::condition::Condition;
use crate::int_or_percent::IntOrPercent;
use crate::intern::Interner;
use crate::labels::Annotations;
use crate::meta::Meta;
use crate::object::{DecodeError, Object};
use crate::replicaset::{is_zero, is_zero_generation, or_default};
use crate::selector::{LabelSelector, Selector, SelectorError};
use crate::template::Template;
use crate::wire::{MetaWire, StringMap, Text};

/// An apps/v1 Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The metadata.
    pub meta: Meta,
    /// The annotations: its own revision, and what its ReplicaSets are to carry.
    pub annotations: Annotations,
    /// `spec.replicas`: how many pods are wanted; never negative. Absent counts as 1, the default.
    pub replicas: i32,
    /// `spec.minReadySeconds`: how long a pod must be ready to count as available, in seconds.
    pub min_ready_seconds: i32,
    /// `spec.selector` as it is written.
    pub label_selector: Arc<LabelSelector>,
    /// `spec.selector`, parsed once.
    pub selector: Result<Selector, SelectorError>,
    /// `spec.template`.
    pub template: Arc<Template>,
    /// `spec.strategy`: how old pods give way to new ones.
    pub strategy: Strategy,
    /// `spec.revisionHistoryLimit`: how many old ReplicaSets are kept; none keeps them all.
    pub revision_history_limit: Option<i32>,
    /// `spec.paused`: whether a new template is to wait.
    pub paused: bool,
    /// `spec.progressDeadlineSeconds`: how long a rollout may stand still, in seconds; none for ever.
    pub progress_deadline_seconds: Option<i32>,
    /// The status as the server has it.
    pub status: DeploymentStatus,
}

/// How old pods give way to new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// All old pods go before the first new one comes.
    Recreate,
    /// Step by step, within two bounds.
    RollingUpdate {
        /// How many pods there may be above the wanted number.
        max_surge: IntOrPercent,
        /// How many of the wanted number may be unavailable.
        max_unavailable: IntOrPercent,
    },
    /// A strategy that this version does not know.
    Other(Box<str>),
}

impl Object for Deployment {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "Deployment";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: DeploymentWire<'_> = serde_json::from_slice(json).map_err(DecodeError::of(Self::KIND))?;
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
            strategy: spec.strategy.unwrap_or_default().into(),
            revision_history_limit: spec.revision_history_limit,
            paused: spec.paused.unwrap_or(false),
            progress_deadline_seconds: spec.progress_deadline_seconds,
            status: wire.status.unwrap_or_default(),
        })
    }
}

#[derive(Deserialize)]
struct DeploymentWire<'a> {
    #[serde(borrow)]
    metadata: Option<MetaWire<'a, StringMap<'a>>>,
    #[serde(borrow)]
    spec: Option<SpecWire<'a>>,
    status: Option<DeploymentStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    selector: Option<LabelSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    #[serde(borrow)]
    strategy: Option<StrategyWire<'a>>,
    revision_history_limit: Option<i32>,
    paused: Option<bool>,
    progress_deadline_seconds: Option<i32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StrategyWire<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Text<'a>,
    rolling_update: Option<RollingUpdateWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RollingUpdateWire {
    max_surge: Option<IntOrPercent>,
    max_unavailable: Option<IntOrPercent>,
}

impl From<StrategyWire<'_>> for Strategy {
    fn from(wire: StrategyWire<'_>) -> Self {
        match &*wire.kind {
            "Recreate" => Self::Recreate,
            // A server fills the type and both bounds in; one that did not is read as the type's zero values.
            "RollingUpdate" | "" => {
                let bounds = wire.rolling_update.unwrap_or_default();
                Self::RollingUpdate {
                    max_surge: bounds.max_surge.unwrap_or(IntOrPercent::Int(0)),
                    max_unavailable: bounds.max_unavailable.unwrap_or(IntOrPercent::Int(0)),
                }
            }
            other => Self::Other(other.into()),
        }
    }
}

/// A Deployment's status (DEP-15). Serialises as Go writes it: zero counts are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// The generation of the spec that this status answers to.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero_generation")]
    pub observed_generation: i64,
    /// Pods of every ReplicaSet.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Of these, the ones of the new ReplicaSet.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Of all of them, the ones that are ready.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Of all of them, the ones that are ready for at least `minReadySeconds`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// How many pods the ReplicaSets want beyond those that are available; never negative.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    /// Pods that are being deleted and not finished; `None` where a ReplicaSet does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The conditions.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How often the name of a new ReplicaSet was taken; part of what its name is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}
