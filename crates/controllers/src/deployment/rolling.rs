//! Rolling: the new ReplicaSet grows and the old ones shrink, step by step within two bounds (DEP-10, DEP-11).
//!
//! Each step is decided on the ReplicaSets' statuses. One sync scales up, another scales down; the status changes that
//! follow cause the next sync.

use std::sync::Arc;

use muster_objects::int_or_percent::IntOrPercentError;
use muster_objects::{Deployment, ReplicaSet, Strategy};

use super::bounds::Bounds;
use super::sets::{Sets, by_age, is_active, is_unreported, taken, wanted};
use super::update::{Refresh, SetUpdate};
use crate::plan::Failure;

/// The size of the new ReplicaSet, which has `current` replicas of the `total` of all ReplicaSets: as many as the surge
/// leaves room for, and no more than the Deployment wants (DEP-10). Under Recreate, all of them.
///
/// # Errors
///
/// If the surge is neither a number nor a percentage, or the strategy is unknown.
pub fn new_set_replicas(deployment: &Deployment, current: i32, total: i64) -> Result<i32, Failure> {
    let replicas = deployment.replicas;
    let max_surge = match &deployment.strategy {
        Strategy::RollingUpdate { max_surge, .. } => max_surge,
        Strategy::Recreate => return Ok(replicas),
        Strategy::Other(name) => return Err(Failure::local(format!("deployment type {name} isn't supported"))),
    };
    let surge =
        max_surge.scaled(replicas, true).map_err(|error: IntOrPercentError| Failure::local(error.to_string()))?;
    let room = i64::from(replicas) + surge - total;
    if room <= 0 {
        return Ok(current);
    }
    let missing = i64::from(replicas) - i64::from(current);
    let grown = i64::from(current) + room.min(missing);
    Ok(i32::try_from(grown).unwrap_or(replicas))
}

/// The update of the new ReplicaSet: it grows into the room there is, or shrinks if it is too large.
///
/// # Errors
///
/// As [`new_set_replicas`].
pub fn reconcile_new(deployment: &Deployment, sets: &Sets) -> Result<Option<SetUpdate>, Failure> {
    let Some(new) = &sets.new else { return Ok(None) };
    let replicas = if new.replicas >= deployment.replicas {
        deployment.replicas
    } else {
        let total = taken(&sets.old).map_or(i64::MAX, |taken| taken + i64::from(new.replicas));
        new_set_replicas(deployment, new.replicas, total)?
    };
    Ok(SetUpdate::scale(deployment, new, replicas, Refresh::WhenScaled))
}

/// The updates of the old ReplicaSets: first the replicas that cannot cost an available pod, then as many others as are
/// available beyond the minimum.
///
/// Pods of the new ReplicaSet count only once they are available, so a rollout whose new pods never start keeps its
/// old ones.
#[must_use]
pub fn reconcile_old(deployment: &Deployment, sets: &Sets) -> Vec<SetUpdate> {
    let Ok(most) = most_down(deployment, sets) else { return Vec::new() };
    let mut old: Vec<Arc<ReplicaSet>> = sets.active_old().cloned().collect();
    let mut updates = clean_up_unhealthy(deployment, &mut old, most);
    let left = most - updates.iter().map(SetUpdate::shrinks_by).sum::<i64>();
    updates.extend(scale_down_old(deployment, sets.new.as_ref(), &old, left));
    updates
}

/// What keeps the old ReplicaSets of a rolling update from being scaled down.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    /// There is no new ReplicaSet yet, or no old one that wants pods.
    NothingToDo,
    /// The status of this one, which has or wants pods, has not observed its size: how many of its pods are available
    /// is not known.
    Unreported(Arc<ReplicaSet>),
    /// No available pod can be spared.
    Availability {
        /// The sum of `spec.replicas`.
        wanted: i64,
        /// The smallest number of available pods.
        least: i64,
        /// How many pods of the new ReplicaSet are not available yet.
        not_yet_available: i64,
    },
}

/// The most replicas by which the old ReplicaSets may shrink together; at least 1. They may still shrink by none, if
/// none is unhealthy and no available pod can be spared.
///
/// # Errors
///
/// What blocks them.
pub fn most_down(deployment: &Deployment, sets: &Sets) -> Result<i64, Held> {
    let Some(new) = sets.new.as_ref().filter(|_| sets.active_old().next().is_some()) else {
        return Err(Held::NothingToDo);
    };
    if let Some(set) = sets.all().find(|set| is_unreported(set)) {
        return Err(Held::Unreported(Arc::clone(set)));
    }
    let least = Bounds::of(deployment).least_available(deployment.replicas);
    let not_yet_available = i64::from(new.replicas) - available_within(new);
    let wanted = wanted(sets.all());
    let most = wanted - least - not_yet_available;
    if most > 0 { Ok(most) } else { Err(Held::Availability { wanted, least, not_yet_available }) }
}

/// How many pods of all ReplicaSets are certainly available once each has its size.
#[must_use]
pub fn certainly_available(sets: &Sets) -> i64 {
    sets.all().map(|set| available_within(set)).sum()
}

/// Scales old ReplicaSets down by their unhealthy replicas, oldest first and by at most `most`. The new sizes are
/// written to `old`.
///
/// Unhealthy replicas are those that can be removed at no cost of an available pod, whichever pods the ReplicaSet
/// chooses: those that are not ready, which it deletes first, and all of them if none is available. They must be
/// removed, since they would block the rollout (kubernetes#16737).
pub fn clean_up_unhealthy(deployment: &Deployment, old: &mut [Arc<ReplicaSet>], most: i64) -> Vec<SetUpdate> {
    old.sort_by(|a, b| by_age(a, b));
    let mut left = most;
    let mut updates = Vec::new();
    for set in old.iter_mut() {
        let unhealthy = i64::from(set.replicas) - if may_be_available(set) > 0 { ready_within(set) } else { 0 };
        let down = unhealthy.min(left);
        if down <= 0 {
            continue;
        }
        left -= down;
        if let Some(update) = shrink(deployment, set, down) {
            *set = Arc::clone(&update.after);
            updates.push(update);
        }
    }
    updates
}

/// Scales old ReplicaSets down, oldest first and by at most `most`, at the cost of no more available pods than can be
/// spared. If all its available pods can be spared, a ReplicaSet loses its unavailable ones too.
#[must_use]
pub fn scale_down_old(
    deployment: &Deployment,
    new: Option<&Arc<ReplicaSet>>,
    old: &[Arc<ReplicaSet>],
    most: i64,
) -> Vec<SetUpdate> {
    let least = Bounds::of(deployment).least_available(deployment.replicas);
    let available: i64 = old.iter().chain(new).map(|set| available_within(set)).sum();
    let mut spare = available - least;
    let mut left = most;
    let mut oldest_first: Vec<&Arc<ReplicaSet>> = old.iter().filter(|set| is_active(set)).collect();
    oldest_first.sort_by(|a, b| by_age(a, b));
    let mut updates = Vec::new();
    for set in oldest_first {
        if spare <= 0 || left <= 0 {
            break;
        }
        let all = i64::from(set.replicas);
        let down = if may_be_available(set) <= spare { all } else { spare.min(all) }.min(left);
        spare -= down.min(may_be_available(set));
        left -= down;
        updates.extend(shrink(deployment, set, down));
    }
    updates
}

fn shrink(deployment: &Deployment, set: &Arc<ReplicaSet>, by: i64) -> Option<SetUpdate> {
    let replicas = i32::try_from(i64::from(set.replicas) - by).unwrap_or(0).max(0);
    SetUpdate::scale(deployment, set, replicas, Refresh::WhenScaled)
}

/// How many of the pods that a ReplicaSet will keep are ready.
///
/// A ReplicaSet that shrinks deletes pods that are not ready first. Of the ready ones it may delete any where its
/// controller is another than this one's, which has no rule for those that are not available yet (B-29). Kubernetes
/// assumes that it deletes unavailable ones, and available pods can be deleted instead (B-19).
fn ready_within(set: &ReplicaSet) -> i64 {
    i64::from(set.status.ready_replicas.max(set.status.available_replicas).min(set.replicas))
}

/// The most available pods that a ReplicaSet may have once it has its size.
fn may_be_available(set: &ReplicaSet) -> i64 {
    i64::from(set.status.available_replicas.min(set.replicas).max(0))
}

/// The available pods that a ReplicaSet certainly has once it has its size: a status from before the last scale-down
/// counts pods that are about to be deleted. Those that are not ready are deleted first, and then any.
pub(super) fn available_within(set: &ReplicaSet) -> i64 {
    let status = &set.status;
    let to_go = i64::from(status.replicas) - i64::from(set.replicas);
    let not_ready = i64::from(status.replicas) - i64::from(status.ready_replicas.max(status.available_replicas));
    let may_be_taken = (to_go.max(0) - not_ready.max(0)).max(0);
    (i64::from(status.available_replicas) - may_be_taken).clamp(0, i64::from(set.replicas.max(0)))
}
