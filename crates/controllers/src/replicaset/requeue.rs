//! When the owner is to be looked at again although nothing will have happened to it.
//!
//! A pod that is ready turns available by time alone, and no watch event says so. The sync therefore
//! leaves a note for the earliest such moment (RS-18).

use std::time::Duration;

use muster_objects::{Pod, Timestamp};

/// How long until the count of available pods changes by time alone; none where it will not, or where
/// nothing waits for it.
///
/// `ready` and `available` are the counts of the status just computed with the same `now`: a pod that
/// turned available in between is not missed.
#[must_use]
pub fn until_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    (ready, available): (i32, i32),
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 || ready == available {
        return None;
    }
    // A transition in the future (a node whose clock is ahead) is not waited for longer than a pod
    // that turns ready now would be. A ready pod without a transition time never turns available; the
    // full time is then as good as any.
    let longest = Duration::from_secs(min_ready_seconds.unsigned_abs().into());
    let earliest = pods.into_iter().filter_map(|pod| pod.next_availability_check(min_ready_seconds, now)).min();
    Some(earliest.map_or(longest, |earliest| earliest.min(longest)))
}
