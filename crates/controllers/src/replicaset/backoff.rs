//! Backoff of creations whose pods fail at once (B-08).
//!
//! A node can refuse a pod as soon as it is bound to it: the pod turns Failed, is no longer active, and is
//! replaced, by a pod that the same node may refuse again. Unbraked that makes thousands of pods a minute
//! (kubernetes#72593). Here each owner has a brake: pods that fail within seconds of their creation hold
//! the next creations back for 1 s, then for 2 s, doubling to 5 minutes. Pods that fail while creations
//! wait already are the same failure. A pod that turns ready takes the brake off.
//!
//! Deletions, claims and the status are never held back.

use std::time::Duration;

use muster_machinery::Backoff;
use muster_objects::meta::ObjectKey;
use muster_objects::{Pod, PodPhase};

/// A pod that fails no later than this after its creation was refused rather than worn out.
pub const AT_ONCE: Duration = Duration::from_secs(10);
/// The first wait.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(5 * 60);

/// The brakes of all owners of one kind, all of them off.
#[must_use]
pub fn creation_backoff() -> Backoff<ObjectKey> {
    Backoff::new(FIRST, LONGEST)
}

/// Whether the pod has failed within seconds of its creation.
///
/// A pod that failed and does not say when is one that no node has run: it counts.
#[must_use]
pub fn failed_at_once(pod: &Pod) -> bool {
    pod.phase == PodPhase::Failed && pod.lifetime().is_none_or(|lifetime| lifetime <= AT_ONCE)
}
