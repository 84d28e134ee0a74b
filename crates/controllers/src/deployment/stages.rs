//! Stages: one function for each kind of sync, from the ReplicaSets to the writes (DEP-02).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_objects::{Deployment, ReplicaSet, Strategy, Uid};

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

/// The writes of a stage. The fields are those of a [`Decision`](super::Decision).
pub(super) struct Work {
    pub(super) sets: Sets,
    pub(super) create: Option<NewSet>,
    pub(super) updates: Vec<SetUpdate>,
    pub(super) upkeep: bool,
    pub(super) waiting: Vec<SetUpdate>,
    pub(super) delete: Vec<Arc<ReplicaSet>>,
    pub(super) own_steps: Vec<Step>,
    pub(super) reporting: Reporting,
}

impl Work {
    fn nothing(sets: Sets, reporting: Reporting) -> Self {
        let (updates, waiting) = (Vec::new(), Vec::new());
        let (delete, own_steps) = (Vec::new(), Vec::new());
        Self { sets, create: None, updates, upkeep: false, waiting, delete, own_steps, reporting }
    }

    /// With what the new ReplicaSet gets from its Deployment. Where that is due it is a write of its own and the first,
    /// since it must not be lost with a scale that is refused.
    fn keeping_up(mut self, upkeep: Option<Upkeep>) -> Self {
        let Some(Upkeep { update: upkeep, due }) = upkeep else { return self };
        let of_new = |update: &&mut SetUpdate| update.before.meta.uid == upkeep.before.meta.uid;
        if due {
            self.updates.insert(0, upkeep);
        } else if let Some(scaled) = self.updates.iter_mut().find(of_new) {
            scaled.before = upkeep.before;
        }
        Self { upkeep: due, ..self }
    }

    /// Creates the new ReplicaSet at the next revision, or fails the sync with the reason why it cannot be created.
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
        Self { own_steps: vec![Step::Fail(failure)], ..Self::nothing(sets, reporting) }
    }

    /// Whether nothing is scaled and nothing has failed, so that the next step may follow.
    fn goes_on(&self) -> bool {
        self.updates.is_empty() && self.own_steps.is_empty()
    }
}

/// A Deployment that selects everything would adopt all ReplicaSets of its namespace.
pub(super) fn select_all(sets: Sets) -> Work {
    let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
    let own_steps = vec![Step::Tell(Announcement { warning: true, reason: "SelectingAll", message })];
    Work { own_steps, ..Work::nothing(sets, Reporting::Observed) }
}

/// While the Deployment is being deleted, its status is written, and the new ReplicaSet still gets its annotations.
pub(super) fn report_only(deployment: &Deployment, sets: Sets) -> Work {
    let (sets, upkeep) = kept_up(deployment, sets);
    Work::nothing(sets, Reporting::Counts).keeping_up(upkeep)
}

/// While paused, the ReplicaSets are scaled with the Deployment, and history is cleaned up at once: no rollout will
/// complete first.
pub(super) fn pause(snapshot: &Snapshot, sets: Sets) -> Work {
    let deployment = &snapshot.deployment;
    let mut work = scale(snapshot, sets);
    if rollback_to(deployment).is_none() {
        let updated: BTreeSet<&Uid> =
            work.updates.iter().chain(&work.waiting).map(|update| &update.before.meta.uid).collect();
        // Upstream looks for the newest ReplicaSet first, and leaves them in that order.
        work.delete = history::clean_up(deployment, work.sets.old.iter().rev());
        work.delete.retain(|set| !updated.contains(&set.meta.uid));
    }
    work
}

/// Scales the existing ReplicaSets, and creates none. Paused or scaled in the middle of a rollout, no ReplicaSet grows
/// into the room of pods that are still to go: that update waits.
pub(super) fn scale(snapshot: &Snapshot, sets: Sets) -> Work {
    let deployment = &snapshot.deployment;
    let (sets, upkeep) = kept_up(deployment, sets);
    let (grown, mut updates): (Vec<_>, Vec<_>) =
        scaling::scale(deployment, &sets).into_iter().partition(|update| update.shrinks_by() < 0);
    let fuller = scaling::with_more_than_wanted(&updates, &sets);
    let waits = |update: &SetUpdate| match deployment.strategy {
        Strategy::Recreate => recreate::others_running(Some(&update.before), &sets, &snapshot.pods),
        _ => fuller.iter().any(|set| set.meta.uid != update.before.meta.uid),
    };
    let (waiting, grown) = grown.into_iter().partition::<Vec<_>, _>(waits);
    updates.extend(grown);
    Work { updates, waiting, ..Work::nothing(sets, Reporting::Counts) }.keeping_up(upkeep)
}

/// The new ReplicaSet must exist before the Deployment is rolled back, so that it is one of the revisions.
pub(super) fn roll_back(deployment: &Deployment, sets: Sets, revision: i64) -> Work {
    if sets.new.is_none() {
        // The rollback follows in the next sync. Its template is about to be replaced, so it needs no pods; under
        // Recreate it must not have any before the old ones are gone (DEP-12).
        let created = match deployment.strategy {
            Strategy::Recreate => empty_set(deployment, next_revision(&sets)),
            _ => new_set(deployment, &sets, next_revision(&sets)),
        };
        return Work::creating(created, sets, Reporting::Creation);
    }
    let (sets, upkeep) = kept_up(deployment, sets);
    let own_steps = rollback::roll_back(deployment, &sets, revision);
    Work { own_steps, ..Work::nothing(sets, Reporting::Nothing) }.keeping_up(upkeep)
}

/// A rolling update: scales up, or else down.
pub(super) fn roll(deployment: &Deployment, sets: Sets) -> Work {
    let (sets, upkeep) = kept_up(deployment, sets);
    let mut work = match sets.new {
        // A ReplicaSet is created with the size that it may have.
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
    work.keeping_up(upkeep)
}

/// A Recreate update: all old pods are gone before the first new one is created.
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
    if !waits && work.own_steps.is_empty() {
        work.delete = clean_up_when_complete(deployment, &work.sets);
    }
    work.keeping_up(upkeep)
}

/// The server's validation rejects other strategies; a newer server may have more.
pub(super) fn fail_for_its_strategy(deployment: &Deployment, sets: Sets) -> Work {
    let failure = match &deployment.strategy {
        Strategy::Other(name) => Some(Failure::local(format!("unexpected deployment strategy type: {name}"))),
        Strategy::RollingUpdate { .. } | Strategy::Recreate => None,
    };
    Work { own_steps: failure.map(Step::Fail).into_iter().collect(), ..Work::nothing(sets, Reporting::Rollout) }
}

fn create(deployment: &Deployment, sets: Sets) -> Work {
    let created = new_set(deployment, &sets, next_revision(&sets));
    Work::creating(created, sets, Reporting::Rollout)
}

/// What an existing new ReplicaSet is to get from its Deployment.
struct Upkeep {
    update: SetUpdate,
    /// Whether that is written although nothing else of it is.
    due: bool,
}

/// Updates the annotations and minReadySeconds of an existing new ReplicaSet (DEP-06). Returns the ReplicaSets after
/// that, and the write; `None` if nothing differs.
fn kept_up(deployment: &Deployment, mut sets: Sets) -> (Sets, Option<Upkeep>) {
    let revision = next_revision(&sets);
    let Some(new) = &mut sets.new else { return (sets, None) };
    let min_ready_seconds = deployment.min_ready_seconds;
    let (annotations, due) = new_set_annotations(deployment, &new.annotations, revision, MAX_HISTORY_LENGTH);
    let due = due || new.min_ready_seconds != min_ready_seconds;
    if !due && annotations == new.annotations {
        return (sets, None);
    }
    let after = Arc::new(ReplicaSet { annotations, min_ready_seconds, ..ReplicaSet::clone(new) });
    let before = std::mem::replace(new, Arc::clone(&after));
    (sets, Some(Upkeep { update: SetUpdate { before, after }, due }))
}

fn next_revision(sets: &Sets) -> i64 {
    max_revision(&sets.old).saturating_add(1)
}

fn clean_up_when_complete(deployment: &Deployment, sets: &Sets) -> Vec<Arc<ReplicaSet>> {
    if is_complete(deployment, &deployment.status) { history::clean_up(deployment, &sets.old) } else { Vec::new() }
}
