//! When a Deployment is to be synced again although nothing will have changed (DEP-18).
//!
//! A rollout without progress causes no event, and none comes when its deadline passes.

use std::time::Duration;

use muster_objects::{Condition, Deployment, DeploymentStatus, Timestamp};

use super::conditions::PROGRESSING;
use super::progress::{NEW_SET_AVAILABLE, TIMED_OUT, deadline, is_complete};

/// Deadlines are in whole seconds, and a sync that is slightly early would find none passed.
const MARGIN: Duration = Duration::from_secs(1);

/// How long until the deadline of the rollout has certainly passed; `None` if there is no deadline, it has passed, or
/// the rollout is complete.
///
/// At least a second, so that a deadline which is about to pass is checked at most once a second.
#[must_use]
pub fn until_deadline(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let left = time_left(deployment, status, now)?;
    Some(if left < MARGIN { MARGIN } else { left + MARGIN })
}

/// What is left of the deadline; zero if it has passed and that is not reported yet.
#[must_use]
pub fn time_left(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let progressing = Condition::find(&status.conditions, PROGRESSING)?;
    let is_over = matches!(&*progressing.reason, TIMED_OUT | NEW_SET_AVAILABLE);
    if is_over || is_complete(deployment, status) {
        return None;
    }
    let since = progressing.last_update_time.unwrap_or(Timestamp::UNIX_EPOCH);
    Some((since + deadline).saturating_since(now))
}
