//! Progress: whether a rollout progresses, is complete, or has made no progress for too long (DEP-17, DEP-19, DEP-24).
//!
//! All of it is the condition `Progressing`, which exists only if the Deployment has a deadline.

use std::time::Duration;

use muster_objects::{Condition, ConditionStatus, Deployment, DeploymentStatus, ReplicaSet, Strategy, Timestamp};

use super::conditions::{PROGRESSING, condition, reason, remove, set};

/// A new ReplicaSet was created.
pub const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
/// The new ReplicaSet already existed when the deadline was set.
pub const FOUND_NEW_SET: &str = "FoundNewReplicaSet";
/// Pods were created or deleted, or became available.
pub const SET_UPDATED: &str = "ReplicaSetUpdated";
/// The rollout is complete.
pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// The deadline has passed without progress.
pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// The new ReplicaSet could not be created.
pub const SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
/// The Deployment is paused.
pub const PAUSED: &str = "DeploymentPaused";
/// The Deployment was resumed after a pause.
pub const RESUMED: &str = "DeploymentResumed";

/// How long a rollout may make no progress; `None` for no limit, which the largest int32 also means.
#[must_use]
pub fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Whether all pods are updated and available, no old ones are left, and the spec was observed (DEP-24).
#[must_use]
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    status.updated_replicas == deployment.replicas
        && status.replicas == deployment.replicas
        && status.available_replicas == deployment.replicas
        && status.observed_generation >= deployment.meta.generation
}

/// Whether `status` is ahead of the Deployment's last one: more updated pods, fewer old ones, more ready or more
/// available ones.
#[must_use]
pub fn is_progressing(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let last = &deployment.status;
    let old = |status: &DeploymentStatus| i64::from(status.replicas) - i64::from(status.updated_replicas);
    status.updated_replicas > last.updated_replicas
        || old(status) < old(last)
        || status.ready_replicas > last.ready_replicas
        || status.available_replicas > last.available_replicas
}

/// Whether the deadline has passed since the last progress recorded in `conditions`, or had passed before.
///
/// After a complete rollout nothing times out: pods that become unavailable then are not part of a rollout.
#[must_use]
pub fn has_timed_out(deployment: &Deployment, conditions: &[Condition], now: Timestamp) -> bool {
    let (Some(deadline), Some(progressing)) = (deadline(deployment), Condition::find(conditions, PROGRESSING)) else {
        return false;
    };
    match &*progressing.reason {
        NEW_SET_AVAILABLE => false,
        TIMED_OUT => true,
        // A condition without a time is older than any deadline.
        _ => progressing.last_update_time.is_none_or(|since| since + deadline < now),
    }
}

/// Records that the Deployment was paused or resumed, so that a pause does not count as a lack of progress (DEP-19). A
/// deadline that was reported as passed stays so.
pub fn note_pause(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Timestamp) {
    let current = reason(conditions, PROGRESSING);
    if deadline(deployment).is_none() || current == Some(TIMED_OUT) {
        return;
    }
    let (reason, message) = match (deployment.paused, current == Some(PAUSED)) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        (true, true) | (false, false) => return,
    };
    set(conditions, condition(PROGRESSING, ConditionStatus::Unknown, reason, message, now));
}

/// Records that the new ReplicaSet was created.
pub fn note_created(deployment: &Deployment, conditions: &mut Vec<Condition>, new: &ReplicaSet, now: Timestamp) {
    if deadline(deployment).is_some() {
        let message = format!("Created new replica set \"{}\"", new.meta.name);
        set(conditions, condition(PROGRESSING, ConditionStatus::True, NEW_SET_CREATED, message, now));
    }
}

/// Records that the new ReplicaSet was found, if there was no progress condition before: the deadline runs from now.
pub fn note_found(deployment: &Deployment, conditions: &mut Vec<Condition>, new: &ReplicaSet, now: Timestamp) {
    if deadline(deployment).is_some() && Condition::find(conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set \"{}\"", new.meta.name);
        set(conditions, condition(PROGRESSING, ConditionStatus::True, FOUND_NEW_SET, message, now));
    }
}

/// Records that the new ReplicaSet could not be created (DEP-05).
pub fn note_create_error(
    deployment: &Deployment,
    conditions: &mut Vec<Condition>,
    name: &str,
    error: &str,
    now: Timestamp,
) {
    if deadline(deployment).is_some() {
        let message = format!("Failed to create new replica set \"{name}\": {error}");
        set(conditions, condition(PROGRESSING, ConditionStatus::False, SET_CREATE_ERROR, message, now));
    }
}

/// Updates `Progressing` in `status` from its counts.
///
/// The existing condition holds the earlier state. A rollout that is complete, and reported so, is not estimated again.
pub fn estimate(deployment: &Deployment, status: &mut DeploymentStatus, new: Option<&ReplicaSet>, now: Timestamp) {
    if deadline(deployment).is_none() {
        remove(&mut status.conditions, PROGRESSING);
        return;
    }
    let current = Condition::find(&status.conditions, PROGRESSING).cloned();
    let was_complete = current.as_ref().is_some_and(|current| current.reason == NEW_SET_AVAILABLE);
    if was_complete && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match new {
        Some(new) => format!("ReplicaSet \"{}\"", new.meta.name),
        None => format!("Deployment \"{}\"", deployment.meta.name),
    };
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        let complete = condition(PROGRESSING, ConditionStatus::True, NEW_SET_AVAILABLE, message, now);
        set(&mut status.conditions, complete);
    } else if was_complete && is_rolling(deployment, new) || is_progressing(deployment, status) {
        // Old pods beside a rollout that was complete are another rollout. Nothing else begins its deadline where the counts never
        // show progress: its ReplicaSet was there before, and cannot have pods, or had them already (B-33).
        let message = format!("{subject} is progressing.");
        let mut progressing = condition(PROGRESSING, ConditionStatus::True, SET_UPDATED, message, now);
        // The one condition that is written even if only its time changes: the deadline runs from it.
        if let Some(current) = current.filter(|current| current.status == ConditionStatus::True) {
            progressing.last_transition_time = current.last_transition_time;
        }
        remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(progressing);
    } else if has_timed_out(deployment, &status.conditions, now) {
        let message = format!("{subject} has timed out progressing.");
        let timed_out = condition(PROGRESSING, ConditionStatus::False, TIMED_OUT, message, now);
        set(&mut status.conditions, timed_out);
    }
}

/// Whether old pods go as new ones come. While a Recreate takes the old ones down there is nothing new that could be late.
fn is_rolling(deployment: &Deployment, new: Option<&ReplicaSet>) -> bool {
    new.is_some() && matches!(deployment.strategy, Strategy::RollingUpdate { .. })
}
