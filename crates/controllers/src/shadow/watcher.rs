//! Watcher: the caches of the shadow, and the way of a change through them.
//!
//! Its caches are its own. Changes come in the order of their versions, one kind after the other as they were made,
//! so that what the caches show after each is a state that the cluster really had; a cause is always there before its
//! effect. What time alone brings about comes at its time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_machinery::cache::Cached;
use muster_machinery::{Cache, Change};
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use muster_objects::{Deployment, Moment, Object, Pod, ReplicaSet, ReplicationController, Timestamp};

use super::action::{self, Action};
use super::record::{Line, Record};
use super::side::{Options, Side};
use super::tally::Tally;
use crate::begin::Begin;
use crate::deployment::{self, deployment_changed, replica_set_changed};
use crate::replicaset::{self, Effect, Enqueue, Owners, ReplicaOwner, owner_changed, pod_changed};

/// A time-triggered look comes no sooner than this after the one before.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// A change of one of the kinds that are watched.
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
    /// The version that it made, of the one counter that all kinds share.
    pub version: ResourceVersion,
    /// When it arrived, by the server's clock (B-11).
    pub at: Timestamp,
    /// What changed.
    pub change: Watched,
}

/// Replica owners of one kind, with the memory of their controller.
struct Replicas<O: ReplicaOwner + Cached + Clone> {
    owners: Cache<O>,
    books: replicaset::Books,
    side: Side<replicaset::Snapshot<O>>,
    due: Due,
}

/// Deployments, with the memory of their controller.
struct Deployments {
    deployments: Cache<Deployment>,
    books: deployment::Books,
    side: Side<deployment::Snapshot>,
    due: Due,
}

/// Who is to be looked at again, and when.
#[derive(Default)]
struct Due(BTreeSet<(Timestamp, ObjectKey)>);

/// The shadow of a cluster's controllers.
pub struct Watcher {
    options: Options,
    /// How many pods one sync creates or deletes at most.
    burst: u32,
    pods: Cache<Pod>,
    sets: Replicas<ReplicaSet>,
    controllers: Replicas<ReplicationController>,
    deployments: Deployments,
    /// Who wrote the size of a ReplicaSet, at which of its versions.
    writers: BTreeMap<(ResourceVersion, Uid), String>,
    /// The newest version that was taken in.
    newest: ResourceVersion,
    now: Timestamp,
    records: Vec<Record>,
    lines: Vec<Line>,
    tally: Tally,
}

impl Watcher {
    /// A shadow without a cluster: fill its caches by [`Watcher::load`], then [`Watcher::begin`].
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
            newest: ResourceVersion::UNKNOWN,
            now: start,
            records: Vec::new(),
            lines: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Takes in what was there before anybody looked.
    pub fn load(&mut self, seen: Seen) {
        self.newest = self.newest.max(seen.version);
        match seen.change {
            Watched::Pod(change) => drop(put(&mut self.pods, &change)),
            Watched::ReplicaSet(change) => drop(put(&mut self.sets.owners, &change)),
            Watched::ReplicationController(change) => drop(put(&mut self.controllers.owners, &change)),
            Watched::Deployment(change) => drop(put(&mut self.deployments.deployments, &change)),
        }
    }

    /// Everything that was there is loaded: the first state is looked at. Returns how many owners there are.
    pub fn begin(&mut self, at: Timestamp) -> u64 {
        self.now = at;
        self.sets.side = Side::new(at);
        self.controllers.side = Side::new(at);
        self.deployments.side = Side::new(at);
        let keys: Vec<ObjectKey> = self.sets.owners.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_set(key, at));
        let keys: Vec<ObjectKey> = self.controllers.owners.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_controller(key, at));
        let keys: Vec<ObjectKey> = self.deployments.deployments.iter().map(|owner| owner.meta.key()).collect();
        keys.iter().for_each(|key| self.look_at_deployment(key, at));
        self.flush(at);
        self.tally().objects.values().sum()
    }

    /// Takes in a change: judges what was done by it, and looks at the state that it made.
    pub fn apply(&mut self, seen: Seen) {
        let Seen { version, at, change } = seen;
        let at = at.max(self.now);
        self.pass(at);
        match change {
            Watched::Pod(change) => {
                let Some(change) = put(&mut self.pods, &change) else { return };
                self.did(action::of_pod(&change, version, at));
                self.newest = self.newest.max(version);
                let sets = self.sets.pod_changed(&change, at);
                let controllers = self.controllers.pod_changed(&change, at);
                let deployments = self.deployments.pod_changed(&change, &self.pods, &self.sets.owners);
                sets.iter().for_each(|key| self.look_at_set(key, at));
                controllers.iter().for_each(|key| self.look_at_controller(key, at));
                deployments.iter().for_each(|key| self.look_at_deployment(key, at));
            }
            Watched::ReplicaSet(change) => {
                let Some(change) = put(&mut self.sets.owners, &change) else { return };
                self.did(action::of_replica_set(&change, version, at));
                self.newest = self.newest.max(version);
                let sets = self.sets.owner_changed(&change, at);
                let deployments = self.deployments.set_changed(&change);
                sets.iter().for_each(|key| self.look_at_set(key, at));
                deployments.iter().for_each(|key| self.look_at_deployment(key, at));
            }
            Watched::ReplicationController(change) => {
                let Some(change) = put(&mut self.controllers.owners, &change) else { return };
                self.newest = self.newest.max(version);
                let controllers = self.controllers.owner_changed(&change, at);
                controllers.iter().for_each(|key| self.look_at_controller(key, at));
            }
            Watched::Deployment(change) => {
                let Some(change) = put(&mut self.deployments.deployments, &change) else { return };
                self.newest = self.newest.max(version);
                let deployments = self.deployments.changed(&change, at);
                deployments.iter().for_each(|key| self.look_at_deployment(key, at));
            }
        }
        self.flush(at);
    }

    /// Not everything that happened was seen, as when a kind had to be listed anew: what is done in the next seconds may
    /// have been decided on it.
    pub fn lost_sight(&mut self, at: Timestamp) {
        self.sets.side.lost_sight(at);
        self.controllers.side.lost_sight(at);
        self.deployments.side.lost_sight(at);
    }

    /// Who has last written the size of a ReplicaSet, as its version `version` says.
    pub fn written_by(&mut self, set: Uid, version: ResourceVersion, writer: String) {
        self.writers.insert((version, set), writer);
        // Enough for every ReplicaSet that is looked at again, and no more than a few megabytes.
        while self.writers.len() > 50_000 {
            self.writers.pop_first();
        }
    }

    /// It is `now`: what time alone brings about, and what has been waited for long enough.
    pub fn pass(&mut self, now: Timestamp) {
        if now < self.now {
            return;
        }
        while let Some((at, key)) = self.sets.due.next(now) {
            self.look_at_set(&key, at.max(self.now));
            self.flush(at.max(self.now));
        }
        while let Some((at, key)) = self.controllers.due.next(now) {
            self.look_at_controller(&key, at.max(self.now));
            self.flush(at.max(self.now));
        }
        while let Some((at, key)) = self.deployments.due.next(now) {
            self.look_at_deployment(&key, at.max(self.now));
            self.flush(at.max(self.now));
        }
        // Judging looks at every owner: once a second is often enough for waits of ten.
        if now.as_seconds() != self.now.as_seconds() {
            let Self { sets, controllers, deployments, options, writers, records, .. } = self;
            let writer = |uid: &Uid, version| writers.get(&(version, uid.clone())).cloned();
            sets.side.pass(now, options, &writer, records);
            controllers.side.pass(now, options, &writer, records);
            deployments.side.pass(now, options, &writer, records);
        }
        self.now = now;
        self.flush(now);
    }

    /// The lines that are to be written since the last call.
    pub fn lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The counts since the beginning.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        let objects = [
            (ReplicaSet::KIND, self.sets.side.seen),
            (ReplicationController::KIND, self.controllers.side.seen),
            (Deployment::KIND, self.deployments.side.seen),
        ];
        tally.objects = objects.into_iter().map(|(kind, seen)| (kind.to_owned(), seen)).collect();
        tally
    }

    fn did(&mut self, actions: Vec<Action>) {
        let Self { sets, controllers, deployments, options, records, .. } = self;
        for action in actions.into_iter().filter(|action| options.kinds.contains(&*action.owner_kind)) {
            match &*action.owner_kind {
                ReplicaSet::KIND => sets.side.did(action, options, records),
                ReplicationController::KIND => controllers.side.did(action, options, records),
                Deployment::KIND => deployments.side.did(action, options, records),
                // Other owners have other controllers.
                _ => {}
            }
        }
    }

    fn look_at_set(&mut self, key: &ObjectKey, at: Timestamp) {
        if !self.options.kinds.contains(ReplicaSet::KIND) {
            return;
        }
        let Self { sets, pods, options, burst, newest, records, .. } = self;
        sets.look(key, pods, *burst, (*newest, at), options, records);
    }

    fn look_at_controller(&mut self, key: &ObjectKey, at: Timestamp) {
        if !self.options.kinds.contains(ReplicationController::KIND) {
            return;
        }
        let Self { controllers, pods, options, burst, newest, records, .. } = self;
        controllers.look(key, pods, *burst, (*newest, at), options, records);
    }

    fn look_at_deployment(&mut self, key: &ObjectKey, at: Timestamp) {
        if !self.options.kinds.contains(Deployment::KIND) {
            return;
        }
        let Self { deployments, sets, pods, options, newest, records, .. } = self;
        deployments.look(key, &sets.owners, pods, (*newest, at), options, records);
    }

    fn flush(&mut self, at: Timestamp) {
        for record in self.records.drain(..) {
            self.tally.add(&record);
            self.lines.push(Line::new(at, record));
        }
    }
}

impl<O> Replicas<O>
where
    O: ReplicaOwner + Cached + Clone,
    Cache<O>: Owners<O>,
{
    fn new(start: Timestamp) -> Self {
        Self {
            owners: Cache::new(),
            books: replicaset::Books::new(O::IDENTITY),
            side: Side::new(start),
            due: Due::default(),
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>, at: Timestamp) -> Vec<ObjectKey> {
        let mut effects = Vec::new();
        pod_changed(change, &self.owners, |effect| effects.push(effect));
        self.note(effects, at)
    }

    fn owner_changed(&mut self, change: &Change<O>, at: Timestamp) -> Vec<ObjectKey> {
        let gone = match change {
            Change::Updated { old, new } if old.meta().uid != new.meta().uid => Some(old),
            Change::Deleted { last, .. } => Some(last),
            _ => None,
        };
        if let Some(gone) = gone {
            self.side.gone(&gone.meta().uid, at);
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

    fn look(
        &mut self,
        key: &ObjectKey,
        pods: &Cache<Pod>,
        burst: u32,
        (version, at): (ResourceVersion, Timestamp),
        options: &Options,
        out: &mut Vec<Record>,
    ) {
        let Begin::Ready(snapshot) = self.books.begin(key, &self.owners, pods, burst, moment(at)) else { return };
        if let Some(delay) = self.side.look(snapshot, version, at, options, out) {
            self.due.add(at, delay, key.clone());
        }
    }
}

impl Deployments {
    fn new(start: Timestamp) -> Self {
        Self {
            deployments: Cache::new(),
            books: deployment::Books::new(),
            side: Side::new(start),
            due: Due::default(),
        }
    }

    fn changed(&mut self, change: &Change<Deployment>, at: Timestamp) -> Vec<ObjectKey> {
        let gone = match change {
            Change::Updated { old, new } if old.meta.uid != new.meta.uid => Some(old),
            Change::Deleted { last, .. } => Some(last),
            _ => None,
        };
        if let Some(gone) = gone {
            self.side.gone(&gone.meta.uid, at);
        }
        let mut keys = Vec::new();
        let books = &mut self.books;
        deployment_changed(change, |effect| keys.extend(books.note(effect)));
        keys
    }

    fn set_changed(&mut self, change: &Change<ReplicaSet>) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        let books = &mut self.books;
        replica_set_changed(change, &self.deployments, |effect| keys.extend(books.note(effect)));
        keys
    }

    fn pod_changed(&mut self, change: &Change<Pod>, pods: &Cache<Pod>, sets: &Cache<ReplicaSet>) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        let books = &mut self.books;
        let effect = |effect| keys.extend(books.note(effect));
        deployment::pod_changed(change, pods, sets, &self.deployments, effect);
        keys
    }

    fn look(
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
        if let Some(delay) = self.side.look(snapshot, version, at, options, out) {
            self.due.add(at, delay, key.clone());
        }
    }
}

impl Due {
    fn add(&mut self, at: Timestamp, delay: Duration, key: ObjectKey) {
        self.0.insert((at + delay.max(SHORTEST_WAIT), key));
    }

    fn next(&mut self, now: Timestamp) -> Option<(Timestamp, ObjectKey)> {
        let (at, _) = self.0.first()?;
        if *at > now { None } else { self.0.pop_first() }
    }
}

/// Does to a cache what was done to another one.
fn put<T: Cached>(cache: &mut Cache<T>, change: &Change<T>) -> Option<Change<T>> {
    match change {
        Change::Added(object) | Change::Updated { new: object, .. } => cache.apply_shared(object.clone()),
        Change::Deleted { last, .. } => cache.delete_key(&last.meta().key()),
    }
}

/// The server's wall clock as one that only goes forward: the books ask for no more than differences.
fn moment(at: Timestamp) -> Moment {
    Moment::from_nanos(u64::try_from(at.as_nanos()).unwrap_or(0))
}
