//! Recreate: no new pod before the last old one is gone (DEP-12).

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_objects::{Deployment, Pod, ReplicaSet, Uid};

use super::handlers::is_finished;
use super::sets::{Sets, is_reported};
use super::update::{Refresh, SetUpdate};

/// Scales the old ReplicaSets that still want pods to zero.
#[must_use]
pub fn scale_down_old(deployment: &Deployment, sets: &Sets) -> Vec<SetUpdate> {
    sets.active_old().filter_map(|set| SetUpdate::scale(deployment, set, 0, Refresh::WhenScaled)).collect()
}

/// Whether a pod of an old ReplicaSet runs, or may run.
#[must_use]
pub fn old_pods_running(sets: &Sets, pods: &[Arc<Pod>]) -> bool {
    others_running(sets.new.as_deref(), sets, pods)
}

/// Whether a pod of another ReplicaSet than `this` runs, or may run.
///
/// Only the ReplicaSets of the Deployment count: pods of an orphan that it could not adopt are not waited for, since no
/// event of theirs would requeue the Deployment. A ReplicaSet whose status has not observed its size may have pods that
/// no cache shows yet. Of the `pods`, one that is being deleted still runs; one that is Failed or Succeeded does not,
/// even if it is never deleted (B-05). One whose phase is Unknown counts as running: its node may only be unreachable.
#[must_use]
pub fn others_running(this: Option<&ReplicaSet>, sets: &Sets, pods: &[Arc<Pod>]) -> bool {
    let mut others = sets.all().filter(|set| this.is_none_or(|this| set.meta.uid != this.meta.uid));
    let running = pods.iter().filter(|pod| !is_finished(pod)).filter_map(|pod| pod.meta.controller.as_ref());
    let running: BTreeSet<&Uid> = running.map(|owner| &owner.uid).collect();
    others.any(|set| !is_reported(set) || set.status.replicas > 0 || running.contains(&set.meta.uid))
}

/// Scales the new ReplicaSet to the full count at once.
#[must_use]
pub fn scale_up_new(deployment: &Deployment, sets: &Sets) -> Option<SetUpdate> {
    SetUpdate::scale(deployment, sets.new.as_ref()?, deployment.replicas, Refresh::WhenScaled)
}
