//! Handlers: which Deployments to queue for a change of a cache (DEP-01).
//!
//! A handler gets a change of one cache and looks owners up in the other caches by index. It emits effects in the order
//! in which they are to be applied.

use std::sync::Arc;

use muster_machinery::cache::{Cache, Change};
use muster_objects::meta::{ControllerRef, ObjectKey, Uid};
use muster_objects::{Deployment, Object, Pod, PodPhase, ReplicaSet, Strategy};

use super::sets::has_template_of;

/// An effect of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Queue the Deployment.
    Enqueue(ObjectKey),
    /// The Deployment is gone: drop the record of its writes if it is of this uid.
    Forget {
        /// The Deployment.
        owner: ObjectKey,
        /// The uid of the deleted one; a new Deployment of the name may already have written.
        uid: Uid,
    },
    /// The ReplicaSet of the Deployment's template went, or there is another of that template since.
    New {
        /// The Deployment.
        owner: ObjectKey,
        /// Whether it went: nobody but others deletes it, and the Deployment may be being deleted itself (B-23).
        gone: bool,
    },
    /// Several Deployments select this orphan: a mistake of their author, to be logged.
    Overlap {
        /// The orphaned ReplicaSet.
        set: ObjectKey,
        /// The Deployments, all of which are queued; the first to adopt it controls it.
        owners: Vec<ObjectKey>,
    },
}

/// A change of a Deployment: it is queued, whatever changed.
pub fn deployment_changed(change: &Change<Deployment>, mut effect: impl FnMut(Effect)) {
    let gone =
        |deployment: &Deployment| Effect::Forget { owner: deployment.meta.key(), uid: deployment.meta.uid.clone() };
    match change {
        Change::Added(_) => {}
        // A Deployment was deleted and created again under the same name, and the watch showed only the second.
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => effect(gone(old)),
        Change::Updated { .. } => {}
        Change::Deleted { last, .. } => effect(gone(last)),
    }
    effect(Effect::Enqueue(change.object().meta.key()));
}

/// A change of a ReplicaSet.
pub fn replica_set_changed(
    change: &Change<ReplicaSet>,
    deployments: &Cache<Deployment>,
    mut effect: impl FnMut(Effect),
) {
    match change {
        Change::Added(set) => set_added(set, deployments, effect),
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
            set_deleted(old, deployments, &mut effect);
            set_added(new, deployments, effect);
        }
        Change::Updated { old, new } => set_updated(old, new, deployments, effect),
        Change::Deleted { last, .. } => set_deleted(last, deployments, effect),
    }
}

fn set_added(set: &ReplicaSet, deployments: &Cache<Deployment>, mut effect: impl FnMut(Effect)) {
    // After a restart a ReplicaSet may first be seen when it is already being deleted.
    if set.meta.is_being_deleted() {
        return set_deleted(set, deployments, effect);
    }
    match &set.meta.controller {
        Some(reference) => {
            let deployment = resolve(set, reference, deployments);
            if let Some(deployment) = deployment.filter(|deployment| has_template_of(set, deployment)) {
                effect(Effect::New { owner: deployment.meta.key(), gone: false });
            }
            enqueue(deployment, effect);
        }
        None => enqueue_selecting(set, deployments, effect),
    }
}

fn set_updated(old: &ReplicaSet, new: &ReplicaSet, deployments: &Cache<Deployment>, mut effect: impl FnMut(Effect)) {
    // A resync.
    if old == new {
        return;
    }
    let changed_hands = old.meta.controller != new.meta.controller;
    if changed_hands && let Some(reference) = &old.meta.controller {
        enqueue(resolve(old, reference, deployments), &mut effect);
    }
    match &new.meta.controller {
        Some(reference) => enqueue(resolve(new, reference, deployments), effect),
        None if changed_hands || old.meta.labels != new.meta.labels => enqueue_selecting(new, deployments, effect),
        None => {}
    }
}

/// A ReplicaSet was deleted, is being deleted, or was missing in a relist.
fn set_deleted(set: &ReplicaSet, deployments: &Cache<Deployment>, mut effect: impl FnMut(Effect)) {
    let deployment = set.meta.controller.as_ref().and_then(|reference| resolve(set, reference, deployments));
    if let Some(deployment) = deployment.filter(|deployment| has_template_of(set, deployment)) {
        effect(Effect::New { owner: deployment.meta.key(), gone: true });
    }
    enqueue(deployment, effect);
}

/// What the pods' cache saw: a Recreate Deployment may go on where the last pod of one of its ReplicaSets went, finished,
/// or is not its own any more.
///
/// Everything is read from the caches. Pods that are Failed or Succeeded are not waited for (B-05).
pub fn pod_changed(
    change: &Change<Pod>,
    pods: &Cache<Pod>,
    sets: &Cache<ReplicaSet>,
    deployments: &Cache<Deployment>,
    effect: impl FnMut(Effect),
) {
    let gone = match change {
        Change::Deleted { last, .. } => last,
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => old,
        Change::Updated { old, new } if old.meta.controller != new.meta.controller => old,
        Change::Updated { old, new } if !is_finished(old) && is_finished(new) => new,
        Change::Added(_) | Change::Updated { .. } => return,
    };
    let Some((set, deployment)) = owners_of(gone, sets, deployments) else { return };
    if deployment.strategy != Strategy::Recreate {
        return;
    }
    // Pods of other ReplicaSets may be the new ones already, where the strategy was changed in the middle of a rollout.
    let mut left = pods.owned_by(ReplicaSet::KIND, &set.meta);
    if left.all(|pod| is_finished(pod) || pod.meta.uid == gone.meta.uid) {
        enqueue(Some(deployment), effect);
    }
}

/// Whether nothing of the pod runs any more. One whose phase is Unknown may still run.
pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded)
}

/// The ReplicaSet that the pod is of, and its Deployment.
fn owners_of<'a>(
    pod: &Pod,
    sets: &'a Cache<ReplicaSet>,
    deployments: &'a Cache<Deployment>,
) -> Option<(&'a Arc<ReplicaSet>, &'a Arc<Deployment>)> {
    let set: &Arc<ReplicaSet> = resolve(pod, pod.meta.controller.as_deref()?, sets)?;
    Some((set, resolve(&**set, set.meta.controller.as_deref()?, deployments)?))
}

/// The owner that a reference names, of this kind and with its uid. A later one of the same name is another.
fn resolve<'a, T: muster_machinery::Cached>(
    object: &impl Object,
    reference: &ControllerRef,
    owners: &'a Cache<T>,
) -> Option<&'a Arc<T>> {
    if *reference.kind != *T::KIND {
        return None;
    }
    let key = ObjectKey { namespace: Arc::clone(&object.meta().namespace), name: Arc::clone(&reference.name) };
    owners.get(&key).filter(|owner| owner.meta().uid == reference.uid)
}

fn enqueue(deployment: Option<&Arc<Deployment>>, mut effect: impl FnMut(Effect)) {
    if let Some(deployment) = deployment {
        effect(Effect::Enqueue(deployment.meta.key()));
    }
}

/// Queues every Deployment that might adopt the ReplicaSet.
fn enqueue_selecting(set: &ReplicaSet, deployments: &Cache<Deployment>, mut effect: impl FnMut(Effect)) {
    let selecting = deployments.selecting(&set.meta.namespace, &set.meta.labels);
    let mut keys: Vec<ObjectKey> = selecting.map(|deployment| deployment.meta.key()).collect();
    keys.sort_unstable();
    if keys.len() > 1 {
        effect(Effect::Overlap { set: set.meta.key(), owners: keys.clone() });
    }
    keys.into_iter().map(Effect::Enqueue).for_each(effect);
}
