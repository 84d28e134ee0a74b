//! The agents of the simulated nodes: what becomes of every pod bound to one (SIM-03 to SIM-05).
//!
//! One state machine stands for all of them. It is told of nodes and pods and of the time, and says which
//! status to write or which pod to delete, at most one write for a pod at once.
//!
//! ```text
//!   observe(pod) --> Life (containers, conditions) --due--> dirty --next()--> Report / Delete
//!                                                             ^                    |
//!                                                             +---- done(outcome) -+
//! ```
//!
//! With no startup delay a pod turns Ready in one write, right after its binding, if what it needs is there. The final status of a
//! pod that is deleted is not written, unless finalizers keep the pod: it could not be read anyway.

mod addresses;
mod life;
mod needs;
mod note;
mod ports;
mod run;
mod status;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, ObjectKey, PodPhase, Uid};

use self::addresses::Addresses;
use self::life::Life;
pub use self::life::Now;
use self::needs::Needs;
pub use self::needs::{Found, Needed};
use self::note::Notes;
use self::ports::Ports;
pub(crate) use self::run::{Input, run, sleep_until};
use self::status::Form;
use crate::duration::{DelayRange, draw};
use crate::events::PodEvent;
use crate::json::FixedMap;
use crate::pod::Pod;

/// The first pause after a request that failed, doubled each time.
const RETRY: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// How the nodes treat pods.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a pod takes from its binding to running.
    pub startup: DelayRange,
    /// The longest that a pod takes to stop, whatever its grace period.
    pub shutdown: Duration,
    /// What the delays are drawn from.
    pub seed: u64,
    /// Whether events tell of what happens to pods. They are limited as a real kubelet's are, so that
    /// they never slow the pods.
    pub events: bool,
}

/// Where a node is on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node's own address.
    pub host: Ipv4Addr,
    /// The first address of its pods' range.
    pub pods: Ipv4Addr,
    /// The prefix length of that range.
    pub prefix: u8,
}

/// A request that an agent wants made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Patch the pod's status.
    Report {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: Uid,
        /// The patch.
        patch: Vec<u8>,
        /// Whether it is a merge patch, good only for the version that was seen; else a strategic one.
        whole: bool,
    },
    /// Read an object that pods need.
    Read(Needed),
    /// Delete the pod without a grace period, if it is still the one with that uid.
    Delete {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: Uid,
    },
}

/// What became of an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// There is no such pod any more.
    Gone,
    /// The pod is no longer what a whole patch was made for: a strategic one is due at once.
    Outdated,
    /// It was refused or lost, and is tried again later.
    Failed,
}

/// The agents' state.
#[derive(Debug)]
pub struct Kubelet {
    settings: Settings,
    nodes: BTreeMap<Arc<str>, Agent>,
    lives: FixedMap<Uid, Entry>,
    /// Pods on nodes that nobody simulates, or not yet.
    strangers: BTreeMap<Arc<str>, BTreeMap<Uid, Arc<Pod>>>,
    timers: BTreeSet<(Moment, u64, Uid)>,
    /// Pods with something to write, in the order in which it came up.
    queue: VecDeque<Uid>,
    needs: Needs,
    notes: Notes,
    sequence: u64,
}

#[derive(Debug)]
struct Agent {
    place: Place,
    addresses: Addresses,
    ports: Ports,
    reachable: bool,
    /// Pods with something to write once the node can be reached again.
    held: Vec<Uid>,
}

#[derive(Debug)]
struct Entry {
    life: Life,
    node: Arc<str>,
    /// The pod's number, by which timers of one moment are ordered.
    sequence: u64,
    timer: Option<Moment>,
    /// The state differs from what was last written.
    dirty: bool,
    queued: bool,
    flying: bool,
    /// Whether anything was reported yet.
    reported: bool,
    /// Whether others write to it: its whole status cannot be replaced.
    outdated: bool,
    /// Whether the deletion was done; finalizers may keep the object beyond it.
    deleted: bool,
    failures: u32,
    not_before: Option<Moment>,
}

impl Kubelet {
    /// Agents without a node.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let notes = Notes::new(settings.events);
        Self {
            settings,
            nodes: BTreeMap::new(),
            lives: FixedMap::default(),
            strangers: BTreeMap::new(),
            timers: BTreeSet::new(),
            queue: VecDeque::new(),
            needs: Needs::default(),
            notes,
            sequence: 0,
        }
    }

    /// A node is simulated from now on, or its reachability changed. An agent that is cut off writes
    /// nothing until it is reachable again; what its pods do meanwhile is written then.
    pub fn node(&mut self, now: Now, name: &Arc<str>, place: Place, reachable: bool) {
        let agent = self.nodes.entry(Arc::clone(name)).or_insert_with(|| Agent {
            place,
            addresses: Addresses::new(place.pods, place.prefix),
            ports: Ports::default(),
            reachable,
            held: Vec::new(),
        });
        let back = !std::mem::replace(&mut agent.reachable, reachable) && reachable;
        if reachable {
            self.queue.extend(std::mem::take(&mut agent.held));
            if back {
                self.correct(now, name);
            }
            for (_, pod) in self.strangers.remove(name).unwrap_or_default() {
                self.observe(now, &pod);
            }
        }
    }

    /// A node's object is gone: its agent has nobody to report to.
    pub fn node_gone(&mut self, name: &str) {
        if let Some(agent) = self.nodes.get_mut(name) {
            agent.reachable = false;
        }
    }

    /// A pod was added or changed.
    pub fn observe(&mut self, now: Now, pod: &Arc<Pod>) {
        let uid = &pod.meta.uid;
        let Some(node) = &pod.node else { return };
        if let Some(entry) = self.lives.get_mut(uid) {
            entry.dirty |= entry.life.update(pod, now, self.settings.shutdown, &mut self.notes);
            self.pursue(now, uid);
            return;
        }
        if pod.is_terminal() && !pod.meta.is_being_deleted() {
            return;
        }
        let Some(agent) = self.nodes.get_mut(node) else {
            self.strangers.entry(Arc::clone(node)).or_default().insert(uid.clone(), Arc::clone(pod));
            return;
        };
        self.sequence += 1;
        let known = pod.status.reported || !matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset);
        let narrated = !known && self.notes.take_pod(now.moment);
        let mut life = if known {
            Life::resume(pod, now, narrated)
        } else {
            let startup = pod.directions().startup.unwrap_or(self.settings.startup);
            let startup = startup.pick(draw(self.settings.seed, "startup", &uid.to_string()));
            Life::begin(pod, now, startup, narrated)
        };
        if let Some(ip) = life.ip {
            agent.addresses.claim(ip);
        }
        let runs = |holder: &Uid| self.lives.get(holder).is_some_and(|entry| !entry.life.is_over());
        if !known && agent.ports.are_taken(&pod.spec.host_ports, runs) {
            life.reject("NodePorts", ports::TAKEN, now);
        }
        agent.ports.take(&pod.spec.host_ports, uid);
        if pod.meta.is_being_deleted() {
            life.update(pod, now, self.settings.shutdown, &mut self.notes);
        }
        let entry = Entry {
            life,
            node: Arc::clone(node),
            sequence: self.sequence,
            timer: None,
            dirty: !known,
            queued: false,
            flying: false,
            reported: known,
            outdated: false,
            deleted: false,
            failures: 0,
            not_before: None,
        };
        self.lives.insert(uid.clone(), entry);
        if pod.extras().has_needs() {
            self.needs.add(pod, self.sequence);
            self.supply(now, uid);
        }
        self.pursue(now, uid);
    }

    /// An object was added, changed or deleted that pods may need.
    pub fn changed(&mut self, needed: &Needed) {
        self.needs.changed(needed);
    }

    /// What an [`Action::Read`] found.
    pub fn found(&mut self, now: Now, needed: &Needed, found: Found) {
        for uid in self.needs.found(needed, found) {
            self.supply(now, &uid);
            self.pursue(now, &uid);
        }
    }

    /// A pod is gone.
    pub fn forget(&mut self, pod: &Pod) {
        let uid = &pod.meta.uid;
        if let Some(entry) = self.lives.remove(uid) {
            if let Some(at) = entry.timer {
                self.timers.remove(&(at, entry.sequence, uid.clone()));
            }
            self.needs.remove(&entry.life.pod, entry.sequence);
            let Some(agent) = self.nodes.get_mut(&entry.node) else { return };
            agent.ports.release(&entry.life.pod.spec.host_ports, uid);
            if let Some(ip) = entry.life.ip.filter(|_| !pod.spec.host_network) {
                agent.addresses.release(ip);
            }
        } else if let Some(node) = &pod.node
            && let Some(strangers) = self.strangers.get_mut(node)
        {
            strangers.remove(uid);
            if strangers.is_empty() {
                self.strangers.remove(node);
            }
        }
    }

    /// The next write, if there is one to do now. Answer each with [`Kubelet::done`].
    pub fn next(&mut self, now: Now) -> Option<Action> {
        while self.timers.first().is_some_and(|(at, _, _)| *at <= now.moment) {
            if let Some((_, _, uid)) = self.timers.pop_first() {
                if let Some(entry) = self.lives.get_mut(&uid) {
                    entry.timer = None;
                }
                self.pursue(now, &uid);
            }
        }
        if let Some(needed) = self.needs.next() {
            return Some(Action::Read(needed));
        }
        while let Some(uid) = self.queue.pop_front() {
            let Some(entry) = self.lives.get_mut(&uid) else { continue };
            let Some(agent) = self.nodes.get_mut(&entry.node) else { continue };
            if !agent.reachable {
                agent.held.push(uid);
                continue;
            }
            entry.queued = false;
            if let Some(action) = entry.write(now, agent, &uid) {
                return Some(action);
            }
        }
        None
    }

    /// When [`Kubelet::next`] has something to do again though nothing happens.
    #[must_use]
    pub fn wake(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _, _)| *at)
    }

    /// What became of a pod's write.
    pub fn done(&mut self, now: Now, uid: &Uid, delete: bool, outcome: Outcome) {
        let Some(entry) = self.lives.get_mut(uid) else { return };
        entry.flying = false;
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                entry.reported = true;
                entry.deleted |= delete;
            }
            Outcome::Outdated => {
                entry.outdated = true;
                entry.dirty = true;
            }
            // Its deletion will be seen, or was.
            Outcome::Gone => entry.deleted = true,
            Outcome::Failed => {
                entry.failures += 1;
                entry.dirty |= !delete;
                let pause = RETRY.saturating_mul(1 << entry.failures.min(7)).min(LONGEST_RETRY);
                entry.not_before = Some(now.moment + pause);
            }
        }
        self.pursue(now, uid);
    }

    /// The next event to tell.
    pub fn next_event(&mut self) -> Option<PodEvent> {
        self.notes.events.pop_front()
    }

    /// How many pods run on simulated nodes, those that start or stop included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// While a node was cut off its pods were marked not ready: its agent knows better.
    fn correct(&mut self, now: Now, node: &str) {
        let wrong = self
            .lives
            .iter()
            .filter(|(_, entry)| *entry.node == *node && entry.life.conditions.ready.0 != entry.life.pod.status.ready);
        let mut wrong: Vec<(u64, Uid)> = wrong.map(|(uid, entry)| (entry.sequence, uid.clone())).collect();
        wrong.sort_unstable();
        for (_, uid) in wrong {
            if let Some(entry) = self.lives.get_mut(&uid) {
                entry.dirty = true;
            }
            self.pursue(now, &uid);
        }
    }

    /// Tells a pod what of what it needs is there, once all of that is known.
    fn supply(&mut self, now: Now, uid: &Uid) {
        let Some(entry) = self.lives.get_mut(uid) else { return };
        if let Some(lacks) = self.needs.lacks(&entry.life.pod) {
            entry.dirty |= entry.life.supply(lacks, now, &mut self.notes);
        }
    }

    /// Brings a pod up to now, queues it if it has something to write, and sets its timer.
    fn pursue(&mut self, now: Now, uid: &Uid) {
        let Some(entry) = self.lives.get_mut(uid) else { return };
        entry.dirty |= entry.life.advance(now, &mut self.notes);
        if entry.life.conditions.sandbox.0 && entry.life.ip.is_none() {
            let agent = self.nodes.get_mut(&entry.node);
            entry.life.ip = agent.and_then(|agent| {
                if entry.life.pod.spec.host_network { Some(agent.place.host) } else { agent.addresses.take() }
            });
        }
        if entry.not_before.is_some_and(|at| at <= now.moment) {
            entry.not_before = None;
        }
        let wants = entry.wants_delete(now.moment) || entry.dirty;
        if wants && !entry.queued && !entry.flying && !entry.deleted && entry.not_before.is_none() {
            entry.queued = true;
            self.queue.push_back(uid.clone());
        }
        // A stopped pod waits for its deletion, not for a time.
        let due = entry.life.due().filter(|due| *due > now.moment);
        let timer = [due, entry.not_before].into_iter().flatten().min();
        if timer != entry.timer {
            if let Some(old) = entry.timer {
                self.timers.remove(&(old, entry.sequence, uid.clone()));
            }
            if let Some(at) = timer {
                self.timers.insert((at, entry.sequence, uid.clone()));
            }
            entry.timer = timer;
        }
    }
}

impl Entry {
    fn wants_delete(&self, now: Moment) -> bool {
        !self.deleted && self.life.has_stopped(now)
    }

    fn write(&mut self, now: Now, agent: &Agent, uid: &Uid) -> Option<Action> {
        let pod = self.life.pod.meta.key();
        if self.deleted {
            return None;
        }
        if self.wants_delete(now.moment) {
            // A pod that finalizers keep shows its end; of any other nobody could see it.
            let finalizers = self.life.pod.finalizers;
            let kept = finalizers.others || finalizers.orphan || finalizers.foreground;
            self.dirty = kept && (self.life.finish(now) || self.dirty && self.life.pod.is_terminal());
            if !self.dirty {
                self.flying = true;
                return Some(Action::Delete { pod, uid: uid.clone() });
            }
        }
        if !self.dirty {
            return None;
        }
        self.dirty = false;
        self.flying = true;
        let form = match self.life.pod.status.bound_at {
            _ if self.reported => Form::Next,
            Some(bound_at) if !self.outdated => Form::Whole(bound_at),
            _ => Form::First,
        };
        let patch = status::patch(&self.life, &agent.place.host.to_string(), form);
        Some(Action::Report { pod, uid: uid.clone(), patch, whole: matches!(form, Form::Whole(_)) })
    }
}
