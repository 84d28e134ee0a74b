//! Reporting: the Deployment's status after a sync's writes have succeeded or failed.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::{Condition, DeploymentStatus, Timestamp};

use super::conditions::{REPLICA_FAILURE, reason, remove, set};
use super::creation::NewSet;
use super::decide::{Decision, Stage};
use super::progress::{estimate, note_create_error, note_created, note_found, note_pause};
use super::requeue::until_deadline;
use super::revision::REVISION;
use super::status::{self, SYNC_ERROR, replica_failure};
use super::update::SetUpdate;
use crate::plan::{Failure, Outcome, Requeue, StatusWrite};

/// What a sync reports in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporting {
    /// Nothing: the Deployment itself was written, and the next sync reports.
    Nothing,
    /// Only the observed generation.
    Observed,
    /// That the new ReplicaSet was created, and its revision.
    Creation,
    /// Counts and availability.
    Counts,
    /// The same, with the progress of the rollout and the failures of its ReplicaSets.
    Rollout,
}

/// What a sync that failed reports all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The whole status.
    pub status: DeploymentStatus,
    /// Annotations of the Deployment that change with it.
    pub annotations: BTreeMap<String, String>,
    /// How long until the deadline passes that the status tells of.
    pub left: Option<Duration>,
}

impl Told {
    /// Only a status.
    #[must_use]
    pub fn only(status: DeploymentStatus) -> Self {
        Self { status, annotations: BTreeMap::new(), left: None }
    }
}

impl Decision {
    /// The status after all writes have succeeded, and when to sync again.
    ///
    /// Everything that the sync recorded (a pause, a new ReplicaSet, its revision) is in this one write.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> (Option<StatusWrite>, Requeue) {
        let deployment = &*self.deployment;
        let after = self.reported(now);
        match self.reporting {
            Reporting::Nothing => (None, Requeue::None),
            Reporting::Observed => (status::write_observed(deployment), Requeue::None),
            Reporting::Creation | Reporting::Counts => {
                (status::write(deployment, &after, self.revision()), Requeue::None)
            }
            Reporting::Rollout => {
                let requeue = until_deadline(deployment, &after, now).map_or(Requeue::None, Requeue::After);
                (status::write(deployment, &after, self.revision()), requeue)
            }
        }
    }

    /// The whole status after this sync.
    #[must_use]
    pub fn reported(&self, now: Timestamp) -> DeploymentStatus {
        let deployment = &*self.deployment;
        match self.reporting {
            Reporting::Nothing => deployment.status.clone(),
            Reporting::Observed => {
                let observed_generation = deployment.status.observed_generation.max(deployment.meta.generation);
                DeploymentStatus { observed_generation, ..deployment.status.clone() }
            }
            Reporting::Creation => self.created(now),
            Reporting::Counts => self.counts(now),
            Reporting::Rollout => self.rollout(now),
        }
    }

    /// What is reported after a write has failed.
    ///
    /// Where the rest of the sync can do without what failed, it is the whole status: the rollout may be stuck on that, and
    /// its deadline passes. Else it is the old one, with what needs no count.
    #[must_use]
    pub fn told_after_failure(&self, outcome: &Outcome, error: &Failure, now: Timestamp) -> Told {
        let deployment = &*self.deployment;
        if self.can_do_without(outcome) {
            let mut status = self.reported(now);
            // It is not over yet, and keeps its times.
            if let Some(told) = Condition::find(&deployment.status.conditions, REPLICA_FAILURE)
                && told.reason == SYNC_ERROR
            {
                set(&mut status.conditions, told.clone());
            }
            let left = until_deadline(deployment, &status, now).filter(|_| self.reporting == Reporting::Rollout);
            return Told { status, annotations: self.revision(), left };
        }
        // The creation comes before all other writes.
        if outcome.created > 0 {
            return Told { annotations: self.revision(), ..Told::only(self.created(now)) };
        }
        let mut told = Told::only(self.certain(now));
        let conditions = &mut told.status.conditions;
        if let Some(NewSet { set, .. }) = &self.create {
            note_create_error(deployment, conditions, &set.meta.name, &error.message, now);
        } else if let Some(new) = &self.sets.new
            && outcome.patched >= u32::from(self.upkeep)
            && self.stage != Stage::Stuck
        {
            note_found(deployment, conditions, new, now);
            told.annotations = self.revision();
        }
        told
    }

    /// Whether all that was not written is to scale old ReplicaSets down for a rolling update (DEP-11), to refresh annotations
    /// (B-03), or to delete history. Updates are written one after the other, up to the first that fails.
    fn can_do_without(&self, outcome: &Outcome) -> bool {
        let done = usize::try_from(outcome.patched).unwrap_or(usize::MAX);
        let missing = self.updates.get(done..).unwrap_or_default();
        let new = self.sets.new.as_ref().map(|new| &new.meta.uid);
        let is_old = |update: &SetUpdate| Some(&update.before.meta.uid) != new;
        outcome.patched >= u32::from(self.upkeep)
            && self.create.is_none()
            && (!missing.is_empty() || !self.delete.is_empty())
            && missing.iter().all(|update| !update.is_scaling() || self.stage == Stage::Rolling && is_old(update))
    }

    /// The status as it was, with what needs no count.
    fn certain(&self, now: Timestamp) -> DeploymentStatus {
        let mut after = self.deployment.status.clone();
        if self.reporting != Reporting::Observed && self.stage != Stage::BeingDeleted {
            note_pause(&self.deployment, &mut after.conditions, now);
        }
        after
    }

    /// The same, once the new ReplicaSet is created.
    fn created(&self, now: Timestamp) -> DeploymentStatus {
        let mut after = self.certain(now);
        if let Some(NewSet { set, .. }) = &self.create {
            note_created(&self.deployment, &mut after.conditions, set, now);
        }
        after
    }

    /// The revision of the new ReplicaSet, which is also an annotation of the Deployment (DEP-06).
    #[must_use]
    pub fn revision(&self) -> BTreeMap<String, String> {
        let revision = self.sets.new.as_ref().and_then(|new| new.annotations.get(REVISION));
        revision.map(|revision| (REVISION.to_owned(), revision.to_owned())).into_iter().collect()
    }

    fn counts(&self, now: Timestamp) -> DeploymentStatus {
        let deployment = &*self.deployment;
        let mut conditions = self.certain(now).conditions;
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
}
