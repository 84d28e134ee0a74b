//! Books: what the controller remembers of every owner between syncs.
//!
//! These are three things, none of which is needed for correctness after a restart: the watch events of the last round
//! that are still to come ([`Expectations`]), the versions that the caches must reach before the next sync
//! ([`Consistency`]), and how long creations are delayed ([`Backoff`]). Handlers and executors update the books; a sync
//! begins with [`Books::begin`].
//!
//! # Two guards, one inside the other
//!
//! After a round that created pods, the cache is behind for a moment: a sync that read it then would find the pods
//! missing and create them again. Upstream first prevented this by counting events: three creations expected, three
//! seen. An event that never comes (because its owner reference was already removed, or the watch was interrupted)
//! blocks the owner for five minutes, after which it counts whatever the cache shows.
//!
//! The record of written versions is the better guard: the server returned the version of each write, and a cache that
//! has reached them all shows the whole round (RS-19). Expectations that are left then are settled from the cache
//! (B-01). Events are still counted for writes whose version is not known: a deletion that was answered by a bare
//! `Status`, an answer that was lost. A round with such a write is never settled early.
//!
//! A sync deferred by the record is woken when the cache has caught up, and costs no retry (B-17).
//!
//! The cache must run its handlers for a change before it reports the change's version as its newest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_machinery::cache::Cache;
use muster_machinery::consistency::Freshness;
use muster_machinery::{Backoff, Consistency, Expectations};
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Moment, Pod};

use super::backoff::creation_backoff;
use super::handlers::{Effect, Owners};
use super::identity::{Identity, ReplicaOwner};
use super::snapshot::{Expected, Remembered, Snapshot};
use crate::pause::Pauses;
use crate::plan::{Expectation, Outcome, Owner, Resource};

/// After so many rounds that left pods alone, one after the other and each by a cache that has caught up with the last, the cache
/// is wrong: it lost an event. The pods of the next round go as it shows them (B-02).
const MOST_LEFT: u32 = 10;

/// What one controller remembers.
#[derive(Debug)]
pub struct Books {
    /// The watch events still expected.
    expectations: Expectations,
    /// The versions written; `None` for a kind without a record (RC-02).
    record: Option<Consistency<Resource>>,
    /// Owners whose last round has a write of unknown version, so that reaching the others proves nothing.
    unproved: BTreeSet<ObjectKey>,
    /// Owners whose creations are delayed (B-08).
    brakes: Backoff<ObjectKey>,
    /// Owners whose last creations were refused because their namespace is being deleted: the next ones are delayed
    /// too. Such a refusal causes neither an event nor an error, so every deleted pod would cause another attempt.
    refused: BTreeSet<ObjectKey>,
    /// Owners with pods that somebody else deleted or took from them, seen or unseen: the owners may be being deleted themselves.
    unasked: BTreeSet<ObjectKey>,
    /// Those of them whose sync was told to confirm the owner, and that has not ended yet.
    confirming: BTreeSet<ObjectKey>,
    /// Owners whose last rounds left pods alone, each of them, and how many these were.
    left: BTreeMap<ObjectKey, u32>,
    /// What the pods' cache had reached when the round of creations of an owner began.
    began: BTreeMap<ObjectKey, ResourceVersion>,
    /// A pod was created at a version that the cache had reached before: the server was put back to an earlier state.
    put_back: bool,
    /// Owners whose status was written and not looked at since, and the version that it was stored at.
    reported: BTreeMap<ObjectKey, ResourceVersion>,
    /// Whether the server stores `terminatingReplicas`: not before v1.35, nor with the feature gate off.
    stores_terminating: bool,
    /// When each owner's status was last written, or its pods managed.
    pauses: Pauses,
}

/// What a handler's effect asks of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueue {
    /// Queue the key.
    Now(ObjectKey),
    /// Queue the key after a delay.
    After(ObjectKey, Duration),
}

/// How a sync of a ReplicaSet begins.
pub type Begin<O> = crate::begin::Begin<Snapshot<O>>;

impl Books {
    /// Empty books for one kind of owner.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self {
            expectations: Expectations::new(),
            record: identity.keeps_record.then(Consistency::default),
            unproved: BTreeSet::new(),
            brakes: creation_backoff(),
            refused: BTreeSet::new(),
            unasked: BTreeSet::new(),
            confirming: BTreeSet::new(),
            left: BTreeMap::new(),
            began: BTreeMap::new(),
            put_back: false,
            reported: BTreeMap::new(),
            stores_terminating: true,
            pauses: Pauses::default(),
        }
    }

    /// A copy of what is remembered of one owner. It can be used, [`Books::begin`] included, without an effect on later
    /// syncs.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        let alone = |owners: &BTreeSet<ObjectKey>| owners.get(owner).cloned().into_iter().collect();
        Self {
            expectations: self.expectations.only(owner),
            record: self.record.as_ref().map(|record| record.only(owner)),
            unproved: alone(&self.unproved),
            brakes: self.brakes.only(owner),
            refused: alone(&self.refused),
            unasked: alone(&self.unasked),
            confirming: alone(&self.confirming),
            left: self.left.get(owner).map(|rounds| (owner.clone(), *rounds)).into_iter().collect(),
            began: BTreeMap::new(),
            put_back: false,
            reported: self.reported.get(owner).map(|version| (owner.clone(), *version)).into_iter().collect(),
            stores_terminating: self.stores_terminating,
            pauses: self.pauses.only(owner),
        }
    }

    /// The watch events still expected.
    #[must_use]
    pub fn expectations(&self) -> &Expectations {
        &self.expectations
    }

    /// The versions written; `None` for a kind without a record (RC-02).
    #[must_use]
    pub fn record(&self) -> Option<&Consistency<Resource>> {
        self.record.as_ref()
    }

    /// How long the creations of an owner are still delayed (B-08).
    #[must_use]
    pub fn creations_wait(&self, owner: &ObjectKey, now: Moment) -> Option<Duration> {
        self.brakes.remaining(owner, now)
    }

    /// Applies a handler's effect; returns what to queue. [`Effect::Overlap`] only concerns the log.
    pub fn note(&mut self, effect: Effect, now: Moment) -> Option<Enqueue> {
        self.pauses.tell(now);
        match effect {
            Effect::Enqueue(owner) => return Some(Enqueue::Now(owner)),
            Effect::EnqueueAfter(owner, delay) => return Some(Enqueue::After(owner, delay)),
            Effect::CreationObserved(owner) => self.expectations.creation_observed(&owner),
            Effect::DeletionObserved { owner, pod, first } => {
                if !self.expectations.deletion_observed(&owner, &pod) && first {
                    self.unasked.insert(owner);
                }
            }
            Effect::Left(owner) => {
                self.unasked.insert(owner);
            }
            Effect::FailedAtOnce(owner) => {
                self.brakes.fail(&owner, now);
            }
            Effect::TurnedReady(owner) => self.brakes.reset(&owner),
            Effect::Forget { owner, uid } => {
                if let Some(record) = &mut self.record {
                    record.clear(&owner, Some(&uid));
                }
                self.forget(&owner);
            }
            Effect::Overlap { .. } => {}
        }
        None
    }

    /// Takes the snapshot that a sync of `key` decides on, if it may begin.
    ///
    /// `owners` and `pods` must be of one moment: both locked, or both read on one thread.
    pub fn begin<O: ReplicaOwner>(
        &mut self,
        key: &ObjectKey,
        owners: &impl Owners<O>,
        pods: &Cache<Pod>,
        burst: u32,
        now: Moment,
    ) -> Begin<O> {
        self.pauses.tell(now);
        let newest = |resource: Resource| match resource {
            Resource::PODS => pods.newest(),
            _ => owners.newest(),
        };
        let verdict = self.record.as_mut().map(|record| record.check(key, newest, now));
        match verdict {
            Some(Freshness::Behind { resource, wrote, read, remedy }) => {
                return Begin::Stale { resource, wrote, read, remedy };
            }
            Some(Freshness::CaughtUp) if !self.unproved.contains(key) => {
                self.came_and_went(key);
                self.expectations.settle(key);
            }
            Some(Freshness::CaughtUp | Freshness::Unrecorded) | None => {}
        }
        let Some(owner) = owners.get(key) else {
            if let Some(record) = &mut self.record {
                record.clear(key, None);
            }
            self.forget(key);
            return Begin::Gone;
        };
        if self.refused.remove(key) {
            self.brakes.fail(key, now);
        }
        // The cache shows the status as it was stored.
        let written = self.reported.remove(key).filter(|version| *version == owner.meta().resource_version);
        if written.is_some() && verdict == Some(Freshness::CaughtUp) {
            self.stores_terminating = owner.status().terminating_replicas.is_some();
        }
        let (expected, creations_wait) = (self.expected(key, now), self.brakes.remaining(key, now));
        let may_create = expected == Expected::Settled && creations_wait.is_none();
        // The last sync ended before it came to that.
        if self.confirming.remove(key) {
            self.unasked.insert(key.clone());
        }
        let confirm = may_create && self.unasked.remove(key);
        if confirm {
            self.confirming.insert(key.clone());
        }
        let memory = Remembered {
            expected,
            creations_wait,
            confirm,
            counts_wait: self.pauses.wait(key),
            stores_terminating: self.stores_terminating,
            spares: self.record.is_some() && self.left.get(key).is_none_or(|rounds| *rounds < MOST_LEFT),
        };
        match Snapshot::take(owner, owners, pods, memory, burst) {
            Ok(snapshot) => Begin::Ready(snapshot),
            Err(error) => Begin::InvalidSelector(error),
        }
    }

    /// Sets the expectations of the round that begins (EX-01).
    pub fn expect(&mut self, owner: &Owner, expectation: &Expectation, now: Moment) {
        self.pauses.tell(now);
        self.unproved.remove(&owner.key);
        match expectation {
            Expectation::Creations(count) => {
                let reached = self.record.as_ref().and_then(|record| record.newest(Resource::PODS));
                self.began.extend(reached.map(|version| (owner.key.clone(), version)));
                self.expectations.expect_creations(&owner.key, usize::try_from(*count).unwrap_or(usize::MAX), now);
            }
            Expectation::Deletions(keys) => {
                self.expectations.expect_deletions(&owner.key, keys.iter().cloned(), now);
            }
        }
    }

    /// This many creations will not be seen: they failed, or were never tried (EX-05).
    pub fn lower_creations(&mut self, owner: &Owner, count: u32) {
        self.expectations.lower_creations(&owner.key, usize::try_from(count).unwrap_or(usize::MAX));
    }

    /// This deletion will not be seen: it failed, or there was nothing to delete (EX-05).
    pub fn lower_deletion(&mut self, owner: &Owner, pod: &ObjectKey) {
        self.expectations.deletion_observed(&owner.key, pod);
    }

    /// Records that a write for this owner left an object of `resource` at `version` (RS-19).
    pub fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion) {
        if resource == owner.resource {
            self.pauses.wrote(&owner.key);
            // A write that makes no new version has stored nothing of what was new in it.
            if version == owner.resource_version {
                self.stores_terminating = false;
            } else {
                self.reported.insert(owner.key.clone(), version);
            }
        }
        // That the cache has passed it proves nothing then.
        if resource == Resource::PODS && self.began.get(&owner.key).is_some_and(|reached| version <= *reached) {
            self.unproved.insert(owner.key.clone());
            self.put_back = true;
        }
        if let Some(record) = &mut self.record {
            record.wrote_at(&owner.key, &owner.uid, resource, version);
        }
    }

    /// Whether a pod was created at a version that the cache had reached before, since this was last asked: the server was put
    /// back to an earlier state, and the caches show another.
    pub fn take_put_back(&mut self) -> bool {
        std::mem::take(&mut self.put_back)
    }

    /// A sync of the owner ended with a status whose counts are all up to date.
    pub fn status_is_up_to_date(&mut self, owner: &ObjectKey) {
        self.pauses.up_to_date(owner);
        self.confirming.remove(owner);
    }

    /// Records whether every write of a round has a known version (B-01), and whether its creations were refused
    /// because the namespace is being deleted (RS-12).
    pub fn round_ended(&mut self, owner: &Owner, outcome: &Outcome) {
        self.began.remove(&owner.key);
        if outcome.created + outcome.deleted > 0 {
            self.pauses.wrote(&owner.key);
        }
        if !outcome.is_accounted_for() {
            self.unproved.insert(owner.key.clone());
        }
        if outcome.not_needed > 0 {
            self.refused.insert(owner.key.clone());
        }
        if self.confirming.remove(&owner.key) && outcome.unconfirmed {
            self.unasked.insert(owner.key.clone());
        }
        if outcome.no_longer_owned > 0 {
            *self.left.entry(owner.key.clone()).or_default() += 1;
        } else {
            self.left.remove(&owner.key);
        }
    }

    /// The cache of `resource` has reached `newest`: returns the owners that waited for this, to be queued at once
    /// (B-17).
    pub fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey> {
        self.record.as_mut().map_or_else(Vec::new, |record| record.caught_up(resource, newest))
    }

    /// The owners that waited too long for a cache, to be queued with the rate limit, as upstream does.
    pub fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        self.record.as_mut().map_or_else(Vec::new, |record| record.expired(now))
    }

    /// When [`Books::expired`] is to be called next; `None` if no owner waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.record.as_ref()?.next_deadline()
    }

    /// Pods that were created, and that will not be seen any more, were deleted by somebody else.
    fn came_and_went(&mut self, key: &ObjectKey) {
        let (unseen, _) = self.expectations.pending(key);
        if unseen > 0 {
            self.unasked.insert(key.clone());
        }
    }

    fn expected(&mut self, key: &ObjectKey, now: Moment) -> Expected {
        if self.expectations.satisfied(key, now) {
            self.came_and_went(key);
            self.unproved.remove(key);
            return Expected::Settled;
        }
        let expires_at = self.expectations.expires_at(key).unwrap_or(now);
        // The expectation expires just after that moment, not at it.
        let expires_in = expires_at.saturating_since(now) + Duration::from_millis(1);
        Expected::Pending { expires_in }
    }

    fn forget(&mut self, owner: &ObjectKey) {
        self.pauses.forget(owner);
        self.expectations.delete(owner);
        self.unproved.remove(owner);
        self.refused.remove(owner);
        self.unasked.remove(owner);
        self.confirming.remove(owner);
        self.left.remove(owner);
        self.began.remove(owner);
        self.reported.remove(owner);
        self.brakes.reset(owner);
    }
}
