//! Watcher: the shadow's caches, and how a change passes through them.
//!
//! Changes of all kinds arrive in the order of their versions, so that after each one the caches show a state that the
//! cluster really had, and a cause always comes before its effect. Delayed requeues run when their time has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_machinery::cache::Cached;
use muster_machinery::{Cache, Change};
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use muster_objects::{Deployment, Object, Pod, ReplicaSet, ReplicationController, Timestamp};

use super::action::{self, Action};
use super::observed_kind::{Known, ObservedKind, Options};
use super::owners::{Deployments, Replicas};
use super::record::{Line, Record};
use super::totals::Totals;

/// A change of one of the observed kinds.
#[derive(Debug, Clone)]
pub enum Watched {
    /// Of a pod.
    Pod(Change<Pod>),
    /// Of a ReplicaSet.
    ReplicaSet(Change<ReplicaSet>),
    /// Of a ReplicationController.
    ReplicationController(Change<ReplicationController>),
    /// Of a Deployment.
    Deployment(Change<Deployment>),
}

/// A change, and when it was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The version of the change; all kinds share one counter.
    pub version: ResourceVersion,
    /// When it arrived, by the server's clock (B-11).
    pub at: Timestamp,
    /// What changed.
    pub change: Watched,
}

/// The owners that a change concerns.
#[derive(Default)]
struct Touched {
    sets: Vec<ObjectKey>,
    controllers: Vec<ObjectKey>,
    deployments: Vec<ObjectKey>,
}

/// The shadow of a cluster's controllers.
pub struct Watcher {
    options: Options,
    /// How many pods one sync creates or deletes at most.
    burst: u32,
    pods: Cache<Pod>,
    sets: Replicas<ReplicaSet>,
    controllers: Replicas<ReplicationController>,
    deployments: Deployments,
    /// Who wrote `spec.replicas` of a ReplicaSet at which of its versions.
    writers: BTreeMap<(ResourceVersion, Uid), String>,
    /// The namespaces that are being deleted.
    leaving: BTreeSet<Arc<str>>,
    /// The newest version that was applied.
    newest: ResourceVersion,
    now: Timestamp,
    records: Vec<Record>,
    lines: Vec<Line>,
    totals: Totals,
}

impl Watcher {
    /// A shadow with empty caches: fill them with [`Watcher::load`], then call [`Watcher::begin`].
    #[must_use]
    pub fn new(options: Options, burst: u32) -> Self {
        let start = Timestamp::UNIX_EPOCH;
        Self {
            options,
            burst,
            pods: Cache::new(),
            sets: Replicas::new(start),
            controllers: Replicas::new(start),
            deployments: Deployments::new(start),
            writers: BTreeMap::new(),
            leaving: BTreeSet::new(),
            newest: ResourceVersion::UNKNOWN,
            now: start,
            records: Vec::new(),
            lines: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Loads an object of the initial lists.
    pub fn load(&mut self, seen: Seen) {
        self.newest = self.newest.max(seen.version);
        match seen.change {
            Watched::Pod(change) => drop(put(&mut self.pods, &change)),
            Watched::ReplicaSet(change) => drop(put(&mut self.sets.owners, &change)),
            Watched::ReplicationController(change) => drop(put(&mut self.controllers.owners, &change)),
            Watched::Deployment(change) => drop(put(&mut self.deployments.deployments, &change)),
        }
    }

    /// The initial lists are loaded: looks at the first state. Returns the number of owners.
    pub fn begin(&mut self, at: Timestamp) -> u64 {
        self.now = at;
        self.sets.observed = ObservedKind::new(at);
        self.controllers.observed = ObservedKind::new(at);
        self.deployments.observed = ObservedKind::new(at);
        let keys: Vec<ObjectKey> = self.sets.owners.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_set(key, self.newest, at));
        let keys: Vec<ObjectKey> = self.controllers.owners.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_controller(key, self.newest, at));
        let keys: Vec<ObjectKey> = self.deployments.deployments.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_deployment(key, self.newest, at));
        self.flush(at);
        self.totals().objects.values().sum()
    }

    /// Applies a change: judges the actions that it shows, and looks at the new state.
    pub fn apply(&mut self, seen: Seen) {
        let Seen { version, at, change } = seen;
        let at = at.max(self.now);
        self.pass(at);
        let touched = match change {
            Watched::Pod(change) => {
                let Some(change) = put(&mut self.pods, &change) else { return };
                self.observe(action::of_pod(&change, version, at));
                Touched {
                    sets: self.sets.pod_changed(&change, at),
                    controllers: self.controllers.pod_changed(&change, at),
                    deployments: self.deployments.pod_changed(&change, &self.pods, &self.sets.owners),
                }
            }
            Watched::ReplicaSet(change) => {
                let Some(change) = put(&mut self.sets.owners, &change) else { return };
                self.observe(action::of_replica_set(&change, version, at));
                let (sets, deployments) = (self.sets.owner_changed(&change, at), self.deployments.set_changed(&change));
                Touched { sets, deployments, ..Touched::default() }
            }
            Watched::ReplicationController(change) => {
                let Some(change) = put(&mut self.controllers.owners, &change) else { return };
                Touched { controllers: self.controllers.owner_changed(&change, at), ..Touched::default() }
            }
            Watched::Deployment(change) => {
                let Some(change) = put(&mut self.deployments.deployments, &change) else { return };
                Touched { deployments: self.deployments.changed(&change, at), ..Touched::default() }
            }
        };
        self.look(&touched, version, at);
        if version < self.newest {
            // The change came late: actions seen since may be explained by it, and it is part of the newest state as
            // well.
            self.look(&touched, self.newest, at);
        }
        self.newest = self.newest.max(version);
        self.flush(at);
    }

    fn look(&mut self, touched: &Touched, version: ResourceVersion, at: Timestamp) {
        touched.sets.iter().for_each(|key| self.look_at_set(key, version, at));
        touched.controllers.iter().for_each(|key| self.look_at_controller(key, version, at));
        touched.deployments.iter().for_each(|key| self.look_at_deployment(key, version, at));
    }

    /// Some changes were missed, as when a kind had to be relisted: actions of the next seconds may have been decided
    /// on them.
    pub fn missed_changes_until(&mut self, at: Timestamp) {
        self.sets.observed.missed_changes_until(at);
        self.controllers.observed.missed_changes_until(at);
        self.deployments.observed.missed_changes_until(at);
    }

    /// Records who wrote `spec.replicas` of a ReplicaSet, as its version `version` says.
    pub fn written_by(&mut self, set: Uid, version: ResourceVersion, writer: String) {
        self.writers.insert((version, set), writer);
        // Enough for every ReplicaSet that may still be judged, in a few megabytes.
        while self.writers.len() > 50_000 {
            self.writers.pop_first();
        }
    }

    /// Records whether a namespace is being deleted: nothing can be created in it, and its objects are deleted with it.
    pub fn namespace(&mut self, name: Arc<str>, leaving: bool) {
        if leaving {
            self.leaving.insert(name);
        } else {
            self.leaving.remove(&name);
        }
    }

    /// Advances the time to `now`: runs delayed requeues, and reports what is overdue.
    pub fn pass(&mut self, now: Timestamp) {
        if now < self.now {
            return;
        }
        while let Some((at, key)) = self.sets.due.next(now) {
            self.look_at_set(&key, self.newest, at.max(self.now));
            self.flush(at.max(self.now));
        }
        while let Some((at, key)) = self.controllers.due.next(now) {
            self.look_at_controller(&key, self.newest, at.max(self.now));
            self.flush(at.max(self.now));
        }
        while let Some((at, key)) = self.deployments.due.next(now) {
            self.look_at_deployment(&key, self.newest, at.max(self.now));
            self.flush(at.max(self.now));
        }
        // Judging visits every owner; once a second is enough for a patience of 10 s.
        if now.as_seconds() != self.now.as_seconds() {
            let with_overdue_writes = Touched {
                sets: self.sets.observed.with_overdue_writes(now, &self.options, &self.leaving),
                controllers: self.controllers.observed.with_overdue_writes(now, &self.options, &self.leaving),
                deployments: self.deployments.observed.with_overdue_writes(now, &self.options, &self.leaving),
            };
            self.look(&with_overdue_writes, self.newest, now);
            let Self { sets, controllers, deployments, options, writers, leaving, records, .. } = self;
            let writer = |uid: &Uid, version| writers.get(&(version, uid.clone())).cloned();
            sets.observed.pass(now, options, &Known { writers: &writer, leaving }, records);
            controllers.observed.pass(now, options, &Known { writers: &writer, leaving }, records);
            deployments.observed.pass(now, options, &Known { writers: &writer, leaving }, records);
        }
        self.now = now;
        self.flush(now);
    }

    /// The lines recorded since the last call.
    pub fn lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The counts since the beginning.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        let objects = [
            (ReplicaSet::KIND, self.sets.observed.seen),
            (ReplicationController::KIND, self.controllers.observed.seen),
            (Deployment::KIND, self.deployments.observed.seen),
        ];
        totals.objects = objects.into_iter().map(|(kind, seen)| (kind.to_owned(), seen)).collect();
        totals
    }

    fn observe(&mut self, actions: Vec<Action>) {
        let Self { sets, controllers, deployments, options, records, .. } = self;
        for action in actions.into_iter().filter(|action| options.kinds.contains(&*action.owner_kind)) {
            match &*action.owner_kind {
                ReplicaSet::KIND => sets.observed.observe(action, options, records),
                ReplicationController::KIND => controllers.observed.observe(action, options, records),
                Deployment::KIND => deployments.observed.observe(action, options, records),
                // Other kinds of owner are not observed.
                _ => {}
            }
        }
    }

    fn look_at_set(&mut self, key: &ObjectKey, version: ResourceVersion, at: Timestamp) {
        if !self.options.kinds.contains(ReplicaSet::KIND) {
            return;
        }
        let Self { sets, pods, options, burst, records, .. } = self;
        sets.look(key, pods, *burst, (version, at), options, records);
    }

    fn look_at_controller(&mut self, key: &ObjectKey, version: ResourceVersion, at: Timestamp) {
        if !self.options.kinds.contains(ReplicationController::KIND) {
            return;
        }
        let Self { controllers, pods, options, burst, records, .. } = self;
        controllers.look(key, pods, *burst, (version, at), options, records);
    }

    fn look_at_deployment(&mut self, key: &ObjectKey, version: ResourceVersion, at: Timestamp) {
        if !self.options.kinds.contains(Deployment::KIND) {
            return;
        }
        let Self { deployments, sets, pods, options, records, .. } = self;
        deployments.look(key, &sets.owners, pods, (version, at), options, records);
    }

    fn flush(&mut self, at: Timestamp) {
        for record in self.records.drain(..) {
            self.totals.add(&record);
            self.lines.push(Line::new(at, record));
        }
    }
}

/// Applies a change of one cache to another.
fn put<T: Cached>(cache: &mut Cache<T>, change: &Change<T>) -> Option<Change<T>> {
    match change {
        Change::Added(object) | Change::Updated { new: object, .. } => cache.apply_shared(object.clone()),
        Change::Deleted { last, .. } => cache.delete_key(&last.meta().key()),
    }
}
