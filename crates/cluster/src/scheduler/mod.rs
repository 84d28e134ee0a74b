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
//! scheduler weighs besides (preferences of affinity and spread, images) is not weighed; what it forbids by
//! node selector, node affinity, taints, cordons, host ports, room, volumes, topology spread, and affinity and
//! anti-affinity between pods is forbidden.

mod fit;
mod run;
#[cfg(test)]
mod tests;
mod topology;
#[cfg(test)]
mod topology_tests;
mod volumes;
#[cfg(test)]
mod volumes_tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Labels, Moment, ObjectKey, Uid};

use self::fit::{Misfit, NodeInfo, explain, explain_all};
pub(crate) use self::run::{Input, run};
use self::topology::{Likeness, Topology};
use self::volumes::{PodClaims, Storage};
use crate::control::Slim;
use crate::json::FixedMap;
use crate::node::Node;
use crate::pod::{HostPort, Pod};
use crate::resources::Resources;
use crate::volumes::{Claim, Class, Volume, Write};

/// How long a pod that did not fit waits before it is tried again, at least; doubled each time.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// And at most.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A parked pod is tried again after this long though nothing was seen to change.
const FLUSH_AFTER: Duration = Duration::from_secs(300);
/// How long a pod's claims may take to be bound once it has a node, before it is tried anew.
const BIND_TIMEOUT: Duration = Duration::from_secs(600);

/// What the scheduler wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Have the claims of a pod bound, which has this node once they are. Answer with [`Scheduler::volumes_asked`] or
    /// [`Scheduler::bind_failed`].
    BindVolumes {
        /// Its uid.
        uid: Uid,
        /// What is to be written, in its order.
        writes: VolumeWrites,
    },
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

/// Writes to claims and volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeWrites(pub(crate) Vec<Write>);

/// The scheduler's state.
#[derive(Debug, Default)]
pub struct Scheduler {
    /// What the volumes of pods are; none where the server has no such kinds.
    storage: Option<Storage>,
    /// Pods whose claims are being bound, with their nodes.
    binding_volumes: BTreeSet<Uid>,
    /// Whether a claim was bound since those were looked at.
    claims_changed: bool,
    nodes: BTreeMap<Arc<str>, NodeInfo>,
    /// Nodes by how many pods they have: the order in which they are tried.
    by_load: BTreeSet<(usize, Arc<str>)>,
    /// What pods that are placed mean for others.
    topology: Topology,
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
    /// Those of them that ask for something of other pods.
    waiting: BTreeSet<(u64, Uid)>,
    /// Shapes of pods that fitted nowhere since room last came free, and why.
    hopeless: FixedMap<u64, Arc<str>>,
    /// Numbers pods in the order in which they came.
    sequence: u64,
}

#[derive(Debug)]
struct Placement {
    node: Arc<str>,
    requests: Resources,
    ports: Box<[HostPort]>,
    alike: Arc<Likeness>,
    /// Whether it is being deleted.
    leaving: bool,
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
    /// Its claims are being bound, until that moment at the longest.
    BindingVolumes(Moment),
    Binding,
}

impl Scheduler {
    /// A scheduler that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A scheduler that knows nothing, and is told of claims, volumes and classes.
    #[must_use]
    pub fn with_storage() -> Self {
        Self { storage: Some(Storage::default()), ..Self::default() }
    }

    /// A claim was added or changed.
    pub(crate) fn claim_changed(&mut self, now: Moment, claim: &Arc<Slim<Claim>>) {
        self.storage_changed(now, |storage| drop(storage.claims.apply_shared(Arc::clone(claim))));
    }

    /// A claim is gone.
    pub(crate) fn claim_deleted(&mut self, now: Moment, key: &ObjectKey) {
        self.storage_changed(now, |storage| drop(storage.claims.delete_key(key)));
    }

    /// A volume was added or changed.
    pub(crate) fn volume_changed(&mut self, now: Moment, volume: &Arc<Slim<Volume>>) {
        self.storage_changed(now, |storage| drop(storage.volumes.apply_shared(Arc::clone(volume))));
    }

    /// A volume is gone.
    pub(crate) fn volume_deleted(&mut self, now: Moment, key: &ObjectKey) {
        self.storage_changed(now, |storage| drop(storage.volumes.delete_key(key)));
    }

    /// A class was added or changed.
    pub(crate) fn class_changed(&mut self, now: Moment, class: &Arc<Slim<Class>>) {
        self.storage_changed(now, |storage| drop(storage.classes.apply_shared(Arc::clone(class))));
    }

    /// A class is gone.
    pub(crate) fn class_deleted(&mut self, now: Moment, key: &ObjectKey) {
        self.storage_changed(now, |storage| drop(storage.classes.delete_key(key)));
    }

    fn storage_changed(&mut self, now: Moment, change: impl FnOnce(&mut Storage)) {
        if let Some(storage) = &mut self.storage {
            change(storage);
            self.claims_changed |= !self.binding_volumes.is_empty();
            self.unpark(now, |pod| !pod.extras().claims.is_empty());
        }
    }

    /// A namespace was added or changed.
    pub(crate) fn namespace_changed(&mut self, now: Moment, name: &Arc<str>, labels: &Labels) {
        if self.topology.namespace_changed(name, labels) {
            self.pods_changed(now, None);
        }
    }

    /// A namespace is gone.
    pub(crate) fn namespace_deleted(&mut self, name: &str) {
        self.topology.namespace_deleted(name);
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
    pub fn node_deleted(&mut self, now: Moment, name: &str) {
        if let Some((name, info)) = self.nodes.remove_entry(name) {
            self.by_load.remove(&(info.pods, name));
            // A domain that is gone does not have the fewest pods any more.
            self.pods_changed(now, None);
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
            match self.placed.get_mut(uid) {
                Some(placed) if placed.node == *node => {
                    let is_same = placed.alike.is_of(pod);
                    if !is_same || placed.leaving != pod.meta.is_being_deleted() {
                        self.topology.remove(node, &placed.alike, placed.leaving);
                        (placed.alike, placed.leaving) = (self.topology.add(node, pod), pod.meta.is_being_deleted());
                        // With other labels it may be none that others keep away from any more.
                        self.pods_changed(now, is_same.then_some(&**pod));
                    }
                }
                Some(_) => {
                    self.release(now, uid);
                    self.place(now, uid.clone(), node, pod);
                }
                None => self.place(now, uid.clone(), node, pod),
            }
            return;
        }
        if pod.meta.is_being_deleted() || !pod.spec.default_scheduler || pod.spec.gated {
            // One that is being deleted is bound to no node any more, also where that was asked for.
            self.forget(now, uid);
            return;
        }
        match self.pending.get_mut(uid) {
            // A state from before the binding that was asked for and answered already.
            None if self.placed.contains_key(uid) => {}
            Some(pending) => {
                let changed = pending.pod.spec.shape != pod.spec.shape || pending.pod.meta.labels != pod.meta.labels;
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
                if self.binding_volumes.contains(&uid) {
                    // Its claims were not bound in time: it gives its node up.
                    self.release(now, &uid);
                }
                self.activate(&uid);
            }
        }
        if let Some(decision) = self.next_with_volumes() {
            return Some(decision);
        }
        loop {
            let (_, _, uid) = self.active.pop_first()?;
            if let Some(decision) = self.decide(now, uid) {
                return Some(decision);
            }
        }
    }

    /// A pod whose claims were being bound and are now.
    fn next_with_volumes(&mut self) -> Option<Decision> {
        if !std::mem::take(&mut self.claims_changed) {
            return None;
        }
        let storage = self.storage.as_ref()?;
        let is_done = |uid: &&Uid| self.pending.get(*uid).is_some_and(|pending| storage.are_bound(&pending.pod));
        let uid = self.binding_volumes.iter().find(is_done)?.clone();
        // There may be more of them.
        self.claims_changed = true;
        self.unqueue(&uid);
        let pending = self.pending.get_mut(&uid)?;
        pending.state = State::Binding;
        let node = Arc::clone(&self.placed.get(&uid)?.node);
        Some(Decision::Bind { pod: pending.pod.meta.key(), uid, node })
    }

    /// The claims of a pod were asked to be bound.
    pub fn volumes_asked(&mut self, now: Moment, uid: &Uid) {
        let Some(pending) = self.pending.get_mut(uid).filter(|pending| pending.state == State::Binding) else { return };
        let until = now + BIND_TIMEOUT;
        pending.state = State::BindingVolumes(until);
        self.timed.insert((until, pending.sequence, uid.clone()));
        self.binding_volumes.insert(uid.clone());
        self.claims_changed = true;
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
        let reason = match self.decide_node(&pod) {
            Ok((node, writes)) => {
                self.pending.get_mut(&uid)?.state = State::Binding;
                self.place(now, uid.clone(), &node, &pod);
                if !writes.is_empty() || self.storage.as_ref().is_some_and(|storage| !storage.are_bound(&pod)) {
                    return Some(Decision::BindVolumes { uid, writes: VolumeWrites(writes) });
                }
                return Some(Decision::Bind { pod: pod.meta.key(), uid, node });
            }
            Err(reason) => reason,
        };
        let pending = self.pending.get_mut(&uid)?;
        pending.attempts += 1;
        let (earliest, flush) = (now + backoff(pending.attempts), now + FLUSH_AFTER);
        pending.state = State::Parked(earliest, flush);
        if pod.extras().terms.is_some() {
            self.waiting.insert((pending.sequence, uid.clone()));
        }
        self.parked.insert((pending.sequence, uid.clone()));
        self.timed.insert((flush, pending.sequence, uid.clone()));
        let known = pending.said.as_ref() == Some(&reason);
        pending.said = Some(Arc::clone(&reason));
        Some(Decision::Unschedulable { pod: pod.meta.key(), uid, message: reason, known })
    }

    /// The node for a pod with what has to be written of its volumes, or why there is none.
    fn decide_node(&mut self, pod: &Pod) -> Result<(Arc<str>, Vec<Write>), Arc<str>> {
        let storage = self.storage.as_ref().filter(|_| !pod.extras().claims.is_empty());
        let around = self.topology.around(pod, &self.nodes);
        let near = |info: &NodeInfo| around.as_ref().map_or(Ok(()), |around| around.fit(info));
        let Some(storage) = storage else {
            // Pods of one shape fit the same nodes, whatever is there.
            let shape = around.is_none().then_some(pod.spec.shape);
            if let Some(reason) = shape.and_then(|shape| self.hopeless.get(&shape)) {
                return Err(Arc::clone(reason));
            }
            let fit = |info: &NodeInfo| info.fit(&pod.spec).and_then(|()| near(info));
            let Some(node) = self.choose(pod, fit) else {
                let reason: Arc<str> = explain(self.nodes.values(), fit).into();
                self.hopeless.extend(shape.map(|shape| (shape, Arc::clone(&reason))));
                return Err(reason);
            };
            return Ok((node, Vec::new()));
        };
        let claims = match storage.claims_of(pod) {
            Ok(claims) => claims,
            Err(why) => return Err(explain_all(self.nodes.len(), &why).into()),
        };
        let on_node = |info: &NodeInfo, claims: &PodClaims| -> Result<Vec<Write>, Misfit> {
            info.fit(&pod.spec)?;
            storage.on_node(claims, &info.node)
        };
        let fit = |info: &NodeInfo| on_node(info, &claims).and_then(|_| near(info));
        let node = self.choose(pod, fit).ok_or_else(|| explain(self.nodes.values(), fit))?;
        let writes = self.nodes.get(&node).and_then(|info| on_node(info, &claims).ok()).unwrap_or_default();
        Ok((node, writes))
    }

    /// The feasible node with the fewest pods, one that would rather not have it only where no other will.
    fn choose(&self, pod: &Pod, fit: impl Fn(&NodeInfo) -> Result<(), Misfit>) -> Option<Arc<str>> {
        let mut reluctant = None;
        for (_, name) in &self.by_load {
            let Some(info) = self.nodes.get(name) else { continue };
            if fit(info).is_ok() {
                if !info.is_unwelcome(&pod.spec) {
                    return Some(Arc::clone(name));
                }
                reluctant = reluctant.or(Some(name));
            }
        }
        reluctant.map(Arc::clone)
    }

    fn place(&mut self, now: Moment, uid: Uid, node: &Arc<str>, pod: &Pod) {
        let placement = Placement {
            node: Arc::clone(node),
            requests: pod.spec.requests.clone(),
            ports: pod.spec.host_ports.clone(),
            alike: self.topology.add(node, pod),
            leaving: pod.meta.is_being_deleted(),
        };
        if let Some(info) = self.nodes.get_mut(node) {
            self.by_load.remove(&(info.pods, Arc::clone(node)));
            info.add(&placement.requests, &placement.ports);
            self.by_load.insert((info.pods, Arc::clone(node)));
        }
        self.placed.insert(uid, placement);
        self.pods_changed(now, Some(pod));
    }

    /// What is placed has changed: a pod, or where others are. Pods that ask for something of it may be tried again.
    fn pods_changed(&mut self, now: Moment, placed: Option<&Pod>) {
        let is_helped = |(_, uid): &&(u64, Uid)| {
            let pending = self.pending.get(uid);
            pending.is_some_and(|it| placed.is_none_or(|placed| self.topology.may_help(&it.pod, placed)))
        };
        let helped: Vec<(u64, Uid)> = self.waiting.iter().filter(is_helped).cloned().collect();
        for (sequence, uid) in helped {
            self.parked.remove(&(sequence, uid.clone()));
            self.unpark_one(now, sequence, uid);
        }
    }

    fn release(&mut self, now: Moment, uid: &Uid) {
        let Some(placement) = self.placed.remove(uid) else { return };
        self.topology.remove(&placement.node, &placement.alike, placement.leaving);
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

    fn room_came_free(&mut self, now: Moment) {
        self.hopeless.clear();
        self.unpark(now, |_| true);
    }

    /// Parked pods may be tried again, each no sooner than its back-off allows.
    fn unpark(&mut self, now: Moment, which: impl Fn(&Pod) -> bool) {
        for (sequence, uid) in std::mem::take(&mut self.parked) {
            let Some(pending) = self.pending.get(&uid) else { continue };
            if !which(&pending.pod) {
                self.parked.insert((sequence, uid));
                continue;
            }
            self.unpark_one(now, sequence, uid);
        }
    }

    /// One that is no more among the parked ones is tried again.
    fn unpark_one(&mut self, now: Moment, sequence: u64, uid: Uid) {
        self.waiting.remove(&(sequence, uid.clone()));
        let Some(pending) = self.pending.get_mut(&uid) else { return };
        let State::Parked(earliest, flush) = pending.state else { return };
        self.timed.remove(&(flush, sequence, uid.clone()));
        if earliest <= now {
            pending.state = State::Active;
            self.active.insert((Reverse(pending.pod.spec.priority), sequence, uid));
        } else {
            pending.state = State::BackingOff(earliest);
            self.timed.insert((earliest, sequence, uid));
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
                self.waiting.remove(&(pending.sequence, uid.clone()));
                self.timed.remove(&(flush, pending.sequence, uid.clone()));
            }
            State::BackingOff(at) => {
                self.timed.remove(&(at, pending.sequence, uid.clone()));
            }
            State::BindingVolumes(until) => {
                self.timed.remove(&(until, pending.sequence, uid.clone()));
                self.binding_volumes.remove(uid);
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
