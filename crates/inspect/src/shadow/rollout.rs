//! Rollout: compares actions on ReplicaSets with the plans of their Deployment.

use std::sync::Arc;

use muster_objects::meta::{Meta, Uid};
use muster_objects::{Condition, Deployment, Object, Strategy, Timestamp};

use super::action::{Action, ActionKind};
use super::claims;
use super::compared::{Compared, Explained};
use super::deviation;
use super::intent::{IntendedWrite, Intent};
use super::recorder::{Known, Recorded, reasons, record};
use super::views::View;
use crate::explain::Reason;
use muster_controllers::deployment::conditions::{PROGRESSING, REPLICA_FAILURE};
use muster_controllers::deployment::progress::{NEW_SET_AVAILABLE, SET_CREATE_ERROR, SET_UPDATED};
use muster_controllers::deployment::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use muster_controllers::deployment::status::SYNC_ERROR;
use muster_controllers::deployment::{DeploymentSync, Snapshot};
use muster_controllers::plan::Failure;

/// How many pairs of a Deployment's state and its ReplicaSets' state are tried for an action that no single state
/// explains.
const MOST_PAIRS: usize = 1024;

impl Compared for Snapshot {
    const KIND: &'static str = Deployment::KIND;

    fn meta(&self) -> &Meta {
        &self.deployment.meta
    }

    fn record(&self, now: Timestamp) -> Recorded {
        let status = serde_json::to_value(&self.deployment.status).unwrap_or_default();
        let refused = self.refused(&IntendedWrite::CreateReplicaSet).map(Failure::local);
        record(
            DeploymentSync::new(self.clone()),
            &Known { status, refused, annotations: self.deployment.annotations.clone() },
            now,
        )
    }

    fn why(&self, now: Timestamp) -> Vec<Reason> {
        reasons(DeploymentSync::new(self.clone()), now)
    }

    fn explain(action: &Action, views: &[&View<Self>], _created: u64) -> Explained {
        if matches!(action.kind, ActionKind::Adopt | ActionKind::Release) {
            return explain_claim(action, views);
        }
        if views.iter().any(|view| intends(view.intents(), action)) {
            return Explained::Agreed;
        }
        let pairs: Vec<Self> = pairs(views).collect();
        if pairs.iter().any(|pair| intends(&pair.record(action.at).intents, action)) {
            return Explained::Agreed;
        }
        let seen = views.iter().map(|view| &view.snapshot).chain(&pairs);
        let mut by_rule = seen.flat_map(deviation::of_rollout);
        let row = by_rule.find(|(intent, _)| intends(std::slice::from_ref(intent), action));
        row.map_or(Explained::No, |(_, row)| Explained::Departs(row))
    }

    fn left_undone_by(&self, write: &IntendedWrite, intents: &[Intent]) -> Option<&'static str> {
        match write {
            IntendedWrite::UpdateReplicaSet(set) => {
                let only_sizes = |intent: &Intent| {
                    matches!(intent, Intent::UpdateReplicaSet { set: this, fields } if this == set
                        && fields.iter().all(|field| field == DESIRED_REPLICAS || field == MAX_REPLICAS))
                };
                intents.iter().any(only_sizes).then_some("B-03")
            }
            IntendedWrite::CreateReplicaSet | IntendedWrite::ScaleReplicaSet(_)
                if self.deployment.strategy == Strategy::Recreate =>
            {
                self.pods.iter().any(|pod| pod.phase.is_terminal()).then_some("B-05")
            }
            IntendedWrite::Status(field) if *field == format!("condition {REPLICA_FAILURE}") => {
                let failure = Condition::find(&self.deployment.status.conditions, REPLICA_FAILURE)?;
                (failure.reason == SYNC_ERROR).then_some("B-06")
            }
            IntendedWrite::Status(field) if *field == format!("condition {PROGRESSING}") => {
                let progressing = Condition::find(&self.deployment.status.conditions, PROGRESSING)?;
                let begins = |intent: &Intent| {
                    matches!(intent, Intent::WriteStatus(fields) if matches!(&fields[..], [only] if only.name == *field
                        && only.would.contains(SET_UPDATED)))
                };
                (progressing.reason == NEW_SET_AVAILABLE && intents.iter().any(begins)).then_some("B-33")
            }
            _ => None,
        }
    }

    fn refused(&self, write: &IntendedWrite) -> Option<String> {
        let progressing = Condition::find(&self.deployment.status.conditions, PROGRESSING)?;
        (*write == IntendedWrite::CreateReplicaSet && progressing.reason == SET_CREATE_ERROR)
            .then(|| progressing.message.clone())
    }

    fn kept(mut self) -> Self {
        // Keep one finished pod: B-05 only needs to see that there is one.
        let finished = self.pods.iter().find(|pod| pod.phase.is_terminal()).cloned();
        self.pods.retain(|pod| !pod.phase.is_terminal());
        self.pods.extend(finished);
        self
    }

    fn ranked(&self, uid: &Uid) -> Option<String> {
        let set = self.sets.iter().find(|set| set.meta.uid == *uid)?;
        Some(format!("{}: revision {}", set.meta.name, set.annotations.get(REVISION).unwrap_or("none")))
    }

    fn holds(&self, uid: &Uid) -> bool {
        self.sets.iter().any(|set| set.meta.uid == *uid && !set.meta.is_being_deleted())
    }
}

/// Each Deployment of one view with the ReplicaSets of another.
fn pairs<'a>(views: &'a [&View<Snapshot>]) -> impl Iterator<Item = Snapshot> + 'a {
    let mut seen = Vec::new();
    let deployments = views.iter().map(|view| &view.snapshot).filter(move |snapshot| {
        let version = snapshot.deployment.meta.resource_version;
        !seen.contains(&version) && {
            seen.push(version);
            true
        }
    });
    let pair = |one: &Snapshot, other: &Snapshot| Snapshot {
        pods: other.pods.clone(),
        ..Snapshot::of(Arc::clone(&one.deployment), one.selector.clone(), other.sets.clone())
    };
    let differ = |one: &Snapshot, other: &Snapshot| {
        one.deployment.meta.resource_version != other.deployment.meta.resource_version
    };
    let pairs = deployments.flat_map(move |one| views.iter().map(move |view| (one, &view.snapshot)));
    pairs.filter(move |(one, other)| differ(one, other)).map(move |(one, other)| pair(one, other)).take(MOST_PAIRS)
}

/// Whether the action is one of the intents.
fn intends(intents: &[Intent], action: &Action) -> bool {
    intents.iter().any(|intent| match (intent, &action.kind) {
        (
            Intent::CreateReplicaSet { name, replicas, revision },
            ActionKind::CreateReplicaSet { replicas: size, revision: at },
        ) => *name == *action.target.key.name && replicas == size && revision == at,
        (Intent::ScaleReplicaSet { set, to: wanted }, ActionKind::ScaleReplicaSet { to, .. }) => {
            set.uid == action.target.uid && wanted == to
        }
        (Intent::DeleteReplicaSet(set), ActionKind::DeleteReplicaSet) => set.uid == action.target.uid,
        _ => false,
    })
}

fn explain_claim(action: &Action, views: &[&View<Snapshot>]) -> Explained {
    let owners = views.iter().map(|view| (&view.snapshot.deployment.meta, &view.snapshot.selector));
    let sets = views.iter().flat_map(|view| &view.snapshot.sets).map(|set| &set.meta);
    let states = sets.filter(|meta| meta.uid == action.target.uid).chain([&action.meta]);
    if claims::explains(&action.kind, owners, &states) { Explained::Agreed } else { Explained::No }
}
