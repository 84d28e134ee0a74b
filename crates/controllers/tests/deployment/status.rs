//! Status: counts, availability and failures.

use std::collections::BTreeMap;

use muster_controllers::deployment::conditions::{condition, remove, set as set_condition};
use muster_controllers::deployment::status::{calculate, replica_failure, write};
use muster_controllers::deployment::{Snapshot, decide};
use muster_controllers::plan::ClaimOutcome;
use muster_objects::{Condition, ConditionStatus, DeploymentStatus, Timestamp};
use serde_json::{Value, json};

use crate::fixtures::{NOW, ago, deployment, recreating, rolling, set, set_available, set_with, sets, snapshot};

/// Contract: DEP-15
#[test]
fn counts_are_sums_of_what_the_sets_report() {
    let new = set_available(2, "b", 5, 3);
    let old = set_with(1, "a", 2, |json| {
        json["status"] = json!({
            "replicas": 4, "readyReplicas": 3, "availableReplicas": 1, "terminatingReplicas": 6, "observedGeneration": 1,
        });
    });
    let deployment = deployment(5, |json| json["status"]["collisionCount"] = json!(2));
    let status = calculate(&deployment, &sets(new, [old]), Vec::new(), NOW);
    let counts = DeploymentStatus { conditions: Vec::new(), ..status };
    let expected = DeploymentStatus {
        observed_generation: 1,
        replicas: 9,
        updated_replicas: 5,
        ready_replicas: 6,
        available_replicas: 4,
        unavailable_replicas: 3,
        terminating_replicas: Some(6),
        conditions: Vec::new(),
        collision_count: Some(2),
    };
    assert_eq!(counts, expected);
    // More may be available than are wanted, and a sum may be too large.
    let many = || set_with(1, "a", 1, |json| json["status"]["availableReplicas"] = json!(i32::MAX));
    let status = calculate(&deployment, &sets(many(), [many()]), Vec::new(), NOW);
    assert_eq!((status.unavailable_replicas, status.available_replicas), (0, i32::MAX));
}

/// Contract: DEP-16
#[test]
fn availability_has_a_minimum() {
    let available = |deployment, available| {
        let status = calculate(&deployment, &sets(set_available(1, "a", 4, available), []), Vec::new(), NOW);
        let condition = &status.conditions[0];
        (condition.kind.clone(), condition.status, condition.reason.clone(), condition.message.clone())
    };
    let yes = ("Available", ConditionStatus::True, "MinimumReplicasAvailable", "Deployment has minimum availability.");
    let no = (
        "Available",
        ConditionStatus::False,
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    );
    for (deployment, count, expected) in
        [(rolling(4, 1, 1), 3, yes), (rolling(4, 1, 1), 2, no), (recreating(4), 3, no), (recreating(4), 4, yes)]
    {
        let (kind, status, reason, message) = available(deployment, count);
        assert_eq!((&*kind, status, &*reason, &*message), expected);
    }
}

/// Contract: DEP-21
#[test]
fn conditions_are_rewritten_only_when_they_change() {
    let of = |status, reason: &str, at| condition("Available", status, reason, reason, at);
    let mut conditions =
        vec![of(ConditionStatus::True, "A", ago(100)), condition("Other", ConditionStatus::True, "", "", NOW)];
    let before = conditions.clone();
    set_condition(&mut conditions, Condition { message: "new words".into(), ..of(ConditionStatus::True, "A", NOW) });
    assert_eq!(conditions, before, "the same status and reason");
    set_condition(&mut conditions, of(ConditionStatus::True, "B", NOW));
    assert_eq!((conditions[1].last_update_time, conditions[1].last_transition_time), (Some(NOW), Some(ago(100))));
    set_condition(&mut conditions, of(ConditionStatus::False, "B", NOW));
    assert_eq!(conditions[1].last_transition_time, Some(NOW));
    remove(&mut conditions, "Available");
    assert_eq!(conditions.len(), 1);
    let late = NOW.plus_nanos(999_999_999);
    assert_eq!(of(ConditionStatus::True, "A", late).last_update_time, Some(NOW), "whole seconds");
}

fn failing(number: u64, message: &str) -> std::sync::Arc<muster_objects::ReplicaSet> {
    set_with(number, "nginx:0", 1, |json| {
        json["status"]["conditions"] = json!([{
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
            "lastTransitionTime": ago(30),
        }]);
    })
}

/// Contract: DEP-20
#[test]
fn a_failure_of_the_new_set_comes_before_those_of_old_ones() {
    let failure = replica_failure(&sets(failing(3, "new"), [failing(1, "old"), failing(2, "older")]));
    assert_eq!(failure.map(|failure| failure.message), Some("new".into()));
    let failure = replica_failure(&sets(set(3, "c", 1), [failing(1, "old"), failing(2, "older")])).expect("one");
    assert_eq!((&*failure.message, failure.last_update_time), ("old", Some(ago(30))));
    assert_eq!(replica_failure(&sets(set(3, "c", 1), [])), None);
}

fn reported(snapshot: &Snapshot, now: Timestamp) -> Option<Value> {
    let (status, _) = decide(snapshot, &ClaimOutcome::default()).status(now);
    status.map(|write| serde_json::from_slice(&write.body()).expect("JSON"))
}

/// Contract: DEP-20
#[test]
fn failures_are_copied_and_removed_by_a_rollout() {
    let with = |conditions: Value| deployment(1, |json| json["status"]["conditions"] = conditions);
    let patch = reported(&snapshot(with(json!([])), [failing(1, "quota")]), NOW).expect("a difference");
    let failure = patch["status"]["conditions"].as_array().and_then(|all| all.last()).expect("a condition");
    assert_eq!((&failure["type"], &failure["message"]), (&json!("ReplicaFailure"), &json!("quota")));
    let stale =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "lastTransitionTime": ago(9)}]);
    let patch = reported(&snapshot(with(stale), [set(1, "nginx:1", 1)]), NOW).expect("a difference");
    let conditions = patch["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.contains(&json!({"$patch": "delete", "type": "ReplicaFailure"})), "{conditions:?}");
}

/// Only what changed is in the patch; counts of zero are null, and the order of the conditions is given.
///
/// Contract: DEP-15, DEP-21, B-13
#[test]
fn the_patch_names_what_changed() {
    let kept = json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
        "lastUpdateTime": ago(90), "lastTransitionTime": ago(90), "message": "m"});
    let deployment = deployment(1, |json| {
        json["status"]["conditions"] = json!([kept]);
        json["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    });
    let mut after = deployment.status.clone();
    assert_eq!(write(&deployment, &after, BTreeMap::new()), None);
    let revision = |number: &str| BTreeMap::from([("deployment.kubernetes.io/revision".to_owned(), number.to_owned())]);
    assert_eq!(write(&deployment, &after, revision("1")), None, "carried already");
    after.replicas = 2;
    after.conditions.insert(0, condition("Available", ConditionStatus::True, "R", "M", NOW));
    let body = write(&deployment, &after, revision("2")).expect("a difference").body();
    let expected = json!({
        "metadata": {
            "uid": crate::fixtures::uid(1),
            "annotations": {"deployment.kubernetes.io/revision": "2"},
        },
        "status": {
            "observedGeneration": 1, "replicas": 2, "updatedReplicas": null, "readyReplicas": null,
            "availableReplicas": null, "unavailableReplicas": null, "terminatingReplicas": null,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "R", "message": "M",
                "lastUpdateTime": NOW, "lastTransitionTime": NOW,
            }],
            "$setElementOrder/conditions": [{"type": "Available"}, {"type": "Progressing"}],
        },
    });
    assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected);
}

/// The revision alone is worth a write.
///
/// Contract: DEP-06
#[test]
fn the_revision_is_copied_back() {
    let without = deployment(1, |json| json["metadata"]["annotations"] = json!({}));
    let revision = BTreeMap::from([("deployment.kubernetes.io/revision".to_owned(), "7".to_owned())]);
    let alone = write(&without, &without.status, revision).expect("a difference");
    assert!(!alone.can_wait, "people act on it");
    let patch = reported(&snapshot(without, [set(7, "nginx:1", 1)]), NOW).expect("a difference");
    assert_eq!(patch["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "7"}));
}
