//! Pods that must leave their node: NoExecute taints, and nodes that are no more (SIM-06).
//!
//! A pod under a NoExecute taint leaves at once, or when the shortest toleration in use runs out. Pods of
//! a node whose object is gone are collected after a quarantine, for the node might come back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, ObjectKey, Uid};

use crate::node::{Node, Readiness};
use crate::pod::Pod;
use crate::taints::{Effect, Stay, Taint, stay};

/// How long a node must be missing before its pods are collected.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The taint by which a person says that a node is down for good.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod that must go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// Why.
    pub cause: Cause,
    /// Whether it is over already, so that its status needs no last word.
    pub terminal: bool,
}

/// Why a pod must go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A NoExecute taint: it is deleted with its grace period.
    Taint,
    /// Its node is gone: it is failed and deleted at once.
    NodeGone,
    /// Its node is out of service, and it was terminating: it is failed and deleted at once.
    OutOfService,
}

/// Where every pod is, and which must leave when.
#[derive(Debug, Default)]
pub struct Evictor {
    nodes: BTreeMap<Arc<str>, Site>,
    timers: BTreeSet<(Moment, Arc<str>, Option<Uid>)>,
    ready: VecDeque<Eviction>,
}

/// A node, present or not, and the pods bound to it.
#[derive(Debug, Default)]
struct Site {
    /// Its NoExecute taints; `None` while there is no such node.
    taints: Option<Vec<Taint>>,
    out_of_service: bool,
    pods: BTreeMap<Uid, Bound>,
    /// When its pods are collected, while it is missing.
    collected: Option<Moment>,
}

#[derive(Debug)]
struct Bound {
    pod: Arc<Pod>,
    /// Since when it is under a taint that it does not bear for ever, and when it leaves.
    leaving: Option<(Moment, Moment)>,
}

impl Evictor {
    /// Knows of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node was added or changed.
    pub fn node_changed(&mut self, now: Moment, node: &Node) {
        let name = &node.meta.name;
        let taints: Vec<Taint> = node.taints.iter().filter(|t| t.effect == Effect::NoExecute).cloned().collect();
        let out_of_service =
            node.ready != Readiness::True && node.taints.iter().any(|taint| *taint.key == *OUT_OF_SERVICE);
        let site = self.nodes.entry(Arc::clone(name)).or_default();
        if let Some(at) = site.collected.take() {
            self.timers.remove(&(at, Arc::clone(name), None));
        }
        if site.taints.as_ref() == Some(&taints) && site.out_of_service == out_of_service {
            return;
        }
        site.taints = Some(taints);
        site.out_of_service = out_of_service;
        let pods: Vec<Uid> = site.pods.keys().cloned().collect();
        for uid in pods {
            self.settle(now, name, &uid);
        }
    }

    /// A node is gone.
    pub fn node_deleted(&mut self, now: Moment, name: &Arc<str>) {
        let Some(site) = self.nodes.get_mut(name) else { return };
        site.taints = None;
        if site.pods.is_empty() {
            self.nodes.remove(name);
        } else {
            self.quarantine(now, name);
        }
    }

    /// A pod was added or changed.
    pub fn pod_changed(&mut self, now: Moment, pod: &Arc<Pod>) {
        let Some(node) = &pod.node else { return };
        let uid = &pod.meta.uid;
        let site = self.nodes.entry(Arc::clone(node)).or_default();
        match site.pods.get_mut(uid) {
            Some(bound) => {
                let same = bound.pod.spec.tolerations == pod.spec.tolerations
                    && bound.pod.meta.is_being_deleted() == pod.meta.is_being_deleted();
                bound.pod = Arc::clone(pod);
                if same {
                    return;
                }
            }
            None => {
                site.pods.insert(uid.clone(), Bound { pod: Arc::clone(pod), leaving: None });
            }
        }
        if site.taints.is_none() {
            self.quarantine(now, node);
        } else {
            self.settle(now, node, uid);
        }
    }

    /// A pod is gone.
    pub fn pod_deleted(&mut self, pod: &Pod) {
        let Some(node) = &pod.node else { return };
        let Some(site) = self.nodes.get_mut(node) else { return };
        if let Some(Bound { leaving: Some((_, at)), .. }) = site.pods.remove(&pod.meta.uid) {
            self.timers.remove(&(at, Arc::clone(node), Some(pod.meta.uid.clone())));
        }
        if site.pods.is_empty() && site.taints.is_none() {
            if let Some(at) = site.collected {
                self.timers.remove(&(at, Arc::clone(node), None));
            }
            self.nodes.remove(node);
        }
    }

    /// The next pod that must go now.
    pub fn next(&mut self, now: Moment) -> Option<Eviction> {
        while self.timers.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, node, uid)) = self.timers.pop_first() else { break };
            let Some(site) = self.nodes.get_mut(&node) else { continue };
            match uid {
                Some(uid) => {
                    if let Some(bound) = site.pods.get_mut(&uid) {
                        bound.leaving = None;
                        self.ready.push_back(eviction(&bound.pod, Cause::Taint));
                    }
                }
                None => {
                    site.collected = None;
                    self.ready.extend(site.pods.values().map(|bound| eviction(&bound.pod, Cause::NodeGone)));
                    // Whatever survives this is collected later.
                    self.quarantine(now, &node);
                }
            }
        }
        self.ready.pop_front()
    }

    /// When [`Evictor::next`] has something to do again though nothing happens.
    #[must_use]
    pub fn wake(&self) -> Option<Moment> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// The pods on a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.nodes.get(node).into_iter().flat_map(|site| site.pods.values().map(|bound| &bound.pod))
    }

    fn quarantine(&mut self, now: Moment, node: &Arc<str>) {
        if let Some(site) = self.nodes.get_mut(node)
            && site.collected.is_none()
        {
            let at = now + QUARANTINE;
            site.collected = Some(at);
            self.timers.insert((at, Arc::clone(node), None));
        }
    }

    /// Decides anew whether and when a pod leaves.
    fn settle(&mut self, now: Moment, node: &Arc<str>, uid: &Uid) {
        let Some(site) = self.nodes.get_mut(node) else { return };
        let Some(bound) = site.pods.get_mut(uid) else { return };
        let before = bound.leaving.take();
        if let Some((_, at)) = before {
            self.timers.remove(&(at, Arc::clone(node), Some(uid.clone())));
        }
        if bound.pod.meta.is_being_deleted() {
            if site.out_of_service {
                self.ready.push_back(eviction(&bound.pod, Cause::OutOfService));
            }
            return;
        }
        let taints = site.taints.as_deref().unwrap_or_default();
        match stay(taints, &bound.pod.spec.tolerations) {
            Stay::Forever => {}
            Stay::Leave => self.ready.push_back(eviction(&bound.pod, Cause::Taint)),
            Stay::For(time) => {
                // The time counts from the first taint: another one does not start it anew.
                let since = before.map_or(now, |(since, _)| since);
                let at = since + time;
                bound.leaving = Some((since, at));
                self.timers.insert((at, Arc::clone(node), Some(uid.clone())));
            }
        }
    }
}

fn eviction(pod: &Pod, cause: Cause) -> Eviction {
    Eviction { pod: pod.meta.key(), uid: pod.meta.uid.clone(), cause, terminal: pod.is_terminal() }
}
