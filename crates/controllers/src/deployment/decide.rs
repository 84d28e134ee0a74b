//! The decision: pure functions from a snapshot to everything that a sync does.
//!
//! What changes hands comes first ([`decide_claims`]), since only what is really claimed is counted. Then [`decide`]
//! finds the stage and asks its function what is written, and [`Decision::status`] says what is reported once that is
//! done.

use std::sync::Arc;

use muster_objects::{Deployment, Meta, ReplicaSet, ResourceVersion, Strategy, Timestamp};

use super::creation::NewSet;
use super::identity::as_planned;
use super::reporting::Reporting;
use super::rollback::rollback_to;
use super::sets::Sets;
use super::snapshot::Snapshot;
use super::stages::{self, Work};
use super::update::SetUpdate;
use super::{history, scaling};
use crate::claiming::{claimed, claims};
use crate::plan::{ClaimOutcome, ClaimPlan, Plan, Remark, Resource, Step};

/// What one sync does: the writes, and what it reports after them.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The Deployment, as the snapshot has it.
    pub deployment: Arc<Deployment>,
    /// What kind of sync this is.
    pub stage: Stage,
    /// Its ReplicaSets as the status counts them: a new one that is created or brought up to date stands as it is
    /// after, but all with the sizes that they have before they are scaled.
    pub sets: Sets,
    /// The ReplicaSet to create.
    pub create: Option<NewSet>,
    /// ReplicaSets to scale or to bring up to date, in the order of the writes.
    pub updates: Vec<SetUpdate>,
    /// ReplicaSets to delete.
    pub delete: Vec<Arc<ReplicaSet>>,
    /// What is written to the Deployment itself, told about it, or wrong with it.
    pub own: Vec<Step>,
    /// What is reported.
    pub reporting: Reporting,
}

/// The kinds of sync: the first of them that applies (DEP-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The selector is empty and would take every ReplicaSet: nothing is done.
    SelectingAll,
    /// The Deployment is being deleted: only its status is kept.
    BeingDeleted,
    /// It is paused: its ReplicaSets keep their templates and follow its size.
    Paused,
    /// An annotation asks for this revision to come back; 0 for the last one.
    RollingBack(i64),
    /// Its ReplicaSets were last scaled for another number of replicas, and follow it first.
    Scaling,
    /// A rolling update, under way or complete.
    Rolling,
    /// An update that lets all old pods go first, under way or complete.
    Recreating,
    /// The strategy is none that is known.
    Stuck,
}

/// What changes hands before anything is counted (DEP-02): ReplicaSets, by the rules for pods.
#[must_use]
pub fn decide_claims(snapshot: &Snapshot) -> ClaimPlan {
    let Snapshot { deployment, selector, sets, .. } = snapshot;
    let sets = if selects_all(snapshot) { &[] } else { &sets[..] };
    claims(as_planned(deployment), &deployment.meta, selector, Resource::REPLICA_SETS, sets)
}

/// What is to be done, given what came of the claims (DEP-02).
#[must_use]
pub fn decide(snapshot: &Snapshot, claims: &ClaimOutcome) -> Decision {
    let deployment = &snapshot.deployment;
    let mine: Vec<Arc<ReplicaSet>> = claimed(&deployment.meta, &snapshot.selector, &snapshot.sets, claims)
        .map(|(set, version)| at_version(set, version))
        .collect();
    let new = mine.iter().find(|set| snapshot.current.contains(&set.meta.uid)).cloned();
    let sets = Sets::with_new(new, &mine);
    let stage = stage(snapshot, &sets);
    let Work { sets, create, updates, delete, own, reporting } = match stage {
        Stage::SelectingAll => stages::select_all(sets),
        Stage::BeingDeleted => stages::report_only(sets),
        Stage::Paused => stages::pause(snapshot, sets),
        Stage::RollingBack(revision) => stages::roll_back(deployment, sets, revision),
        Stage::Scaling => stages::scale(snapshot, sets),
        Stage::Rolling => stages::roll(deployment, sets),
        Stage::Recreating => stages::recreate(snapshot, sets),
        Stage::Stuck => stages::fail_for_its_strategy(deployment, sets),
    };
    Decision { deployment: Arc::clone(deployment), stage, sets, create, updates, delete, own, reporting }
}

fn stage(snapshot: &Snapshot, sets: &Sets) -> Stage {
    let deployment = &snapshot.deployment;
    if selects_all(snapshot) {
        Stage::SelectingAll
    } else if deployment.meta.is_being_deleted() {
        Stage::BeingDeleted
    } else if deployment.paused {
        Stage::Paused
    } else if let Some(revision) = rollback_to(deployment) {
        Stage::RollingBack(revision)
    } else if scaling::is_scaling_event(deployment, sets) {
        Stage::Scaling
    } else {
        match &deployment.strategy {
            Strategy::RollingUpdate { .. } => Stage::Rolling,
            Strategy::Recreate => Stage::Recreating,
            Strategy::Other(_) => Stage::Stuck,
        }
    }
}

/// The whole of a sync as a dry run shows it: the claims, and the plan that follows if all of them succeed.
#[must_use]
pub fn preview(snapshot: &Snapshot, now: Timestamp) -> (ClaimPlan, Plan) {
    let claims = decide_claims(snapshot);
    let plan = decide(snapshot, &claims.if_all_succeed()).plan(now);
    (claims, plan)
}

/// The ReplicaSet at the version that its adoption made, where it was adopted just now: what is written next must
/// not believe in the one before.
fn at_version(set: &Arc<ReplicaSet>, version: ResourceVersion) -> Arc<ReplicaSet> {
    if set.meta.resource_version == version {
        return Arc::clone(set);
    }
    let meta = Meta { resource_version: version, ..set.meta.clone() };
    Arc::new(ReplicaSet { meta, ..ReplicaSet::clone(set) })
}

fn selects_all(snapshot: &Snapshot) -> bool {
    snapshot.selector.is_everything()
}

impl Decision {
    /// Whether nothing is written but the status.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.create.is_none() && self.updates.is_empty() && self.delete.is_empty() && self.own.is_empty()
    }

    /// The writes in order, with the status and the next look that follow if every one succeeds.
    #[must_use]
    pub fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing(as_planned(&self.deployment));
        if let Some(new) = &self.create {
            if !new.hash_is_exact {
                plan.remarks.push(Remark::InexactHash);
            }
            plan.steps.push(Step::Create(new.creation.clone()));
        }
        if !self.updates.is_empty() {
            plan.steps.push(Step::Patch(self.updates.iter().map(SetUpdate::patch).collect()));
        }
        if !self.delete.is_empty() {
            plan.steps.push(Step::Delete(history::deletions(&self.deployment, &self.delete)));
        }
        plan.steps.extend(self.own.iter().cloned());
        (plan.status, plan.requeue) = self.status(now);
        plan
    }
}
