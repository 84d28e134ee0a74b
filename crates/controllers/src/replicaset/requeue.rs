//! When the owner is to be synced again although nothing will have changed.
//!
//! A ready pod becomes available after a time, without a watch event. The sync therefore requeues the owner for the
//! earliest such moment (RS-18).

use std::time::Duration;

use muster_objects::{Pod, Timestamp};

/// How long until the next ready pod becomes available; `None` if none will, or if no count depends on it.
///
/// `ready` and `available` are the counts of the status just computed with the same `now`, so a pod that became
/// available in between is not missed.
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
    // A transition time in the future (a node whose clock is ahead) delays no longer than a pod that turns ready now. A
    // ready pod without a transition time never becomes available; the full time is then as good as any.
    let longest = Duration::from_secs(min_ready_seconds.unsigned_abs().into());
    let earliest = pods.into_iter().filter_map(|pod| pod.next_availability_check(min_ready_seconds, now)).min();
    Some(earliest.map_or(longest, |earliest| earliest.min(longest)))
}
