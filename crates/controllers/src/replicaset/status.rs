//! Status: the owner's pod counts, and the last failure to manage them.
//!
//! The counts are from before this sync's writes: what it created or deleted is counted when the watch shows it. A
//! failure is the condition `ReplicaFailure`.

use std::collections::BTreeMap;

use muster_objects::{Condition, ConditionStatus, Labels, Pod, ReplicaSetStatus, Timestamp};
use serde_json::{Map, Value, json};

use super::identity::ReplicaOwner;
use crate::plan::{Failure, StatusWrite};

/// The type of the one condition that this controller writes.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Pods as the status counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Claimed and active.
    pub replicas: i32,
    /// Of these, the ones with all of the template's labels.
    pub fully_labeled: i32,
    /// Of these, the ones that are ready.
    pub ready: i32,
    /// Of the ready ones, those that have been ready for `minReadySeconds`.
    pub available: i32,
}

impl Counts {
    /// Counts the claimed active pods (RS-15). `now` is the server's wall clock (B-11): nodes that keep the server's
    /// time, not this process's, set the ready times.
    #[must_use]
    pub fn of<'a, O: ReplicaOwner>(owner: &O, pods: impl IntoIterator<Item = &'a Pod>, now: Timestamp) -> Self {
        let mut counts = Self::default();
        let mut fully_labeled = Labels::asked_once(|labels| labels.contains_all(owner.template().labels()));
        for pod in pods {
            counts.replicas += 1;
            counts.fully_labeled += i32::from(fully_labeled(&pod.meta.labels));
            counts.ready += i32::from(pod.is_ready());
            counts.available += i32::from(pod.is_available(owner.min_ready_seconds(), now));
        }
        counts
    }
}

/// The status after a sync (RS-15, RS-16).
///
/// `terminating` is how many claimed pods are being deleted; `None` if the kind does not count them. `error` is the
/// failure of managing the pods.
#[must_use]
pub fn calculate<O: ReplicaOwner>(
    owner: &O,
    counts: Counts,
    terminating: Option<i32>,
    error: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let old = owner.status();
    let mut conditions = old.conditions.clone();
    match (error, Condition::find(&conditions, REPLICA_FAILURE)) {
        // An existing condition is kept, whatever the new error is: it reports the first of several failures.
        (Some(error), None) => {
            let reason = match i64::from(counts.replicas) - i64::from(owner.replicas()) {
                ..0 => "FailedCreate",
                0 => "",
                1.. => "FailedDelete",
            };
            // Truncated as in `metav1.Time`, so that reading the condition back changes nothing.
            let now = now.truncate_to_seconds();
            conditions.push(Condition::new(REPLICA_FAILURE, ConditionStatus::True, reason, &*error.message, now));
        }
        (None, Some(_)) => conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
        (Some(_), Some(_)) | (None, None) => {}
    }
    ReplicaSetStatus {
        replicas: counts.replicas,
        fully_labeled_replicas: counts.fully_labeled,
        ready_replicas: counts.ready,
        available_replicas: counts.available,
        terminating_replicas: terminating,
        observed_generation: owner.meta().generation,
        conditions,
    }
}

/// The write that makes the owner's status `new`; `None` if nothing differs (RS-17).
///
/// A generation that is not observed yet is a difference by itself: clients wait for it.
///
/// The write has no version precondition: it touches nothing that a change of the spec does, such as a Deployment's at
/// every step of a rollout, and the observed generation says which spec the status is for. If it overwrites a newer
/// status, its own event causes the sync that corrects that (RS-01).
///
/// A server that does not store `terminatingReplicas` is sent it all the same, with whatever else is written, so that a
/// newer one is noticed; but the count alone is no difference, where the object has none.
#[must_use]
pub fn write<O: ReplicaOwner>(owner: &O, new: &ReplicaSetStatus, stores_terminating: bool) -> Option<StatusWrite> {
    let meta = owner.meta();
    let old = owner.status();
    let counts = stores_terminating || old.terminating_replicas.is_some();
    let terminating_replicas = if counts { new.terminating_replicas } else { None };
    if *old == (ReplicaSetStatus { terminating_replicas, ..new.clone() }) {
        return None;
    }
    Some(StatusWrite {
        resource: O::IDENTITY.resource,
        key: meta.key(),
        uid: meta.uid.clone(),
        resource_version: None,
        can_wait: old.conditions == new.conditions,
        status: patch::<O>(old, new),
        annotations: BTreeMap::new(),
    })
}

/// The value of `status` in a strategic merge patch from `old` to `new`.
///
/// Every count is written, so that a second attempt against a newer version leaves none behind. A count of zero is null
/// where Go omits it, which is the same to a server that knows the type. Of the conditions only those that this sync
/// changed are in it, and a field that the kind does not have never is (RC-02, RC-03).
fn patch<O: ReplicaOwner>(old: &ReplicaSetStatus, new: &ReplicaSetStatus) -> Value {
    let or_null = |count: i32| if count == 0 { Value::Null } else { json!(count) };
    let mut patch = Map::new();
    patch.insert("replicas".into(), json!(new.replicas));
    patch.insert("fullyLabeledReplicas".into(), or_null(new.fully_labeled_replicas));
    patch.insert("readyReplicas".into(), or_null(new.ready_replicas));
    patch.insert("availableReplicas".into(), or_null(new.available_replicas));
    if O::IDENTITY.counts_terminating {
        patch.insert("terminatingReplicas".into(), json!(new.terminating_replicas));
    }
    patch.insert("observedGeneration".into(), json!(new.observed_generation));
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
