//! Handlers: which keys to queue, and which expectations to lower, for a change of a cache.
//!
//! A handler gets a change of one cache and looks owners up in the other. It emits effects in the order in which they
//! are to be applied: an expectation is always lowered before the key is queued whose sync checks it.

use std::sync::Arc;
use std::time::Duration;

use muster_machinery::cache::{Cache, Cached, Change, Selecting, SelectingIndexes};
use muster_objects::meta::{ControllerRef, ObjectKey, ResourceVersion, Uid};
use muster_objects::{Labels, Pod};

use super::backoff::failed_at_once;
use super::identity::ReplicaOwner;

/// An effect of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Queue the owner.
    Enqueue(ObjectKey),
    /// Queue the owner after a delay.
    EnqueueAfter(ObjectKey, Duration),
    /// A creation that the owner may be waiting for was seen (EX-03).
    CreationObserved(ObjectKey),
    /// A deletion that the owner may be waiting for was seen (EX-04).
    DeletionObserved {
        /// The owner.
        owner: ObjectKey,
        /// The pod.
        pod: ObjectKey,
        /// Whether this is the first sign of it: a pod with a grace period is seen being deleted, and later gone.
        first: bool,
    },
    /// A pod of the owner got other labels or lost its owner reference, before this controller has released it: the owner may be
    /// being deleted (B-23).
    Left(ObjectKey),
    /// The owner is gone: drop its expectations (EX-06), its backoff, and its record of written versions if it is of
    /// this uid.
    Forget {
        /// The owner.
        owner: ObjectKey,
        /// The uid of the deleted one; a new owner of the name may already have written.
        uid: Uid,
    },
    /// A pod of the owner failed as soon as it was created (B-08).
    FailedAtOnce(ObjectKey),
    /// A pod of the owner turned ready: its backoff is reset (B-08).
    TurnedReady(ObjectKey),
    /// Several owners select this orphan: a mistake of their author, to be logged (RS-21).
    Overlap {
        /// The orphan.
        pod: ObjectKey,
        /// The owners, all of which are queued; the first to adopt it controls it.
        owners: Vec<ObjectKey>,
    },
}

/// The cache of the owners, as far as handlers read it.
pub trait Owners<O> {
    /// The owner of that name.
    fn get(&self, key: &ObjectKey) -> Option<Arc<O>>;

    /// The newest version that the cache has reached.
    fn newest(&self) -> ResourceVersion;

    /// The owners in the namespace whose selector matches the labels and is not empty, in the order of their names. By
    /// index: the cost is proportional to the answer, not to the namespace (B-15).
    fn selecting(&self, namespace: &str, labels: &Labels) -> Vec<Arc<O>>;

    /// The owners whose own controller has that uid: a Deployment's ReplicaSets. By index too (B-15).
    fn siblings(&self, controller: &Uid) -> Vec<Arc<O>>;
}

impl<O> Owners<O> for Cache<O>
where
    O: Selecting + Cached<Indexes = SelectingIndexes<O>>,
{
    fn get(&self, key: &ObjectKey) -> Option<Arc<O>> {
        Self::get(self, key).cloned()
    }

    fn newest(&self) -> ResourceVersion {
        Self::newest(self)
    }

    fn selecting(&self, namespace: &str, labels: &Labels) -> Vec<Arc<O>> {
        let mut selecting: Vec<_> = Self::selecting(self, namespace, labels).cloned().collect();
        selecting.sort_by(|a, b| a.meta().name.cmp(&b.meta().name));
        selecting
    }

    fn siblings(&self, controller: &Uid) -> Vec<Arc<O>> {
        self.controlled_by(controller).cloned().collect()
    }
}

/// A change of an owner (RS-01).
pub fn owner_changed<O: ReplicaOwner>(change: &Change<O>, effect: impl FnMut(Effect)) {
    match change {
        Change::Added(owner) => owner_added(&**owner, effect),
        Change::Updated { old, new } => owner_updated(&**old, &**new, effect),
        Change::Deleted { last, .. } => owner_deleted(&**last, effect),
    }
}

/// A change of a pod (RS-02 to RS-04).
pub fn pod_changed<O: ReplicaOwner>(change: &Change<Pod>, owners: &impl Owners<O>, mut effect: impl FnMut(Effect)) {
    match change {
        Change::Added(pod) => pod_added(pod, owners, effect),
        // A pod was deleted and created again under the same name, and the watch showed only the second.
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
            pod_deleted(old, !old.meta.is_being_deleted(), owners, &mut effect);
            pod_added(new, owners, effect);
        }
        Change::Updated { old, new } => pod_updated(old, new, owners, effect),
        Change::Deleted { last, .. } => pod_deleted(last, !last.meta.is_being_deleted(), owners, effect),
    }
}

/// The owner was added.
pub fn owner_added<O: ReplicaOwner>(owner: &O, mut effect: impl FnMut(Effect)) {
    effect(Effect::Enqueue(owner.meta().key()));
}

/// The owner was updated, or is reported unchanged by a resync (RS-01).
///
/// Every update queues it, so a resync retries what once failed. An update to another uid is a deletion and a creation
/// of which the watch showed only the end.
pub fn owner_updated<O: ReplicaOwner>(old: &O, new: &O, mut effect: impl FnMut(Effect)) {
    if old.meta().uid != new.meta().uid {
        owner_deleted(old, &mut effect);
    }
    effect(Effect::Enqueue(new.meta().key()));
}

/// The owner was deleted, or was missing in a relist (RS-01).
pub fn owner_deleted<O: ReplicaOwner>(owner: &O, mut effect: impl FnMut(Effect)) {
    let key = owner.meta().key();
    effect(Effect::Forget { owner: key.clone(), uid: owner.meta().uid.clone() });
    effect(Effect::Enqueue(key));
}

/// A pod was added (RS-02).
pub fn pod_added<O: ReplicaOwner>(pod: &Pod, owners: &impl Owners<O>, mut effect: impl FnMut(Effect)) {
    // After a restart a pod may first be seen when it is already being deleted. No expectation counts it as a creation.
    if pod.meta.is_being_deleted() {
        pod_deleted(pod, true, owners, effect);
        return;
    }
    let Some(reference) = &pod.meta.controller else {
        // An orphan meets no expectation.
        enqueue_selecting(pod, owners, effect);
        return;
    };
    let Some(owner) = resolve(pod, reference, owners) else { return };
    let key = owner.meta().key();
    if failed_at_once(pod) {
        effect(Effect::FailedAtOnce(key.clone()));
    } else if pod.is_ready() {
        effect(Effect::TurnedReady(key.clone()));
    }
    effect(Effect::CreationObserved(key.clone()));
    effect(Effect::Enqueue(key));
}

/// A pod was updated, or is reported unchanged by a resync (RS-03).
pub fn pod_updated<O: ReplicaOwner>(old: &Pod, new: &Pod, owners: &impl Owners<O>, mut effect: impl FnMut(Effect)) {
    // A resync.
    if old == new {
        return;
    }
    let relabelled = old.meta.labels != new.meta.labels;
    let changed_hands = old.meta.controller != new.meta.controller;
    // A graceful deletion is first seen by the deletion timestamp, and the pod is to be replaced at once.
    if new.meta.is_being_deleted() {
        let first = !old.meta.is_being_deleted();
        pod_deleted(new, first, owners, &mut effect);
        if relabelled {
            pod_deleted(old, first, owners, &mut effect);
        } else if changed_hands
            && let Some(reference) = &old.meta.controller
            && let Some(owner) = resolve(old, reference, owners)
        {
            // Upstream goes on counting it as terminating.
            effect(Effect::Enqueue(owner.meta().key()));
        }
        return;
    }
    if (relabelled || changed_hands)
        && let Some(reference) = &old.meta.controller
        && let Some(owner) = resolve(old, reference, owners)
    {
        let selects = |pod: &Pod| owner.selector().is_ok_and(|selector| selector.matches(&pod.meta.labels));
        if selects(old) && (changed_hands || !selects(new)) {
            effect(Effect::Left(owner.meta().key()));
        }
        if changed_hands {
            effect(Effect::Enqueue(owner.meta().key()));
        }
    }
    let Some(reference) = &new.meta.controller else {
        if relabelled || changed_hands {
            enqueue_selecting(new, owners, effect);
        }
        return;
    };
    let Some(owner) = resolve(new, reference, owners) else { return };
    let key = owner.meta().key();
    let turned_ready = !old.is_ready() && new.is_ready();
    // A pod that was ready before it failed was not rejected by its node: it is replaced at once.
    if old.phase != new.phase && !old.is_ready() && failed_at_once(new) {
        effect(Effect::FailedAtOnce(key.clone()));
    } else if turned_ready {
        effect(Effect::TurnedReady(key.clone()));
    }
    effect(Effect::Enqueue(key.clone()));
    // The pod will become available after a time, without an event.
    if let Ok(seconds @ 1..) = u64::try_from(owner.min_ready_seconds())
        && turned_ready
    {
        effect(Effect::EnqueueAfter(key, Duration::from_secs(seconds)));
    }
}

/// A pod was deleted, is being deleted, or was missing in a relist (RS-04). `first`: no sign of its deletion was seen
/// before.
pub fn pod_deleted<O: ReplicaOwner>(pod: &Pod, first: bool, owners: &impl Owners<O>, mut effect: impl FnMut(Effect)) {
    let Some(reference) = &pod.meta.controller else {
        // An orphan was never counted, but by who adopted it and has not seen that yet (B-23).
        let selecting = owners.selecting(&pod.meta.namespace, &pod.meta.labels).into_iter();
        let owners = selecting.filter(|_| !pod.meta.is_being_deleted()).map(|owner| owner.meta().key());
        owners.for_each(|owner| effect(Effect::DeletionObserved { owner, pod: pod.meta.key(), first }));
        return;
    };
    let Some(owner) = resolve(pod, reference, owners) else { return };
    let owner = owner.meta().key();
    effect(Effect::DeletionObserved { owner: owner.clone(), pod: pod.meta.key(), first });
    effect(Effect::Enqueue(owner));
}

/// The owner that a reference names, of this kind and with its uid. A later one of the same name is another.
fn resolve<O: ReplicaOwner>(pod: &Pod, reference: &ControllerRef, owners: &impl Owners<O>) -> Option<Arc<O>> {
    if *reference.kind != *O::IDENTITY.resource.kind {
        return None;
    }
    let key = ObjectKey { namespace: Arc::clone(&pod.meta.namespace), name: Arc::clone(&reference.name) };
    owners.get(&key).filter(|owner| owner.meta().uid == reference.uid)
}

/// Queues every owner that might adopt the pod.
fn enqueue_selecting<O: ReplicaOwner>(pod: &Pod, owners: &impl Owners<O>, mut effect: impl FnMut(Effect)) {
    let selecting = owners.selecting(&pod.meta.namespace, &pod.meta.labels);
    let keys: Vec<ObjectKey> = selecting.iter().map(|owner| owner.meta().key()).collect();
    if keys.len() > 1 {
        effect(Effect::Overlap { pod: pod.meta.key(), owners: keys.clone() });
    }
    keys.into_iter().map(Effect::Enqueue).for_each(effect);
}
