//! Scaling: what a change of `spec.replicas` does to the ReplicaSets (DEP-08, DEP-09).
//!
//! Mid-rollout, or while the Deployment is paused, several ReplicaSets may have pods. Each takes its part of the
//! change, in proportion to its size: if the new one took it all, scaling up would speed up a rollout that may be bad.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{Deployment, ReplicaSet, Strategy, Uid};

use super::bounds::Bounds;
use super::revision::{desired_replicas, max_replicas};
use super::rolling::available_within;
use super::sets::{Sets, by_size_newer, by_size_older, is_reported, wanted};
use super::update::{Refresh, SetUpdate};

/// Whether the Deployment was scaled after its active ReplicaSets: one of them was scaled for another number of
/// replicas. A ReplicaSet without that annotation is ignored.
#[must_use]
pub fn is_scaling_event(deployment: &Deployment, sets: &Sets) -> bool {
    sets.active().any(|set| is_stale(deployment, set))
}

/// The updates for a scaling event, or for the sizes of a paused Deployment.
///
/// If nothing is to be scaled, ReplicaSets whose annotation names another number of replicas get the current one. They
/// would otherwise count as a scaling event for ever, and the rollout would never proceed (B-03, kubernetes#102551).
/// While the Deployment is paused no rollout waits for that, and nothing is written.
#[must_use]
pub fn scale(deployment: &Deployment, sets: &Sets) -> Vec<SetUpdate> {
    let Some(updates) = resize(deployment, sets) else { return Vec::new() };
    if !updates.is_empty() || deployment.paused {
        return updates;
    }
    let stale = sets.active().filter(|set| is_stale(deployment, set));
    stale.filter_map(|set| SetUpdate::scale(deployment, set, set.replicas, Refresh::Always)).collect()
}

fn is_stale(deployment: &Deployment, set: &ReplicaSet) -> bool {
    desired_replicas(set).is_some_and(|desired| desired != deployment.replicas)
}

/// The updates of sizes; none at all where they wait for a report, after which it is a scaling event still.
fn resize(deployment: &Deployment, sets: &Sets) -> Option<Vec<SetUpdate>> {
    if let Some(only) = active_or_latest(sets) {
        return Some(
            SetUpdate::scale(deployment, only, deployment.replicas, Refresh::WhenScaled).into_iter().collect(),
        );
    }
    // For example when a ReplicaSet with pods is adopted after the rollout.
    if let Some(new) = sets.new.as_ref().filter(|new| is_saturated(deployment, new)) {
        if !is_certain(new) {
            return None;
        }
        let old = sets.active_old();
        return Some(old.filter_map(|set| SetUpdate::scale(deployment, set, 0, Refresh::WhenScaled)).collect());
    }
    if !matches!(deployment.strategy, Strategy::RollingUpdate { .. }) {
        return Some(Vec::new());
    }
    let shares = proportional(deployment, sets.active().cloned().collect());
    let update = |(set, size): (Arc<ReplicaSet>, i32)| SetUpdate::scale(deployment, &set, size, Refresh::Always);
    Some(shares.into_iter().filter_map(update).collect())
}

/// The ReplicaSets that have, or may have, more pods than they want after the `updates`: one whose status does not answer to
/// its size may have made pods that no status shows. No other ReplicaSet grows beside one, as in a rolling update (B-18).
#[must_use]
pub fn with_more_than_wanted<'a>(updates: &[SetUpdate], sets: &'a Sets) -> Vec<&'a Arc<ReplicaSet>> {
    let sizes: BTreeMap<&Uid, i32> =
        updates.iter().map(|update| (&update.before.meta.uid, update.after.replicas)).collect();
    let wants = |set: &ReplicaSet| sizes.get(&set.meta.uid).copied().unwrap_or(set.replicas);
    sets.all().filter(|set| !is_reported(set) || set.status.replicas > wants(set)).collect()
}

/// The one ReplicaSet that takes the full count: the only active one, or the newest if none is active. `None` if
/// several are active, or there is none at all.
#[must_use]
pub fn active_or_latest(sets: &Sets) -> Option<&Arc<ReplicaSet>> {
    let mut active = sets.active();
    match (active.next(), active.next()) {
        (None, _) => sets.new.as_ref().or_else(|| sets.old.last()),
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
    }
}

/// Whether the new ReplicaSet has all that the Deployment wants: it was scaled to that, and all its pods are available.
#[must_use]
pub fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    desired_replicas(new) == Some(deployment.replicas)
        && new.replicas == deployment.replicas
        && new.status.available_replicas == deployment.replicas
}

/// Whether the pods of a ReplicaSet that are said to be available stay: those of another size, or more pods than are to be, may be on
/// their way out (B-19).
#[must_use]
pub fn is_certain(new: &ReplicaSet) -> bool {
    is_reported(new) && available_within(new) >= i64::from(new.replicas)
}

/// The sizes of the `active` ReplicaSets that together are what the Deployment and its surge allow, in the order of the
/// writes: the largest first.
///
/// Each takes its rounded part of the change until that is used up. What rounding leaves over goes to the largest, and
/// what that cannot take, to the next. The sum is exact wherever int32 sizes allow it; no size is negative. All
/// arithmetic is in 64 bits (B-10).
#[must_use]
pub fn proportional(deployment: &Deployment, mut active: Vec<Arc<ReplicaSet>>) -> Vec<(Arc<ReplicaSet>, i32)> {
    let allowed = if deployment.replicas > 0 { Bounds::of(deployment).most(deployment.replicas) } else { 0 };
    let to_add = allowed - wanted(&active);
    // Of equal ones the newer grow first, and the older shrink first.
    match to_add {
        1.. => active.sort_by(|a, b| by_size_newer(a, b)),
        ..0 => active.sort_by(|a, b| by_size_older(a, b)),
        0 => {}
    }
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
    for set in &active {
        let share = proportion(deployment, set, to_add, added);
        added += share;
        sizes.push(i64::from(set.replicas) + share);
    }
    let mut leftover = to_add - added;
    for size in &mut sizes {
        let whole = *size + leftover;
        *size = whole.clamp(0, i64::from(i32::MAX));
        leftover = whole - *size;
    }
    let sizes = sizes.into_iter().map(|size| i32::try_from(size).unwrap_or(i32::MAX));
    active.into_iter().zip(sizes).collect()
}

/// The part of a change by `to_add` replicas that one ReplicaSet takes, when `added` are taken already: its fraction,
/// limited to what is left.
#[must_use]
pub fn proportion(deployment: &Deployment, set: &ReplicaSet, to_add: i64, added: i64) -> i64 {
    if set.replicas == 0 || to_add == added {
        return 0;
    }
    let left = to_add - added;
    match to_add {
        0 => 0,
        1.. => fraction(deployment, set).min(left),
        ..0 => fraction(deployment, set).max(left),
    }
}

/// By how much a ReplicaSet would grow or shrink to keep the share of the whole that it had when it was last scaled,
/// rounded half away from zero.
///
/// If its annotation does not say what the whole was, `status.replicas` of the Deployment is used. That is less exact,
/// and [`proportion`] limits it all the same.
#[must_use]
pub fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i64 {
    let size = i64::from(set.replicas);
    if deployment.replicas == 0 {
        return -size;
    }
    let whole_before = max_replicas(set).filter(|most| *most > 0).unwrap_or(deployment.status.replicas);
    if whole_before <= 0 {
        // No annotation and no pods: somebody removed the annotation, and no pod could be created.
        return 0;
    }
    let whole = i128::from(Bounds::of(deployment).most(deployment.replicas));
    let size_after = round_half_away(i128::from(size) * whole, i128::from(whole_before));
    // The annotation may have been edited to any size.
    i64::from(i32::try_from(size_after).unwrap_or(i32::MAX)) - size
}

/// `numerator / denominator`, rounded half away from zero; neither is negative.
fn round_half_away(numerator: i128, denominator: i128) -> i128 {
    (2 * numerator + denominator) / (2 * denominator)
}
