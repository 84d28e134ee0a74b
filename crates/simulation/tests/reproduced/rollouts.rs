//! Rollouts that stood still or could not begin.

use std::time::Duration;

use muster_cluster::DelayRange;
use muster_simulation::faults::{Fault, Rule, Verb};
use muster_simulation::world::CONTROLLERS;
use muster_simulation::{Faults, Settings, World};
use muster_tree::{Value, json};

use crate::common::{Api, DEPLOYMENTS, PODS, SETS, at_once, in_virtual_time, number, pass};

fn deployment(strategy: &Value, replicas: u32, min_ready_seconds: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "minReadySeconds": min_ready_seconds, "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1"),
        },
    })
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn web() -> String {
    format!("{DEPLOYMENTS}/web")
}

/// The sizes wanted of the ReplicaSets, by the image of their template.
async fn sizes(api: &Api<'_>) -> Vec<(String, i64)> {
    let sets = api.list(SETS).await;
    let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let mut sizes: Vec<_> = sets.iter().map(|set| (image(set), number(set, "/spec/replicas"))).collect();
    sizes.sort();
    sizes
}

/// A canary of five is ready and bakes for 45 s; the undo takes it away at once, as kube-controller-manager does within
/// 3 s. So does a step forward to a fix.
///
/// Contract: DEP-11, B-19
#[test]
fn an_undo_does_not_wait_for_pods_that_bake() {
    for (image, expected) in [
        ("nginx:1", &[("nginx:1", 10), ("nginx:2", 0)][..]),
        ("nginx:3", &[("nginx:1", 8), ("nginx:2", 0), ("nginx:3", 5)]),
    ] {
        in_virtual_time(async {
            let world = World::start(at_once(2)).await.unwrap();
            let api = Api::of(&world);
            let quarter =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            assert_eq!(api.post(DEPLOYMENTS, &deployment(&quarter, 10, 45)).await.0, 201);
            let all = |web: &Value| web["status"]["availableReplicas"] == 10;
            world.until(&web(), Duration::from_secs(120), all).await.unwrap();
            api.merge(&web(), &json!({"spec": {"template": template("nginx:2")}})).await;
            pass(Duration::from_secs(10)).await;
            assert_eq!(sizes(&api).await, [("nginx:1".to_owned(), 8), ("nginx:2".to_owned(), 5)]);
            api.merge(&web(), &json!({"spec": {"template": template(image)}})).await;
            pass(Duration::from_secs(3)).await;
            let expected: Vec<_> = expected.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect();
            assert_eq!(sizes(&api).await, expected);
            world.stop().await;
        });
    }
}

/// A rollout is paused while the old pods cannot be deleted: the new ReplicaSet does not take the full count beside them.
///
/// Contract: DEP-09, B-18
#[test]
fn a_pause_makes_no_pods_beside_those_that_are_still_to_go() {
    in_virtual_time(async {
        let faults = Faults::seeded(4);
        let world = World::start(Settings { faults: Some(faults.clone()), ..at_once(4) }).await.unwrap();
        let api = Api::of(&world);
        let at_once = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}});
        assert_eq!(api.post(DEPLOYMENTS, &deployment(&at_once, 4, 0)).await.0, 201);
        let all = |web: &Value| web["status"]["availableReplicas"] == 4;
        world.until(&web(), Duration::from_secs(30), all).await.unwrap();
        faults.add(Rule::always(Fault::Lost).verbs(&[Verb::Delete]).resources(&["pods"]).of(CONTROLLERS));
        api.merge(&web(), &json!({"spec": {"template": template("nginx:2")}})).await;
        pass(Duration::from_millis(500)).await;
        api.merge(&web(), &json!({"spec": {"paused": true}})).await;
        pass(Duration::from_secs(30)).await;
        assert_eq!(sizes(&api).await, [("nginx:1".to_owned(), 0), ("nginx:2".to_owned(), 0)]);
        assert_eq!(api.list(PODS).await.len(), 4);
        faults.end();
        pass(Duration::from_secs(200)).await;
        assert_eq!(sizes(&api).await, [("nginx:1".to_owned(), 0), ("nginx:2".to_owned(), 4)]);
        assert_eq!(api.list(PODS).await.len(), 4);
        world.stop().await;
    });
}

/// A slowly deleted orphan ReplicaSet with slow pods, and a Deployment that is created again. Returns how long it took
/// until its pods were ready, and its collision count.
async fn beside_a_dying_orphan(strategy: &Value, image: &str) -> (Duration, i64) {
    let slow = Settings { pod_startup: DelayRange::ZERO, pod_shutdown: Duration::from_secs(25), ..Settings::seeded(3) };
    let world = World::start(slow).await.unwrap();
    let api = Api::of(&world);
    assert_eq!(api.post(DEPLOYMENTS, &deployment(strategy, 2, 0)).await.0, 201);
    let ready = |web: &Value| web["status"]["readyReplicas"] == 2 && web["status"]["updatedReplicas"] == 2;
    world.until(&web(), Duration::from_secs(30), ready).await.unwrap();
    let options = |policy: &str| json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    api.delete(&web(), Some(&options("Orphan"))).await;
    pass(Duration::from_secs(5)).await;
    let sets = api.list(SETS).await;
    let name = sets[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!((sets.len(), &sets[0]["metadata"]["ownerReferences"]), (1, &Value::Null));
    api.delete(&format!("{SETS}/{name}"), Some(&options("Foreground"))).await;
    let mut anew = deployment(strategy, 2, 0);
    anew["spec"]["template"] = template(image);
    assert_eq!(api.post(DEPLOYMENTS, &anew).await.0, 201);
    let begun = tokio::time::Instant::now();
    let web = world.until(&web(), Duration::from_secs(60), ready).await.unwrap();
    let took = begun.elapsed();
    assert!(!api.list(PODS).await.is_empty());
    world.stop().await;
    (took, number(&web, "/status/collisionCount"))
}

/// The pods of a ReplicaSet that was never adopted hold no Recreate: no event of theirs would wake it.
///
/// Contract: DEP-12
#[test]
fn a_recreate_does_not_wait_for_pods_of_an_orphan() {
    let (took, collisions) = in_virtual_time(beside_a_dying_orphan(&json!({"type": "Recreate"}), "nginx:2"));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(collisions, 0);
}

/// An orphan that is being deleted has the name for the template: the next name is taken.
///
/// Contract: DEP-05
#[test]
fn a_name_held_by_an_orphan_that_is_being_deleted_is_a_collision() {
    for strategy in ["Recreate", "RollingUpdate"] {
        let (took, collisions) = in_virtual_time(beside_a_dying_orphan(&json!({"type": strategy}), "nginx:1"));
        assert!(took < Duration::from_secs(5), "{strategy}: {took:?}");
        assert_eq!(collisions, 1, "{strategy}");
    }
}
