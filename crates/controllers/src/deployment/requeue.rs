//! When a Deployment is to be looked at again although nothing will have happened to it (DEP-18).
//!
//! A rollout that stands still brings about no event, least of all at the moment at which its deadline passes.

use std::time::Duration;

use muster_objects::{Condition, Deployment, DeploymentStatus, Timestamp};

use super::conditions::PROGRESSING;
use super::progress::{NEW_SET_AVAILABLE, TIMED_OUT, deadline, is_complete};

/// Deadlines are counted in whole seconds, and a wake-up that is early by a moment would find nothing to tell.
const MARGIN: Duration = Duration::from_secs(1);

/// How long until the deadline of the rollout has passed for sure; none where none runs: there is no deadline, or
/// it has passed, or the rollout is complete.
///
/// At least a second, so that a deadline which is about to pass is looked at once a second and no oftener.
#[must_use]
pub fn until_deadline(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let left = time_left(deployment, status, now)?;
    Some(if left < MARGIN { MARGIN } else { left + MARGIN })
}

/// What is left of the deadline; zero where it has passed and nobody has told yet.
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
