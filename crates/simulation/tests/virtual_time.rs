//! A whole cluster in virtual time: thousands of pods are created, scaled and deleted, the same way each time.

use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use muster_runtime::client::PatchType;
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};

const SETS: u32 = 20;

/// Creates the ReplicaSets, each with this many replicas.
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

/// Waits until every ReplicaSet has exactly its share ready, then counts the pods themselves.
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

/// A cluster's life: `pods` pods become ready and are scaled through `totals`. Every step is checked; the result is the
/// history of its writes.
async fn life(seed: u64, pods: u32, totals: &[u32]) -> Vec<String> {
    let world = World::start(Settings::seeded(seed)).await.unwrap();
    create(&world, pods / SETS).await;
    settle(&world, pods).await;
    for total in totals {
        scale(&world, *total).await;
        settle(&world, *total).await;
    }
    let history = world.history().clone();
    world.stop().await;
    history.lines()
}

/// A life on a thread and in a virtual time of its own, so that two of them take the time of one.
fn on_its_own_thread(seed: u64, pods: u32, totals: &'static [u32]) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(life(seed, pods, totals))
    })
}

/// 10,000 pods of 20 ReplicaSets become ready and are scaled to 3, to 2,000 and to none; the same seed gives the same
/// history of writes, byte for byte.
///
/// Contract: RS-09, RS-13, RS-15, SIM-03, SIM-05
#[test]
fn ten_thousand_pods_come_and_go_the_same_way_twice() {
    let lives = [7, 7].map(|seed| on_its_own_thread(seed, 10_000, &[3, 2_000, 0]));
    let [one, two] = lives.map(|life| life.join().unwrap());
    assert!(one.len() > 40_000, "only {} writes", one.len());
    for (number, (one, two)) in one.iter().zip(&two).enumerate() {
        assert_eq!(one, two, "write {number} differs");
    }
    assert_eq!(one.len(), two.len());
}

#[test]
fn another_seed_gives_another_history() {
    let lives = [7, 8].map(|seed| on_its_own_thread(seed, 100, &[3, 0]));
    let [one, two] = lives.map(|life| life.join().unwrap());
    assert_ne!(one, two);
}
