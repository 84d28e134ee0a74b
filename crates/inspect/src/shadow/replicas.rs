//! Replicas: compares actions on pods with the plans of a ReplicaSet or a ReplicationController.
//!
//! The observed controller's caches are filled by one watch for owners and another for pods: it may see an owner of one
//! moment with pods of another. An action that no single view explains may be explained by two.

use std::sync::Arc;

use muster_machinery::claim::{Claim, claim};
use muster_objects::meta::{Meta, Uid};
use muster_objects::{Condition, Pod, Timestamp};

use super::action::{Action, ActionKind};
use super::claims;
use super::compared::{Compared, Explained};
use super::intent::{IntendedWrite, Intent};
use super::order;
use super::recorder::{Known, Recorded, reasons, record};
use super::views::View;
use crate::explain::Reason;
use muster_controllers::plan::Failure;
use muster_controllers::replicaset::ranking::{Circumstances, Colocation};
use muster_controllers::replicaset::status::REPLICA_FAILURE;
use muster_controllers::replicaset::{ReplicaOwner, ReplicaSync, Snapshot};

impl<O: ReplicaOwner + Clone> Compared for Snapshot<O> {
    const KIND: &'static str = O::IDENTITY.resource.kind;

    fn meta(&self) -> &Meta {
        self.owner.meta()
    }

    fn record(&self, now: Timestamp) -> Recorded {
        let status = serde_json::to_value(self.owner.status()).unwrap_or_default();
        let refused = self.refused(&IntendedWrite::CreatePods).map(Failure::local);
        record(ReplicaSync::new(self.clone()), &Known { status, refused, ..Known::default() }, now)
    }

    fn why(&self, now: Timestamp) -> Vec<Reason> {
        reasons(ReplicaSync::new(self.clone()), now)
    }

    fn explain(action: &Action, views: &[&View<Self>], created: u64) -> Explained {
        match action.kind {
            ActionKind::CreatePod => explain_creation(views, created),
            ActionKind::DeletePod => explain_deletion(action, views),
            ActionKind::Adopt | ActionKind::Release => explain_claim(action, views),
            _ => Explained::No,
        }
    }

    fn left_undone_by(&self, _write: &IntendedWrite, _intents: &[Intent]) -> Option<&'static str> {
        None
    }

    fn refused(&self, write: &IntendedWrite) -> Option<String> {
        let failure = Condition::find(&self.owner.status().conditions, REPLICA_FAILURE)?;
        let reason = match write {
            IntendedWrite::CreatePods => "FailedCreate",
            IntendedWrite::DeletePods => "FailedDelete",
            _ => return None,
        };
        (failure.reason == reason).then(|| failure.message.clone())
    }

    fn kept(mut self) -> Self {
        self.pods.retain(|pod| pod.is_active());
        self
    }

    fn ranked(&self, uid: &Uid) -> Option<String> {
        self.pods.iter().find(|pod| pod.meta.uid == *uid).map(|pod| order::text_of(pod))
    }

    fn holds(&self, uid: &Uid) -> bool {
        self.active().any(|pod| pod.meta.uid == *uid)
    }
}

/// The active pods that the owner claims, including orphans that it would adopt.
fn counted<'a, O: ReplicaOwner>(owner: &'a Snapshot<O>, pods: &'a Snapshot<O>) -> impl Iterator<Item = &'a Arc<Pod>> {
    let ours =
        |pod: &&Arc<Pod>| matches!(claim(owner.owner.meta(), &owner.selector, &pod.meta), Claim::Keep | Claim::Adopt);
    pods.active().filter(ours)
}

/// One snapshot for each version of the owner.
fn owners<'a, O: ReplicaOwner + Clone>(views: &[&'a View<Snapshot<O>>]) -> Vec<&'a Snapshot<O>> {
    let mut owners: Vec<&Snapshot<O>> = Vec::new();
    for view in views {
        let differs = |known: &&Snapshot<O>| known.meta().resource_version != view.snapshot.meta().resource_version;
        if owners.iter().all(differs) {
            owners.push(&view.snapshot);
        }
    }
    owners
}

/// A creation that made the count `created` is explained by a view that wanted at least as many pods as were created
/// since.
fn explain_creation<O: ReplicaOwner + Clone>(views: &[&View<Snapshot<O>>], created: u64) -> Explained {
    let since = |view: &View<Snapshot<O>>| created.saturating_sub(view.created);
    let wants = |view: &View<Snapshot<O>>| {
        let count = view.intents().iter().find_map(|intent| match intent {
            Intent::CreatePods(count) => Some(u64::from(*count)),
            _ => None,
        });
        count.unwrap_or(0)
    };
    // A late state may have been seen together with its effects.
    let explains = |view: &View<Snapshot<O>>, most: u64| (1..=most).contains(&since(view));
    if views.iter().any(|view| explains(view, wants(view))) {
        return Explained::Agreed;
    }
    let owners = owners(views);
    let mut braked = false;
    for view in views {
        let most = owners.iter().filter(|owner| !owner.meta().is_being_deleted()).map(|owner| {
            let have = counted(owner, &view.snapshot).count();
            u64::try_from(owner.owner.replicas()).unwrap_or(0).saturating_sub(have as u64)
        });
        if !explains(view, most.max().unwrap_or(0)) {
            continue;
        }
        if view.snapshot.memory.creations_wait.is_none() {
            return Explained::Agreed;
        }
        braked = true;
    }
    if braked { Explained::Departs("B-08") } else { Explained::No }
}

/// A deletion is explained if the pods that certainly precede this pod are fewer than the surplus.
fn explain_deletion<O: ReplicaOwner + Clone>(action: &Action, views: &[&View<Snapshot<O>>]) -> Explained {
    let uid = &action.target.uid;
    let planned = |view: &&View<Snapshot<O>>| {
        let chosen =
            |intent: &Intent| matches!(intent, Intent::DeletePods(pods) if pods.iter().any(|pod| pod.uid == *uid));
        view.intents().iter().any(chosen)
    };
    if views.iter().any(planned) {
        return Explained::Agreed;
    }
    if goes(action, views, order::certain_before) {
        Explained::Agreed
    } else if goes(action, views, order::certain_before_by_readiness) {
        Explained::Departs("B-29")
    } else if goes(action, &views[..views.len().min(MOST_BY_PAIRS)], order::certain_before_by_pairs) {
        Explained::Departs("B-22")
    } else {
        Explained::No
    }
}

/// How many pods are certainly deleted before a pod.
type Before = fn(&Pod, &[&Arc<Pod>], Circumstances<'_>) -> usize;

/// How many of the newest views are compared by pairs.
const MOST_BY_PAIRS: usize = 32;

fn goes<O: ReplicaOwner + Clone>(action: &Action, views: &[&View<Snapshot<O>>], before: Before) -> bool {
    let owners = owners(views);
    // A view that ranked nothing did not compute the colocation of related owners' pods.
    let ranked = views.iter().map(|view| &view.snapshot.colocation).find(|seen| **seen != Colocation::default());
    let none = Colocation::default();
    views.iter().any(|view| {
        let seen = &view.snapshot.colocation;
        let colocation = if *seen == none { ranked.unwrap_or(&none) } else { seen };
        owners.iter().any(|owner| {
            let pods: Vec<&Arc<Pod>> = counted(owner, &view.snapshot).collect();
            let wanted = usize::try_from(owner.owner.replicas()).unwrap_or(0);
            let too_many = pods.len().saturating_sub(wanted);
            if too_many == 0 || owner.meta().is_being_deleted() {
                return false;
            }
            let Some(pod) = pods.iter().find(|pod| pod.meta.uid == action.target.uid) else { return false };
            // Ages are ranked by powers of two, and may have crossed one between the decision and its effect.
            let min_ready_seconds = owner.owner.min_ready_seconds();
            [view.at, action.at]
                .into_iter()
                .any(|now| before(pod, &pods, Circumstances { colocation, min_ready_seconds, now }) < too_many)
        })
    })
}

fn explain_claim<O: ReplicaOwner + Clone>(action: &Action, views: &[&View<Snapshot<O>>]) -> Explained {
    let owners = owners(views).into_iter().map(|owner| (owner.meta(), &owner.selector));
    let pods = views.iter().flat_map(|view| &view.snapshot.pods).map(|pod| &pod.meta);
    let states = pods.filter(|meta| meta.uid == action.target.uid).chain([&action.meta]);
    if claims::explains(&action.kind, owners, &states) { Explained::Agreed } else { Explained::No }
}
