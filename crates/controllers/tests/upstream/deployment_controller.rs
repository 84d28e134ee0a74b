//! `deployment_controller_test.go`: whole syncs, and which change queues which Deployment.

use std::sync::Arc;

use muster_controllers::deployment::{Effect, Snapshot, decide, decide_claims, pod_changed, replica_set_changed};
use muster_controllers::plan::{ClaimAction, ClaimOutcome};
use muster_machinery::{Cache, Change};
use muster_objects::{Deployment, Pod, PodPhase, ReplicaSet};
use serde_json::{Value, json};

use crate::fixtures::{
    ago, annotate, decode, deployment, deployment_json, pod, recreating, set_json, set_with, snapshot, uid,
};
use crate::world::World;

/// `TestSyncDeploymentCreatesReplicaSet`. Upstream writes the status twice; here it is once.
///
/// Contract: DEP-04, DEP-17
#[test]
fn a_deployment_from_nothing_gets_one_set() {
    let mut world = World::new(deployment_json(1), []);
    assert_eq!(world.sync().error, None);
    let name = world.sets.keys().next().expect("created").clone();
    assert_eq!(world.take_requests(), [format!("CREATE {name}"), "STATUS web".to_owned()]);
    assert_eq!(world.set(&name).replicas, 1);
}

/// `TestSyncDeploymentDontDoAnythingDuringDeletion`.
///
/// Contract: DEP-02
#[test]
fn a_deployment_that_is_being_deleted_only_reports() {
    let mut dying = deployment_json(1);
    dying["metadata"]["deletionTimestamp"] = json!(ago(5));
    let mut world = World::new(dying, []);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.take_requests(), ["STATUS web"]);
}

fn orphan(number: u64) -> Arc<ReplicaSet> {
    set_with(number, "nginx:1", 1, |json| json["metadata"]["ownerReferences"] = json!([]))
}

/// `TestSyncDeploymentDeletionRace`: the cache has not heard of the deletion, the server has.
///
/// Contract: DEP-02, RS-07
#[test]
fn a_deployment_that_is_dying_on_the_server_adopts_nothing() {
    let plan = decide_claims(&snapshot(deployment(1, |_| ()), [orphan(1)]));
    assert!(plan.needs_permission());
    let fresh = json!({"metadata": {"uid": uid(1), "deletionTimestamp": "2026-01-02T15:04:05Z"}});
    let refused = plan.permission(Ok(fresh.to_string().as_bytes())).expect_err("refused");
    assert_eq!(refused.message, "default/web has just been deleted at 2026-01-02 15:04:05 +0000 UTC");
}

/// `TestReentrantRollback`: the previous revision's template is restored, and no ReplicaSet is written in that sync.
///
/// Contract: DEP-22
#[test]
fn a_rollback_writes_the_deployment_and_nothing_else() {
    let mut going_back = deployment_json(1);
    annotate(&mut going_back, "deployment.kubernetes.io/revision", 2);
    annotate(&mut going_back, "deprecated.deployment.rollback.to", 0);
    let mut world = World::new(going_back, [set_json(1, "nginx:0", 0), set_json(2, "nginx:1", 1)]);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.take_requests(), ["PATCH web"]);
    assert_eq!(world.deployment["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:0");
    assert_eq!(world.deployment["metadata"]["annotations"].get("deprecated.deployment.rollback.to"), None);
}

/// Whether the deletion of a pod of the first ReplicaSet queues a Deployment that recreates.
fn deletion_queues(sets: &[Value], left: &[u64]) -> bool {
    let (mut deployments, mut cache, mut pods) = (Cache::new(), Cache::new(), Cache::new());
    deployments.apply(recreating(1));
    sets.iter().for_each(|set| drop(cache.apply(decode::<ReplicaSet>(set))));
    for set in left {
        pods.apply(pod(&format!("left-{set}"), *set, PodPhase::Running));
    }
    let gone = Change::Deleted { last: Arc::new(pod("gone", 1, PodPhase::Running)), tombstone: false };
    let mut queued = false;
    pod_changed(&gone, &pods, &cache, &deployments, |effect| queued |= matches!(effect, Effect::Enqueue(_)));
    queued
}

/// The four cases of `TestPodDeletion...RecreateDeployment`.
///
/// Contract: DEP-01, B-05
#[test]
fn table_of_deleted_pods() {
    let alone = || vec![set_json(1, "a", 1)];
    let two = || vec![set_json(1, "a", 1), set_json(2, "b", 1)];
    let beside_an_orphan = || {
        let mut orphan = set_json(2, "b", 2);
        orphan["metadata"]["ownerReferences"] = json!([]);
        vec![set_json(1, "a", 1), orphan]
    };
    let cases: [(&str, Vec<Value>, &[u64], bool); 4] = [
        ("the last one", alone(), &[], true),
        ("others are left", two(), &[1, 2], false),
        ("the last one, beside an orphaned ReplicaSet", beside_an_orphan(), &[], true),
        ("others are left, beside an orphaned ReplicaSet", beside_an_orphan(), &[1], false),
    ];
    for (name, sets, left, expected) in cases {
        assert_eq!(deletion_queues(&sets, left), expected, "{name}");
    }
}

/// The Deployment of that number: `web` is 1, and the others select what it selects.
fn numbered(number: u64) -> Deployment {
    deployment(1, |json| {
        if number > 1 {
            json["metadata"]["name"] = json!(format!("web{number}"));
            json["metadata"]["uid"] = json!(uid(number));
        }
    })
}

/// A ReplicaSet of that Deployment, or an orphan for 0.
fn set_of(number: u64, owner: u64) -> Value {
    let mut json = set_json(number, "a", 1);
    match owner {
        0 => json["metadata"]["ownerReferences"] = json!([]),
        1 => {}
        _ => {
            json["metadata"]["ownerReferences"][0]["name"] = json!(format!("web{owner}"));
            json["metadata"]["ownerReferences"][0]["uid"] = json!(uid(owner));
        }
    }
    json
}

/// `TestGetReplicaSetsForDeployment`: two Deployments of one selector, each with its own.
///
/// Contract: DEP-02
#[test]
fn each_deployment_has_its_own_sets() {
    let mut sets = Cache::new();
    for owner in [1, 2] {
        sets.apply(decode::<ReplicaSet>(&set_of(owner, owner)));
    }
    for owner in [1, 2] {
        let taken = Snapshot::take(Arc::new(numbered(owner)), &sets, &Cache::new(), 0).expect("a selector");
        assert!(decide_claims(&taken).is_empty());
        let names: Vec<_> =
            decide(&taken, &ClaimOutcome::default()).sets.old.iter().map(|set| set.meta.uid.clone()).collect();
        assert_eq!(names, [uid(100 + owner)]);
    }
}

/// `TestGetReplicaSetsForDeploymentAdoptRelease`.
///
/// Contract: DEP-02
#[test]
fn an_orphan_is_adopted_and_a_stranger_released() {
    let relabelled = set_with(2, "b", 1, |json| json["metadata"]["labels"] = json!({"app": "other"}));
    let snapshot = snapshot(deployment(1, |_| ()), [orphan(1), relabelled]);
    let plan = decide_claims(&snapshot);
    let actions: Vec<_> = plan.patches.iter().map(|patch| (&*patch.key.name, patch.action)).collect();
    assert_eq!(actions, [("web-1", ClaimAction::Adopt), ("web-2", ClaimAction::Release)]);
    let mut outcome = ClaimOutcome::default();
    outcome.adopted.insert(uid(101), None);
    let sets = decide(&snapshot, &outcome).sets;
    assert_eq!(sets.all().map(|set| &*set.meta.name).collect::<Vec<_>>(), ["web-1"]);
}

/// `TestGetPodMapForReplicaSets`: every pod that a ReplicaSet controls, ended ones too, and no orphan.
///
/// Contract: DEP-12
#[test]
fn the_pods_are_those_that_the_sets_control() {
    let (mut sets, mut pods) = (Cache::new(), Cache::new());
    for number in [1, 2] {
        sets.apply(decode::<ReplicaSet>(&set_json(number, "a", 1)));
        pods.apply(pod(&format!("of-{number}"), number, PodPhase::Running));
    }
    let mut loose = pod("loose", 1, PodPhase::Running);
    loose.meta.controller = None;
    pods.apply(loose);
    pods.apply(pod("failed", 1, PodPhase::Failed));
    let taken = Snapshot::take(Arc::new(recreating(1)), &sets, &pods, 0).expect("a selector");
    let of = |set: u64| {
        let owner = uid(100 + set);
        let controlled = taken.pods.iter().filter(|pod| pod.meta.is_controlled_by(&owner));
        let mut names: Vec<_> = controlled.map(|pod: &Arc<Pod>| pod.meta.name.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!((taken.pods.len(), of(1), of(2)), (3, vec!["failed".into(), "of-1".into()], vec!["of-2".into()]));
}

/// `TestAddReplicaSet`, `TestUpdateReplicaSet`, `TestDeleteReplicaSet` and their variants. Deployments 1 and 2 select
/// every ReplicaSet here, Deployment 3 none.
///
/// Contract: DEP-01
#[test]
fn table_of_changed_sets() {
    let mut all = Cache::new();
    all.apply(numbered(1));
    all.apply(numbered(2));
    let other = json!({"matchLabels": {"app": "other"}});
    all.apply(Deployment { selector: elsewhere(&other).selector, ..numbered(3) });
    let set = |json: Value| Arc::new(decode::<ReplicaSet>(&json));
    let newer = |owner: u64| {
        let mut json = set_of(1, owner);
        json["metadata"]["resourceVersion"] = json!("95");
        set(json)
    };
    let updated = |old: Arc<ReplicaSet>, new: Arc<ReplicaSet>| Change::Updated { old, new };
    let relabelled = {
        let mut json = set_of(1, 0);
        json["metadata"]["labels"] = json!({"app": "another"});
        set(json)
    };
    let deleted = |owner: u64| Change::Deleted { last: set(set_of(1, owner)), tombstone: false };
    let cases: [(&str, Change<ReplicaSet>, &[&str]); 11] = [
        ("added, of the first", Change::Added(set(set_of(1, 1))), &["web"]),
        ("added, of the second", Change::Added(set(set_of(1, 2))), &["web2"]),
        ("added, an orphan", Change::Added(set(set_of(1, 0))), &["web", "web2"]),
        ("updated, of the first", updated(set(set_of(1, 1)), newer(1)), &["web"]),
        ("updated, of the second", updated(set(set_of(1, 2)), newer(2)), &["web2"]),
        ("an orphan with new labels", updated(relabelled, newer(0)), &["web", "web2"]),
        ("another owner: both", updated(set(set_of(1, 2)), newer(1)), &["web", "web2"]),
        ("released: whoever selects it", updated(set(set_of(1, 1)), newer(0)), &["web", "web2"]),
        ("deleted, of the first", deleted(1), &["web"]),
        ("deleted, of the second", deleted(2), &["web2"]),
        ("deleted, an orphan", deleted(0), &[]),
    ];
    for (name, change, expected) in cases {
        let mut queued = Vec::new();
        replica_set_changed(&change, &all, |effect| {
            if let Effect::Enqueue(key) = effect {
                queued.push(key.name.to_string());
            }
        });
        queued.sort();
        queued.dedup();
        assert_eq!(queued, expected, "{name}");
    }
}

/// A Deployment with that selector.
fn elsewhere(selector: &Value) -> Deployment {
    deployment(1, |json| json["spec"]["selector"] = selector.clone())
}
