//! Whether nodes live: the rules of the node lifecycle controller, as a state machine (SIM-06).
//!
//! A node lives while its Lease is renewed or its conditions' heartbeats move. One that is silent for
//! its grace period has its conditions turned Unknown. Taints follow the Ready condition and the
//! cordon, and pods on a node that is no longer ready are marked not ready.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, ResourceVersion, Timestamp};

use crate::json::push_field;
use crate::node::{Node, Readiness};
use crate::taints::{Effect, Taint};

/// How often nodes are looked at.
pub(super) const PERIOD: Duration = Duration::from_secs(5);
/// How long a node may be silent.
const GRACE: Duration = Duration::from_secs(50);
/// How long a new one may be.
const STARTUP_GRACE: Duration = Duration::from_secs(60);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What is to be done about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Turn its conditions Unknown.
    Lost {
        /// The node.
        node: Arc<str>,
        /// Whether it never posted any.
        never: bool,
    },
    /// Replace its taints by a merge patch.
    Taint {
        /// The node.
        node: Arc<str>,
        /// The patch, good for the version it was computed from.
        patch: Vec<u8>,
    },
    /// Mark the pods on it not ready.
    PodsNotReady {
        /// The node.
        node: Arc<str>,
    },
}

/// What is known of every node's health.
#[derive(Debug, Default)]
pub struct Health {
    nodes: BTreeMap<Arc<str>, Record>,
    renewals: BTreeMap<Arc<str>, ResourceVersion>,
}

#[derive(Debug)]
struct Record {
    node: Arc<Node>,
    /// When it last gave a sign of life, by this process's clock: never by the times that it writes.
    alive: Moment,
    /// Until then it is not declared lost again: the first time may not have been seen yet.
    declared: Option<Moment>,
    /// The version for which taints were asked for already.
    tainted: ResourceVersion,
}

impl Health {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node was added or changed.
    pub fn node_changed(&mut self, now: Moment, wall: Timestamp, node: &Arc<Node>) -> Vec<Remedy> {
        let name = Arc::clone(&node.meta.name);
        let mut remedies = Vec::new();
        match self.nodes.get_mut(&name) {
            Some(record) => {
                let was = record.node.ready;
                if was == Readiness::True && node.ready != Readiness::True {
                    remedies.push(Remedy::PodsNotReady { node: Arc::clone(&name) });
                }
                if was != node.ready && node.ready != Readiness::Unknown || record.node.meta.uid != node.meta.uid {
                    record.alive = now;
                    record.declared = None;
                }
                record.node = Arc::clone(node);
            }
            None => {
                let record =
                    Record { node: Arc::clone(node), alive: now, declared: None, tainted: ResourceVersion::UNKNOWN };
                self.nodes.insert(Arc::clone(&name), record);
            }
        }
        remedies.extend(self.taint(&name, wall));
        remedies
    }

    /// A node is gone.
    pub fn node_deleted(&mut self, name: &str) {
        self.nodes.remove(name);
        self.renewals.remove(name);
    }

    /// A node's Lease was seen; another version of it is a sign of life.
    pub fn lease_changed(&mut self, now: Moment, name: &Arc<str>, version: ResourceVersion) {
        if self.renewals.insert(Arc::clone(name), version) != Some(version)
            && let Some(record) = self.nodes.get_mut(name)
        {
            record.alive = now;
        }
    }

    /// The nodes that have been silent for too long.
    pub fn check(&mut self, now: Moment) -> Vec<Remedy> {
        let mut remedies = Vec::new();
        for (name, record) in &mut self.nodes {
            let never = record.node.ready == Readiness::Absent;
            let grace = if never { STARTUP_GRACE } else { GRACE };
            let lost = now.saturating_since(record.alive) > grace && record.node.ready != Readiness::Unknown;
            if lost && record.declared.is_none_or(|until| until <= now) {
                record.declared = Some(now + GRACE);
                remedies.push(Remedy::Lost { node: Arc::clone(name), never });
            }
        }
        remedies
    }

    /// Taints were refused: they are asked for again at the next change of the node.
    pub fn taint_failed(&mut self, name: &str) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.tainted = ResourceVersion::UNKNOWN;
        }
    }

    fn taint(&mut self, name: &str, wall: Timestamp) -> Option<Remedy> {
        let record = self.nodes.get_mut(name)?;
        let node = &record.node;
        let mut taints: Vec<Taint> = Vec::new();
        let wanted = wanted(node);
        for taint in &node.taints {
            if !is_ours(taint) || wanted.iter().any(|(key, effect)| **key == *taint.key && *effect == taint.effect) {
                taints.push(taint.clone());
            }
        }
        for (key, effect) in wanted {
            if !taints.iter().any(|taint| *taint.key == *key && taint.effect == effect) {
                taints.push(Taint { key: key.into(), value: "".into(), effect, time_added: Some(wall) });
            }
        }
        if *taints == *node.taints || record.tainted == node.meta.resource_version {
            return None;
        }
        record.tainted = node.meta.resource_version;
        Some(Remedy::Taint {
            node: Arc::clone(&node.meta.name),
            patch: taint_patch(&taints, node.meta.resource_version),
        })
    }
}

/// The taints that a node's condition and cordon call for.
fn wanted(node: &Node) -> Vec<(&'static str, Effect)> {
    let mut wanted = Vec::new();
    match node.ready {
        Readiness::True | Readiness::Absent => {}
        Readiness::False => wanted.extend([(NOT_READY, Effect::NoSchedule), (NOT_READY, Effect::NoExecute)]),
        Readiness::Unknown => wanted.extend([(UNREACHABLE, Effect::NoSchedule), (UNREACHABLE, Effect::NoExecute)]),
    }
    if node.unschedulable {
        wanted.push((UNSCHEDULABLE, Effect::NoSchedule));
    }
    wanted
}

/// Whether a taint is one that follows from condition or cordon. Those with a value someone set by hand.
fn is_ours(taint: &Taint) -> bool {
    match taint.effect {
        Effect::NoSchedule => matches!(&*taint.key, NOT_READY | UNREACHABLE | UNSCHEDULABLE),
        Effect::NoExecute => matches!(&*taint.key, NOT_READY | UNREACHABLE),
        Effect::PreferNoSchedule => false,
    }
}

fn taint_patch(taints: &[Taint], version: ResourceVersion) -> Vec<u8> {
    let mut out = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"spec":{{"taints":["#);
    for (at, taint) in taints.iter().enumerate() {
        out.push_str(if at == 0 { "{" } else { ",{" });
        push_field(&mut out, true, "key", &taint.key);
        if !taint.value.is_empty() {
            push_field(&mut out, false, "value", &taint.value);
        }
        let effect = match taint.effect {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        };
        push_field(&mut out, false, "effect", effect);
        if let Some(added) = taint.time_added {
            // Writing to a String cannot fail.
            let _ = write!(out, r#","timeAdded":"{added}""#);
        }
        out.push('}');
    }
    out.push_str("]}}");
    out.into_bytes()
}
