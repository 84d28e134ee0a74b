//! Deletions: what the garbage collector takes is not made again, and a pod that turned ready is left.

use std::time::Duration;

use http::Method;
use muster_simulation::faults::{Fault, Rule, Verb};
use muster_simulation::world::CONTROLLERS;
use muster_simulation::{Faults, Settings, World};
use muster_tree::json;

use crate::common::{Api, PODS, SETS, at_once, in_virtual_time, name, pass};

const REPLICA_SETS: u64 = 8;
const REPLICAS: u64 = 10;

/// Eight ReplicaSets of ten are deleted in the foreground: the collector deletes the pods, and no watch says in time that
/// their owner is being deleted. Nothing is created in their place.
///
/// Contract: B-23, RS-14
#[test]
fn pods_of_a_set_in_foreground_deletion_are_not_replaced() {
    for lag in [Duration::ZERO, Duration::from_millis(50), Duration::from_secs(4)] {
        let created = in_virtual_time(foreground(lag));
        assert_eq!(created, REPLICA_SETS * REPLICAS, "with the watch of ReplicaSets {lag:?} late");
    }
}

/// How many pods were created in all.
async fn foreground(lag: Duration) -> u64 {
    let faults = Faults::seeded(1);
    let settings = at_once(1);
    let world = World::start(Settings { faults: Some(faults.clone()), ..settings }).await.unwrap();
    let api = Api::of(&world);
    for number in 0..REPLICA_SETS {
        let labels = json!({"set": number.to_string()});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("set-{number}")},
            "spec": {
                "replicas": REPLICAS, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        });
        assert_eq!(api.post(SETS, &set).await.0, 201);
    }
    for number in 0..REPLICA_SETS {
        let path = format!("{SETS}/set-{number}");
        world.until(&path, Duration::from_secs(30), |set| set["status"]["readyReplicas"] == REPLICAS).await.unwrap();
    }
    if !lag.is_zero() {
        let late = Rule::always(Fault::Lag(lag..lag + Duration::from_millis(1)));
        faults.add(late.verbs(&[Verb::Watch]).resources(&["replicasets"]).of(CONTROLLERS));
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    for number in 0..REPLICA_SETS {
        api.delete(&format!("{SETS}/set-{number}"), Some(&options)).await;
    }
    pass(Duration::from_secs(60)).await;
    assert!(api.list(SETS).await.is_empty() && api.list(PODS).await.is_empty(), "all is gone");
    let writes = world.history().since(0);
    let created = writes.iter().filter(|write| write.method == Method::POST && write.status == 201);
    let created = created.filter(|write| write.resource() == "pods" && write.subresource().is_none()).count();
    world.stop().await;
    created as u64
}

/// A ReplicaSet with a ready pod and two that are not is made smaller by one. Of the two it takes the one that costs less, which has
/// turned ready without having been shown so. That one is left, and the other goes.
///
/// Contract: B-02
#[test]
fn a_pod_that_has_turned_ready_is_left_and_another_goes() {
    in_virtual_time(async {
        let faults = Faults::seeded(1);
        let world = World::start(Settings { bare: true, faults: Some(faults.clone()), ..at_once(1) }).await.unwrap();
        let api = Api::of(&world);
        let labels = json!({"app": "web"});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
            },
        });
        assert_eq!(api.post(SETS, &set).await.0, 201);
        pass(Duration::from_secs(5)).await;
        let pods = api.list(PODS).await;
        let [cheap, dear, ready] = [0, 1, 2].map(|nth| format!("{PODS}/{}", name(&pods[nth])));
        let becomes_ready = async |pod: &str| {
            let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            assert_eq!(api.merge(&format!("{pod}/status"), &status).await.0, 200);
        };
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
        assert_eq!(api.merge(&cheap, &cost).await.0, 200);
        becomes_ready(&ready).await;
        pass(Duration::from_secs(5)).await;

        let late = Rule::always(Fault::Lag(Duration::from_secs(10)..Duration::from_millis(10_001)));
        faults.add(late.verbs(&[Verb::Watch]).resources(&["pods"]).of(CONTROLLERS));
        becomes_ready(&cheap).await;
        let before = world.history().since(0).len();
        assert_eq!(api.merge(&format!("{SETS}/web"), &json!({"spec": {"replicas": 2}})).await.0, 200);
        pass(Duration::from_secs(60)).await;

        let writes = world.history().since(before);
        let deleted = |pod: &str| -> Vec<u16> {
            let of_pod = writes.iter().filter(|write| write.method == Method::DELETE && write.path.ends_with(pod));
            of_pod.map(|write| write.status).collect()
        };
        let refused = deleted(&cheap);
        assert!(!refused.is_empty() && refused.iter().all(|status| *status == 409), "{cheap}: {refused:?}");
        assert_eq!((deleted(&dear), deleted(&ready)), (vec![200], vec![]));
        assert_eq!(api.list(PODS).await.len(), 2);
        world.stop().await;
    });
}
