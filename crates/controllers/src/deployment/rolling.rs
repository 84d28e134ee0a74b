//! Rolling: the new ReplicaSet grows and the old ones shrink, step by step within two bounds (DEP-10, DEP-11).
//!
//! Each step is taken on what the ReplicaSets' statuses report. A step that scales up is one sync, a step that
//! scales down another; the statuses that they lead to bring about the next.

use std::sync::Arc;

use muster_objects::int_or_percent::IntOrPercentError;
use muster_objects::{Deployment, ReplicaSet, Strategy};

use super::bounds::Bounds;
use super::sets::{Sets, by_age, is_active, is_reported, taken, wanted};
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
        let total = taken(&sets.old).map_or(i64::MAX, |taken| taken + i64::from(new.replicas));
        new_set_replicas(deployment, new.replicas, total)?
    };
    Ok(SetUpdate::scale(deployment, new, replicas, Refresh::WhenScaled))
}

/// What is done about the old ReplicaSets: replicas that cannot cost an available pod go first, then so many of the
/// others as are available beyond what must be.
///
/// Pods of the new ReplicaSet that are not available yet are left out of account, so that a rollout whose new pods
/// never start does not take the old ones with it.
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

/// Whether the ReplicaSet has or wants pods, and it is not known how many of them are available. One that shrank and
/// grew again may say more than it has.
fn is_unreported(set: &ReplicaSet) -> bool {
    (is_active(set) || set.status.replicas > 0) && !is_reported(set)
}

/// Scales old ReplicaSets down by their unhealthy replicas, oldest first and by at most `most`. Whatever is scaled
/// stands in `old` as it is after.
///
/// Unhealthy are replicas that may go without an available pod going in their place, whichever pods the ReplicaSet
/// takes: those that are not ready, which it takes first, and all of them where none is available. They must go, for
/// they would else hold the rollout up (kubernetes#16737).
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

/// Scales old ReplicaSets down, oldest first and by at most `most`, at the cost of no more pods than are available
/// beyond the least that must be. One whose available pods can all be spared goes with those that are not available.
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

/// How many pods of a ReplicaSet are ready, of those that it will still have.
///
/// A ReplicaSet that shrinks takes pods that are not ready first. Of those that are ready it may take any: it has no
/// rule for those that are not available yet, and a deletion cost can name the others. Kubernetes counts on it to take
/// what is not available, and available pods can go in its place (B-19).
fn ready_within(set: &ReplicaSet) -> i64 {
    i64::from(set.status.ready_replicas.max(set.status.available_replicas).min(set.replicas))
}

/// The available pods that a ReplicaSet may have at most once it has its size.
fn may_be_available(set: &ReplicaSet) -> i64 {
    i64::from(set.status.available_replicas.min(set.replicas).max(0))
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
