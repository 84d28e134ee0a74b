//! A whole cluster in virtual time: thousands of pods come, are scaled, and go, the same way each time.

use std::time::Duration;

use bytes::Bytes;
use muster_runtime::client::PatchType;
use muster_simulation::{Settings, World};
use serde_json::{Value, json};

const SETS: u32 = 20;

/// Creates the ReplicaSets, each with so many replicas.
async fn create(world: &World, replicas: u32) {
    for number in 0..SETS {
        let name = format!("set-{number}");
        let body = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1m"}}}]},
                },
            },
        });
        let path = "/apis/apps/v1/namespaces/default/replicasets";
        world.client().post(path, Bytes::from(body.to_string())).await.unwrap();
    }
}

/// Scales every ReplicaSet, the remainder of the division going to the first.
async fn scale(world: &World, total: u32) {
    for number in 0..SETS {
        let path = format!("/apis/apps/v1/namespaces/default/replicasets/set-{number}/scale");
        let patch = json!({"spec": {"replicas": share(total, number)}});
        world.client().patch(&path, PatchType::Merge, Bytes::from(patch.to_string())).await.unwrap();
    }
}

/// What of `total` pods one ReplicaSet has.
fn share(total: u32, number: u32) -> u32 {
    total / SETS + u32::from(number < total % SETS)
}

/// Waits until every ReplicaSet has its share ready and nothing else, then counts the pods themselves.
async fn settle(world: &World, total: u32) {
    for number in 0..SETS {
        let path = format!("/apis/apps/v1/namespaces/default/replicasets/set-{number}");
        let want = i64::from(share(total, number));
        let count = |set: &Value, field: &str| set["status"][field].as_i64().unwrap_or(0);
        world
            .until(&path, Duration::from_secs(600), |set| {
                set["status"]["observedGeneration"] == set["metadata"]["generation"]
                    && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|f| count(set, f) == want)
                    && count(set, "terminatingReplicas") == 0
            })
            .await
            .unwrap_or_else(|last| panic!("set-{number} should have {want} ready: {last}"));
    }
    let pods = world.client().get("/api/v1/namespaces/default/pods").await.unwrap();
    let pods: Value = serde_json::from_slice(&pods.body).unwrap();
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), total as usize, "pods in the namespace");
    for pod in pods {
        let ready = pod["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True", "{}", pod["metadata"]["name"]);
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(owner["name"], pod["metadata"]["labels"]["app"], "owned by the one that selects it");
    }
}

/// 10,000 pods of 20 ReplicaSets come to Ready and are scaled to 3, to 2,000 and to none.
///
/// Contract: RS-09, RS-13, RS-15, SIM-03, SIM-05
#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_come_and_go() {
    let world = World::start(Settings::seeded(1)).await.unwrap();
    create(&world, 10_000 / SETS).await;
    for total in [10_000, 3, 2_000, 0] {
        scale(&world, total).await;
        settle(&world, total).await;
    }
    world.stop().await;
}

/// One run of a smaller life of the same shape; its whole history.
async fn life(seed: u64) -> Vec<String> {
    let world = World::start(Settings::seeded(seed)).await.unwrap();
    create(&world, 20).await;
    for total in [400, 3, 120, 0] {
        scale(&world, total).await;
        settle(&world, total).await;
    }
    let history = world.history().clone();
    world.stop().await;
    history.lines()
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history() {
    let (one, two) = (life(7).await, life(7).await);
    assert!(one.len() > 2_000, "only {} writes", one.len());
    for (number, (one, two)) in one.iter().zip(&two).enumerate() {
        assert_eq!(one, two, "write {number} differs");
    }
    assert_eq!(one.len(), two.len());
}

#[tokio::test(start_paused = true)]
async fn another_seed_gives_another_history() {
    assert_ne!(life(7).await, life(8).await);
}
