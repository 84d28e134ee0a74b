//! `test/integration/deployment`: rollouts while pods take long to terminate.

use std::time::Duration;

use muster_tree::{Value, json};

use crate::common::{PODS, SETS, in_virtual_time, is_being_deleted, name, number, pass};
use crate::deployments::{complete, counts, path, recreating, set_path, with};
use crate::scene::{DESIRED, NODE, REVISION, Scene, controller, uid};

/// Pods that stay terminating until they are deleted by force.
fn slow_to_go(spec: &mut Value) {
    spec["template"]["spec"]["nodeName"] = json!(NODE);
    spec["template"]["spec"]["terminationGracePeriodSeconds"] = json!(300);
}

/// `TestTerminatingReplicasDeploymentStatus`.
///
/// Contract: DEP-15
#[test]
fn terminating_replicas() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let body = with(6, |spec| {
            recreating(spec);
            slow_to_go(spec);
        });
        complete(&scene, &body).await;
        for (replicas, terminating) in [(4, 2), (3, 3)] {
            scene.edit(&path("web"), &json!({"spec": {"replicas": replicas}})).await;
            let expected = [replicas, replicas, replicas, replicas, 0, terminating];
            scene.until(&path("web"), |web| counts(web) == expected).await;
        }
        scene.stop().await;
    });
}

/// Another template.
fn another() -> Value {
    let container = json!({"name": "fake-name", "image": "fakeimage", "env": [{"name": "deploy2", "value": "true"}]});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

/// Begins to delete this many of a ReplicaSet's pods.
async fn terminate(scene: &Scene, set: &Value, count: usize) {
    let pods = scene.api().list(PODS).await;
    let alive = pods.iter().filter(|pod| controller(pod) == Some(uid(set)) && !is_being_deleted(pod));
    let names: Vec<&str> = alive.take(count).map(name).collect();
    assert_eq!(names.len(), count);
    for pod in names {
        scene.delete_pod(pod, Some(300)).await;
    }
}

/// The Deployment's other ReplicaSet.
async fn second_of(scene: &Scene, first: &Value) -> Value {
    let sets = scene.until_all(SETS, |sets| sets.len() == 2).await;
    sets.into_iter().find(|set| uid(set) != uid(first)).unwrap()
}

/// `TestRecreateDeploymentForPodReplacement`: no new pod before the last old one is gone; the deletion of new ones does
/// not concern the rollout.
/// the rollout's business.
///
/// Contract: DEP-12, DEP-15
#[test]
fn recreate_pod_replacement() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let body = with(6, |spec| {
            recreating(spec);
            slow_to_go(spec);
        });
        let first = complete(&scene, &body).await;
        let reached = async |expected: [i64; 6]| {
            scene.until(&path("web"), |web| counts(web) == expected).await;
        };
        scene.edit(&path("web"), &another()).await;
        scene.until(&set_path(&first), |set| number(set, "/status/replicas") == 0).await;
        reached([0, 0, 0, 0, 0, 6]).await;
        assert_eq!(scene.api().list(SETS).await.len(), 1, "old pods are left");
        scene.bury().await;
        reached([6, 6, 0, 0, 6, 0]).await;
        let second = second_of(&scene, &first).await;
        terminate(&scene, &second, 1).await;
        reached([6, 6, 0, 0, 6, 1]).await;
        scene.edit(&path("web"), &json!({"spec": {"replicas": 7}})).await;
        reached([7, 7, 0, 0, 7, 1]).await;
        scene.edit(&path("web"), &json!({"spec": {"replicas": 5}})).await;
        reached([5, 5, 0, 0, 5, 3]).await;
        scene.complete("web", |_, _| ()).await;
        reached([5, 5, 5, 5, 0, 3]).await;
        scene.bury().await;
        reached([5, 5, 5, 5, 0, 0]).await;
        scene.stop().await;
    });
}

/// `TestRollingUpdateAndProportionalScalingForDeploymentPodReplacement`: terminating pods count neither for the bounds
/// nor for the shares.
///
/// Contract: DEP-06, DEP-09, DEP-15
#[test]
fn proportional_pod_replacement() {
    in_virtual_time(async {
        let scene = Scene::start().await;
        let body = with(100, |spec| {
            slow_to_go(spec);
            spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 20, "maxUnavailable": 0}});
        });
        let first = complete(&scene, &body).await;
        terminate(&scene, &first, 15).await;
        scene.until(&path("web"), |web| counts(web)[5] == 15).await;
        scene.complete("web", |_, _| ()).await;

        scene.edit(&path("web"), &another()).await;
        scene.until(&path("web"), |web| counts(web) == [120, 20, 100, 100, 20, 15]).await;
        let second = second_of(&scene, &first).await;
        terminate(&scene, &second, 1).await;
        scene.until(&path("web"), |web| counts(web) == [120, 20, 100, 100, 20, 16]).await;

        scene.edit(&path("web"), &json!({"spec": {"replicas": 120}})).await;
        scene.until(&path("web"), |web| counts(web) == [140, 23, 100, 100, 40, 16]).await;
        let annotations = |revision: &str| json!({DESIRED: "120", "deployment.kubernetes.io/max-replicas": "140", REVISION: revision});
        for (set, replicas, revision) in [(&first, 117, "1"), (&second, 23, "2")] {
            let set = scene.get(&set_path(set)).await;
            assert_eq!(number(&set, "/spec/replicas"), replicas);
            assert_eq!(set["metadata"]["annotations"], annotations(revision));
        }
        // Terminated pods are removed while the rollout goes on.
        for _ in 0..40 {
            scene.ready_all().await;
            scene.bury().await;
            pass(Duration::from_millis(500)).await;
        }
        scene.complete("web", |_, _| ()).await;
        for (set, revision) in [(&first, "1"), (&second, "2")] {
            assert_eq!(scene.get(&set_path(set)).await["metadata"]["annotations"], annotations(revision));
        }
        scene.stop().await;
    });
}
