//! The decision: pure functions from a snapshot to everything that a sync does.
//!
//! What changes hands comes first ([`decide_claims`]), since only what is really claimed is counted. Then [`decide`]
//! says what is written, and [`Decision::status`] what is reported once that is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{Deployment, DeploymentStatus, Meta, ReplicaSet, ResourceVersion, Strategy, Timestamp};

use super::conditions::{REPLICA_FAILURE, reason, remove, set};
use super::creation::{NewSet, empty_set, new_set};
use super::identity::as_planned;
use super::progress::{estimate, is_complete, note_create_error, note_created, note_found, note_pause};
use super::requeue::until_deadline;
use super::revision::{MAX_HISTORY_LENGTH, REVISION, max_revision, new_set_annotations};
use super::rollback::{roll_back, rollback_to};
use super::sets::Sets;
use super::snapshot::Snapshot;
use super::status::{self, SYNC_ERROR, replica_failure};
use super::update::SetUpdate;
use super::{history, recreate, rolling, scaling};
use crate::claiming::{claimed, claims};
use crate::plan::{
    Announcement, ClaimOutcome, ClaimPlan, Failure, Outcome, Plan, Remark, Requeue, Resource, StatusWrite, Step,
};

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

/// What a sync reports in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporting {
    /// Nothing: the Deployment itself was written, and the sync that follows reports on that.
    Nothing,
    /// That the spec was seen, and no more.
    Observed,
    /// Counts and availability.
    Counts,
    /// The same, the progress of the rollout, and what its ReplicaSets fail with.
    Rollout,
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
    let mut decision = Decision {
        deployment: Arc::clone(deployment),
        stage: Stage::Rolling,
        sets: Sets::with_new(new, &mine),
        create: None,
        updates: Vec::new(),
        delete: Vec::new(),
        own: Vec::new(),
        reporting: Reporting::Counts,
    };
    decision.stage = stage(snapshot, &decision.sets);
    match decision.stage {
        Stage::SelectingAll => decision.refuse_to_select_all(),
        // Nothing is started any more, only told.
        Stage::BeingDeleted => {}
        Stage::Paused => {
            decision.scale(snapshot);
            decision.clean_up_when_paused();
        }
        Stage::RollingBack(revision) => decision.roll_back(revision),
        Stage::Scaling => decision.scale(snapshot),
        Stage::Rolling => decision.roll(),
        Stage::Recreating => decision.recreate(snapshot),
        Stage::Stuck => decision.fail_for_its_strategy(),
    }
    decision
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

    /// The status after the writes, all of which have succeeded, and when to look again.
    ///
    /// Whatever was noted on the way (a pause, a new ReplicaSet, its revision) is in this one write.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> (Option<StatusWrite>, Requeue) {
        let deployment = &*self.deployment;
        let after = self.reported(now);
        match self.reporting {
            Reporting::Nothing => (None, Requeue::None),
            Reporting::Observed => (status::write_observed(deployment), Requeue::None),
            Reporting::Counts => (status::write(deployment, &after, self.revision()), Requeue::None),
            Reporting::Rollout => {
                let requeue = until_deadline(deployment, &after, now).map_or(Requeue::None, Requeue::After);
                (status::write(deployment, &after, self.revision()), requeue)
            }
        }
    }

    /// The whole status as it is once this sync has reported.
    #[must_use]
    pub fn reported(&self, now: Timestamp) -> DeploymentStatus {
        let deployment = &*self.deployment;
        match self.reporting {
            Reporting::Nothing => deployment.status.clone(),
            Reporting::Observed => {
                let observed_generation = deployment.status.observed_generation.max(deployment.meta.generation);
                DeploymentStatus { observed_generation, ..deployment.status.clone() }
            }
            Reporting::Counts => self.counts(now),
            Reporting::Rollout => self.rollout(now),
        }
    }

    /// The status after writes of which one failed, and annotations: as they were, but for what is certain.
    #[must_use]
    pub fn status_after_failure(
        &self,
        outcome: &Outcome,
        error: &Failure,
        now: Timestamp,
    ) -> (DeploymentStatus, BTreeMap<String, String>) {
        let deployment = &*self.deployment;
        let mut after = deployment.status.clone();
        if self.reporting != Reporting::Observed {
            note_pause(deployment, &mut after.conditions, now);
        }
        // The creation comes before all other writes.
        let Some(NewSet { set, .. }) = &self.create else { return (after, BTreeMap::new()) };
        if outcome.created > 0 {
            note_created(deployment, &mut after.conditions, set, now);
            return (after, self.revision());
        }
        note_create_error(deployment, &mut after.conditions, &set.meta.name, &error.message, now);
        (after, BTreeMap::new())
    }

    /// The revision of the new ReplicaSet, which the Deployment carries too (DEP-06).
    #[must_use]
    pub fn revision(&self) -> BTreeMap<String, String> {
        let revision = self.sets.new.as_ref().and_then(|new| new.annotations.get(REVISION));
        revision.map(|revision| (REVISION.to_owned(), revision.to_owned())).into_iter().collect()
    }

    fn counts(&self, now: Timestamp) -> DeploymentStatus {
        let deployment = &*self.deployment;
        let mut conditions = deployment.status.conditions.clone();
        if !deployment.meta.is_being_deleted() {
            note_pause(deployment, &mut conditions, now);
        }
        if let Some(new) = &self.sets.new {
            let note = if self.create.is_some() { note_created } else { note_found };
            note(deployment, &mut conditions, new, now);
        }
        let mut after = status::calculate(deployment, &self.sets, conditions, now);
        if reason(&after.conditions, REPLICA_FAILURE) == Some(SYNC_ERROR) {
            remove(&mut after.conditions, REPLICA_FAILURE);
        }
        after
    }

    fn rollout(&self, now: Timestamp) -> DeploymentStatus {
        let mut after = self.counts(now);
        estimate(&self.deployment, &mut after, self.sets.new.as_deref(), now);
        match replica_failure(&self.sets) {
            Some(failure) => set(&mut after.conditions, failure),
            None => remove(&mut after.conditions, REPLICA_FAILURE),
        }
        after
    }

    /// A Deployment that selects everything would take all ReplicaSets of its namespace.
    fn refuse_to_select_all(&mut self) {
        let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
        self.own.push(Step::Tell(Announcement { warning: true, reason: "SelectingAll", message }));
        self.reporting = Reporting::Observed;
    }

    /// Scales the ReplicaSets that there are, and makes none.
    fn scale(&mut self, snapshot: &Snapshot) {
        let upkeep = self.keep_up();
        let mut updates = scaling::scale(&self.deployment, &self.sets);
        if self.deployment.strategy == Strategy::Recreate {
            // Paused between the last old pod and the first new one: nothing grows before the old pods have gone.
            updates.retain(|update| {
                let grows = update.before.replicas < update.after.replicas;
                !(grows && recreate::others_running(Some(&update.before), &self.sets, &snapshot.pods))
            });
        }
        self.update(upkeep, updates);
    }

    /// The new ReplicaSet has to be there before the Deployment goes back, so that it counts among the revisions.
    fn roll_back(&mut self, revision: i64) {
        if self.sets.new.is_none() {
            // The rollback follows in the next sync. Its template is about to go, so that it needs no pods; of a
            // Recreate it must not have any before the old ones have gone (DEP-12).
            let created = match self.deployment.strategy {
                Strategy::Recreate => empty_set(&self.deployment, self.next_revision()),
                _ => new_set(&self.deployment, &self.sets, self.next_revision()),
            };
            self.take_over(created);
            return;
        }
        let upkeep = self.keep_up();
        self.update(upkeep, Vec::new());
        self.own = roll_back(&self.deployment, &self.sets, revision);
        self.reporting = Reporting::Nothing;
    }

    fn fail_for_its_strategy(&mut self) {
        self.reporting = Reporting::Rollout;
        if let Strategy::Other(name) = &self.deployment.strategy {
            let failure = Failure::local(format!("unexpected deployment strategy type: {name}"));
            self.own.push(Step::Fail(failure));
        }
    }

    fn roll(&mut self) {
        self.reporting = Reporting::Rollout;
        let upkeep = self.keep_up();
        if self.sets.new.is_none() && !self.create() {
            return;
        }
        // One that is created has the size that it may have.
        let grown = if self.create.is_some() { Ok(None) } else { rolling::reconcile_new(&self.deployment, &self.sets) };
        let updates = match grown {
            Ok(Some(update)) => vec![update],
            Ok(None) => rolling::reconcile_old(&self.deployment, &self.sets),
            Err(failure) => {
                self.own.push(Step::Fail(failure));
                Vec::new()
            }
        };
        let scaled = !updates.is_empty();
        self.update(upkeep, updates);
        if !scaled {
            self.clean_up_when_complete();
        }
    }

    fn recreate(&mut self, snapshot: &Snapshot) {
        self.reporting = Reporting::Rollout;
        let upkeep = self.keep_up();
        let down = recreate::scale_down_old(&self.deployment, &self.sets);
        if !down.is_empty() {
            self.update(upkeep, down);
        } else if recreate::old_pods_running(&self.sets, &snapshot.pods) {
            self.update(upkeep, Vec::new());
        } else if self.sets.new.is_some() {
            let up = recreate::scale_up_new(&self.deployment, &self.sets);
            self.update(upkeep, up.into_iter().collect());
            self.clean_up_when_complete();
        } else if self.create() {
            self.clean_up_when_complete();
        }
    }

    /// Plans the new ReplicaSet, at the next revision; says whether that could be done.
    fn create(&mut self) -> bool {
        self.take_over(new_set(&self.deployment, &self.sets, self.next_revision()))
    }

    fn take_over(&mut self, created: Result<NewSet, Failure>) -> bool {
        match created {
            Ok(new) => {
                self.sets.new = Some(Arc::clone(&new.set));
                self.create = Some(new);
                true
            }
            Err(failure) => {
                self.own.push(Step::Fail(failure));
                false
            }
        }
    }

    /// Brings the annotations and minReadySeconds of a new ReplicaSet that is there up to date (DEP-06).
    fn keep_up(&mut self) -> Option<SetUpdate> {
        let revision = self.next_revision();
        let new = self.sets.new.as_mut()?;
        let min_ready_seconds = self.deployment.min_ready_seconds;
        let annotations = new_set_annotations(&self.deployment, &new.annotations, revision, MAX_HISTORY_LENGTH);
        if annotations.is_none() && new.min_ready_seconds == min_ready_seconds {
            return None;
        }
        let annotations = annotations.unwrap_or_else(|| new.annotations.clone());
        let after = Arc::new(ReplicaSet { annotations, min_ready_seconds, ..ReplicaSet::clone(new) });
        let before = std::mem::replace(new, Arc::clone(&after));
        Some(SetUpdate { before, after })
    }

    fn next_revision(&self) -> i64 {
        max_revision(&self.sets.old).saturating_add(1)
    }

    /// Takes over what is to be written; the new ReplicaSet is written once, whatever changes in it.
    fn update(&mut self, upkeep: Option<SetUpdate>, mut updates: Vec<SetUpdate>) {
        if let Some(upkeep) = upkeep {
            match updates.iter_mut().find(|update| Arc::ptr_eq(&update.before, &upkeep.after)) {
                Some(update) => update.before = upkeep.before,
                None => updates.insert(0, upkeep),
            }
        }
        self.updates = updates;
    }

    fn clean_up_when_complete(&mut self) {
        if is_complete(&self.deployment, &self.deployment.status) {
            self.delete = history::clean_up(&self.deployment, &self.sets.old);
        }
    }

    /// While paused, nothing is complete that could be waited for.
    fn clean_up_when_paused(&mut self) {
        if rollback_to(&self.deployment).is_none() {
            let is_updated =
                |set: &ReplicaSet| self.updates.iter().any(|update| update.before.meta.uid == set.meta.uid);
            self.delete = history::clean_up(&self.deployment, &self.sets.old);
            self.delete.retain(|set| !is_updated(set));
        }
    }
}
