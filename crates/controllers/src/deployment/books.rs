//! Books: what the controller remembers between syncs, of every Deployment.
//!
//! One thing only: up to which versions the caches must have come before the next sync
//! ([`Consistency`]). Every write to a Deployment or to one of its ReplicaSets is noted, and a sync that would
//! look at something older is put off until the caches have caught up (RS-19, B-17). A sync therefore never
//! meets a conflict with the one before, and never misses a ReplicaSet that the one before created.
//!
//! Nothing is counted and expected, as the ReplicaSet controller does: a ReplicaSet has a name that follows from
//! its template, so that creating it twice is refused by the server.

use std::sync::Arc;

use muster_machinery::Consistency;
use muster_machinery::cache::Cache;
use muster_machinery::consistency::Verdict;
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Deployment, Moment, Pod, ReplicaSet};

use super::handlers::Effect;
use super::snapshot::Snapshot;
use crate::pause::Pauses;
use crate::plan::{Owner, Resource};

/// The memory of the controller.
#[derive(Debug, Default)]
pub struct Books {
    /// What was written, and up to which version.
    record: Consistency<Resource>,
    /// When something was last written for a Deployment.
    pauses: Pauses,
}

/// How a sync of a Deployment begins.
pub type Begin = crate::begin::Begin<Snapshot>;

impl Books {
    /// Empty books.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of what is remembered of one Deployment: to be asked, [`Books::begin`] included, without anything being
    /// changed for the syncs to come.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        Self { record: self.record.only(owner), pauses: self.pauses.only(owner) }
    }

    /// What was written, and up to which version.
    #[must_use]
    pub fn record(&self) -> &Consistency<Resource> {
        &self.record
    }

    /// Takes in what a handler noticed; says which key to queue. [`Effect::Overlap`] only concerns the log.
    pub fn note(&mut self, effect: Effect) -> Option<ObjectKey> {
        match effect {
            Effect::Enqueue(owner) => Some(owner),
            Effect::Forget { owner, uid } => {
                self.record.clear(&owner, Some(&uid));
                self.pauses.forget(&owner);
                None
            }
            Effect::Overlap { .. } => None,
        }
    }

    /// Takes the snapshot that a sync of `key` decides on, if it may begin. `failures` is how many syncs of the key
    /// have failed in a row (B-06).
    ///
    /// The caches must be of one moment: all locked, or all read on one thread.
    pub fn begin(
        &mut self,
        key: &ObjectKey,
        deployments: &Cache<Deployment>,
        sets: &Cache<ReplicaSet>,
        pods: &Cache<Pod>,
        failures: u32,
        now: Moment,
    ) -> Begin {
        self.pauses.tell(now);
        let newest = |resource: Resource| match resource {
            Resource::REPLICA_SETS => sets.newest(),
            _ => deployments.newest(),
        };
        if let Verdict::Behind { resource, wrote, read, remedy } = self.record.check(key, newest, now) {
            return Begin::Stale { resource, wrote, read, remedy };
        }
        let Some(deployment) = deployments.get(key) else {
            self.record.clear(key, None);
            self.pauses.forget(key);
            return Begin::Gone;
        };
        match Snapshot::take(Arc::clone(deployment), sets, pods, failures) {
            Ok(snapshot) => Begin::Ready(Snapshot { counts_wait: self.pauses.wait(key), ..snapshot }),
            Err(error) => Begin::InvalidSelector(error),
        }
    }

    /// Records that an object of `resource` stands at `version` by a write for this Deployment (RS-19).
    pub fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion) {
        self.pauses.wrote(&owner.key);
        self.record.wrote_at(&owner.key, &owner.uid, resource, version);
    }

    /// A sync of the owner has ended with a status in which every count is as it was found to be.
    pub fn status_is_up_to_date(&mut self, owner: &ObjectKey) {
        self.pauses.up_to_date(owner);
    }

    /// The cache of `resource` has come to `newest`: the Deployments that waited for no more than that, to be
    /// queued at once (B-17).
    pub fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey> {
        self.record.caught_up(resource, newest)
    }

    /// The Deployments that waited too long for a cache, to be queued by the rate limit.
    pub fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        self.record.expired(now)
    }

    /// When [`Books::expired`] is to be called next; none where nobody waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.record.next_deadline()
    }
}
