//! What is wanted and not done, and statuses at rest.

use serde_json::json;

use super::stage::{Stage, named_set, owner, pod, set, uid, with};

#[test]
fn what_nobody_does_is_found_once() {
    let mut stage = Stage::open();
    stage.set(set(2));
    stage.wait(9);
    assert_eq!(stage.differences("create-pod"), [], "a slow controller is forgiven");
    stage.wait(2);
    let [difference] = &stage.differences("create-pod")[..] else { panic!("one difference") };
    assert_eq!((&*difference.would, &*difference.did), ("create 2 pods", "nothing"));
    stage.wait(100);
    assert_eq!(stage.differences("create-pod").len(), 1, "it is told once");
}

#[test]
fn what_is_done_bit_by_bit_is_not_overdue() {
    let mut stage = Stage::open();
    stage.set(set(6));
    for number in 1..=6 {
        stage.wait(7);
        let pod = pod(number, &stage.ago(0));
        stage.pod(pod);
    }
    stage.wait(20);
    assert_eq!(stage.differences("create-pod"), []);
    assert_eq!(stage.agreed("create-pod"), 6);
}

#[test]
fn a_busy_controller_has_more_time_but_not_for_ever() {
    let mut stage = Stage::open();
    stage.set(set(100));
    stage.set(named_set("other", 2, 1));
    for number in 1..=13 {
        stage.wait(4);
        let pod = pod(number, &stage.ago(0));
        stage.pod(pod);
    }
    assert_eq!(stage.differences("create-pod"), [], "it works off what it has");
    for number in 14..=18 {
        stage.wait(4);
        let pod = pod(number, &stage.ago(0));
        stage.pod(pod);
    }
    let [difference] = &stage.differences("create-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.subject.name, "other");
}

#[test]
fn what_the_server_refuses_is_no_difference() {
    let mut stage = Stage::open();
    let refused = json!({"observedGeneration": 1, "terminatingReplicas": 0, "conditions": [{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota",
    }]});
    stage.set(with(set(2), "/status", refused));
    stage.wait(30);
    assert_eq!(stage.differences("create-pod"), []);
    assert_eq!(stage.differences("status"), [], "the condition that is there would stay");
    assert_eq!(stage.others("create-pod"), ["exceeded quota"]);
}

#[test]
fn a_status_is_right_at_rest_or_differs_by_field() {
    let mut stage = Stage::open();
    let right = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1});
    stage.set(set(1));
    let ready = pod(1, &stage.ago(60));
    stage.pod(ready);
    stage.set(with(set(1), "/status", right.clone()));
    stage.wait(30);
    assert_eq!((stage.agreed("status"), stage.differences("status")), (1, vec![]));

    stage.set(with(set(1), "/status", with(right, "/readyReplicas", json!(0))));
    stage.wait(11);
    let [difference] = &stage.differences("status")[..] else { panic!("one difference") };
    assert_eq!(difference.would, "readyReplicas 0 -> 1");
}

#[test]
fn a_status_that_time_alone_changes_is_waited_for_from_then_on() {
    let mut stage = Stage::open();
    let slow = with(set(1), "/spec/minReadySeconds", json!(30));
    stage.set(slow.clone());
    let ready = pod(1, &stage.ago(0));
    stage.pod(ready);
    let status = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "terminatingReplicas": 0,
        "observedGeneration": 1});
    stage.set(with(slow, "/status", status));
    stage.wait(38);
    assert_eq!(stage.differences("status"), []);
    stage.wait(4);
    let [difference] = &stage.differences("status")[..] else { panic!("one difference") };
    assert_eq!(difference.would, "availableReplicas 0 -> 1");
}

#[test]
fn an_owner_that_goes_is_not_waited_for() {
    let mut stage = Stage::open();
    let leaving = with(set(2), "/metadata/deletionTimestamp", json!(stage.ago(0)));
    stage.set(set(2));
    stage.set(leaving.clone());
    stage.wait(30);
    stage.set_gone(leaving);
    stage.wait(30);
    assert_eq!(stage.differences("create-pod"), []);
    let orphan = with(pod(1, &stage.ago(0)), "/metadata/ownerReferences", json!([owner("ReplicaSet", "web", 1)]));
    assert_eq!(orphan["metadata"]["ownerReferences"][0]["uid"], uid(1));
    stage.pod(orphan);
    assert_eq!(stage.others("create-pod"), ["its owner was not seen"]);
}

#[test]
fn an_orphan_that_another_took_is_no_longer_wished_for() {
    let mut stage = Stage::open();
    let right = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1});
    stage.set(with(set(0), "/status", right));
    // Another that selects the same pods.
    let other = with(named_set("other", 2, 1), "/spec/selector/matchLabels", json!({"app": "web"}));
    let other = with(other, "/spec/template/metadata/labels", json!({"app": "web"}));
    stage.set(other.clone());
    let orphan = with(pod(1, &stage.ago(60)), "/metadata/ownerReferences", json!([]));
    stage.pod(orphan.clone());
    stage.pod(with(orphan, "/metadata/ownerReferences", json!([owner("ReplicaSet", "other", 2)])));
    let reported = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1});
    stage.set(with(other, "/status", reported));
    stage.wait(100);
    for action in ["adopt", "delete-pod", "create-pod"] {
        assert_eq!(stage.differences(action), [], "{action}");
    }
}

#[test]
fn nothing_is_waited_for_in_a_namespace_that_goes() {
    let mut stage = Stage::open();
    stage.set(set(2));
    stage.namespace_leaving(true);
    stage.wait(100);
    assert_eq!(stage.differences("create-pod"), []);
    // If it still existed, it would have been reported.
    stage.namespace_leaving(false);
    stage.wait(11);
    assert_eq!(stage.differences("create-pod").len(), 1);
}
