//! Stages: one function for each kind of sync, from the ReplicaSets to the writes (DEP-02).

use std::sync::Arc;

use muster_objects::{Deployment, ReplicaSet, Strategy};

use super::creation::{NewSet, empty_set, new_set};
use super::progress::is_complete;
use super::reporting::Reporting;
use super::revision::{MAX_HISTORY_LENGTH, max_revision, new_set_annotations};
use super::rollback::{self, rollback_to};
use super::sets::Sets;
use super::snapshot::Snapshot;
use super::update::SetUpdate;
use super::{history, recreate, rolling, scaling};
use crate::plan::{Announcement, Failure, Step};

/// What a stage does. The fields are those of a [`Decision`](super::Decision).
pub(super) struct Work {
    pub(super) sets: Sets,
    pub(super) create: Option<NewSet>,
    pub(super) updates: Vec<SetUpdate>,
    pub(super) delete: Vec<Arc<ReplicaSet>>,
    pub(super) own: Vec<Step>,
    pub(super) reporting: Reporting,
}

impl Work {
    fn nothing(sets: Sets, reporting: Reporting) -> Self {
        Self { sets, create: None, updates: Vec::new(), delete: Vec::new(), own: Vec::new(), reporting }
    }

    /// The new ReplicaSet at the next revision is created, or the sync fails for the reason why it cannot be.
    fn creating(created: Result<NewSet, Failure>, mut sets: Sets, reporting: Reporting) -> Self {
        match created {
            Ok(new) => {
                sets.new = Some(Arc::clone(&new.set));
                Self { create: Some(new), ..Self::nothing(sets, reporting) }
            }
            Err(failure) => Self::failing(failure, sets, reporting),
        }
    }

    fn failing(failure: Failure, sets: Sets, reporting: Reporting) -> Self {
        Self { own: vec![Step::Fail(failure)], ..Self::nothing(sets, reporting) }
    }

    /// Whether nothing is scaled and nothing has failed, so that the next step may be taken.
    fn goes_on(&self) -> bool {
        self.updates.is_empty() && self.own.is_empty()
    }
}

/// A Deployment that selects everything would take all ReplicaSets of its namespace.
pub(super) fn select_all(sets: Sets) -> Work {
    let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
    let own = vec![Step::Tell(Announcement { warning: true, reason: "SelectingAll", message })];
    Work { own, ..Work::nothing(sets, Reporting::Observed) }
}

/// Nothing is started any more.
pub(super) fn report_only(sets: Sets) -> Work {
    Work::nothing(sets, Reporting::Counts)
}

/// While paused, the ReplicaSets follow the Deployment's size, and history is cleaned up: there is no end of a rollout
/// to wait for.
pub(super) fn pause(snapshot: &Snapshot, sets: Sets) -> Work {
    let deployment = &snapshot.deployment;
    let mut work = scale(snapshot, sets);
    if rollback_to(deployment).is_none() {
        let is_updated = |set: &ReplicaSet| work.updates.iter().any(|update| update.before.meta.uid == set.meta.uid);
        work.delete = history::clean_up(deployment, &work.sets.old);
        work.delete.retain(|set| !is_updated(set));
    }
    work
}

/// Scales the ReplicaSets that there are, and makes none.
pub(super) fn scale(snapshot: &Snapshot, sets: Sets) -> Work {
    let deployment = &snapshot.deployment;
    let (sets, upkeep) = kept_up(deployment, sets);
    let mut updates = scaling::scale(deployment, &sets);
    if deployment.strategy == Strategy::Recreate {
        // Paused between the last old pod and the first new one: nothing grows before the old pods have gone.
        updates.retain(|update| {
            let grows = update.shrinks_by() < 0;
            !(grows && recreate::others_running(Some(&update.before), &sets, &snapshot.pods))
        });
    }
    let updates = together(upkeep, updates);
    Work { updates, ..Work::nothing(sets, Reporting::Counts) }
}

/// The new ReplicaSet has to be there before the Deployment goes back, so that it counts among the revisions.
pub(super) fn roll_back(deployment: &Deployment, sets: Sets, revision: i64) -> Work {
    if sets.new.is_none() {
        // The rollback follows in the next sync. Its template is about to go, so that it needs no pods; of a
        // Recreate it must not have any before the old ones have gone (DEP-12).
        let created = match deployment.strategy {
            Strategy::Recreate => empty_set(deployment, next_revision(&sets)),
            _ => new_set(deployment, &sets, next_revision(&sets)),
        };
        return Work::creating(created, sets, Reporting::Counts);
    }
    let (sets, upkeep) = kept_up(deployment, sets);
    let own = rollback::roll_back(deployment, &sets, revision);
    Work { updates: upkeep.into_iter().collect(), own, ..Work::nothing(sets, Reporting::Nothing) }
}

/// A rolling update: up, or else down.
pub(super) fn roll(deployment: &Deployment, sets: Sets) -> Work {
    let (sets, upkeep) = kept_up(deployment, sets);
    let mut work = match sets.new {
        // One that is created has the size that it may have.
        None => create(deployment, sets),
        Some(_) => match rolling::reconcile_new(deployment, &sets) {
            Ok(grown) => Work { updates: grown.into_iter().collect(), ..Work::nothing(sets, Reporting::Rollout) },
            Err(failure) => Work::failing(failure, sets, Reporting::Rollout),
        },
    };
    if work.goes_on() {
        work.updates = rolling::reconcile_old(deployment, &work.sets);
    }
    if work.goes_on() {
        work.delete = clean_up_when_complete(deployment, &work.sets);
    }
    work.updates = together(upkeep, work.updates);
    work
}

/// An update that lets all old pods go before the first new one comes.
pub(super) fn recreate(snapshot: &Snapshot, sets: Sets) -> Work {
    let deployment = &snapshot.deployment;
    let (sets, upkeep) = kept_up(deployment, sets);
    let down = recreate::scale_down_old(deployment, &sets);
    let waits = !down.is_empty() || recreate::old_pods_running(&sets, &snapshot.pods);
    let mut work = match sets.new {
        _ if waits => Work { updates: down, ..Work::nothing(sets, Reporting::Rollout) },
        None => create(deployment, sets),
        Some(_) => {
            let updates = recreate::scale_up_new(deployment, &sets).into_iter().collect();
            Work { updates, ..Work::nothing(sets, Reporting::Rollout) }
        }
    };
    if !waits && work.own.is_empty() {
        work.delete = clean_up_when_complete(deployment, &work.sets);
    }
    work.updates = together(upkeep, work.updates);
    work
}

/// The server's validation lets no other strategy in; a newer server may know one.
pub(super) fn fail_for_its_strategy(deployment: &Deployment, sets: Sets) -> Work {
    let failure = match &deployment.strategy {
        Strategy::Other(name) => Some(Failure::local(format!("unexpected deployment strategy type: {name}"))),
        Strategy::RollingUpdate { .. } | Strategy::Recreate => None,
    };
    Work { own: failure.map(Step::Fail).into_iter().collect(), ..Work::nothing(sets, Reporting::Rollout) }
}

fn create(deployment: &Deployment, sets: Sets) -> Work {
    let created = new_set(deployment, &sets, next_revision(&sets));
    Work::creating(created, sets, Reporting::Rollout)
}

/// The ReplicaSets with the annotations and minReadySeconds of a new one that is there brought up to date (DEP-06), and
/// the write that does it; none where they are.
fn kept_up(deployment: &Deployment, mut sets: Sets) -> (Sets, Option<SetUpdate>) {
    let revision = next_revision(&sets);
    let Some(new) = &mut sets.new else { return (sets, None) };
    let min_ready_seconds = deployment.min_ready_seconds;
    let annotations = new_set_annotations(deployment, &new.annotations, revision, MAX_HISTORY_LENGTH);
    if annotations.is_none() && new.min_ready_seconds == min_ready_seconds {
        return (sets, None);
    }
    let annotations = annotations.unwrap_or_else(|| new.annotations.clone());
    let after = Arc::new(ReplicaSet { annotations, min_ready_seconds, ..ReplicaSet::clone(new) });
    let before = std::mem::replace(new, Arc::clone(&after));
    (sets, Some(SetUpdate { before, after }))
}

/// The new ReplicaSet is written once, whatever changes in it.
fn together(upkeep: Option<SetUpdate>, mut updates: Vec<SetUpdate>) -> Vec<SetUpdate> {
    let Some(upkeep) = upkeep else { return updates };
    match updates.iter_mut().find(|update| update.before.meta.uid == upkeep.before.meta.uid) {
        Some(update) => update.before = upkeep.before,
        None => updates.insert(0, upkeep),
    }
    updates
}

fn next_revision(sets: &Sets) -> i64 {
    max_revision(&sets.old).saturating_add(1)
}

fn clean_up_when_complete(deployment: &Deployment, sets: &Sets) -> Vec<Arc<ReplicaSet>> {
    if is_complete(deployment, &deployment.status) { history::clean_up(deployment, &sets.old) } else { Vec::new() }
}
