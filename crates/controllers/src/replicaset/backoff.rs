//! Backoff of creations whose pods fail at once (B-08).
//!
//! A node can reject a pod as soon as it is bound to it: the pod turns Failed, is no longer active, and is replaced by
//! a pod that the same node may reject again. Without a limit that makes thousands of pods a minute (kubernetes#72593).
//! Here each owner has a backoff: pods that fail within seconds of their creation delay the next creations by 1 s, then
//! by 2 s, doubling to 5 minutes. Pods that fail during such a delay do not raise it. A pod that turns ready resets it.
//!
//! Deletions, claims and the status are never delayed.

use std::time::Duration;

use muster_machinery::Backoff;
use muster_objects::meta::ObjectKey;
use muster_objects::{Pod, PodPhase};

/// A pod that fails no later than this after its creation counts as rejected.
pub const AT_ONCE: Duration = Duration::from_secs(10);
/// The first delay.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest delay.
pub const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Empty backoffs for the owners of one kind.
#[must_use]
pub fn creation_backoff() -> Backoff<ObjectKey> {
    Backoff::new(FIRST, LONGEST)
}

/// Whether the pod failed within seconds of its creation.
///
/// A pod that failed without a time was never run by a node: it counts.
#[must_use]
pub fn failed_at_once(pod: &Pod) -> bool {
    pod.phase == PodPhase::Failed && pod.lifetime().is_none_or(|lifetime| lifetime <= AT_ONCE)
}
