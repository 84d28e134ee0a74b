//! Deviation: upstream's rules for ReplicaSets where rows of the contract depart from them.
//!
//! Each rule is upstream's, written beside the row that departs from it. An action that only such a rule explains is a
//! difference with that row, not a fault.

use std::sync::Arc;

use muster_machinery::claim::{Claim, claim};
use muster_objects::{ReplicaSet, Strategy};

use super::intent::{Intent, Target};
use muster_controllers::deployment::Snapshot;
use muster_controllers::deployment::bounds::Bounds;
use muster_controllers::deployment::creation::new_set_name;
use muster_controllers::deployment::progress::is_complete;
use muster_controllers::deployment::revision::{max_revision, revision};
use muster_controllers::deployment::rollback::rollback_to;
use muster_controllers::deployment::rolling::new_set_replicas;
use muster_controllers::deployment::scaling;
use muster_controllers::deployment::sets::{Sets, available, by_age, wanted};
use muster_controllers::deployment::update::SetUpdate;

/// What upstream would do, each intent with the row that departs from its rule.
#[must_use]
pub fn of_rollout(snapshot: &Snapshot) -> Vec<(Intent, &'static str)> {
    let deployment = &*snapshot.deployment;
    if deployment.meta.is_being_deleted() || snapshot.selector.is_everything() {
        return Vec::new();
    }
    let sets = claimed(snapshot);
    let recreates = deployment.strategy == Strategy::Recreate;
    let mut intents = Vec::new();
    if deployment.paused || scaling::is_scaling_event(deployment, &sets) {
        // Muster grows no ReplicaSet before the pods of others have gone that are to go.
        let row = if recreates { "B-20" } else { "B-18" };
        intents.extend(scaling::scale(deployment, &sets).iter().map(|update| (scaled(update), row)));
        // Nor does it take the old ones to 0 before the new one has reported that all its pods are available.
        if sets.new.as_ref().is_some_and(|new| scaling::is_saturated(deployment, new)) {
            let down = |set: &Arc<ReplicaSet>| (Intent::ScaleReplicaSet { set: target(set), to: 0 }, "B-19");
            intents.extend(sets.active_old().map(down));
        }
    } else if rollback_to(deployment).is_some() {
        // Muster gives a new ReplicaSet no pods under Recreate, and otherwise only as many as the pods of the old ones
        // leave room for.
        let row = if recreates { "B-20" } else { "B-18" };
        intents.extend(create(snapshot, &sets).map(|create| (create, row)));
    } else if recreates {
        // Muster counts an old ReplicaSet as one with pods until its status has observed its size.
        if !old_pods_seen(snapshot, &sets) {
            let new = create(snapshot, &sets).or_else(|| grow(snapshot, &sets));
            intents.extend(new.map(|new| (new, "B-20")));
        }
    } else if matches!(deployment.strategy, Strategy::RollingUpdate { .. }) {
        // Muster counts the pods that old ReplicaSets still report.
        if sets.new.is_none() {
            intents.extend(create(snapshot, &sets).map(|create| (create, "B-18")));
        } else if let Some(grow) = grow(snapshot, &sets) {
            intents.push((grow, "B-18"));
        } else {
            intents.extend(shrink(snapshot, &sets).into_iter().map(|shrink| (shrink, "B-19")));
        }
    }
    if deployment.paused || is_complete(deployment, &deployment.status) {
        intents.extend(clean_up(snapshot, &sets).map(|delete| (delete, "B-21")));
    }
    intents
}

/// Whether an old ReplicaSet wants or reports pods, or has a pod that has not finished.
fn old_pods_seen(snapshot: &Snapshot, sets: &Sets) -> bool {
    let runs = |set: &ReplicaSet| {
        let mut pods = snapshot.pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid));
        set.replicas > 0 || set.status.replicas > 0 || pods.any(|pod| !pod.phase.is_terminal())
    };
    sets.old.iter().any(|set| runs(set))
}

fn claimed(snapshot: &Snapshot) -> Sets {
    let Snapshot { deployment, selector, sets, current, .. } = snapshot;
    let ours =
        |set: &&Arc<ReplicaSet>| matches!(claim(&deployment.meta, selector, &set.meta), Claim::Keep | Claim::Adopt);
    let mine: Vec<Arc<ReplicaSet>> = sets.iter().filter(ours).cloned().collect();
    let new = mine.iter().find(|set| current.contains(&set.meta.uid)).cloned();
    Sets::with_new(new, &mine)
}

fn target(set: &ReplicaSet) -> Target {
    Target { key: set.meta.key(), uid: set.meta.uid.clone() }
}

fn scaled(update: &SetUpdate) -> Intent {
    Intent::ScaleReplicaSet { set: target(&update.before), to: update.after.replicas.into() }
}

/// Upstream computes the room for a new ReplicaSet from `spec.replicas` alone, not from the pods (DEP-10).
fn create(snapshot: &Snapshot, sets: &Sets) -> Option<Intent> {
    if sets.new.is_some() {
        return None;
    }
    let deployment = &*snapshot.deployment;
    Some(Intent::CreateReplicaSet {
        name: new_set_name(deployment),
        replicas: new_set_replicas(deployment, 0, wanted(&sets.old)).ok()?.into(),
        revision: max_revision(&sets.old).saturating_add(1).to_string(),
    })
}

fn grow(snapshot: &Snapshot, sets: &Sets) -> Option<Intent> {
    let new = sets.new.as_ref()?;
    let deployment = &*snapshot.deployment;
    let to = if new.replicas >= deployment.replicas {
        deployment.replicas
    } else {
        new_set_replicas(deployment, new.replicas, wanted(sets.all())).ok()?
    };
    (to != new.replicas).then(|| Intent::ScaleReplicaSet { set: target(new), to: to.into() })
}

/// Upstream counts every unavailable pod as unhealthy, and trusts statuses however old (DEP-11).
fn shrink(snapshot: &Snapshot, sets: &Sets) -> Vec<Intent> {
    let deployment = &*snapshot.deployment;
    let Some(new) = &sets.new else { return Vec::new() };
    let mut old: Vec<(&Arc<ReplicaSet>, i64)> = sets.active_old().map(|set| (set, set.replicas.into())).collect();
    let least = Bounds::of(deployment).least_available(deployment.replicas);
    let not_yet = i64::from(new.replicas) - i64::from(new.status.available_replicas);
    let mut left = wanted(sets.all()) - least - not_yet;
    if left <= 0 {
        return Vec::new();
    }
    let mut intents = Vec::new();
    old.sort_by(|(a, _), (b, _)| by_age(a, b));
    for (set, size) in &mut old {
        let down = (*size - i64::from(set.status.available_replicas)).min(left);
        if down > 0 {
            left -= down;
            *size -= down;
            intents.push(Intent::ScaleReplicaSet { set: target(set), to: *size });
        }
    }
    let mut beyond = available(sets.all()) - least;
    for (set, size) in &mut old {
        let down = (*size).min(beyond);
        if down > 0 {
            beyond -= down;
            *size -= down;
            intents.push(Intent::ScaleReplicaSet { set: target(set), to: *size });
        }
    }
    intents
}

/// Upstream deletes a ReplicaSet even while its pods are terminating (DEP-14).
fn clean_up(snapshot: &Snapshot, sets: &Sets) -> impl Iterator<Item = Intent> + use<> {
    let limit = snapshot.deployment.revision_history_limit.filter(|limit| *limit != i32::MAX);
    let mut kept: Vec<&Arc<ReplicaSet>> = sets.old.iter().filter(|set| !set.meta.is_being_deleted()).collect();
    kept.sort_by(|a, b| revision(a).unwrap_or(0).cmp(&revision(b).unwrap_or(0)).then_with(|| by_age(a, b)));
    let too_many = limit.map_or(0, |limit| kept.len().saturating_sub(usize::try_from(limit).unwrap_or(0)));
    let done = |set: &&Arc<ReplicaSet>| {
        set.replicas == 0 && set.status.replicas == 0 && set.meta.generation <= set.status.observed_generation
    };
    let gone: Vec<Intent> =
        kept.into_iter().take(too_many).filter(done).map(|set| Intent::DeleteReplicaSet(target(set))).collect();
    gone.into_iter()
}
