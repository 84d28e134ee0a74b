//! What the page knows: the caches of the owners of pods, the pods of each, and what changed when.
//!
//! Changes are kept in logs of a bounded length, the oldest go first. The state at an earlier time is the state now with
//! the changes since then undone.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_controllers::deployment::bounds::Bounds;
use muster_controllers::deployment::revision::revision;
use muster_controllers::replicaset::ReplicaOwner;
use muster_machinery::{Cache, Change};
use muster_objects::meta::Uid;
use muster_objects::{Condition, Deployment, Pod, ReplicaSet, ReplicationController, Timestamp};
use muster_runtime::client::Client;
use muster_runtime::informer::Store;
use tokio::sync::watch;

use crate::pods::{Seen, State};

/// How many changes of pods are kept: some 10 MB.
const MOST_STEPS: usize = 100_000;
/// How many other changes are kept, and how many of one owner's bounds.
const MOST_MARKS: usize = 5_000;
const MOST_LINES: usize = 200;

/// What the page knows.
pub(crate) struct Model {
    pub(crate) deployments: Store<Deployment>,
    pub(crate) sets: Store<ReplicaSet>,
    pub(crate) controllers: Store<ReplicationController>,
    pub(crate) pods: Store<Seen>,
    book: Mutex<Book>,
    changed: watch::Sender<u64>,
    client: Client,
}

/// Milliseconds since the Unix epoch, by the API server's clock.
pub(crate) type Millis = i64;

/// A change of a pod.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: Millis,
    /// The uid of its controller.
    pub(crate) owner: Uid,
    pub(crate) pod: Arc<str>,
    pub(crate) node: Option<Arc<str>>,
    /// None where it came.
    pub(crate) before: Option<State>,
    /// None where it went.
    pub(crate) after: Option<State>,
}

/// A change of an owner of pods.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) at: Millis,
    /// The owner's uid.
    pub(crate) owner: Uid,
    pub(crate) what: What,
}

/// Something worth a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct What {
    /// In words.
    pub(crate) text: String,
    /// Whether pods come and go because of it: a chart begins there.
    pub(crate) begins: bool,
}

impl What {
    fn begins(text: impl Into<String>) -> Self {
        Self { text: text.into(), begins: true }
    }

    fn goes_on(text: impl Into<String>) -> Self {
        Self { text: text.into(), begins: false }
    }
}

/// The lines of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lines {
    pub(crate) wanted: i64,
    pub(crate) most: i64,
    pub(crate) least: i64,
}

/// Pods by state.
pub(crate) type Counts = [i64; State::ALL.len()];

/// A pod's state, its node and why it is not ready.
pub(crate) type Cell = (State, Option<Arc<str>>, Option<Arc<str>>);

/// The pods of one owner.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) pods: BTreeMap<Arc<str>, Arc<Seen>>,
    pub(crate) counts: Counts,
}

/// The pods of every owner, and the logs.
#[derive(Default)]
pub(crate) struct Book {
    owned: HashMap<Uid, Owned>,
    /// The nodes that have or had pods.
    nodes: BTreeSet<Arc<str>>,
    steps: VecDeque<Step>,
    marks: VecDeque<Mark>,
    /// The number of pods that is asked for, and the bounds, of each owner, as they are from each time on.
    lines: HashMap<Uid, VecDeque<(Millis, Lines)>>,
    /// When the recording began.
    pub(crate) since: Millis,
}

impl Model {
    pub(crate) fn new(
        (deployments, sets, controllers, pods): (
            Store<Deployment>,
            Store<ReplicaSet>,
            Store<ReplicationController>,
            Store<Seen>,
        ),
        client: Client,
    ) -> Self {
        let book = Mutex::new(Book { since: millis(&client), ..Book::default() });
        Self { deployments, sets, controllers, pods, book, changed: watch::Sender::new(0), client }
    }

    /// Is told that something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The time, by the API server's clock.
    pub(crate) fn time(&self) -> Timestamp {
        self.client.server_now()
    }

    /// The same, as the logs have it.
    pub(crate) fn now(&self) -> Millis {
        millis(&self.client)
    }

    /// How long ago the last of its watches was heard of that has been silent for the longest; bookmarks come each minute.
    pub(crate) fn heard_ago(&self) -> Option<Duration> {
        let ago = [
            self.deployments.changed_ago(),
            self.sets.changed_ago(),
            self.controllers.changed_ago(),
            self.pods.changed_ago(),
        ];
        ago.into_iter().flatten().max()
    }

    /// For how long one of its watches has failed, that which has for the longest.
    pub(crate) fn failing_for(&self) -> Option<Duration> {
        let failing = [
            self.deployments.failing_for(),
            self.sets.failing_for(),
            self.controllers.failing_for(),
            self.pods.failing_for(),
        ];
        failing.into_iter().flatten().max()
    }

    /// The pods and the logs, for a moment.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every first list was read.
    pub(crate) fn is_synced(&self) -> bool {
        self.deployments.is_synced() && self.sets.is_synced() && self.controllers.is_synced() && self.pods.is_synced()
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Pods changed. What the first list brings is not new.
    pub(crate) fn pods_changed(&self, changes: &[Change<Seen>]) {
        let (at, first) = (self.now(), !self.pods.is_synced());
        let mut book = self.book();
        for change in changes {
            let (old, new) = sides(change);
            book.pod(at, first, old, new);
        }
        drop(book);
        self.tell();
    }

    /// Deployments changed.
    pub(crate) fn deployments_changed(&self, changes: &[Change<Deployment>]) {
        self.owners_changed(
            changes,
            !self.deployments.is_synced(),
            |deployment| &deployment.meta.uid,
            deployment_marks,
        );
    }

    /// ReplicaSets changed.
    pub(crate) fn sets_changed(&self, changes: &[Change<ReplicaSet>]) {
        self.owners_changed(changes, !self.sets.is_synced(), |set| &set.meta.uid, scaled);
    }

    /// ReplicationControllers changed.
    pub(crate) fn controllers_changed(&self, changes: &[Change<ReplicationController>]) {
        self.owners_changed(changes, !self.controllers.is_synced(), |owner| &owner.meta.uid, scaled);
    }

    fn owners_changed<T>(
        &self,
        changes: &[Change<T>],
        first: bool,
        uid: impl Fn(&T) -> &Uid,
        marks: impl Fn(Option<&T>, &T) -> (Option<Lines>, Vec<What>),
    ) {
        let at = self.now();
        let mut book = self.book();
        for change in changes {
            let (old, new) = sides(change);
            if let Some(old) = old.filter(|old| new.is_none_or(|new| uid(old) != uid(new))) {
                book.lines.remove(uid(old));
            }
            let Some(new) = new else { continue };
            let same = old.map(|old| &**old).filter(|old| uid(old) == uid(new));
            let (lines, events) = marks(same, new);
            // The lines of what was there before are as old as the recording.
            let since = if first { book.since } else { at };
            if let Some(lines) = lines {
                book.line(uid(new), since, lines);
            }
            for what in events.into_iter().filter(|_| !first) {
                book.mark(Mark { at, owner: uid(new).clone(), what });
            }
        }
        drop(book);
        self.tell();
    }

    /// The ReplicaSets of each Deployment, by its uid, the newest revision first.
    pub(crate) fn sets_by_owner(&self) -> HashMap<Uid, Vec<Arc<ReplicaSet>>> {
        let mut by_owner: HashMap<Uid, Vec<Arc<ReplicaSet>>> = HashMap::new();
        for set in self.sets.read().iter() {
            if let Some(controller) = &set.meta.controller {
                by_owner.entry(controller.uid.clone()).or_default().push(Arc::clone(set));
            }
        }
        for sets in by_owner.values_mut() {
            sets.sort_by(|a, b| revision(b).cmp(&revision(a)).then_with(|| a.meta.name.cmp(&b.meta.name)));
        }
        by_owner
    }

    /// The pods of a namespace as the controllers see them.
    pub(crate) fn pods_in(&self, namespace: &str) -> Cache<Pod> {
        let mut cache = Cache::new();
        for seen in self.pods.read().iter().filter(|seen| &*seen.pod.meta.namespace == namespace) {
            cache.apply_shared(Arc::clone(&seen.pod));
        }
        cache
    }
}

impl Book {
    /// The pods of an owner.
    pub(crate) fn owned(&self, owner: &Uid) -> Option<&Owned> {
        self.owned.get(owner)
    }

    /// How many pods of an owner there are, by state.
    pub(crate) fn counts(&self, owner: &Uid) -> Counts {
        self.owned.get(owner).map(|owned| owned.counts).unwrap_or_default()
    }

    /// The nodes that have or had pods: one that is drained has none.
    pub(crate) fn nodes(&self) -> &BTreeSet<Arc<str>> {
        &self.nodes
    }

    /// The changes of pods, the newest first.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().rev()
    }

    /// An owner's lines, the oldest first.
    pub(crate) fn lines(&self, owner: &Uid) -> Vec<(Millis, Lines)> {
        self.lines.get(owner).into_iter().flatten().copied().collect()
    }

    fn line(&mut self, owner: &Uid, at: Millis, lines: Lines) {
        let known = self.lines.entry(owner.clone()).or_default();
        if known.len() == MOST_LINES {
            known.pop_front();
        }
        known.push_back((at, lines));
    }

    /// The changes of owners, the oldest first.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    /// A pod changed; `first` where it was there before the recording.
    pub(crate) fn pod(&mut self, at: Millis, first: bool, old: Option<&Arc<Seen>>, new: Option<&Arc<Seen>>) {
        let owner = |seen: &Arc<Seen>| seen.pod.meta.controller.as_ref().map(|controller| controller.uid.clone());
        let (was, is) = (old.and_then(owner), new.and_then(owner));
        if was == is && old.zip(new).is_some_and(|(old, new)| old.pod.meta.uid == new.pod.meta.uid) {
            if let Some(owner) = is {
                self.step(at, first, owner, old, new);
            }
            return;
        }
        if let Some(owner) = was {
            self.step(at, first, owner, old, None);
        }
        if let Some(owner) = is {
            self.step(at, first, owner, None, new);
        }
    }

    fn step(&mut self, at: Millis, first: bool, owner: Uid, old: Option<&Arc<Seen>>, new: Option<&Arc<Seen>>) {
        let Some(seen) = new.or(old) else { return };
        let name = Arc::clone(&seen.pod.meta.name);
        if let Some(node) = seen.pod.node_name.as_ref().filter(|node| !self.nodes.contains(*node)) {
            self.nodes.insert(Arc::clone(node));
        }
        let owned = self.owned.entry(owner.clone()).or_default();
        let before = old.map(|seen| seen.state);
        let after = new.map(|seen| seen.state);
        if let Some(before) = before {
            owned.counts[before as usize] -= 1;
        }
        if let Some(after) = after {
            owned.counts[after as usize] += 1;
        }
        match new {
            Some(new) => drop(owned.pods.insert(Arc::clone(&name), Arc::clone(new))),
            None => drop(owned.pods.remove(&name)),
        }
        if owned.pods.is_empty() {
            self.owned.remove(&owner);
        }
        if !first && before != after {
            if self.steps.len() == MOST_STEPS {
                self.steps.pop_front();
            }
            let node = seen.pod.node_name.clone();
            // A clock that is set back does not undo what was.
            let at = self.steps.back().map_or(at, |last| last.at.max(at));
            self.steps.push_back(Step { at, owner, pod: name, node, before, after });
        }
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MOST_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// The pods of an owner as they are, or as they were at a time.
    pub(crate) fn states(&self, owner: &Uid, at: Option<Millis>) -> BTreeMap<Arc<str>, Cell> {
        let now = self.owned(owner).into_iter().flat_map(|owned| &owned.pods);
        let cell = |seen: &Seen| (seen.state, seen.pod.node_name.clone(), seen.reason.clone());
        let mut pods: BTreeMap<Arc<str>, Cell> = now.map(|(name, seen)| (Arc::clone(name), cell(seen))).collect();
        let Some(at) = at else { return pods };
        for step in self.steps().take_while(|step| step.at > at).filter(|step| step.owner == *owner) {
            match step.before {
                Some(before) => drop(pods.insert(Arc::clone(&step.pod), (before, step.node.clone(), None))),
                None => drop(pods.remove(&step.pod)),
            }
        }
        pods
    }

    /// How many pods of each of these owners there were at each of these times, which rise.
    pub(crate) fn counts_at(&self, owners: &[&Uid], times: &[Millis]) -> Vec<Vec<Counts>> {
        let index: HashMap<&Uid, usize> = owners.iter().enumerate().map(|(at, owner)| (*owner, at)).collect();
        let mut counts: Vec<Counts> = owners.iter().map(|owner| self.counts(owner)).collect();
        let mut steps = self.steps().peekable();
        let mut columns = Vec::with_capacity(times.len());
        for time in times.iter().rev() {
            // What came later is undone.
            while let Some(step) = steps.next_if(|step| step.at > *time) {
                if let Some(at) = index.get(&step.owner) {
                    if let Some(after) = step.after {
                        counts[*at][after as usize] -= 1;
                    }
                    if let Some(before) = step.before {
                        counts[*at][before as usize] += 1;
                    }
                }
            }
            columns.push(counts.clone());
        }
        columns.reverse();
        columns
    }

    /// Since when the changes of pods are known.
    pub(crate) fn known_since(&self) -> Millis {
        let cut = self.steps.len() == MOST_STEPS;
        self.steps.front().filter(|_| cut).map_or(self.since, |step| step.at)
    }
}

fn millis(client: &Client) -> Millis {
    client.server_now().as_nanos() / 1_000_000
}

/// An object before and after a change.
fn sides<T>(change: &Change<T>) -> (Option<&Arc<T>>, Option<&Arc<T>>) {
    match change {
        Change::Added(new) => (None, Some(new)),
        Change::Updated { old, new } => (Some(old), Some(new)),
        Change::Deleted { last, .. } => (Some(last), None),
    }
}

fn deployment_marks(old: Option<&Deployment>, new: &Deployment) -> (Option<Lines>, Vec<What>) {
    let lines = |deployment: &Deployment| {
        let bounds = Bounds::of(deployment);
        let wanted = deployment.replicas;
        Lines { wanted: wanted.into(), most: bounds.most(wanted), least: bounds.least_available(wanted).max(0) }
    };
    let Some(old) = old else { return (Some(lines(new)), vec![What::begins("created")]) };
    let mut events = Vec::new();
    if old.replicas != new.replicas {
        events.push(What::begins(format!("scaled from {} to {}", old.replicas, new.replicas)));
    }
    if old.template.raw() != new.template.raw() {
        events.push(What::begins("a new template"));
    }
    if old.paused != new.paused {
        events.push(What::goes_on(if new.paused { "paused" } else { "resumed" }));
    }
    let reason = |deployment: &Deployment| {
        let found = Condition::find(&deployment.status.conditions, "Progressing");
        found.map(|condition| condition.reason.clone()).unwrap_or_default()
    };
    let (was, is) = (reason(old), reason(new));
    match &*is {
        _ if was == is => {}
        "ProgressDeadlineExceeded" => events.push(What::goes_on("its progress deadline is exceeded")),
        "NewReplicaSetAvailable" => events.push(What::goes_on("complete")),
        _ => {}
    }
    if !old.meta.is_being_deleted() && new.meta.is_being_deleted() {
        events.push(What::goes_on("deletion was asked for"));
    }
    let (before, after) = (lines(old), lines(new));
    ((before != after).then_some(after), events)
}

/// Of a ReplicaSet or ReplicationController.
fn scaled<O: ReplicaOwner>(old: Option<&O>, new: &O) -> (Option<Lines>, Vec<What>) {
    let fails = |owner: &O| {
        let found = Condition::find(&owner.status().conditions, "ReplicaFailure");
        found.is_some_and(|condition| condition.status.as_str() == "True")
    };
    let wanted = i64::from(new.replicas());
    let lines = Lines { wanted, most: wanted, least: wanted };
    let Some(old) = old else { return (Some(lines), vec![What::begins("created")]) };
    let (was, is) = (old.replicas(), new.replicas());
    let mut events = Vec::new();
    if was != is {
        events.push(What::begins(format!("scaled from {was} to {is}")));
    }
    if fails(new) && !fails(old) {
        events.push(What::goes_on("pods cannot be created or deleted"));
    }
    ((was != is).then_some(lines), events)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
