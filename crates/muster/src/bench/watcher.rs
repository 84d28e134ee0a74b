//! An independent witness of rollouts: it watches pods and ReplicaSets, and holds every moment against the bounds.
//!
//! The server has one order of commits and every watch has that order, so what the witness counts after each event
//! is what there was at that moment: nothing is sampled, and nothing falls between two looks.
//!
//! Two bounds hold (DEP-07). The pods that are available are never fewer than replicas - maxUnavailable. The pods
//! that the ReplicaSets want together are never more than replicas + maxSurge (DEP-10). Of pods themselves there may
//! be more for a moment, here as with kube-controller-manager: a ReplicaSet that was scaled down has not marked its
//! pods yet when another has created its own. The most that there were is told beside.

use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_machinery::Change;
use muster_objects::{Labels, Pod, ReplicaSet};
use tokio::sync::Notify;

/// The label that says which Deployment a pod is of.
pub(super) const LABEL: &str = "bench";
/// How many violations are told one by one.
const TOLD: usize = 10;

/// The value of the label, and the name, of the Deployment of a number.
pub(super) fn name_of(number: usize) -> String {
    format!("bench-{number}")
}

/// What the pods of one Deployment may be (DEP-07).
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The fewest pods that may be available: replicas - maxUnavailable.
    pub(super) least_available: i64,
    /// The most pods that may be wanted: replicas + maxSurge.
    pub(super) most: i64,
}

/// The pods of many Deployments, as their watch shows them.
#[derive(Debug)]
pub(super) struct Watcher {
    namespace: String,
    bounds: Bounds,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// By the Deployment's number.
    deployments: Vec<Count>,
    /// Whether the bounds hold: they do from when the Deployments are complete.
    judging: bool,
    seen: Seen,
}

/// What one Deployment has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    /// Pods that are neither being deleted nor finished.
    total: i64,
    /// The ones of these that are ready.
    available: i64,
    /// The sum of `spec.replicas` of its ReplicaSets.
    wanted: i64,
}

/// What was seen of any Deployment while the bounds held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The fewest pods that were available at once.
    pub(super) lowest_available: i64,
    /// The most pods that were wanted at once.
    pub(super) highest_wanted: i64,
    /// The most pods that there were at once.
    pub(super) highest_total: i64,
    /// How often an event left a Deployment outside of its bounds.
    pub(super) violations: u64,
    /// The first of these, in words.
    pub(super) told: Vec<String>,
}

impl Watcher {
    /// A witness of so many Deployments in a namespace.
    pub(super) fn new(namespace: String, deployments: usize, bounds: Bounds) -> Self {
        let state = State {
            deployments: vec![Count::default(); deployments],
            judging: false,
            seen: Seen {
                lowest_available: i64::MAX,
                highest_wanted: 0,
                highest_total: 0,
                violations: 0,
                told: Vec::new(),
            },
        };
        Self { namespace, bounds, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Takes in one change of one pod.
    pub(super) fn observe(&self, change: &Change<Pod>) {
        let (old, new) = states(change);
        let Some(pod) = old.or(new) else { return };
        self.add(&pod.meta.namespace, &pod.meta.labels, pod_share(old), pod_share(new));
    }

    /// Takes in one change of one ReplicaSet.
    pub(super) fn observe_set(&self, change: &Change<ReplicaSet>) {
        let (old, new) = states(change);
        let Some(set) = old.or(new) else { return };
        self.add(&set.meta.namespace, &set.meta.labels, set_share(old), set_share(new));
    }

    /// Counts what one object had a share of before and has a share of now.
    fn add(&self, namespace: &str, labels: &Labels, before: Count, after: Count) {
        let number = labels.get(LABEL).and_then(|name| name.strip_prefix("bench-")?.parse::<usize>().ok());
        let Some(number) = number.filter(|_| *namespace == *self.namespace && before != after) else { return };
        let mut state = self.state();
        let Some(count) = state.deployments.get_mut(number) else { return };
        count.total += after.total - before.total;
        count.available += after.available - before.available;
        count.wanted += after.wanted - before.wanted;
        let count = *count;
        if state.judging {
            state.seen.judge(&name_of(number), count, self.bounds);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// From now on the bounds hold.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.judging = true;
        for (number, count) in state.deployments.clone().into_iter().enumerate() {
            state.seen.judge(&name_of(number), count, self.bounds);
        }
    }

    /// From now on they do not. Returns what was seen while they did.
    pub(super) fn end(&self) -> Seen {
        let mut state = self.state();
        state.judging = false;
        state.seen.clone()
    }

    /// Waits until every Deployment has so many pods, all of them available.
    pub(super) async fn settled(&self, replicas: i64) {
        loop {
            // Listen before looking, so that no change falls between the two.
            let changed = self.changed.notified();
            let settled = Count { total: replicas, available: replicas, wanted: replicas };
            if self.state().deployments.iter().all(|count| *count == settled) {
                return;
            }
            changed.await;
        }
    }

    /// How many pods are available.
    pub(super) fn available(&self) -> i64 {
        self.state().deployments.iter().map(|count| count.available).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts are right after every line, so a panic elsewhere leaves them so.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn judge(&mut self, name: &str, count: Count, bounds: Bounds) {
        self.lowest_available = self.lowest_available.min(count.available);
        self.highest_wanted = self.highest_wanted.max(count.wanted);
        self.highest_total = self.highest_total.max(count.total);
        let Bounds { least_available, most } = bounds;
        let violation = if count.available < least_available {
            format!("Deployment {name}: {} pods available, expected at least {least_available}", count.available)
        } else if count.wanted > most {
            format!("Deployment {name}: {} pods wanted, expected at most {most}", count.wanted)
        } else {
            return;
        };
        self.violations += 1;
        if self.told.len() < TOLD {
            self.told.push(violation);
        }
    }
}

/// An object before a change and after it.
fn states<T>(change: &Change<T>) -> (Option<&T>, Option<&T>) {
    match change {
        Change::Added(new) => (None, Some(new)),
        Change::Updated { old, new } => (Some(old), Some(new)),
        Change::Deleted { last, .. } => (Some(last), None),
    }
}

/// What one pod adds to the counts.
fn pod_share(pod: Option<&Pod>) -> Count {
    let Some(pod) = pod.filter(|pod| !pod.meta.is_being_deleted() && !pod.phase.is_terminal()) else {
        return Count::default();
    };
    Count { total: 1, available: i64::from(pod.is_ready()), wanted: 0 }
}

/// What one ReplicaSet adds to the counts.
fn set_share(set: Option<&ReplicaSet>) -> Count {
    Count { wanted: set.map_or(0, |set| i64::from(set.replicas)), ..Count::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_objects::{Interner, Object as _};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: bool, deleted: bool) -> Arc<Pod> {
        let mut metadata = json!({"namespace": "n", "name": name, "uid": name, "labels": {"bench": "bench-0"}});
        if deleted {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let ready = if ready { "True" } else { "False" };
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        let json = json!({"metadata": metadata, "status": status}).to_string();
        Arc::new(Pod::decode(json.as_bytes(), &mut Interner::new()).unwrap())
    }

    fn set(name: &str, replicas: i32) -> Arc<ReplicaSet> {
        let metadata = json!({"namespace": "n", "name": name, "uid": name, "labels": {"bench": "bench-0"}});
        let json = json!({"metadata": metadata, "spec": {"replicas": replicas}}).to_string();
        Arc::new(ReplicaSet::decode(json.as_bytes(), &mut Interner::new()).unwrap())
    }

    fn updated(old: &Arc<Pod>, new: &Arc<Pod>) -> Change<Pod> {
        Change::Updated { old: Arc::clone(old), new: Arc::clone(new) }
    }

    /// Contract: DEP-07
    #[test]
    fn every_moment_is_held_against_the_bounds() {
        let watcher = Watcher::new("n".to_owned(), 1, Bounds { least_available: 1, most: 3 });
        let (a, b) = (pod("a", true, false), pod("b", true, false));
        // Before the bounds hold, anything may be.
        watcher.observe(&Change::Added(Arc::clone(&a)));
        watcher.observe(&Change::Added(Arc::clone(&b)));
        watcher.begin();
        watcher.observe(&Change::Added(pod("c", false, false)));
        watcher.observe(&updated(&a, &pod("a", true, true)));
        let seen = watcher.end();
        assert_eq!((seen.lowest_available, seen.highest_total, seen.violations), (1, 3, 0));

        watcher.begin();
        watcher.observe(&updated(&b, &pod("b", false, false)));
        watcher.observe(&Change::Added(pod("d", true, false)));
        watcher.observe(&Change::Added(pod("e", true, false)));
        let seen = watcher.end();
        assert_eq!((seen.lowest_available, seen.highest_total, seen.violations), (0, 4, 1));
        assert_eq!(seen.told, ["Deployment bench-0: 0 pods available, expected at least 1"]);
        assert_eq!(watcher.available(), 2);
    }

    /// Contract: DEP-10
    #[test]
    fn what_replicasets_want_together_is_held_against_the_surge() {
        let watcher = Watcher::new("n".to_owned(), 1, Bounds { least_available: 0, most: 3 });
        let (old, new) = (set("old", 2), set("new", 1));
        watcher.begin();
        watcher.observe_set(&Change::Added(Arc::clone(&old)));
        watcher.observe_set(&Change::Added(Arc::clone(&new)));
        let grown = set("new", 2);
        watcher.observe_set(&Change::Updated { old: Arc::clone(&new), new: Arc::clone(&grown) });
        watcher.observe_set(&Change::Updated { old, new: set("old", 0) });
        watcher.observe_set(&Change::Deleted { last: grown, tombstone: false });
        let seen = watcher.end();
        assert_eq!((seen.highest_wanted, seen.violations), (4, 1));
        assert_eq!(seen.told, ["Deployment bench-0: 4 pods wanted, expected at most 3"]);
    }
}
