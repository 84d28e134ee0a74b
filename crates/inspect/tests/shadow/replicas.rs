//! Pods: which creations and deletions are explained, and by what.

use serde_json::{Value, json};

use super::stage::{Stage, named_set, owner, pod, set, uid, with};

/// The stage with `count` pods, each a day apart in age, and as many wanted.
fn with_pods(count: u64) -> (Stage, Vec<Value>) {
    let mut stage = Stage::open();
    stage.set(set(0));
    let pods: Vec<Value> = (1..=count).map(|number| pod(number, &stage.ago(86_400 << number))).collect();
    stage.set(set(u32::try_from(count).unwrap()));
    pods.iter().cloned().for_each(|pod| stage.pod(pod));
    stage.wait(30);
    assert_eq!(stage.agreed("create-pod"), pods.len());
    (stage, pods)
}

#[test]
fn what_was_wanted_and_done_is_agreed_on() {
    let (mut stage, pods) = with_pods(4);
    stage.set(set(2));
    stage.pod_gone(pods[0].clone());
    stage.pod(with(pods[1].clone(), "/metadata/deletionTimestamp", json!(stage.ago(0))));
    stage.pod_gone(with(pods[1].clone(), "/metadata/deletionTimestamp", json!(stage.ago(0))));
    stage.wait(30);
    assert_eq!(stage.agreed("delete-pod"), 2, "one that goes by steps is one deletion");
    for action in ["create-pod", "delete-pod"] {
        assert_eq!(stage.differences(action), [], "{action}");
        assert!(stage.others(action).is_empty(), "{action}");
    }
}

#[test]
fn one_too_many_is_found_after_the_patience() {
    let (mut stage, _) = with_pods(2);
    let extra = pod(9, &stage.ago(0));
    stage.pod(extra);
    stage.wait(9);
    assert_eq!(stage.differences("create-pod"), [], "a state that explains it may still come");
    stage.wait(2);
    let [difference] = &stage.differences("create-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.did, "created pod web-9");
    assert_eq!(difference.row, None);
    assert_eq!((&*difference.subject.kind, &*difference.subject.name), ("ReplicaSet", "web"));
}

#[test]
fn another_pod_than_the_ranking_has_is_found() {
    let (mut stage, pods) = with_pods(3);
    stage.set(set(2));
    // The youngest is deleted first: web-1.
    stage.pod_gone(pods[2].clone());
    stage.wait(12);
    let [difference] = &stage.differences("delete-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.did, "deleted pod web-3");
    assert!(difference.would.contains("delete web-1"), "{}", difference.would);
}

#[test]
fn pods_that_nothing_tells_apart_may_go_in_any_order() {
    let mut stage = Stage::open();
    let since = stage.ago(3_600);
    stage.set(set(3));
    (1..=3).for_each(|number| stage.pod(pod(number, &since)));
    stage.wait(20);
    stage.set(set(2));
    stage.pod_gone(pod(3, &since));
    stage.wait(20);
    assert_eq!(stage.agreed("delete-pod"), 1);
    assert_eq!(stage.differences("delete-pod"), []);
}

/// Contract: DEL-04, B-22
#[test]
fn the_references_comparison_of_pairs_is_a_row() {
    let mut stage = Stage::open();
    // Ready times in one power of two: upstream compares the uid, and Muster the restarts before it.
    let (calm, restless) = (pod(1, &stage.ago(3_000)), pod(2, &stage.ago(3_100)));
    let statuses = json!([{"name": "c", "restartCount": 5}]);
    let restless = with(restless, "/status/containerStatuses", statuses);
    stage.set(set(2));
    stage.pod(calm.clone());
    stage.pod(restless);
    stage.wait(20);
    stage.set(set(1));
    stage.pod_gone(calm);
    stage.wait(20);
    let [difference] = &stage.differences("delete-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-22"));
    assert!(difference.would.contains("delete web-2"), "{}", difference.would);
}

/// Contract: DEL-02, B-29
#[test]
fn an_available_pod_that_goes_in_place_of_one_that_is_not_yet_is_a_row() {
    let mut stage = Stage::open();
    let mut baking = set(2);
    baking["spec"]["minReadySeconds"] = json!(600);
    let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
    let cheap = with(pod(1, &stage.ago(3_600)), "/metadata/annotations", cost);
    stage.set(baking.clone());
    stage.pod(cheap.clone());
    stage.pod(pod(2, &stage.ago(60)));
    stage.wait(20);
    baking["spec"]["replicas"] = json!(1);
    stage.set(baking);
    stage.pod_gone(cheap);
    stage.wait(20);
    let [difference] = &stage.differences("delete-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-29"));
    assert!(difference.would.contains("delete web-2"), "{}", difference.would);
}

#[test]
fn what_users_delete_is_not_judged() {
    let (mut stage, pods) = with_pods(3);
    stage.pod_gone(pods[1].clone());
    stage.pod(pod(4, &stage.ago(0)));
    stage.wait(30);
    assert_eq!(stage.others("delete-pod"), ["nothing was to be deleted"]);
    assert_eq!(stage.agreed("create-pod"), 4);

    // The same during a scale-down, when the intended pods were deleted too.
    stage.set(set(2));
    stage.pod_gone(pods[2].clone());
    stage.pod_gone(pod(4, &stage.ago(0)));
    stage.wait(30);
    assert_eq!(stage.others("delete-pod").len(), 2);
    assert_eq!(stage.differences("delete-pod"), []);
}

#[test]
fn owners_and_pods_of_different_moments_explain_together() {
    let (mut stage, pods) = with_pods(3);
    // The observed controller sees the failed pod before it sees the new size, and replaces it.
    stage.set(set(2));
    stage.pod(with(pods[2].clone(), "/status/phase", json!("Failed")));
    stage.pod(pod(4, &stage.ago(0)));
    stage.wait(30);
    assert_eq!(stage.agreed("create-pod"), 4);
    assert_eq!(stage.differences("create-pod"), []);
}

#[test]
fn a_size_that_comes_late_explains_what_it_caused() {
    let (mut stage, _) = with_pods(1);
    let late = stage.bump();
    stage.pod(pod(7, &stage.ago(0)));
    stage.wait(3);
    stage.set_at(set(2), late);
    stage.wait(20);
    assert_eq!(stage.agreed("create-pod"), 2);
    assert_eq!(stage.differences("create-pod"), []);
}

/// Contract: B-08
#[test]
fn a_replacement_without_a_pause_is_a_row() {
    let mut stage = Stage::open();
    stage.set(set(1));
    let (rejected, again) = (pod(1, &stage.ago(0)), pod(2, &stage.ago(0)));
    let rejected = with(rejected, "/status", json!({"phase": "Pending"}));
    let finished = json!({"phase": "Failed", "startTime": stage.ago(0)});
    stage.pod(rejected.clone());
    stage.pod(with(rejected, "/status", finished));
    stage.pod(again);
    stage.wait(20);
    let [difference] = &stage.differences("create-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-08"));
    assert_eq!(stage.agreed("create-pod"), 1);
}

#[test]
fn adoption_and_release_are_explained_by_the_selector() {
    let (mut stage, pods) = with_pods(2);
    let orphan = with(pod(5, &stage.ago(0)), "/metadata/ownerReferences", json!([]));
    stage.pod(orphan.clone());
    stage.pod(with(orphan, "/metadata/ownerReferences", json!([owner("ReplicaSet", "web", 1)])));
    let strange = with(pods[0].clone(), "/metadata/labels", json!({"app": "other"}));
    stage.pod(strange.clone());
    stage.pod(with(strange, "/metadata/ownerReferences", json!([])));
    assert_eq!((stage.agreed("adopt"), stage.agreed("release")), (1, 1));

    // No owner selects this pod.
    let foreign = with(pod(6, &stage.ago(0)), "/metadata/labels", json!({"app": "foreign"}));
    stage.pod(with(foreign.clone(), "/metadata/ownerReferences", json!([])));
    stage.pod(foreign);
    stage.wait(20);
    assert_eq!(stage.differences("adopt").len(), 1);
}

#[test]
fn owners_of_other_kinds_are_left_alone() {
    let mut stage = Stage::open();
    stage.set(named_set("web", 1, 0));
    stage.pod(with(pod(1, &stage.ago(0)), "/metadata/ownerReferences", json!([owner("Job", "batch", 7)])));
    stage.pod(with(pod(2, &stage.ago(0)), "/metadata/ownerReferences/0/uid", json!(uid(99))));
    stage.wait(20);
    assert_eq!(stage.differences("create-pod"), []);
    assert_eq!(stage.others("create-pod"), ["its owner was not seen"]);
}

/// Contract: DEL-04, B-22
#[test]
fn what_a_sort_by_pairs_may_make_of_a_circle_is_a_row() {
    let mut stage = Stage::open();
    // The last by uid has the same times as the first, and may be sorted before it; the one between differs by uid.
    let (alike, between) = (stage.ago(3_000), stage.ago(3_001));
    stage.set(set(3));
    stage.pod(pod(1, &alike));
    stage.pod(pod(2, &between));
    stage.pod(pod(3, &alike));
    stage.wait(20);
    stage.set(set(2));
    stage.pod_gone(pod(2, &between));
    stage.wait(20);
    let [difference] = &stage.differences("delete-pod")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-22"));
    assert!(difference.would.contains("delete web-1"), "{}", difference.would);
}
