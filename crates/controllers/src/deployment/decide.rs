//! The decision: pure functions from a snapshot to everything that a sync does.
//!
//! [`decide_claims`] comes first, since only what is really claimed is counted. Then [`decide`] finds the stage and
//! calls its function for the writes, and [`Decision::status`] computes the status after them.

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
    /// The Deployment of the snapshot.
    pub deployment: Arc<Deployment>,
    /// What kind of sync this is.
    pub stage: Stage,
    /// Its ReplicaSets as the status counts them: a new one as it is after its creation or update, but all with their
    /// sizes before scaling.
    pub sets: Sets,
    /// The ReplicaSet to create.
    pub create: Option<NewSet>,
    /// Whether the Deployment is read before that ([`Snapshot::confirm`]).
    pub confirm: bool,
    /// ReplicaSets to scale or update, in the order of the writes.
    pub updates: Vec<SetUpdate>,
    /// Whether the first of them is no scaling: it gives the new ReplicaSet annotations or `minReadySeconds` of its
    /// Deployment.
    pub upkeep: bool,
    /// ReplicaSets that would grow, and wait for pods of others that are still to go (DEP-09, DEP-12).
    pub waiting: Vec<SetUpdate>,
    /// ReplicaSets to delete.
    pub delete: Vec<Arc<ReplicaSet>>,
    /// Writes to the Deployment itself, Events on it, and failures.
    pub own_steps: Vec<Step>,
    /// What is reported.
    pub reporting: Reporting,
}

/// The kinds of sync, in order of precedence (DEP-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The selector is empty and would take every ReplicaSet: nothing is done.
    SelectingAll,
    /// The Deployment is being deleted: nothing is scaled.
    BeingDeleted,
    /// It is paused: its ReplicaSets keep their templates and are scaled with it.
    Paused,
    /// An annotation asks for a rollback to this revision; 0 for the last one.
    RollingBack(i64),
    /// Its ReplicaSets were last scaled for another number of replicas, and are scaled first.
    Scaling,
    /// A rolling update, in progress or complete.
    Rolling,
    /// A Recreate update, in progress or complete.
    Recreating,
    /// The strategy is unknown.
    Stuck,
}

/// The ReplicaSets to adopt and release before anything is counted (DEP-02), by the rules for pods.
#[must_use]
pub fn decide_claims(snapshot: &Snapshot) -> ClaimPlan {
    let Snapshot { deployment, selector, sets, .. } = snapshot;
    let sets = if selects_all(snapshot) { &[] } else { &sets[..] };
    claims(as_planned(deployment), &deployment.meta, selector, Resource::REPLICA_SETS, sets)
}

/// What to do after the claims (DEP-02).
#[must_use]
pub fn decide(snapshot: &Snapshot, claims: &ClaimOutcome) -> Decision {
    let deployment = &snapshot.deployment;
    let mine: Vec<Arc<ReplicaSet>> = claimed(&deployment.meta, &snapshot.selector, &snapshot.sets, claims)
        .map(|(set, version)| at_version(set, version))
        .collect();
    let new = mine.iter().find(|set| snapshot.current.contains(&set.meta.uid)).cloned();
    let sets = Sets::with_new(new, &mine);
    let stage = stage(snapshot, &sets);
    let Work { sets, create, updates, upkeep, waiting, delete, own_steps, reporting } = match stage {
        Stage::SelectingAll => stages::select_all(sets),
        Stage::BeingDeleted => stages::report_only(deployment, sets),
        Stage::Paused => stages::pause(snapshot, sets),
        Stage::RollingBack(revision) => stages::roll_back(deployment, sets, revision),
        Stage::Scaling => stages::scale(snapshot, sets),
        Stage::Rolling => stages::roll(deployment, sets),
        Stage::Recreating => stages::recreate(snapshot, sets),
        Stage::Stuck => stages::fail_for_its_strategy(deployment, sets),
    };
    // There may have been one: what was observed has its ReplicaSet, unless it waits for the pods of others.
    let had = deployment.status.observed_generation >= deployment.meta.generation;
    let (deployment, confirm) = (Arc::clone(deployment), create.is_some() && (snapshot.confirm || had));
    Decision { deployment, stage, sets, create, confirm, updates, upkeep, waiting, delete, own_steps, reporting }
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

/// A whole sync for a dry run: the claims, and the plan if all of them succeed.
#[must_use]
pub fn preview(snapshot: &Snapshot, now: Timestamp) -> (ClaimPlan, Plan) {
    let claims = decide_claims(snapshot);
    let plan = decide(snapshot, &claims.if_all_succeed()).plan(now);
    (claims, plan)
}

/// The ReplicaSet at the version of its adoption, if it was just adopted: the next write's precondition must not name
/// the version before.
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
    /// Whether only the status is written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.create.is_none() && self.updates.is_empty() && self.delete.is_empty() && self.own_steps.is_empty()
    }

    /// The writes in order, with the status and the requeue if every one succeeds.
    #[must_use]
    pub fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan { confirm_owner: self.confirm, ..Plan::nothing(as_planned(&self.deployment)) };
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
        plan.steps.extend(self.own_steps.iter().cloned());
        (plan.status, plan.requeue) = self.status(now);
        plan
    }
}
