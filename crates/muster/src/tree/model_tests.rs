//! What a tree says of objects.

use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + seconds)
}

fn owned(kind: &str, name: &str, uid: &str, owner: &str, made: i64) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": uid,
        "creationTimestamp": at(made).to_string(),
        "ownerReferences": [{"uid": owner, "controller": true}]}})
}

fn set(name: &str, revision: &str, image: &str, wanted: i64, current: i64) -> Value {
    let mut set = owned("ReplicaSet", name, name, "d", 0);
    set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
    set["spec"] = json!({"replicas": wanted, "template": template(image)});
    set["spec"]["template"]["metadata"] = json!({"labels": {"pod-template-hash": name}});
    set["status"] = json!({"replicas": current, "readyReplicas": current, "availableReplicas": current});
    set
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn pod(name: &str, owner: &str, made: i64, ready: Option<i64>) -> Value {
    let mut pod = owned("Pod", name, name, owner, made);
    pod["spec"] = json!({"nodeName": "node-1"});
    pod["status"] = match ready {
        Some(ready) => json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at(ready).to_string()}]}),
        None => json!({"phase": "Pending", "containerStatuses": [
            {"name": "c", "restartCount": 2, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
    };
    pod
}

fn deployment(status: &Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 2},
        "spec": {"replicas": 10, "template": template("nginx:2"), "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
        "status": status})
}

fn rolling() -> Objects {
    let status = json!({"observedGeneration": 2, "replicas": 13, "updatedReplicas": 5, "readyReplicas": 10,
        "availableReplicas": 10});
    let mut leaving = pod("old-2", "old", -99, Some(-98));
    leaving["metadata"]["deletionTimestamp"] = json!(at(8).to_string());
    Objects {
        root: deployment(&status),
        sets: vec![
            set("older", "1", "nginx:0", 0, 0),
            set("old", "2", "nginx:1", 8, 8),
            set("new", "3", "nginx:2", 5, 5),
            owned("ReplicaSet", "foreign", "foreign", "another", 0),
        ],
        pods: vec![
            pod("old-1", "old", -100, Some(-99)),
            leaving,
            pod("new-1", "new", 0, Some(2)),
            pod("new-2", "new", 1, Some(4)),
            pod("new-3", "new", 2, None),
            pod("stranger", "foreign", 2, None),
        ],
    }
}

/// Contract: FR-03
#[test]
fn a_rollout_is_a_tree_of_revisions_with_pods_bounds_and_pace() {
    let tree = Tree::of(&rolling(), "Deployment", at(6));
    let told: Vec<_> = tree.revisions.iter().map(|it| (it.number, it.newest, it.images.join(","))).collect();
    assert_eq!(told, [(Some(3), true, "nginx:2".into()), (Some(2), false, "nginx:1".into())]);
    let names = |at: usize| tree.revisions[at].pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["new-3", "new-1", "new-2"], vec!["old-1", "old-2"]));
    let stuck = &tree.revisions[0].pods[0];
    assert_eq!((stuck.ready, stuck.restarts, stuck.age_seconds), (false, 2, 4.0));
    assert_eq!(stuck.reason.as_deref(), Some("container c: ImagePullBackOff"));
    assert_eq!(tree.messages, ["1 pod: container c: ImagePullBackOff"]);
    let bounds = tree.strategy.and_then(|strategy| strategy.bounds).expect("bounds");
    assert_eq!((bounds.most_pods, bounds.least_available), (13, 8));
    assert_eq!((tree.phase, tree.pods.terminating), (Phase::Progressing, 1));
    // Two in four seconds, so eight more take sixteen, of which two have passed.
    assert_eq!(tree.pace, Some(Pace { pods_per_second: 0.5, remaining: 8, left_seconds: 14.0 }));
}

/// Contract: FR-03
#[test]
fn the_phase_is_the_first_that_holds() {
    let done = json!({"observedGeneration": 2, "replicas": 10, "updatedReplicas": 10, "availableReplicas": 10});
    let late = json!({"observedGeneration": 2, "replicas": 10, "updatedReplicas": 5, "availableReplicas": 9,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": "it has timed out"}]});
    let tree = |root: Value| Tree::of(&Objects { root, ..Objects::default() }, "Deployment", at(0));
    let mut paused = deployment(&late);
    paused["spec"]["paused"] = json!(true);
    let mut leaving = deployment(&done);
    leaving["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    for (root, phase) in [
        (deployment(&done), Phase::Complete),
        (deployment(&late), Phase::Degraded),
        (deployment(&json!({"observedGeneration": 1})), Phase::Unobserved),
        (paused, Phase::Paused),
        (leaving, Phase::Deleting),
    ] {
        assert_eq!(tree(root.clone()).phase, phase, "{root}");
    }
    assert_eq!(tree(deployment(&late)).messages, ["it has timed out"]);
    let rc = Tree::of(&Objects { root: json!({}), ..Objects::default() }, "ReplicationController", at(0));
    assert_eq!((rc.revisions.len(), rc.strategy), (1, None));
}

/// Contract: FR-03
#[test]
fn what_others_wrote_tells_a_terminal_nothing_and_breaks_no_row() {
    let mut objects = rolling();
    objects.sets[2]["spec"]["template"] = template("ng\u{1b}]0;title\u{7}inx");
    objects.sets[2]["spec"]["template"]["metadata"] = json!({"labels": {"pod-template-hash": "new"}});
    objects.pods[4]["status"]["containerStatuses"][0]["state"]["waiting"] =
        json!({"reason": "\u{1b}[2J", "message": "one\ntwo\r"});
    objects.root["status"]["conditions"] = json!([{"type": "Progressing", "status": "False",
        "reason": "ProgressDeadlineExceeded", "message": "\u{9b}31m"}]);
    let tree = Tree::of(&objects, "Deployment", at(6));
    let told = super::super::text::show(&tree, super::super::text::Look { colours: false, pods: 50, width: None });
    assert!(!told.contains(|c: char| c.is_control() && c != '\n'), "{told:?}");
    assert!(told.contains("ng\\u{1b}]0;title\\u{7}inx"), "{told}");
    let plain = super::super::text::show(
        &Tree::of(&rolling(), "Deployment", at(6)),
        super::super::text::Look { colours: false, pods: 50, width: None },
    );
    let rows = |told: &str| told.lines().skip_while(|line| !line.starts_with("NAME")).count();
    assert_eq!(rows(&told), rows(&plain));
}
