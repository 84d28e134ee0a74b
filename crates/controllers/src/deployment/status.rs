//! Status: what the Deployment reports of its ReplicaSets (DEP-15, DEP-16, DEP-20).
//!
//! The counts are the ReplicaSets' own, from before this sync's writes.

use std::collections::BTreeMap;

use muster_objects::{Condition, ConditionStatus, Deployment, DeploymentStatus, Timestamp};
use serde_json::{Map, Value, json};

use super::bounds::Bounds;
use super::conditions::{AVAILABLE, REPLICA_FAILURE, condition, set};
use super::sets::{Sets, actual, available, ready, terminating, wanted};
use crate::plan::{Resource, StatusWrite};

/// The reason of [`REPLICA_FAILURE`] if the Deployment's own syncs fail again and again (B-06).
pub const SYNC_ERROR: &str = "SyncError";

/// The status computed from the ReplicaSets, with the earlier `conditions` and an updated `Available`.
#[must_use]
pub fn calculate(deployment: &Deployment, sets: &Sets, conditions: Vec<Condition>, now: Timestamp) -> DeploymentStatus {
    let count = |sum: i64| i32::try_from(sum.max(0)).unwrap_or(i32::MAX);
    let available = available(sets.all());
    let mut status = DeploymentStatus {
        observed_generation: deployment.meta.generation,
        replicas: count(actual(sets.all())),
        updated_replicas: count(actual(&sets.new)),
        ready_replicas: count(ready(sets.all())),
        available_replicas: count(available),
        // More pods may be available than are desired, for example after scaling down.
        unavailable_replicas: count(wanted(sets.all()) - available),
        terminating_replicas: terminating(sets.all()).map(count),
        conditions,
        collision_count: deployment.status.collision_count,
    };
    let availability = if available >= Bounds::of(deployment).least_available(deployment.replicas) {
        let message = "Deployment has minimum availability.";
        condition(AVAILABLE, ConditionStatus::True, "MinimumReplicasAvailable", message, now)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition(AVAILABLE, ConditionStatus::False, "MinimumReplicasUnavailable", message, now)
    };
    set(&mut status.conditions, availability);
    status
}

/// The failure that a ReplicaSet reports, as a condition of the Deployment: the new one's, or else that of the oldest
/// one with any.
#[must_use]
pub fn replica_failure(sets: &Sets) -> Option<Condition> {
    let new_first = sets.new.iter().chain(&sets.old);
    let failure = new_first.into_iter().find_map(|set| Condition::find(&set.status.conditions, REPLICA_FAILURE))?;
    Some(Condition { last_update_time: failure.last_transition_time, ..failure.clone() })
}

/// The write that makes the Deployment's status `new` and sets `annotations`; `None` if nothing differs.
///
/// It has no version precondition: it touches nothing that a change of the spec does, and the observed generation says
/// which spec the status is for.
#[must_use]
pub fn write(
    deployment: &Deployment,
    new: &DeploymentStatus,
    mut annotations: BTreeMap<String, String>,
) -> Option<StatusWrite> {
    annotations.retain(|key, value| deployment.annotations.get(key) != Some(value));
    if deployment.status == *new && annotations.is_empty() {
        return None;
    }
    let can_wait = annotations.is_empty() && tell_the_same(&deployment.status.conditions, &new.conditions);
    Some(StatusWrite { can_wait, ..write_of(deployment, patch(&deployment.status, new), annotations) })
}

/// Whether conditions are equal except for their times.
fn tell_the_same(old: &[Condition], new: &[Condition]) -> bool {
    let same = |old: &Condition, new: &Condition| {
        (&old.kind, old.status, &old.reason, &old.message) == (&new.kind, new.status, &new.reason, &new.message)
    };
    let says = |condition: &Condition| old.iter().any(|old| same(old, condition));
    old.len() == new.len() && new.iter().all(says)
}

/// The write of the observed generation alone; `None` if it is up to date (DEP-02).
#[must_use]
pub fn write_observed(deployment: &Deployment) -> Option<StatusWrite> {
    let generation = deployment.meta.generation;
    let behind = deployment.status.observed_generation < generation;
    behind.then(|| write_of(deployment, json!({"observedGeneration": generation}), BTreeMap::new()))
}

fn write_of(deployment: &Deployment, status: Value, annotations: BTreeMap<String, String>) -> StatusWrite {
    let meta = &deployment.meta;
    StatusWrite {
        resource: Resource::DEPLOYMENTS,
        key: meta.key(),
        uid: meta.uid.clone(),
        resource_version: None,
        can_wait: false,
        status,
        annotations,
    }
}

/// The value of `status` in a strategic merge patch from `old` to `new`.
///
/// Every count is written, so that a second attempt against a newer version leaves none behind. A count of zero is null
/// where Go omits it, which is the same to a server that knows the type. Of the conditions only those that this sync
/// changed are in it (B-13).
fn patch(old: &DeploymentStatus, new: &DeploymentStatus) -> Value {
    let or_null = |count: i32| if count == 0 { Value::Null } else { json!(count) };
    let mut patch = Map::new();
    patch.insert("observedGeneration".into(), json!(new.observed_generation));
    patch.insert("replicas".into(), or_null(new.replicas));
    patch.insert("updatedReplicas".into(), or_null(new.updated_replicas));
    patch.insert("readyReplicas".into(), or_null(new.ready_replicas));
    patch.insert("availableReplicas".into(), or_null(new.available_replicas));
    patch.insert("unavailableReplicas".into(), or_null(new.unavailable_replicas));
    patch.insert("terminatingReplicas".into(), json!(new.terminating_replicas));
    if old.collision_count != new.collision_count {
        patch.insert("collisionCount".into(), json!(new.collision_count));
    }
    let conditions = changed_conditions(&old.conditions, &new.conditions);
    if !conditions.is_empty() {
        patch.insert("conditions".into(), Value::Array(conditions));
        let order: Vec<Value> = new.conditions.iter().map(|condition| json!({"type": condition.kind})).collect();
        patch.insert("$setElementOrder/conditions".into(), Value::Array(order));
    }
    Value::Object(patch)
}

/// Conditions merge by type: a new one is in the patch as it is, a removed one as a directive.
fn changed_conditions(old: &[Condition], new: &[Condition]) -> Vec<Value> {
    let written = new.iter().filter(|condition| !old.contains(condition)).map(|condition| json!(condition));
    let gone = old.iter().filter(|condition| Condition::find(new, &condition.kind).is_none());
    written.chain(gone.map(|condition| json!({"$patch": "delete", "type": condition.kind}))).collect()
}
