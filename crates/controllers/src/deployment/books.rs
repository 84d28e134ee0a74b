//! Books: what the controller remembers of every Deployment between syncs.
//!
//! This is mostly which versions the caches must reach before the next sync ([`Consistency`]). Every write to a
//! Deployment or to one of its ReplicaSets is recorded, and a sync that would read something older is deferred until
//! the caches have caught up (RS-19, B-17). A sync therefore never conflicts with the one before, and never misses a
//! ReplicaSet that the one before created.
//!
//! There are no expectations, unlike in the ReplicaSet controller: the name of a ReplicaSet follows from its template,
//! so the server refuses to create it twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_machinery::Consistency;
use muster_machinery::cache::Cache;
use muster_machinery::consistency::Freshness;
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Deployment, Moment, Pod, ReplicaSet};

use super::handlers::Effect;
use super::snapshot::Snapshot;
use crate::pause::Pauses;
use crate::plan::{Owner, Resource};

/// What the controller remembers.
#[derive(Debug, Default)]
pub struct Books {
    /// The versions written.
    record: Consistency<Resource>,
    /// When each Deployment was last written for.
    pauses: Pauses,
    /// Deployments whose new ReplicaSet somebody else has deleted: they may be being deleted themselves.
    lost: BTreeSet<ObjectKey>,
}

/// How a sync of a Deployment begins.
pub type Begin = crate::begin::Begin<Snapshot>;

impl Books {
    /// Empty books.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of what is remembered of one Deployment. It can be used, [`Books::begin`] included, without an effect on
    /// later syncs.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        let lost = self.lost.get(owner).cloned().into_iter().collect();
        Self { record: self.record.only(owner), pauses: self.pauses.only(owner), lost }
    }

    /// The versions written.
    #[must_use]
    pub fn record(&self) -> &Consistency<Resource> {
        &self.record
    }

    /// Applies a handler's effect; returns the key to queue. [`Effect::Overlap`] only concerns the log.
    pub fn note(&mut self, effect: Effect) -> Option<ObjectKey> {
        match effect {
            Effect::Enqueue(owner) => Some(owner),
            Effect::Forget { owner, uid } => {
                self.record.clear(&owner, Some(&uid));
                self.pauses.forget(&owner);
                self.lost.remove(&owner);
                None
            }
            Effect::New { owner, gone: true } => {
                self.lost.insert(owner);
                None
            }
            Effect::New { owner, gone: false } => {
                self.lost.remove(&owner);
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
        if let Freshness::Behind { resource, wrote, read, remedy } = self.record.check(key, newest, now) {
            return Begin::Stale { resource, wrote, read, remedy };
        }
        let Some(deployment) = deployments.get(key) else {
            self.record.clear(key, None);
            self.pauses.forget(key);
            self.lost.remove(key);
            return Begin::Gone;
        };
        match Snapshot::take(Arc::clone(deployment), sets, pods, failures) {
            Ok(snapshot) => Begin::Ready(Snapshot {
                counts_wait: self.pauses.wait(key),
                confirm: self.lost.contains(key),
                ..snapshot
            }),
            Err(error) => Begin::InvalidSelector(error),
        }
    }

    /// Records that a write for this Deployment left an object of `resource` at `version` (RS-19).
    pub fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion) {
        self.pauses.wrote(&owner.key);
        self.record.wrote_at(&owner.key, &owner.uid, resource, version);
    }

    /// A sync of the owner ended with a status whose counts are all up to date.
    pub fn status_is_up_to_date(&mut self, owner: &ObjectKey) {
        self.pauses.up_to_date(owner);
    }

    /// The cache of `resource` has reached `newest`: returns the Deployments that waited for this, to be queued at once
    /// (B-17).
    pub fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey> {
        self.record.caught_up(resource, newest)
    }

    /// The Deployments that waited too long for a cache, to be queued with the rate limit.
    pub fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        self.record.expired(now)
    }

    /// When [`Books::expired`] is to be called next; `None` if no Deployment waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.record.next_deadline()
    }
}
