//! Action: a write that a controller seems to have made, recognised by the change that it caused.

use std::sync::Arc;

use muster_machinery::Change;
use muster_objects::meta::{ControllerRef, Meta, ResourceVersion, Uid};
use muster_objects::{Deployment, Object, Pod, ReplicaSet, Timestamp};

use super::intent::{IntendedWrite, Target};
use muster_controllers::deployment::revision::REVISION;

/// One write that somebody made to an owner's object.
#[derive(Debug, Clone)]
pub struct Action {
    /// The kind of the owner.
    pub owner_kind: Arc<str>,
    /// The owner.
    pub owner: Uid,
    /// What was done.
    pub kind: ActionKind,
    /// To which object.
    pub target: Target,
    /// The object's metadata before the change; of a created object, after it.
    pub meta: Meta,
    /// The resourceVersion of the change.
    pub version: ResourceVersion,
    /// When it was seen, by the server's clock.
    pub at: Timestamp,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionKind {
    /// A pod was created with the owner as its controller.
    CreatePod,
    /// An active pod was deleted, or is now being deleted.
    DeletePod,
    /// The owner was made the controller of an object.
    Adopt,
    /// The owner is no longer the controller of an object.
    Release,
    /// A ReplicaSet was created with the owner as its controller.
    CreateReplicaSet {
        /// Its size.
        replicas: i64,
        /// Its revision; empty where it has none.
        revision: String,
    },
    /// A ReplicaSet was scaled.
    ScaleReplicaSet {
        /// The size before.
        from: i64,
        /// The size now.
        to: i64,
    },
    /// A ReplicaSet was deleted, or is now being deleted.
    DeleteReplicaSet,
}

impl Action {
    /// The intended write that this action fulfils.
    #[must_use]
    pub fn answers(&self) -> IntendedWrite {
        let target = || self.target.clone();
        match self.kind {
            ActionKind::CreatePod => IntendedWrite::CreatePods,
            ActionKind::DeletePod => IntendedWrite::DeletePods,
            ActionKind::Adopt => IntendedWrite::Adopt(target()),
            ActionKind::Release => IntendedWrite::Release(target()),
            ActionKind::CreateReplicaSet { .. } => IntendedWrite::CreateReplicaSet,
            ActionKind::ScaleReplicaSet { .. } => IntendedWrite::ScaleReplicaSet(target()),
            ActionKind::DeleteReplicaSet => IntendedWrite::DeleteReplicaSet(target()),
        }
    }

    /// What was done, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let name = &self.target.key.name;
        match &self.kind {
            ActionKind::CreatePod => format!("created pod {name}"),
            ActionKind::DeletePod => format!("deleted pod {name}"),
            ActionKind::Adopt => format!("adopted {name}"),
            ActionKind::Release => format!("released {name}"),
            ActionKind::CreateReplicaSet { replicas, revision } => {
                format!("created ReplicaSet {name} of {replicas} as revision {revision:?}")
            }
            ActionKind::ScaleReplicaSet { from, to } => format!("scaled ReplicaSet {name} from {from} to {to}"),
            ActionKind::DeleteReplicaSet => format!("deleted ReplicaSet {name}"),
        }
    }
}

/// The actions that a change of a pod shows.
#[must_use]
pub fn of_pod(change: &Change<Pod>, version: ResourceVersion, at: Timestamp) -> Vec<Action> {
    let action = |owner: &ControllerRef, did, meta: &Meta| new(owner, did, meta, version, at);
    match change {
        // A pod that is first seen while it is being deleted was created before the watch began.
        Change::Added(pod) if pod.meta.is_being_deleted() => Vec::new(),
        Change::Added(pod) => {
            pod.meta.controller.iter().map(|owner| action(owner, ActionKind::CreatePod, &pod.meta)).collect()
        }
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
            let mut actions = of_pod(&Change::Deleted { last: Arc::clone(old), tombstone: true }, version, at);
            actions.extend(of_pod(&Change::Added(Arc::clone(new)), version, at));
            actions
        }
        Change::Updated { old, new } => {
            let mut actions = changed_hands(&old.meta, &new.meta, version, at);
            if old.is_active() && new.meta.is_being_deleted() {
                actions.extend(old.meta.controller.iter().map(|owner| action(owner, ActionKind::DeletePod, &old.meta)));
            }
            actions
        }
        Change::Deleted { last, .. } if last.is_active() => {
            last.meta.controller.iter().map(|owner| action(owner, ActionKind::DeletePod, &last.meta)).collect()
        }
        Change::Deleted { .. } => Vec::new(),
    }
}

/// The actions for a Deployment that a change of a ReplicaSet shows.
#[must_use]
pub fn of_replica_set(change: &Change<ReplicaSet>, version: ResourceVersion, at: Timestamp) -> Vec<Action> {
    let action = |owner: &ControllerRef, did, meta: &Meta| new(owner, did, meta, version, at);
    match change {
        Change::Added(set) => {
            let revision = set.annotations.get(REVISION).unwrap_or_default().to_owned();
            let did = ActionKind::CreateReplicaSet { replicas: set.replicas.into(), revision };
            of_deployment(&set.meta).map(|owner| action(owner, did, &set.meta)).into_iter().collect()
        }
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
            let mut actions = of_replica_set(&Change::Deleted { last: Arc::clone(old), tombstone: true }, version, at);
            actions.extend(of_replica_set(&Change::Added(Arc::clone(new)), version, at));
            actions
        }
        Change::Updated { old, new } => {
            let mut actions = changed_hands(&old.meta, &new.meta, version, at);
            if let Some(owner) = of_deployment(&new.meta) {
                if old.replicas != new.replicas {
                    let did = ActionKind::ScaleReplicaSet { from: old.replicas.into(), to: new.replicas.into() };
                    actions.push(action(owner, did, &old.meta));
                }
                if !old.meta.is_being_deleted() && new.meta.is_being_deleted() {
                    actions.push(action(owner, ActionKind::DeleteReplicaSet, &old.meta));
                }
            }
            actions
        }
        Change::Deleted { last, .. } if last.meta.is_being_deleted() => Vec::new(),
        Change::Deleted { last, .. } => {
            let owner = of_deployment(&last.meta);
            owner.map(|owner| action(owner, ActionKind::DeleteReplicaSet, &last.meta)).into_iter().collect()
        }
    }
}

fn changed_hands(old: &Meta, meta: &Meta, version: ResourceVersion, at: Timestamp) -> Vec<Action> {
    let uid = |meta: &Meta| meta.controller.as_ref().map(|controller| controller.uid.clone());
    if uid(old) == uid(meta) {
        return Vec::new();
    }
    let released = old.controller.iter().map(|owner| new(owner, ActionKind::Release, old, version, at));
    released.chain(meta.controller.iter().map(|owner| new(owner, ActionKind::Adopt, old, version, at))).collect()
}

fn of_deployment(meta: &Meta) -> Option<&ControllerRef> {
    meta.controller.as_deref().filter(|owner| *owner.kind == *Deployment::KIND)
}

fn new(owner: &ControllerRef, kind: ActionKind, meta: &Meta, version: ResourceVersion, at: Timestamp) -> Action {
    let target = Target { key: meta.key(), uid: meta.uid.clone() };
    let (owner_kind, owner) = (Arc::clone(&owner.kind), owner.uid.clone());
    Action { owner_kind, owner, kind, target, meta: meta.clone(), version, at }
}
