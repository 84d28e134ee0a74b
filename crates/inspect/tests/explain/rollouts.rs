//! What a Deployment's explanation says: the step of the rollout that would be next, or what holds it back.

use std::sync::Arc;

use muster_controllers::begin::Begin;
use muster_controllers::deployment::Snapshot;
use muster_inspect::explain::{Change, Explanation, Rollout, Source, View};
use muster_objects::{Deployment, PodPhase, ReplicaSet};
use serde_json::{Value, json};

use crate::deployments::{
    NOW, ago, annotate, deployment, pod, recreating, rolling, set, set_available, set_scaled_for, set_with, snapshot,
};

fn explained(snapshot: Snapshot) -> Explanation {
    let deployment = Arc::clone(&snapshot.deployment);
    Explanation::of_deployment(&deployment, Begin::Ready(snapshot), (Source::Api, None), NOW).expect("it is there")
}

fn rollout(snapshot: Snapshot) -> Rollout {
    match explained(snapshot).view {
        View::Rollout(rollout) => *rollout,
        other => panic!("{other:?}"),
    }
}

/// The image of the Deployments of these tests.
const NEW: &str = "nginx:1";

/// Each step of a rollout, and each thing that holds one back.
///
/// Contract: DEP-02, DEP-04, DEP-08, DEP-10, DEP-11, DEP-12, DEP-14, DEP-22, DEP-24
#[test]
fn each_state_of_a_rollout_has_its_reason() {
    let four = || rolling(4, 1, 1);
    type Case = (Deployment, Vec<Arc<ReplicaSet>>, &'static str, &'static [(&'static str, &'static str)]);
    let cases: Vec<Case> = vec![
        (
            four(),
            vec![set(1, "a", 4)],
            "create ReplicaSet web-8686554954 with 1 replicas, scale web-1 down from 4 to 3",
            &[
                ("DEP-04", "no ReplicaSet has its template"),
                ("DEP-10", "4 pods are there or wanted and 5 allowed"),
                ("DEP-11", "old ones can go: 4 pods are available for certain, and at least 3 must be"),
            ],
        ),
        (
            four(),
            vec![set(1, "a", 2), set(2, NEW, 2)],
            "scale web-2 up from 2 to 3",
            &[("DEP-10", "web-2 has room: 4 pods are there or wanted and 5 allowed")],
        ),
        (
            four(),
            vec![set(1, "a", 3), set(2, NEW, 9)],
            "scale web-2 down from 9 to 4",
            &[("DEP-10", "web-2 has 9 replicas and 4 are wanted")],
        ),
        (
            four(),
            vec![set(1, "a", 3), set(2, NEW, 2)],
            "scale web-1 down from 3 to 1",
            &[("DEP-11", "old ones can go: 5 pods are available for certain, and at least 3 must be")],
        ),
        (
            four(),
            vec![set(1, "a", 3), set_available(2, NEW, 2, 0)],
            "nothing: the rollout waits",
            &[
                ("DEP-10", "web-2 cannot grow: 5 pods are there or wanted and 5 allowed"),
                (
                    "DEP-11",
                    "old ones cannot shrink: of 5 wanted pods 2 new ones are not available yet, and at least 3 must be",
                ),
                ("DEP-24", "waiting for pods: 2 of 4 updated, 3 available, 3 old ones left"),
            ],
        ),
        (
            four(),
            vec![
                set(1, "a", 3),
                set_with(2, NEW, 2, |json| {
                    json["metadata"]["generation"] = json!(2);
                }),
            ],
            "nothing: the rollout waits",
            &[
                ("DEP-10", "web-2 cannot grow: 5 pods are there or wanted and 5 allowed"),
                ("DEP-11", "old ones cannot shrink: web-2 has not reported on its size yet (generation 2, observed 1)"),
                ("DEP-24", "waiting for pods: 2 of 4 updated, 5 available, 3 old ones left"),
            ],
        ),
        (
            four(),
            vec![set_available(2, NEW, 4, 2)],
            "nothing: the rollout waits",
            &[("DEP-24", "waiting for pods: 4 of 4 updated, 2 available, 0 old ones left")],
        ),
        (
            deployment(4, |json| {
                json["status"] = json!({
                    "replicas": 4, "updatedReplicas": 4, "availableReplicas": 4, "observedGeneration": 1,
                });
                json["spec"]["revisionHistoryLimit"] = json!(1);
            }),
            vec![set(1, "a", 0), set(3, "b", 0), set(4, NEW, 4)],
            "delete ReplicaSet web-1",
            &[
                ("DEP-24", "complete: 4 of 4 pods are updated and all available"),
                ("DEP-14", "of old ReplicaSets 1 are kept"),
            ],
        ),
        (
            deployment(4, |json| json["spec"]["paused"] = json!(true)),
            vec![set(1, "a", 4)],
            "nothing: it is paused",
            &[
                ("DEP-02", "it is paused: its ReplicaSets follow its size and nothing else"),
                ("DEP-04", "no ReplicaSet has its template, and none is made while it is paused"),
            ],
        ),
        (
            deployment(4, |json| json["spec"]["paused"] = json!(true)),
            vec![set_with(1, "a", 0, |json| json["status"]["replicas"] = json!(2)), set(2, NEW, 2)],
            "nothing: it is paused",
            &[
                ("DEP-02", "it is paused: its ReplicaSets follow its size and nothing else"),
                ("DEP-09", "web-2 is to have 4 replicas and waits: web-1 has pods that are to be deleted first"),
            ],
        ),
        (
            deployment(4, |json| json["spec"]["paused"] = json!(true)),
            vec![
                set(1, "a", 1),
                set_with(2, NEW, 4, |json| {
                    annotate(json, "deployment.kubernetes.io/desired-replicas", 4);
                    json["status"]["replicas"] = json!(8);
                    json["status"]["readyReplicas"] = json!(8);
                }),
            ],
            "nothing: it is paused",
            &[
                ("DEP-02", "it is paused: its ReplicaSets follow its size and nothing else"),
                (
                    "DEP-09",
                    "old ReplicaSets are to have no replicas and wait: web-2 has pods that are to be deleted first",
                ),
            ],
        ),
        (
            four(),
            vec![set_scaled_for(2, NEW, 3, 3, 4)],
            "scale web-2 up from 3 to 4",
            &[("DEP-08", "its ReplicaSets were last scaled for another number than 4 replicas")],
        ),
        (
            deployment(4, |json| annotate(json, "deprecated.deployment.rollback.to", 1)),
            vec![set(1, "a", 0), set(2, NEW, 4)],
            "write the Deployment itself",
            &[("DEP-22", "it is to go back to revision 1")],
        ),
        (
            recreating(4),
            vec![set(1, "a", 4)],
            "scale web-1 down from 4 to 0",
            &[("DEP-12", "old pods go before the first new one comes")],
        ),
        (
            recreating(4),
            vec![set_with(1, "a", 0, |json| json["status"]["replicas"] = json!(2)), set(2, NEW, 0)],
            "nothing: the rollout waits",
            &[
                ("DEP-12", "old pods are still there: the new ones wait for the last to go"),
                ("DEP-24", "waiting for pods: 0 of 4 updated, 0 available, 2 old ones left"),
            ],
        ),
        (
            recreating(4),
            vec![set(1, "a", 0), set(2, NEW, 0)],
            "scale web-2 up from 0 to 4",
            &[("DEP-12", "no old pod is left")],
        ),
        (
            deployment(4, |json| {
                json["metadata"]["deletionTimestamp"] = json!(NOW);
                json["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
            }),
            vec![set(2, NEW, 2)],
            "nothing: it is being deleted",
            &[("DEP-02", "it is being deleted: only its status is kept")],
        ),
        (
            deployment(4, |json| json["spec"]["selector"] = json!({})),
            vec![set(2, NEW, 2)],
            "nothing: it selects everything",
            &[("DEP-02", "its selector is empty and would take every ReplicaSet")],
        ),
        (
            deployment(4, |json| json["spec"]["strategy"] = json!({"type": "Odd"})),
            vec![set(2, NEW, 4)],
            "fail",
            &[("DEP-02", "its strategy is none that is known")],
        ),
    ];
    for (deployment, sets, summary, why) in cases {
        let told = rollout(snapshot(deployment, sets)).next;
        // The new ReplicaSet's annotations are updated along with any other write.
        let summary_told = told.summary.replace("bring web-2 up to date, ", "").replace("bring web-4 up to date, ", "");
        let summary_told = match &*summary_told {
            "bring web-2 up to date" => "nothing: the rollout waits",
            other => other,
        };
        let found: Vec<(&str, &str)> = told.why.iter().map(|reason| (&*reason.rule, &*reason.text)).collect();
        assert_eq!((summary_told, &found[..]), (summary, why));
    }
}

/// An old pod that is left holds a Recreate, though no ReplicaSet reports it.
///
/// Contract: DEP-12
#[test]
fn an_old_pod_holds_a_recreate() {
    let mut snapshot = snapshot(recreating(4), [set(1, "a", 0), set(2, NEW, 0)]);
    let bounds = rollout(snapshot.clone()).bounds;
    assert_eq!((bounds.most_pods, bounds.least_available), (4, 0), "all old pods go before there are new ones");
    snapshot.pods = vec![Arc::new(pod("old", 1, PodPhase::Unknown))];
    let told = rollout(snapshot).next;
    assert_eq!(told.why[0].text, "old pods are still there: the new ones wait for the last to go");
}

/// Sizes before and after, bounds, deadline and conditions of a rollout without progress.
///
/// Contract: DEP-07, DEP-16, DEP-17
#[test]
fn the_explanation_of_a_rollout_without_progress() {
    let progressing = json!({
        "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": "m",
        "lastUpdateTime": ago(590), "lastTransitionTime": ago(600),
    });
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "r", "message": "m"});
    let deployment = deployment(4, |json| {
        json["status"] = json!({
            "observedGeneration": 1, "replicas": 5, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [progressing, failure],
        });
    });
    let told = rollout(snapshot(deployment.clone(), [set(1, "a", 3), set_available(2, NEW, 2, 0)]));
    assert_eq!((told.bounds.surge, told.bounds.unavailable), (1, 1));
    assert_eq!((told.bounds.most_pods, told.bounds.least_available), (5, 3));
    assert_eq!((told.pods.wanted, told.pods.reported, told.pods.updated, told.pods.available), (5, 5, 2, 3));
    let sets: Vec<Value> = told.sets.iter().map(|set| serde_json::to_value(set).expect("JSON")).collect();
    assert_eq!(
        sets,
        [
            json!({
                "name": "web-1", "revision": 1, "hash": "hash1", "new": false, "adopted": false, "replicas": 3,
                "replicasAfter": 3, "created": false, "reported": 3, "ready": 3, "available": 3, "observed": true,
            }),
            json!({
                "name": "web-2", "revision": 2, "hash": "hash2", "new": true, "adopted": false, "replicas": 2,
                "replicasAfter": 2, "created": false, "reported": 2, "ready": 0, "available": 0, "observed": true,
            }),
        ]
    );
    assert_eq!((told.progress.complete, told.progress.timed_out), (false, false));
    assert_eq!((told.progress.deadline_seconds, told.progress.left_seconds), (Some(600.0), Some(10.0)));
    let conditions: Vec<(&str, Change)> = told.conditions.iter().map(|it| (&*it.kind, it.change)).collect();
    let expected = [("Progressing", Change::Kept), ("Available", Change::Written), ("ReplicaFailure", Change::Removed)];
    assert_eq!(conditions, expected);

    let mut late = deployment;
    late.status.conditions[0].last_update_time = Some(ago(700));
    let told = rollout(snapshot(late.clone(), [set(1, "a", 3), set_available(2, NEW, 2, 0)]));
    assert!(told.progress.timed_out && told.progress.left_seconds.is_none());
    assert_eq!(told.next.why.last().expect("a reason").rule, "DEP-17");
    late.paused = true;
    late.status.conditions[0].last_update_time = Some(ago(300));
    let told = rollout(snapshot(late, [set(1, "a", 3), set_available(2, NEW, 2, 0)]));
    assert_eq!(told.progress.left_seconds, None, "no deadline runs while it is paused");
}

/// Contract: DEP-02, DEP-03
#[test]
fn claims_and_a_new_set_are_explained() {
    let orphan = set_with(1, "a", 4, |json| {
        json["metadata"].as_object_mut().expect("an object").remove("ownerReferences");
    });
    let explanation = explained(snapshot(rolling(4, 1, 1), [orphan]));
    let text = explanation.to_string();
    let View::Rollout(told) = explanation.view else { panic!("ready") };
    assert_eq!(told.next.writes[0].action, "adopt");
    assert!(told.sets[0].adopted);
    let created = &told.sets[1];
    assert_eq!((created.created, created.new, created.replicas, created.replicas_after), (true, true, 0, Some(1)));
    assert_eq!(told.pods.wanted, 4, "what is not there yet does not count");
    for words in [
        "  Bounds:  at most 5 pods, at least 3 available\n",
        "Next: settle 1 claim, create ReplicaSet web-",
        "  adopt  ReplicaSet web-1\n",
        "  create ReplicaSet web-",
        "old, adopted",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}
