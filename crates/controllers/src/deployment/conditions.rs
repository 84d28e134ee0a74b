//! Conditions: how those of a Deployment are made, set and removed (DEP-21).

use muster_objects::{Condition, ConditionStatus, Timestamp};

/// Whether the Deployment has its minimum of available pods.
pub const AVAILABLE: &str = "Available";
/// Whether its rollout progresses.
pub const PROGRESSING: &str = "Progressing";
/// Whether a pod could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A condition with the current time, truncated to seconds as in `metav1.Time`, so that reading it back changes
/// nothing.
#[must_use]
pub fn condition(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
    now: Timestamp,
) -> Condition {
    let now = now.truncate_to_seconds();
    Condition { last_update_time: Some(now), ..Condition::new(kind, status, reason, message, now) }
}

/// Sets a condition. If one with the same status and reason exists it is kept; if only the status is the same, its
/// transition time is kept. The condition that was written last is the last of the list.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = Condition::find(conditions, &condition.kind)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time = current.last_transition_time;
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
}

/// Removes the condition of a type.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// The reason of the condition of a type, if there is one.
#[must_use]
pub fn reason<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a str> {
    Condition::find(conditions, kind).map(|condition| &*condition.reason)
}
