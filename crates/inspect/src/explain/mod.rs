//! Explaining: what a controller sees of one object, what it would do next, and by which rule.
//!
//! ```text
//!   books of one owner ──► begin ──► snapshot ──► claims, plan          (as a sync does)
//!          │                            │             │
//!       Memory                 Replicas or Rollout, with NextSync  ──►  Explanation  ──► JSON, text
//! ```
//!
//! Nothing is decided here: the functions of the sync decide, on a snapshot like its own, and the order of deletion
//! comes from the ranking that deletes pods.
//!
//! # The JSON
//!
//! An [`Explanation`] is one JSON object. Names are those of the fields here in lowerCamelCase; unknown or absent
//! values are left out; durations are in seconds, with a fraction; times are RFC 3339. Within one [`FORMAT`] fields are
//! added and never renamed, removed or given another meaning, so a reader must ignore those that it does not know.

mod memory;
mod next;
mod ranking;
mod replicas;
mod rollout;
mod rollout_reasons;
mod text;

use muster_machinery::Remedy;
pub use muster_machinery::group::Shard;
use muster_objects::meta::{Meta, ResourceVersion};
use muster_objects::{Object, Timestamp};
use serde::{Deserialize, Serialize};

use muster_controllers::begin::Begin;
use muster_controllers::deployment;
use muster_controllers::plan::Resource;
use muster_controllers::replicaset::{ReplicaOwner, Snapshot};

pub(crate) use memory::seconds;
pub use memory::{Expectations, Memory, Queued, Written};
pub use next::{Again, Changes, Expects, NextSync, Reason, Write};
pub(crate) use ranking::short;
pub use ranking::{DecidedBy, Place, Ranking};
pub(crate) use replicas::replica_reasons;
pub use replicas::{PodCounts, Replicas, ReplicasSpec, Reported};
pub use rollout::{Bounds, Change, Condition, Progress, Rollout, RolloutSpec, Set, SetCounts};
pub(crate) use rollout_reasons::rollout_account;
pub(crate) use text::write_shard;

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// What a controller sees of one object, and what it would do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Always `Explanation`.
    pub kind: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// When it was computed, by the API server's clock.
    pub at: Timestamp,
    /// Where it was computed.
    pub source: Source,
    /// The object.
    pub object: Subject,
    /// The shard of its namespace (SH-06); `None` where no group of managers shares the cluster, or that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// What the controller remembers of it between syncs; `None` if no running manager was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What a sync would see and do.
    pub view: View,
}

/// Where an explanation comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// Computed from lists of the API.
    Api,
    /// Computed from the caches and the books of a manager.
    Manager {
        /// Whether it writes.
        role: Role,
    },
}

/// Whether a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// It holds the Lease.
    Leader,
    /// It does not hold the Lease: it follows every object, but has written nothing and remembers nothing.
    Standby,
    /// It runs without an election, and writes.
    Unelected,
    /// It is one of a group that share the cluster, and has the object's shard.
    Member,
}

/// Which object is explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `ReplicaSet`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version that was looked at.
    pub resource_version: String,
    /// The generation that was looked at.
    pub generation: i64,
}

/// What a sync would see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum View {
    /// It would not begin: a cache is older than the last write (RS-19).
    Stale(Stale),
    /// It would end at once: the selector cannot be parsed (RS-20).
    InvalidSelector {
        /// The error.
        error: String,
    },
    /// Of a ReplicaSet or ReplicationController: its pods.
    Replicas(Box<Replicas>),
    /// Of a Deployment: its ReplicaSets.
    Rollout(Box<Rollout>),
}

/// Why a sync is deferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stale {
    /// The kind whose cache is behind.
    pub kind: String,
    /// The version that was written.
    pub wrote: String,
    /// The version that the cache has reached.
    pub read: String,
    /// Whether the key is requeued with backoff because it has waited too long for the cache (B-17).
    pub retried: bool,
}

impl Explanation {
    /// Of a ReplicaSet or ReplicationController. At most `most` places of the order of deletion are given.
    ///
    /// `None` if the object is gone.
    #[must_use]
    pub fn of_replicas<O: ReplicaOwner>(
        owner: &O,
        begin: Begin<Snapshot<O>>,
        (source, memory): (Source, Option<Memory>),
        most: usize,
        now: Timestamp,
    ) -> Option<Self> {
        let ready = |snapshot: Snapshot<O>| View::Replicas(Box::new(Replicas::of(&snapshot, most, now)));
        let view = view(begin, ready)?;
        Some(Self::new(Subject::of(O::IDENTITY.resource, owner.meta()), source, memory, view, now))
    }

    /// Of a Deployment, likewise.
    #[must_use]
    pub fn of_deployment(
        deployment: &muster_objects::Deployment,
        begin: deployment::Begin,
        (source, memory): (Source, Option<Memory>),
        now: Timestamp,
    ) -> Option<Self> {
        let view = view(begin, |snapshot| View::Rollout(Box::new(Rollout::of(&snapshot, now))))?;
        Some(Self::new(Subject::of(Resource::DEPLOYMENTS, deployment.meta()), source, memory, view, now))
    }

    fn new(object: Subject, source: Source, memory: Option<Memory>, view: View, at: Timestamp) -> Self {
        Self { kind: "Explanation".to_owned(), format: FORMAT, at, source, object, shard: None, memory, view }
    }
}

fn view<S>(begin: Begin<S>, ready: impl FnOnce(S) -> View) -> Option<View> {
    match begin {
        Begin::Ready(snapshot) => Some(ready(snapshot)),
        Begin::Gone => None,
        Begin::Stale { resource, wrote, read, remedy } => Some(View::Stale(Stale {
            kind: resource.kind.to_owned(),
            wrote: wrote.to_string(),
            read: read.to_string(),
            retried: remedy == Remedy::Retry,
        })),
        Begin::InvalidSelector(error) => Some(View::InvalidSelector { error: error.to_string() }),
    }
}

impl Subject {
    fn of(resource: Resource, meta: &Meta) -> Self {
        let ResourceVersion(version) = meta.resource_version;
        Self {
            api_version: resource.api_version().to_owned(),
            kind: resource.kind.to_owned(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            resource_version: version.to_string(),
            generation: meta.generation,
        }
    }
}
