//! Conditions: how a Deployment's are made, set and removed (DEP-21).

use muster_objects::{Condition, ConditionStatus, Timestamp};

/// Whether the Deployment has its minimum of available pods.
pub const AVAILABLE: &str = "Available";
/// Whether its rollout gets on.
pub const PROGRESSING: &str = "Progressing";
/// Whether a pod could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A condition that is written now. The time is cut to seconds, as `metav1.Time` carries it, so that reading it back
/// changes nothing.
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

/// Sets a condition. One of the same status and reason that is there already stays as it is; where only the status
/// is the same, the time of the last transition stays. The condition that was written last stands last.
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

/// The reason of the condition of a type, where it is there.
#[must_use]
pub fn reason<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a str> {
    Condition::find(conditions, kind).map(|condition| &*condition.reason)
}
