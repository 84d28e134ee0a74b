//! Sync: its rounds, and what failures lead to.

use std::time::Duration;

use muster_controllers::deployment::sync::{FAILURES_BEFORE_TOLD, LONGEST_BACKOFF};
use muster_controllers::plan::{Failure, Requeue};
use muster_objects::Condition;
use serde_json::json;

use crate::fixtures::{deployment_json, set_json, template};
use crate::world::{World, failure};

/// A Deployment in the middle of a rollout: its old ReplicaSet is to shrink.
fn mid_rollout() -> World {
    let mut new = set_json(2, "nginx:1", 1);
    new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    World::new(deployment_json(4), [set_json(1, "nginx:0", 4), new])
}

/// An error in scaling down is an error of the sync.
///
/// Contract: B-04, DEP-11
#[test]
fn an_error_in_scaling_down_fails_the_sync() {
    let mut world = mid_rollout();
    world.refusals.push_back(("PATCH web-1", failure(500, "InternalError", "broken")));
    let verdict = world.sync();
    assert_eq!(verdict.error.expect("an error").message, "broken");
    assert_eq!(world.told(), [""; 0]);
    assert_eq!(world.set("web-1").replicas, 4);
    assert_eq!(world.sync().error, None);
    assert_eq!(world.told(), ["ScalingReplicaSet Scaled down replica set web-1 from 4 to 2"]);
}

/// A rollout that is stuck on an old ReplicaSet which may not be scaled down tells so: its counts, its revision, and its
/// deadline, whose end it does not sleep through.
///
/// Contract: B-04, DEP-11, DEP-15, DEP-18
#[test]
fn a_rollout_whose_old_set_cannot_be_scaled_down_reports_and_times_out() {
    let mut world = mid_rollout();
    world.edit(|spec| spec["progressDeadlineSeconds"] = json!(60));
    let refused = || ("PATCH web-1", failure(403, "Forbidden", "frozen"));
    world.refusals.push_back(refused());
    let verdict = world.sync();
    assert_eq!(verdict.error.expect("an error").message, "frozen");
    assert_eq!(verdict.requeue, Requeue::RateLimited { at_most: Some(Duration::from_secs(61)) });
    let deployment = world.deployment();
    assert_eq!(deployment.status.observed_generation, deployment.meta.generation);
    assert_eq!((deployment.status.replicas, deployment.status.updated_replicas), (5, 1));
    assert_eq!(deployment.annotations.get("deployment.kubernetes.io/revision"), Some("2"));

    world.now = world.now + Duration::from_secs(70);
    world.refusals.push_back(refused());
    let verdict = world.sync();
    assert!(verdict.error.is_some());
    assert_eq!(verdict.requeue, Requeue::RateLimited { at_most: Some(Duration::from_secs(300)) });
    let progressing = Condition::find(&world.deployment().status.conditions, "Progressing").cloned().expect("there");
    assert_eq!(&*progressing.reason, "ProgressDeadlineExceeded");
    // Nothing that repeats itself is written again.
    world.take_requests();
    world.refusals.push_back(refused());
    world.sync();
    assert_eq!(world.take_requests(), ["PATCH web-1"]);

    // What the new ReplicaSet is to get comes first, and where that fails nothing is certain.
    let mut world = mid_rollout();
    world.edit(|spec| spec["minReadySeconds"] = json!(5));
    world.refusals.push_back(("PATCH web-2", failure(403, "Forbidden", "frozen")));
    assert!(world.sync().error.is_some());
    assert!(!world.take_requests().contains(&"STATUS web".to_owned()));
}

/// A complete Deployment whose history may not be deleted still tells what becomes of its pods.
///
/// Contract: B-04, DEP-14
#[test]
fn a_deployment_whose_history_cannot_be_deleted_reports() {
    let mut deployment = deployment_json(4);
    deployment["spec"]["revisionHistoryLimit"] = json!(0);
    let mut new = set_json(2, "nginx:1", 4);
    new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    let mut world = World::new(deployment, [set_json(1, "nginx:0", 0), new]);
    let refused = || ("DELETE web-1", failure(403, "Forbidden", "kept"));
    world.settle(|_| true);
    world.sync();
    assert_eq!(world.deployment().status.available_replicas, 4);
    world.settle(|_| false);
    world.refusals.push_back(refused());
    assert_eq!(world.sync().error.expect("an error").message, "kept");
    assert_eq!(world.deployment().status.available_replicas, 0);
}

/// What the new ReplicaSet gets from its Deployment is written first, and its revision told, whatever is refused after that.
///
/// Contract: DEP-06, DEP-17
#[test]
fn the_new_set_is_kept_up_though_a_scale_is_refused() {
    let refused = |request| (request, failure(403, "Forbidden", "frozen"));
    for what in ["scaled", "paused", "recreated"] {
        let mut world = mid_rollout();
        for set in world.sets.values_mut() {
            set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] = json!("4");
            set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] = json!("5");
        }
        world.deployment["metadata"]["annotations"]["note"] = json!("x");
        world.edit(|spec| match what {
            "recreated" => spec["strategy"] = json!({"type": "Recreate"}),
            what => {
                spec["replicas"] = json!(2);
                spec["paused"] = json!(what == "paused");
            }
        });
        world.refusals.push_back(refused("PATCH web-1"));
        assert!(world.sync().error.is_some(), "{what}");
        assert_eq!(world.take_requests(), ["PATCH web-2", "PATCH web-1", "STATUS web"], "{what}");
        assert_eq!(world.set("web-2").annotations.get("note"), Some("x"), "{what}");
        let deployment = world.deployment();
        assert_eq!(deployment.annotations.get("deployment.kubernetes.io/revision"), Some("2"), "{what}");
        assert_ne!(deployment.status.observed_generation, deployment.meta.generation, "{what}: no counts are told");
    }
    // Nor is it lost with a scale of the new ReplicaSet itself.
    let mut world = mid_rollout();
    world.deployment["metadata"]["annotations"]["note"] = json!("x");
    world.edit(|spec| {
        spec["minReadySeconds"] = json!(7);
        spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 4, "maxUnavailable": 0}});
    });
    world.refusals.push_back(refused("scale up"));
    assert!(world.sync().error.is_some());
    assert_eq!(world.take_requests(), ["PATCH web-2", "PATCH web-2", "STATUS web"]);
    let set = world.set("web-2");
    assert_eq!((set.annotations.get("note"), set.min_ready_seconds, set.replicas), (Some("x"), 7, 1));
    assert_eq!(world.deployment().annotations.get("deployment.kubernetes.io/revision"), Some("2"));
    // Where that itself is refused nothing is told, and nothing else is done; nor that it is paused, while it is being deleted.
    let mut world = mid_rollout();
    world.deployment["metadata"]["annotations"]["note"] = json!("x");
    world.deployment["metadata"]["deletionTimestamp"] = json!(world.now);
    world.edit(|spec| spec["paused"] = json!(true));
    world.refusals.push_back(refused("PATCH web-2"));
    assert!(world.sync().error.is_some());
    assert_eq!(world.take_requests(), ["PATCH web-2"]);
}

/// Annotations that are only refreshed are nothing that the status has to wait for.
///
/// Contract: B-03, DEP-15
#[test]
fn a_refused_refresh_of_annotations_does_not_keep_the_status() {
    let mut set = set_json(2, "nginx:1", 4);
    set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] = json!("9");
    set["status"]["availableReplicas"] = json!(1);
    let mut world = World::new(deployment_json(4), [set]);
    world.refusals.push_back(("PATCH web-2", failure(403, "Forbidden", "frozen")));
    assert!(world.sync().error.is_some());
    assert_eq!(world.take_requests(), ["PATCH web-2", "STATUS web"]);
    let deployment = world.deployment();
    assert_eq!(deployment.status.available_replicas, 1);
    assert_eq!(deployment.status.observed_generation, deployment.meta.generation);
}

/// A status that cannot be written fails the sync.
///
/// Contract: DEP-23
#[test]
fn a_status_that_cannot_be_written_fails_the_sync() {
    let mut world = mid_rollout();
    world.refusals.push_back(("STATUS", failure(500, "InternalError", "broken")));
    assert_eq!(world.sync().error.expect("an error").message, "broken");
    assert_eq!(world.sync().error, None);
}

/// It is kept for ever, with a backoff that stays within sight, and from the 15th failure on the status says why.
///
/// Contract: B-06, DEP-23
#[test]
fn a_deployment_that_fails_is_kept_and_says_why() {
    let mut world = mid_rollout();
    for _ in 0..FAILURES_BEFORE_TOLD + 3 {
        world.refusals.push_back(("PATCH web-1", failure(403, "Forbidden", "broken")));
    }
    for failed in 0..FAILURES_BEFORE_TOLD + 3 {
        let verdict = world.sync();
        assert_eq!(verdict.requeue, Requeue::RateLimited { at_most: Some(Duration::from_secs(300)) });
        assert!(verdict.error.is_some());
        let writes = world.take_requests().iter().filter(|request| *request == "STATUS web").count();
        // The counts are told at once.
        let told = failed == 0 || failed == FAILURES_BEFORE_TOLD;
        assert_eq!(writes, usize::from(told), "after {failed} failures");
        let told = Condition::find(&world.deployment().status.conditions, "ReplicaFailure").cloned();
        match told {
            Some(told) => assert_eq!((&*told.reason, &*told.message), ("SyncError", "broken")),
            None => assert!(failed < FAILURES_BEFORE_TOLD),
        }
    }
    assert_eq!(world.sync().error, None);
    assert_eq!(Condition::find(&world.deployment().status.conditions, "ReplicaFailure"), None);
}

/// A paused Deployment does not report what its ReplicaSets fail with, but takes back what it said of itself.
///
/// Contract: B-06
#[test]
fn a_paused_deployment_takes_its_own_failure_back() {
    let mut world = mid_rollout();
    world.deployment["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "SyncError", "message": "broken"}]);
    world.edit(|spec| spec["paused"] = json!(true));
    assert_eq!(world.sync().error, None);
    assert_eq!(Condition::find(&world.deployment().status.conditions, "ReplicaFailure"), None);
}

/// It is no error, wherever it is met, and nothing more is written there.
///
/// Contract: DEP-23
#[test]
fn a_terminating_namespace_ends_the_sync_quietly() {
    for (request, requests) in [("CREATE", 1), ("PATCH web-1", 2)] {
        let mut world = World::new(deployment_json(4), [set_json(1, "nginx:0", 4)]);
        let terminating = Failure {
            causes: vec!["NamespaceTerminating".to_owned()],
            ..failure(403, "Forbidden", "unable to create new content in namespace default")
        };
        world.refusals.push_back((request, terminating));
        let verdict = world.sync();
        assert_eq!((verdict.error, verdict.requeue), (None, Requeue::None), "{request}");
        assert_eq!(world.take_requests().len(), requests, "{request}");
    }
}

/// A refusal whose cause can end by itself is retried sooner.
///
/// Contract: B-06
#[test]
fn a_quota_has_the_backoff_limit_of_replica_sets() {
    let mut world = World::new(deployment_json(2), []);
    let quota = "replicasets.apps \"web\" is forbidden: exceeded quota: compute";
    world.refusals.push_back(("CREATE", failure(403, "Forbidden", quota)));
    assert_eq!(world.sync().requeue, Requeue::RateLimited { at_most: Some(Duration::from_secs(60)) });
    assert!(Duration::from_secs(60) < LONGEST_BACKOFF);
}

/// A creation before another write failed is reported.
///
/// Contract: DEP-17, DEP-06
#[test]
fn a_creation_is_reported_though_the_rest_fails() {
    let mut world = World::new(deployment_json(4), [set_json(1, "nginx:0", 4)]);
    world.refusals.push_back(("PATCH web-1", failure(500, "InternalError", "broken")));
    assert!(world.sync().error.is_some());
    let deployment = world.deployment();
    assert_eq!(deployment.status.conditions[0].reason, "NewReplicaSetCreated");
    assert_eq!(deployment.annotations.get("deployment.kubernetes.io/revision"), Some("2"));
}

/// One write of the status, with all that there is to say: the creation, the revision, the counts.
///
/// Contract: DEP-17, DEP-06, DEP-10, DEP-11
#[test]
fn a_new_rollout_is_one_round_and_one_status() {
    let mut world = World::new(deployment_json(4), [set_json(1, "nginx:0", 4)]);
    let verdict = world.sync();
    assert_eq!(verdict.error, None);
    let name = world.sets.keys().find(|name| *name != "web-1").expect("created").clone();
    assert_eq!(world.take_requests(), [format!("CREATE {name}"), "PATCH web-1".into(), "STATUS web".into()]);
    let up = format!("ScalingReplicaSet Scaled up replica set {name} from 0 to 1");
    assert_eq!(world.told(), [up, "ScalingReplicaSet Scaled down replica set web-1 from 4 to 3".to_owned()]);
    let deployment = world.deployment();
    let reasons: Vec<&str> = deployment.status.conditions.iter().map(|condition| &*condition.reason).collect();
    // Four old pods are seen for the first time, which is progress too.
    assert_eq!(reasons, ["MinimumReplicasAvailable", "ReplicaSetUpdated"]);
    assert_eq!(deployment.status.unavailable_replicas, 1);
    assert_eq!(deployment.annotations.get("deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!(verdict.requeue, Requeue::After(Duration::from_secs(601)));
}

/// A sync that finds everything as it should be writes nothing.
///
/// Contract: DEP-21
#[test]
fn a_sync_that_changes_nothing_writes_nothing() {
    let mut world = World::new(deployment_json(4), []);
    for _ in 0..6 {
        world.sync();
        world.settle(|_| true);
    }
    world.take_requests();
    assert_eq!(world.sync().requeue, Requeue::None);
    assert_eq!(world.take_requests(), [""; 0]);
    world.edit(|spec| spec["template"] = template("nginx:2"));
    for _ in 0..20 {
        world.sync();
        world.settle(|_| true);
    }
    world.take_requests();
    world.sync();
    assert_eq!(world.take_requests(), [""; 0]);
}

/// A history deletion that finds the ReplicaSet in use is not an error, and causes another sync.
///
/// Contract: DEP-14
#[test]
fn a_set_that_is_used_again_is_not_deleted() {
    let mut json = deployment_json(2);
    json["spec"]["revisionHistoryLimit"] = json!(0);
    let mut world = World::new(json, [set_json(1, "nginx:0", 0), set_json(2, "nginx:1", 2)]);
    world.sync();
    assert_eq!(world.sets.len(), 2, "not complete by the status before");
    world.refusals.push_back(("DELETE", failure(409, "Conflict", "changed")));
    let snapshot = world.snapshot();
    world.sets.get_mut("web-1").expect("there")["metadata"]["generation"] = json!(2);
    let verdict = world.run(&mut muster_controllers::deployment::DeploymentSync::new(snapshot));
    assert_eq!((verdict.error, verdict.requeue), (None::<Failure>, Requeue::AGAIN));
    assert_eq!(world.sets.len(), 2);
}
