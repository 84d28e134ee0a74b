//! The slim pod: what the controllers read of a pod, and nothing else.
//!
//! A pod arrives as some four kilobytes of JSON, or some three of protobuf, and leaves as some two hundred bytes (INF-10).

mod protobuf;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::condition::ConditionStatus;
use crate::intern::Interner;
use crate::json;
use crate::meta::Meta;
use crate::object::{DecodeError, Decoder, Object};
use crate::time::Timestamp;
use crate::wire::{Fold, Folded, Key, MetaWire, Single, Text, Time};

/// The annotation that says how much a pod's deletion costs (DEL-02).
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The metadata.
    pub meta: Meta,
    /// `spec.nodeName`: the node it is assigned to; `None` where it is absent or empty.
    pub node_name: Option<Arc<str>>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The condition `Ready`, where there is one.
    pub ready: Option<Readiness>,
    /// The highest restart counts of its containers.
    pub restarts: Restarts,
    /// What deleting it costs: lower goes first (DEL-02).
    pub deletion_cost: i32,
    /// For a pod that is `Failed` or `Succeeded`: when it came to its end, as far as its status
    /// tells (see [`Pod::lifetime`]).
    pub finished_at: Option<Timestamp>,
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PodPhase {
    /// No phase, or one that Kubernetes does not have. Sorts as `Pending` does.
    #[default]
    Unset,
    /// Accepted, and not running yet.
    Pending,
    /// At least one container runs.
    Running,
    /// Every container ended well.
    Succeeded,
    /// Every container ended, at least one of them badly; or the node refused the pod.
    Failed,
    /// The node has not been heard of.
    Unknown,
}

impl PodPhase {
    /// The order in which phases go first when pods are deleted: Pending, Unknown, Running (DEL-01).
    #[must_use]
    pub const fn ordinal(self) -> u8 {
        match self {
            Self::Unset | Self::Pending | Self::Succeeded | Self::Failed => 0,
            Self::Unknown => 1,
            Self::Running => 2,
        }
    }

    /// Whether every container has stopped for good.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// The phase as the API spells it; empty where it is unset.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    fn from_text(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Unset,
        }
    }
}

/// The pod's condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it is ready.
    pub status: ConditionStatus,
    /// When the status last changed; `None` is Go's zero time.
    pub last_transition_time: Option<Timestamp>,
}

/// The highest restart count of any container of a pod, by kind of container (DEL-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Restarts {
    /// Of the ordinary containers.
    pub regular: i32,
    /// Of the restartable init containers, called sidecars.
    pub sidecar: i32,
}

impl Pod {
    /// Neither finished nor being deleted: the pods that a sync looks at (RS-05).
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && self.meta.deletion_timestamp.is_none()
    }

    /// Being deleted, and not finished yet (RS-15).
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.meta.deletion_timestamp.is_some()
    }

    /// Whether the condition `Ready` is True.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.is_some_and(|ready| ready.status == ConditionStatus::True)
    }

    /// Since when the pod is ready; `None` where it is not, or where its condition does not say.
    #[must_use]
    pub fn ready_since(&self) -> Option<Timestamp> {
        self.ready.filter(|ready| ready.status == ConditionStatus::True)?.last_transition_time
    }

    /// Ready for at least `min_ready_seconds`; at once where that is 0 (RS-15). A condition without
    /// a time never turns available by waiting.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds == 0
                || self.ready_since().is_some_and(|since| add_seconds(since, min_ready_seconds) <= now))
    }

    /// How long until the pod turns available by waiting alone; `None` where it is so already, is
    /// not ready, or would wait for ever (RS-18).
    #[must_use]
    pub fn next_availability_check(&self, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
        if min_ready_seconds <= 0 {
            return None;
        }
        let wait = add_seconds(self.ready_since()?, min_ready_seconds).saturating_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// From creation to the end, for a pod that has come to one: what tells that a pod was rejected
    /// or failed within seconds (B-08). The end is the latest of the containers' `finishedAt`, else
    /// of the condition `Ready`, else `startTime`; `None` where the status tells none of them.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        Some(self.finished_at?.saturating_since(self.meta.creation_timestamp?))
    }
}

impl Object for Pod {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PROTOBUF: Option<Decoder<Self>> = Some(protobuf::decode);

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let wire: PodWire<'_> = json::from_slice(bytes).map_err(DecodeError::of(Self::KIND))?;
        Ok(wire.into_pod(interner))
    }
}

fn add_seconds(time: Timestamp, seconds: i32) -> Timestamp {
    time.plus_nanos(i64::from(seconds) * 1_000_000_000)
}

/// The deletion cost that an annotation's value stands for: an int32 without a leading `+` or
/// leading zeros; anything else counts as 0 (DEL-02).
#[must_use]
pub fn parse_deletion_cost(value: &str) -> i32 {
    match value.as_bytes() {
        b"0" | [b'-' | b'1'..=b'9', ..] => value.parse().unwrap_or(0),
        _ => 0,
    }
}

#[derive(Deserialize)]
struct PodWire<'a> {
    #[serde(borrow)]
    metadata: Option<MetaWire<'a, Single<'a, DeletionCost>>>,
    #[serde(borrow)]
    spec: Option<SpecWire<'a>>,
    #[serde(borrow)]
    status: Option<StatusWire<'a>>,
}

struct DeletionCost;

impl Key for DeletionCost {
    const KEY: &'static str = POD_DELETION_COST;
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct SpecWire<'a> {
    #[serde(borrow, default)]
    node_name: Text<'a>,
    #[serde(borrow, default)]
    init_containers: Folded<InitContainerWire<'a>, Sidecars<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainerWire<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    restart_policy: Text<'a>,
}

/// The names of the init containers that run as long as the pod does.
#[derive(Default)]
struct Sidecars<'a>(Vec<Text<'a>>);

impl<'a> Fold<InitContainerWire<'a>> for Sidecars<'a> {
    fn take(&mut self, container: InitContainerWire<'a>) {
        if &*container.restart_policy == "Always" {
            self.0.push(container.name);
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StatusWire<'a> {
    #[serde(borrow, default)]
    phase: Text<'a>,
    #[serde(default)]
    start_time: Time,
    #[serde(default)]
    conditions: Folded<ConditionWire, Conditions>,
    #[serde(borrow, default)]
    container_statuses: Folded<ContainerStatusWire<'a>, Containers>,
    #[serde(borrow, default)]
    init_container_statuses: Folded<ContainerStatusWire<'a>, InitContainers<'a>>,
}

/// The condition `Ready`, or nothing of another one. A pod has five, and the type stands first in
/// each, so that the others are passed over without a look.
struct ConditionWire(Option<Readiness>);

impl<'de> Deserialize<'de> for ConditionWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "camelCase")]
        enum Field {
            Type,
            Status,
            LastTransitionTime,
            #[serde(other)]
            Other,
        }

        struct ConditionVisitor;
        impl<'de> Visitor<'de> for ConditionVisitor {
            type Value = ConditionWire;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a condition")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConditionWire, A::Error> {
                let mut is_ready = None;
                let mut readiness = Readiness { status: ConditionStatus::Unknown, last_transition_time: None };
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Type => is_ready = Some(&*map.next_value::<Text<'de>>()? == "Ready"),
                        Field::Status if is_ready != Some(false) => {
                            readiness.status = ConditionStatus::from_text(&map.next_value::<Text<'de>>()?);
                        }
                        Field::LastTransitionTime if is_ready != Some(false) => {
                            readiness.last_transition_time = map.next_value::<Time>()?.0;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(ConditionWire(is_ready.is_some_and(|is_ready| is_ready).then_some(readiness)))
            }
        }
        deserializer.deserialize_map(ConditionVisitor)
    }
}

/// The first condition `Ready`.
#[derive(Default)]
struct Conditions(Option<Readiness>);

impl Fold<ConditionWire> for Conditions {
    fn take(&mut self, condition: ConditionWire) {
        self.0 = self.0.or(condition.0);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatusWire<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    restart_count: Option<i32>,
    state: Option<StateWire>,
}

#[derive(Deserialize)]
struct StateWire {
    terminated: Option<TerminatedWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminatedWire {
    #[serde(default)]
    finished_at: Time,
}

#[derive(Default)]
struct Containers {
    restarts: i32,
    finished_at: Option<Timestamp>,
}

impl<'a> Fold<ContainerStatusWire<'a>> for Containers {
    fn take(&mut self, container: ContainerStatusWire<'a>) {
        self.restarts = self.restarts.max(container.restart_count.unwrap_or(0));
        let terminated = container.state.and_then(|state| state.terminated);
        self.finished_at = self.finished_at.max(terminated.and_then(|terminated| terminated.finished_at.0));
    }
}

#[derive(Default)]
struct InitContainers<'a>(Vec<(Text<'a>, i32)>);

impl<'a> Fold<ContainerStatusWire<'a>> for InitContainers<'a> {
    fn take(&mut self, container: ContainerStatusWire<'a>) {
        // A container that never restarted cannot raise a maximum.
        if let Some(count @ 1..) = container.restart_count {
            self.0.push((container.name, count));
        }
    }
}

impl PodWire<'_> {
    fn into_pod(self, interner: &mut Interner) -> Pod {
        let mut metadata = self.metadata.unwrap_or_default();
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let cost = metadata.annotations.take().and_then(|annotations| annotations.0);
        let phase = PodPhase::from_text(&status.phase);
        let sidecars = &spec.init_containers.0.0;
        let sidecar_restarts = status.init_container_statuses.0.0.iter();
        let sidecar_restarts = sidecar_restarts.filter(|(name, _)| sidecars.contains(name)).map(|(_, count)| *count);
        let containers = &status.container_statuses.0;
        let ready = status.conditions.0.0;
        let finished_at =
            containers.finished_at.or(ready.and_then(|ready| ready.last_transition_time)).or(status.start_time.0);
        Pod {
            meta: metadata.into_meta(interner),
            node_name: (!spec.node_name.is_empty()).then(|| interner.text(&spec.node_name)),
            phase,
            ready,
            restarts: Restarts { regular: containers.restarts, sidecar: sidecar_restarts.max().unwrap_or(0) },
            deletion_cost: cost.map_or(0, |cost| parse_deletion_cost(&cost)),
            finished_at: finished_at.filter(|_| phase.is_terminal()),
        }
    }
}
