//! Owners: the owners of each kind and their controller's books, as in the ordinary controllers.
//!
//! The handlers are the controllers' own. The books never record a write, so no sync waits for expectations or for a
//! cache; the backoff for pods that fail at once works as usual (B-08).

use std::collections::BTreeSet;
use std::time::Duration;

use muster_machinery::cache::Cached;
use muster_machinery::{Cache, Change};
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Deployment, Moment, Pod, ReplicaSet, Timestamp};

use super::observed_kind::{ObservedKind, Options};
use super::record::Record;
use muster_controllers::begin::Begin;
use muster_controllers::deployment::{self, deployment_changed, replica_set_changed};
use muster_controllers::replicaset::{self, Effect, Enqueue, Owners, ReplicaOwner, owner_changed, pod_changed};

/// A requeue after a delay comes no sooner than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// Replica owners of one kind, with their controller's books.
pub(super) struct Replicas<O: ReplicaOwner + Cached + Clone> {
    pub(super) owners: Cache<O>,
    pub(super) books: replicaset::Books,
    pub(super) observed: ObservedKind<replicaset::Snapshot<O>>,
    pub(super) due: Due,
}

/// Deployments, with their controller's books.
pub(super) struct Deployments {
    pub(super) deployments: Cache<Deployment>,
    pub(super) books: deployment::Books,
    pub(super) observed: ObservedKind<deployment::Snapshot>,
    pub(super) due: Due,
}

/// The keys to look at again, and when.
#[derive(Default)]
pub(super) struct Due(BTreeSet<(Timestamp, ObjectKey)>);

impl<O> Replicas<O>
where
    O: ReplicaOwner + Cached + Clone,
    Cache<O>: Owners<O>,
{
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            owners: Cache::new(),
            books: replicaset::Books::new(O::IDENTITY),
            observed: ObservedKind::new(start),
            due: Due::default(),
        }
    }

    pub(super) fn pod_changed(&mut self, change: &Change<Pod>, at: Timestamp) -> Vec<ObjectKey> {
        let mut effects = Vec::new();
        pod_changed(change, &self.owners, |effect| effects.push(effect));
        self.note(effects, at)
    }

    pub(super) fn owner_changed(&mut self, change: &Change<O>, at: Timestamp) -> Vec<ObjectKey> {
        let gone = match change {
            Change::Updated { old, new } if old.meta().uid != new.meta().uid => Some(old),
            Change::Deleted { last, .. } => Some(last),
            _ => None,
        };
        if let Some(gone) = gone {
            self.observed.gone(&gone.meta().uid, at);
        }
        let mut effects = Vec::new();
        owner_changed(change, |effect| effects.push(effect));
        self.note(effects, at)
    }

    fn note(&mut self, effects: Vec<Effect>, at: Timestamp) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for effect in effects {
            match self.books.note(effect, moment(at)) {
                Some(Enqueue::Now(key)) if !keys.contains(&key) => keys.push(key),
                Some(Enqueue::After(key, delay)) => self.due.add(at, delay, key),
                Some(Enqueue::Now(_)) | None => {}
            }
        }
        keys
    }

    pub(super) fn look(
        &mut self,
        key: &ObjectKey,
        pods: &Cache<Pod>,
        burst: u32,
        (version, at): (ResourceVersion, Timestamp),
        options: &Options,
        out: &mut Vec<Record>,
    ) {
        let Begin::Ready(snapshot) = self.books.begin(key, &self.owners, pods, burst, moment(at)) else { return };
        if let Some(delay) = self.observed.look(snapshot, version, at, options, out) {
            self.due.add(at, delay, key.clone());
        }
    }
}

impl Deployments {
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            deployments: Cache::new(),
            books: deployment::Books::new(),
            observed: ObservedKind::new(start),
            due: Due::default(),
        }
    }

    pub(super) fn changed(&mut self, change: &Change<Deployment>, at: Timestamp) -> Vec<ObjectKey> {
        let gone = match change {
            Change::Updated { old, new } if old.meta.uid != new.meta.uid => Some(old),
            Change::Deleted { last, .. } => Some(last),
            _ => None,
        };
        if let Some(gone) = gone {
            self.observed.gone(&gone.meta.uid, at);
        }
        let mut keys = Vec::new();
        let books = &mut self.books;
        deployment_changed(change, |effect| keys.extend(books.note(effect)));
        keys
    }

    pub(super) fn set_changed(&mut self, change: &Change<ReplicaSet>) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        let books = &mut self.books;
        replica_set_changed(change, &self.deployments, |effect| keys.extend(books.note(effect)));
        keys
    }

    pub(super) fn pod_changed(
        &mut self,
        change: &Change<Pod>,
        pods: &Cache<Pod>,
        sets: &Cache<ReplicaSet>,
    ) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        let books = &mut self.books;
        let effect = |effect| keys.extend(books.note(effect));
        deployment::pod_changed(change, pods, sets, &self.deployments, effect);
        keys
    }

    pub(super) fn look(
        &mut self,
        key: &ObjectKey,
        sets: &Cache<ReplicaSet>,
        pods: &Cache<Pod>,
        (version, at): (ResourceVersion, Timestamp),
        options: &Options,
        out: &mut Vec<Record>,
    ) {
        let begin = self.books.begin(key, &self.deployments, sets, pods, 0, moment(at));
        let Begin::Ready(snapshot) = begin else { return };
        if let Some(delay) = self.observed.look(snapshot, version, at, options, out) {
            self.due.add(at, delay, key.clone());
        }
    }
}

impl Due {
    fn add(&mut self, at: Timestamp, delay: Duration, key: ObjectKey) {
        self.0.insert((at + delay.max(SHORTEST_WAIT), key));
    }

    pub(super) fn next(&mut self, now: Timestamp) -> Option<(Timestamp, ObjectKey)> {
        let (at, _) = self.0.first()?;
        if *at > now { None } else { self.0.pop_first() }
    }
}

/// The server's wall clock as a moment: the books only use differences.
fn moment(at: Timestamp) -> Moment {
    Moment::from_nanos(u64::try_from(at.as_nanos()).unwrap_or(0))
}
