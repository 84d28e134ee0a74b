//! The scheduler: which node each pod goes to (SIM-02), as a state machine that is handed the time.
//!
//! ```text
//!   pod without a node --> active --next()--> Bind ------> assumed on the node --> seen bound
//!                            ^                 | failed: back off
//!                            |                 v
//!            a node changed or room came free: backing off <-- parked <-- Unschedulable
//! ```
//!
//! A pod goes to the feasible node with the fewest pods, the first by name of several. What a real
//! scheduler weighs besides (topology spread, pod affinity, images) is not weighed; what it forbids by
//! node selector, node affinity, taints, cordons, host ports and room is forbidden.

mod fit;
mod run;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, ObjectKey, Uid};

use self::fit::{NodeInfo, explain};
pub(crate) use self::run::{Input, run};
use crate::json::FixedMap;
use crate::node::Node;
use crate::pod::{Pod, Protocol};
use crate::resources::Resources;

/// How long a pod that did not fit waits before it is tried again, at least; doubled each time.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// And at most.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A parked pod is tried again after this long though nothing was seen to change.
const FLUSH_AFTER: Duration = Duration::from_secs(300);

/// What the scheduler wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Bind the pod to the node. Answer with [`Scheduler::bound`] or [`Scheduler::bind_failed`].
    Bind {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: Uid,
        /// The node.
        node: Arc<str>,
    },
    /// Say on the pod and by an event that it fits nowhere.
    Unschedulable {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: Uid,
        /// Why, as a real scheduler words it.
        message: Arc<str>,
        /// Whether its condition says so already, word for word.
        known: bool,
    },
}

/// The scheduler's state.
#[derive(Debug, Default)]
pub struct Scheduler {
    nodes: BTreeMap<Arc<str>, NodeInfo>,
    /// Nodes by how many pods they have: the order in which they are tried.
    by_load: BTreeSet<(usize, Arc<str>)>,
    /// What each pod takes of which node.
    placed: FixedMap<Uid, Placement>,
    /// Pods without a node.
    pending: FixedMap<Uid, Pending>,
    /// Those to be tried now, the most important and then the oldest first.
    active: BTreeSet<(Reverse<i32>, u64, Uid)>,
    /// Those to be tried at a time.
    timed: BTreeSet<(Moment, u64, Uid)>,
    /// Those that wait for a change, in the order in which they came.
    parked: BTreeSet<(u64, Uid)>,
    /// Shapes of pods that fitted nowhere since room last came free, and why.
    hopeless: FixedMap<u64, Arc<str>>,
    /// Numbers pods in the order in which they came.
    sequence: u64,
}

#[derive(Debug)]
struct Placement {
    node: Arc<str>,
    requests: Resources,
    ports: Box<[(Protocol, u16)]>,
}

#[derive(Debug)]
struct Pending {
    pod: Arc<Pod>,
    sequence: u64,
    attempts: u32,
    /// What the pod's condition says, as far as is known.
    said: Option<Arc<str>>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    /// Waiting for a change; not to be tried before that moment even then; looked at again at the second.
    Parked(Moment, Moment),
    BackingOff(Moment),
    Binding,
}

impl Scheduler {
    /// A scheduler that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node was added or changed.
    pub fn node_changed(&mut self, now: Moment, node: Arc<Node>) {
        let name = Arc::clone(&node.meta.name);
        if let Some(info) = self.nodes.get_mut(&name) {
            let old = std::mem::replace(&mut info.node, node);
            if same_for_scheduling(&old, &info.node) {
                return;
            }
        } else {
            let mut info = NodeInfo::new(node);
            // Pods can be seen before their node. There are few nodes to come, so looking at every pod is fine;
            // the sums do not depend on the order.
            for placement in self.placed.values().filter(|placement| placement.node == name) {
                info.add(&placement.requests, &placement.ports);
            }
            self.by_load.insert((info.pods, Arc::clone(&name)));
            self.nodes.insert(name, info);
        }
        self.room_came_free(now);
    }

    /// A node is gone.
    pub fn node_deleted(&mut self, name: &str) {
        if let Some((name, info)) = self.nodes.remove_entry(name) {
            self.by_load.remove(&(info.pods, name));
        }
    }

    /// A pod was added or changed.
    pub fn pod_changed(&mut self, now: Moment, pod: &Arc<Pod>) {
        let uid = &pod.meta.uid;
        if pod.is_terminal() {
            self.forget(now, uid);
            return;
        }
        if let Some(node) = &pod.node {
            self.drop_pending(uid);
            match self.placed.get(uid) {
                Some(placed) if placed.node == *node => {}
                Some(_) => {
                    self.release(now, uid);
                    self.place(uid.clone(), node, pod);
                }
                None => self.place(uid.clone(), node, pod),
            }
            return;
        }
        if pod.meta.is_being_deleted() || !pod.spec.default_scheduler || pod.spec.gated {
            self.drop_pending(uid);
            return;
        }
        match self.pending.get_mut(uid) {
            // A state from before the binding that was asked for and answered already.
            None if self.placed.contains_key(uid) => {}
            Some(pending) => {
                let changed = pending.pod.spec.shape != pod.spec.shape;
                pending.pod = Arc::clone(pod);
                if changed && matches!(pending.state, State::Parked(..) | State::BackingOff(_)) {
                    self.activate(uid);
                }
            }
            None => {
                self.sequence += 1;
                let said = pod.status.unschedulable.as_deref().map(Arc::from);
                let pending =
                    Pending { pod: Arc::clone(pod), sequence: self.sequence, attempts: 0, said, state: State::Active };
                self.active.insert((Reverse(pod.spec.priority), self.sequence, uid.clone()));
                self.pending.insert(uid.clone(), pending);
            }
        }
    }

    /// A pod is gone.
    pub fn pod_deleted(&mut self, now: Moment, uid: &Uid) {
        self.forget(now, uid);
    }

    /// The next thing to do, if there is one to do now.
    pub fn next(&mut self, now: Moment) -> Option<Decision> {
        while self.timed.first().is_some_and(|(moment, _, _)| *moment <= now) {
            if let Some((_, _, uid)) = self.timed.pop_first() {
                self.activate(&uid);
            }
        }
        loop {
            let (_, _, uid) = self.active.pop_first()?;
            if let Some(decision) = self.decide(now, uid) {
                return Some(decision);
            }
        }
    }

    /// When [`Scheduler::next`] has something to do again though nothing happens.
    #[must_use]
    pub fn wake(&self) -> Option<Moment> {
        self.timed.first().map(|(moment, _, _)| *moment)
    }

    /// The pod was bound. Its room stays taken until the pod itself is seen or deleted.
    pub fn bound(&mut self, uid: &Uid) {
        self.pending.remove(uid);
    }

    /// The binding was refused or lost: the room is free again, and the pod is tried later, unless it is
    /// `gone`.
    pub fn bind_failed(&mut self, now: Moment, uid: &Uid, gone: bool) {
        if self.pending.get(uid).is_none_or(|pending| pending.state != State::Binding) {
            return;
        }
        self.release(now, uid);
        if gone {
            self.pending.remove(uid);
            return;
        }
        if let Some(pending) = self.pending.get_mut(uid) {
            pending.attempts += 1;
            let at = now + backoff(pending.attempts);
            pending.state = State::BackingOff(at);
            self.timed.insert((at, pending.sequence, uid.clone()));
        }
    }

    /// How many pods each node has, by the scheduler's count.
    pub fn load(&self) -> impl Iterator<Item = (&str, usize)> {
        self.nodes.iter().map(|(name, info)| (&**name, info.pods))
    }

    fn decide(&mut self, now: Moment, uid: Uid) -> Option<Decision> {
        let pending = self.pending.get(&uid)?;
        let pod = Arc::clone(&pending.pod);
        let shape = pod.spec.shape;
        let reason = if let Some(reason) = self.hopeless.get(&shape) {
            Arc::clone(reason)
        } else if let Some(node) = self.choose(&pod) {
            self.pending.get_mut(&uid)?.state = State::Binding;
            self.place(uid.clone(), &node, &pod);
            return Some(Decision::Bind { pod: pod.meta.key(), uid, node });
        } else {
            let reason: Arc<str> = explain(self.nodes.values(), &pod.spec).into();
            self.hopeless.insert(shape, Arc::clone(&reason));
            reason
        };
        let pending = self.pending.get_mut(&uid)?;
        pending.attempts += 1;
        let (earliest, flush) = (now + backoff(pending.attempts), now + FLUSH_AFTER);
        pending.state = State::Parked(earliest, flush);
        self.parked.insert((pending.sequence, uid.clone()));
        self.timed.insert((flush, pending.sequence, uid.clone()));
        let known = pending.said.as_ref() == Some(&reason);
        pending.said = Some(Arc::clone(&reason));
        Some(Decision::Unschedulable { pod: pod.meta.key(), uid, message: reason, known })
    }

    /// The feasible node with the fewest pods, one that would rather not have it only where no other will.
    fn choose(&self, pod: &Pod) -> Option<Arc<str>> {
        let mut reluctant = None;
        for (_, name) in &self.by_load {
            let Some(info) = self.nodes.get(name) else { continue };
            if info.fit(&pod.spec).is_ok() {
                if !info.is_unwelcome(&pod.spec) {
                    return Some(Arc::clone(name));
                }
                reluctant = reluctant.or(Some(name));
            }
        }
        reluctant.map(Arc::clone)
    }

    fn place(&mut self, uid: Uid, node: &Arc<str>, pod: &Pod) {
        let placement = Placement {
            node: Arc::clone(node),
            requests: pod.spec.requests.clone(),
            ports: pod.spec.host_ports.clone(),
        };
        if let Some(info) = self.nodes.get_mut(node) {
            self.by_load.remove(&(info.pods, Arc::clone(node)));
            info.add(&placement.requests, &placement.ports);
            self.by_load.insert((info.pods, Arc::clone(node)));
        }
        self.placed.insert(uid, placement);
    }

    fn release(&mut self, now: Moment, uid: &Uid) {
        let Some(placement) = self.placed.remove(uid) else { return };
        if let Some(info) = self.nodes.get_mut(&placement.node) {
            self.by_load.remove(&(info.pods, Arc::clone(&placement.node)));
            info.remove(&placement.requests, &placement.ports);
            self.by_load.insert((info.pods, placement.node));
        }
        self.room_came_free(now);
    }

    fn forget(&mut self, now: Moment, uid: &Uid) {
        self.drop_pending(uid);
        self.release(now, uid);
    }

    /// Every parked pod may be tried again, each no sooner than its back-off allows.
    fn room_came_free(&mut self, now: Moment) {
        self.hopeless.clear();
        while let Some((sequence, uid)) = self.parked.pop_first() {
            let Some(pending) = self.pending.get_mut(&uid) else { continue };
            let State::Parked(earliest, flush) = pending.state else { continue };
            self.timed.remove(&(flush, sequence, uid.clone()));
            if earliest <= now {
                pending.state = State::Active;
                self.active.insert((Reverse(pending.pod.spec.priority), sequence, uid));
            } else {
                pending.state = State::BackingOff(earliest);
                self.timed.insert((earliest, sequence, uid));
            }
        }
    }

    /// Queues a parked or backing-off pod for now.
    fn activate(&mut self, uid: &Uid) {
        self.unqueue(uid);
        if let Some(pending) = self.pending.get_mut(uid) {
            pending.state = State::Active;
            self.active.insert((Reverse(pending.pod.spec.priority), pending.sequence, uid.clone()));
        }
    }

    fn drop_pending(&mut self, uid: &Uid) {
        self.unqueue(uid);
        self.pending.remove(uid);
    }

    fn unqueue(&mut self, uid: &Uid) {
        // Almost every call is for a pod that is not queued.
        let Some(pending) = self.pending.get(uid) else { return };
        match pending.state {
            State::Active => {
                self.active.remove(&(Reverse(pending.pod.spec.priority), pending.sequence, uid.clone()));
            }
            State::Parked(_, flush) => {
                self.parked.remove(&(pending.sequence, uid.clone()));
                self.timed.remove(&(flush, pending.sequence, uid.clone()));
            }
            State::BackingOff(at) => {
                self.timed.remove(&(at, pending.sequence, uid.clone()));
            }
            State::Binding => {}
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    INITIAL_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(MAX_BACKOFF)
}

fn same_for_scheduling(a: &Node, b: &Node) -> bool {
    a.unschedulable == b.unschedulable
        && a.taints == b.taints
        && a.allocatable == b.allocatable
        && a.pods == b.pods
        && a.meta.labels == b.meta.labels
}
