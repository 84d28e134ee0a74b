//! Rolling: the new ReplicaSet grows and the old ones shrink, step by step within two bounds (DEP-10, DEP-11).
//!
//! Each step is taken on what the ReplicaSets' statuses report. A step that scales up is one sync, a step that
//! scales down another; the statuses that they lead to bring about the next.

use std::sync::Arc;

use muster_objects::int_or_percent::IntOrPercentError;
use muster_objects::{Deployment, ReplicaSet, Strategy};

use super::bounds::Bounds;
use super::sets::{Sets, by_age, is_active, taken, wanted};
use super::update::{Refresh, SetUpdate};
use crate::plan::Failure;

/// How many replicas the new ReplicaSet, which has `current` and is one of `total` wanted by all ReplicaSets, is
/// to have: as many as the surge leaves room for and no more than the Deployment wants (DEP-10). Where it recreates,
/// all of them.
///
/// # Errors
///
/// Where the surge is neither a number nor a percentage, or the strategy is one that is not known.
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

/// What is done about the new ReplicaSet: it grows into the room there is, or shrinks where it is too large.
///
/// # Errors
///
/// As [`new_set_replicas`].
pub fn reconcile_new(deployment: &Deployment, sets: &Sets) -> Result<Option<SetUpdate>, Failure> {
    let Some(new) = &sets.new else { return Ok(None) };
    let replicas = if new.replicas >= deployment.replicas {
        deployment.replicas
    } else {
        new_set_replicas(deployment, new.replicas, i64::from(new.replicas) + taken(&sets.old))?
    };
    Ok(SetUpdate::scale(deployment, new, replicas, Refresh::WhenScaled))
}

/// What is done about the old ReplicaSets: their unhealthy replicas go first, then so many of the others as are
/// available beyond what must be.
///
/// An unhealthy replica, one that is not ready, may go without making anything worse, and must: it would else hold the rollout up
/// (kubernetes#16737). Pods of the new ReplicaSet that are not available yet are left out of account, so that
/// a rollout whose new pods never start does not take the old ones with it.
#[must_use]
pub fn reconcile_old(deployment: &Deployment, sets: &Sets) -> Vec<SetUpdate> {
    let Ok(most_down) = most_down(deployment, sets) else { return Vec::new() };
    let mut old: Vec<Arc<ReplicaSet>> = sets.active_old().cloned().collect();
    let mut updates = clean_up_unhealthy(deployment, &mut old, most_down);
    updates.extend(scale_down_old(deployment, sets.new.as_ref(), &old));
    updates
}

/// What keeps the old ReplicaSets of a rolling update from being scaled down.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    /// There is no new ReplicaSet yet, or no old one that wants pods.
    NothingToDo,
    /// This one has or wants pods, and its status does not answer to its size yet: how many of them are available is
    /// not known.
    Unreported(Arc<ReplicaSet>),
    /// There is none to spare.
    Availability {
        /// How many pods all ReplicaSets want.
        wanted: i64,
        /// How many are to be available at least.
        least: i64,
        /// How many of the new ReplicaSet's are not available yet.
        not_yet_available: i64,
    },
}

/// By how many at most the old ReplicaSets shrink together; at least 1. Where none of them is unhealthy and no more
/// are available than must be, they shrink by none all the same.
///
/// # Errors
///
/// What holds them.
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

/// How many pods of all ReplicaSets are available for certain once each has its size.
#[must_use]
pub fn certainly_available(sets: &Sets) -> i64 {
    sets.all().map(|set| available_within(set)).sum()
}

/// Whether the ReplicaSet has or wants pods, and its status does not answer to its size yet: how many of them are
/// available is not known. One that shrank and grew again may say more than it has.
fn is_unreported(set: &ReplicaSet) -> bool {
    (is_active(set) || set.status.replicas > 0) && set.status.observed_generation < set.meta.generation
}

/// Scales old ReplicaSets down by their unhealthy replicas, oldest first and by at most `most`. Whatever is scaled
/// stands in `old` as it is after. A ReplicaSet takes its unhealthy pods first when it shrinks.
pub fn clean_up_unhealthy(deployment: &Deployment, old: &mut [Arc<ReplicaSet>], most: i64) -> Vec<SetUpdate> {
    old.sort_by(|a, b| by_age(a, b));
    let mut left = most;
    let mut updates = Vec::new();
    for set in old.iter_mut() {
        let unhealthy = i64::from(set.replicas) - healthy_within(set);
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

/// Scales old ReplicaSets down, oldest first, by what is available beyond the least that must be.
#[must_use]
pub fn scale_down_old(
    deployment: &Deployment,
    new: Option<&Arc<ReplicaSet>>,
    old: &[Arc<ReplicaSet>],
) -> Vec<SetUpdate> {
    let least = Bounds::of(deployment).least_available(deployment.replicas);
    let available: i64 = old.iter().chain(new).map(|set| available_within(set)).sum();
    let mut left = available - least;
    let mut oldest_first: Vec<&Arc<ReplicaSet>> = old.iter().filter(|set| is_active(set)).collect();
    oldest_first.sort_by(|a, b| by_age(a, b));
    let mut updates = Vec::new();
    for set in oldest_first {
        let down = left.min(i64::from(set.replicas));
        if down <= 0 {
            break;
        }
        left -= down;
        updates.extend(shrink(deployment, set, down));
    }
    updates
}

fn shrink(deployment: &Deployment, set: &Arc<ReplicaSet>, by: i64) -> Option<SetUpdate> {
    let replicas = i32::try_from(i64::from(set.replicas) - by).unwrap_or(0).max(0);
    SetUpdate::scale(deployment, set, replicas, Refresh::WhenScaled)
}

/// The pods of a ReplicaSet that are ready, or available, of those that it will still have.
///
/// A ReplicaSet that shrinks takes pods that are not ready first, and knows no difference between those that are just
/// ready and those that have been so for `minReadySeconds`. Were the former counted as unhealthy, as Kubernetes does,
/// available ones could go in their place.
fn healthy_within(set: &ReplicaSet) -> i64 {
    i64::from(set.status.ready_replicas.max(set.status.available_replicas).min(set.replicas))
}

/// The available pods that a ReplicaSet will have for certain once it has its size: a status that was reported before
/// the last scaling down counts pods that are about to go. Those that are not ready go first, and of the others any.
fn available_within(set: &ReplicaSet) -> i64 {
    let status = &set.status;
    let to_go = i64::from(status.replicas) - i64::from(set.replicas);
    let not_ready = i64::from(status.replicas) - i64::from(status.ready_replicas.max(status.available_replicas));
    let may_be_taken = (to_go.max(0) - not_ready.max(0)).max(0);
    (i64::from(status.available_replicas) - may_be_taken).clamp(0, i64::from(set.replicas.max(0)))
}
