//! ReplicaSets: which sizes, creations and deletions are explained by their Deployment, and which by a row.

use muster_controllers::deployment::creation::new_set_name;
use muster_inspect::shadow::record::Difference;
use muster_objects::{Deployment, Interner, Object};
use serde_json::{Value, json};

use super::stage::{Stage, owner, uid, with};

/// Deployment `web`, uid 1, of 4 with one more and one less at a time.
fn deployment(image: &str) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": "web", "uid": uid(1), "generation": 1},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    })
}

/// The name that its ReplicaSet of an image has.
fn name_of(image: &str) -> String {
    let read = Deployment::decode(deployment(image).to_string().as_bytes(), &mut Interner::new()).unwrap();
    new_set_name(&read)
}

/// Its ReplicaSet of an image, with `has` pods, all of them available.
fn set_of(image: &str, number: u64, revision: u32, wants: u32, has: u32) -> Value {
    let name = name_of(image);
    let hash = name.strip_prefix("web-").unwrap().to_owned();
    let labels = json!({"app": "web", "pod-template-hash": hash});
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": uid(number), "generation": 1, "labels": labels,
            "creationTimestamp": format!("2025-01-0{revision}T00:00:00Z"),
            "annotations": {
                "deployment.kubernetes.io/revision": revision.to_string(),
                "deployment.kubernetes.io/desired-replicas": "4", "deployment.kubernetes.io/max-replicas": "5",
            },
            "ownerReferences": [owner("Deployment", "web", 1)],
        },
        "spec": {
            "replicas": wants, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
        "status": {
            "replicas": has, "fullyLabeledReplicas": has, "readyReplicas": has, "availableReplicas": has,
            "terminatingReplicas": 0, "observedGeneration": 1,
        },
    })
}

/// A rollout from image 1 to image 2 has begun: there is nothing of 2 yet.
fn rolling() -> Stage {
    let mut stage = Stage::open();
    stage.deployment(deployment("i:1"));
    stage.set(set_of("i:1", 11, 1, 4, 4));
    stage.wait(1);
    stage.deployment(deployment("i:2"));
    stage
}

#[test]
fn a_rollout_step_by_step_is_agreed_on() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 2, 1, 0));
    stage.set(set_of("i:2", 12, 2, 1, 1));
    stage.set(set_of("i:1", 11, 1, 2, 4));
    stage.set(set_of("i:1", 11, 1, 2, 2));
    stage.set(set_of("i:2", 12, 2, 3, 1));
    stage.wait(1);
    assert_eq!(stage.differences("scale-replicaset"), []);
    assert_eq!((stage.agreed("create-replicaset"), stage.agreed("scale-replicaset")), (2, 2));
}

/// The first size that was written otherwise than here.
fn done_otherwise(stage: &mut Stage) -> Option<Difference> {
    stage.differences("scale-replicaset").into_iter().find(|difference| difference.did != "nothing")
}

#[test]
fn another_size_than_the_bounds_leave_is_found() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 2, 1, 0));
    stage.set(set_of("i:2", 12, 2, 4, 0));
    stage.written_by(12, "kube-controller-manager");
    stage.wait(11);
    let difference = done_otherwise(&mut stage).expect("a difference");
    assert!(difference.did.ends_with("from 1 to 4"), "{}", difference.did);
    assert_eq!(difference.row, None);
}

#[test]
fn a_size_that_a_user_writes_is_not_judged() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 2, 1, 0));
    stage.set(set_of("i:2", 12, 2, 4, 0));
    stage.written_by(12, "kubectl");
    stage.wait(11);
    assert_eq!(done_otherwise(&mut stage), None);
    assert_eq!(stage.others("scale-replicaset"), ["the size was written by kubectl"]);
}

/// Contract: DEP-10, B-18
#[test]
fn growing_into_the_room_of_pods_that_are_still_there_is_a_row() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 2, 1, 1));
    stage.set(set_of("i:1", 11, 1, 2, 4));
    stage.set(set_of("i:2", 12, 2, 3, 1));
    stage.wait(1);
    let [difference] = &stage.differences("scale-replicaset")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-18"));
}

/// Contract: DEP-09, B-18
#[test]
fn growing_while_paused_beside_pods_that_are_still_there_is_a_row() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 2, 1, 1));
    stage.set(set_of("i:1", 11, 1, 0, 4));
    stage.deployment(with(deployment("i:2"), "/spec/paused", json!(true)));
    stage.set(set_of("i:2", 12, 2, 4, 1));
    stage.wait(1);
    let differences = stage.differences("scale-replicaset");
    let row = |difference: &Difference| difference.row.clone();
    assert_eq!(differences.iter().map(row).collect::<Vec<_>>(), [Some("B-18".to_owned())], "{differences:#?}");
}

/// Contract: DEP-11, B-19
#[test]
fn shrinking_before_statuses_answer_is_a_row() {
    let mut stage = rolling();
    let unreported = with(set_of("i:2", 12, 2, 1, 0), "/status/observedGeneration", json!(0));
    stage.set(unreported);
    // Within the sync that creates the new one both sides would shrink the old one.
    stage.wait(11);
    stage.set(set_of("i:1", 11, 1, 3, 4));
    let difference = done_otherwise(&mut stage).expect("a difference");
    assert_eq!(difference.row.as_deref(), Some("B-19"));
}

#[test]
fn a_rollout_that_nobody_begins_is_found() {
    let mut stage = rolling();
    stage.wait(11);
    let [difference] = &stage.differences("create-replicaset")[..] else { panic!("one difference") };
    assert!(difference.would.contains(&name_of("i:2")), "{}", difference.would);
}

#[test]
fn a_revision_of_another_number_is_found() {
    let mut stage = rolling();
    stage.set(set_of("i:2", 12, 7, 1, 0));
    stage.wait(11);
    let [difference] = &stage.differences("create-replicaset")[..] else { panic!("one difference") };
    assert!(difference.would.contains("as revision \"2\""), "{}", difference.would);
}

#[test]
fn another_than_the_oldest_revision_deleted_is_found() {
    let mut stage = Stage::open();
    stage.set(set_of("i:1", 11, 1, 0, 0));
    stage.set(set_of("i:2", 12, 2, 0, 0));
    stage.set(set_of("i:3", 13, 3, 4, 4));
    let complete = json!({"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4,
        "availableReplicas": 4});
    stage.deployment(with(deployment("i:3"), "/status", complete));
    stage.set_gone(set_of("i:2", 12, 2, 0, 0));
    stage.wait(11);
    // With one less there is nothing to delete any more.
    let [difference] = &stage.differences("delete-replicaset")[..] else { panic!("one difference") };
    assert!(difference.would.contains(&format!("delete ReplicaSet {}", name_of("i:1"))), "{}", difference.would);
}

/// Contract: B-03
#[test]
fn a_stale_annotation_that_stays_is_a_row() {
    let mut stage = Stage::open();
    let stale = "/metadata/annotations/deployment.kubernetes.io~1desired-replicas";
    let mut old = set_of("i:1", 11, 1, 4, 4);
    *old.pointer_mut(stale).unwrap() = json!("9");
    stage.set(old);
    stage.deployment(deployment("i:1"));
    stage.wait(11);
    let [difference] = &stage.differences("update-replicaset")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-03"));
}

/// Contract: DEP-12, B-20
#[test]
fn pods_for_a_revision_before_its_rollback_are_a_row() {
    let mut stage = Stage::open();
    stage.set(set_of("i:1", 11, 1, 4, 4));
    let recreate = with(deployment("i:2"), "/spec/strategy", json!({"type": "Recreate"}));
    let back = json!({"deprecated.deployment.rollback.to": "0"});
    stage.deployment(with(recreate, "/metadata/annotations", back));
    stage.set(set_of("i:2", 12, 2, 4, 0));
    let [difference] = &stage.differences("create-replicaset")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-20"));
    assert!(difference.would.contains(" of 0 as revision \"2\""), "{}", difference.would);
}

/// Contract: DEP-14, B-21
#[test]
fn an_old_one_deleted_before_its_pods_are_gone_is_a_row() {
    let mut stage = Stage::open();
    let leaving = with(set_of("i:1", 11, 1, 0, 0), "/status/terminatingReplicas", json!(1));
    stage.set(leaving.clone());
    stage.set(set_of("i:2", 12, 2, 0, 0));
    stage.set(set_of("i:3", 13, 3, 4, 4));
    let complete = json!({"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4,
        "availableReplicas": 4});
    stage.deployment(with(deployment("i:3"), "/status", complete));
    stage.set_gone(leaving);
    let [difference] = &stage.differences("delete-replicaset")[..] else { panic!("one difference") };
    assert_eq!(difference.row.as_deref(), Some("B-21"));
}

/// Contract: B-19
#[test]
fn taking_old_ones_down_for_a_status_of_another_size_is_a_row() {
    for (observed, row) in [(0, Some("B-19")), (1, None)] {
        let mut stage = Stage::open();
        stage.set(set_of("i:1", 11, 1, 1, 1));
        stage.set(with(set_of("i:2", 12, 2, 4, 4), "/status/observedGeneration", json!(observed)));
        stage.deployment(with(deployment("i:2"), "/spec/paused", json!(true)));
        stage.wait(1);
        stage.set(set_of("i:1", 11, 1, 0, 1));
        stage.written_by(11, "kube-controller-manager");
        stage.wait(11);
        let done = done_otherwise(&mut stage);
        assert_eq!(done.as_ref().and_then(|difference| difference.row.as_deref()), row, "{done:?}");
        assert_eq!(stage.agreed("scale-replicaset"), usize::from(row.is_none()));
    }
}

/// The ReplicaSet of a rollback was there before and cannot make pods: its Deployment says for ever that it is complete. What else is
/// not told is found, as that it is paused, or that it has made progress.
///
/// Contract: B-33
#[test]
fn a_rollout_whose_deadline_does_not_begin_is_a_row() {
    let web = |stage: &Stage, paused: bool| {
        let mut web = deployment("i:2");
        web["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "2"});
        web["spec"]["progressDeadlineSeconds"] = json!(600);
        web["spec"]["paused"] = json!(paused);
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": stage.ago(900),
                "lastTransitionTime": stage.ago(900)})
        };
        let conditions = [
            condition("Progressing", "NewReplicaSetAvailable", "ReplicaSet has successfully progressed."),
            condition("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        ];
        web["status"] = json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "unavailableReplicas": 2, "terminatingReplicas": 0, "conditions": conditions});
        web
    };
    for (paused, has, would, row) in [
        (false, 0, "ReplicaSetUpdated", Some("B-33")),
        (true, 0, "DeploymentPaused", None),
        (false, 1, "ReplicaSetUpdated", None),
    ] {
        let mut stage = Stage::open();
        stage.set(set_of("i:1", 11, 1, 3, 3));
        let mut new = set_of("i:2", 12, 2, 2, has);
        (new["status"]["readyReplicas"], new["status"]["availableReplicas"]) = (json!(0), json!(0));
        stage.set(new);
        let web = web(&stage, paused);
        stage.deployment(web);
        stage.wait(30);
        let told = stage.differences("status");
        let found = told.iter().find(|difference| difference.would.starts_with("condition Progressing "));
        let found = found.unwrap_or_else(|| panic!("{told:?}"));
        assert!(found.would.contains(would), "{}", found.would);
        assert_eq!(found.row.as_deref(), row, "{}", found.would);
    }
}
