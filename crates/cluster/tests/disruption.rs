//! The status of PodDisruptionBudgets, and the evictions that it allows, on an embedded server in virtual time.

mod common;

use bytes::Bytes;
use common::{PODS, World, condition, quick};
use serde_json::{Value, json};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

async fn budget(world: &World, name: &str, spec: Value) {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
    });
    common::merge(&mut budget["spec"], &spec);
    world.post(BUDGETS, budget).await;
}

/// The numbers of a budget: allowed, healthy, desired, expected.
async fn numbers(world: &World, name: &str) -> [i64; 4] {
    let budget = world.get(&format!("{BUDGETS}/{name}")).await;
    assert_eq!(budget["status"]["observedGeneration"], budget["metadata"]["generation"]);
    let allowed = condition(&budget, "DisruptionAllowed");
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(-1);
    let some = number("disruptionsAllowed") > 0;
    assert_eq!(allowed["status"], if some { "True" } else { "False" });
    assert_eq!(allowed["reason"], if some { "SufficientPods" } else { "InsufficientPods" });
    ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"].map(number)
}

/// A ReplicaSet with that many replicas, and pods of it: no controller makes any here.
async fn set_of(world: &World, replicas: i64, pods: usize) {
    let set = world
        .post(
            SETS,
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"},
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": {"app": "a"}},
                    "template": {
                        "metadata": {"labels": {"app": "a"}},
                        "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
                    },
                },
            }),
        )
        .await;
    for n in 0..pods {
        let mut owner = common::owner(&set, true);
        owner["controller"] = json!(true);
        let metadata = json!({"labels": {"app": "a"}, "ownerReferences": [owner]});
        world.pod(&format!("p{n}"), json!({"metadata": metadata})).await;
    }
}

async fn evict(world: &World, pod: &str) -> Result<(), String> {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    let answer = world.client.post(&format!("{PODS}/{pod}/eviction"), Bytes::from(body.to_string())).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn a_budget_counts_pods_and_lets_as_many_be_evicted_as_it_has_to_spare() {
    let world = World::new(quick(1)).await;
    budget(&world, "b", json!({"minAvailable": 2})).await;
    world.pass(1000).await;
    assert_eq!(numbers(&world, "b").await, [0, 0, 2, 0]);
    for n in 0..3 {
        world.pod(&format!("p{n}"), json!({"metadata": {"labels": {"app": "a"}}})).await;
    }
    world.pod("other", json!({"metadata": {"labels": {"app": "b"}}})).await;
    world.pass(1000).await;
    assert_eq!(numbers(&world, "b").await, [1, 3, 2, 3]);

    evict(&world, "p0").await.expect("there is one to spare");
    let refused = evict(&world, "p1").await.expect_err("the next breaks it");
    assert!(refused.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{refused}");
    world.pass(1000).await;
    assert_eq!(numbers(&world, "b").await, [0, 2, 2, 2]);
    assert_eq!(world.get(&format!("{BUDGETS}/b")).await["status"]["disruptedPods"], Value::Null);
    evict(&world, "p1").await.expect_err("none to spare");

    world.pod("p3", json!({"metadata": {"labels": {"app": "a"}}})).await;
    world.pass(1000).await;
    evict(&world, "p1").await.expect("one more came");
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn percentages_are_of_the_replicas_that_the_owner_wants() {
    let world = World::new(quick(1)).await;
    set_of(&world, 10, 7).await;
    budget(&world, "least", json!({"minAvailable": "45%"})).await;
    budget(&world, "most", json!({"maxUnavailable": "35%"})).await;
    world.pass(1000).await;
    assert_eq!(numbers(&world, "least").await, [2, 7, 5, 10]);
    assert_eq!(numbers(&world, "most").await, [1, 7, 6, 10]);
    // The owner's new scale counts at the next change of a pod.
    world.merge(&format!("{SETS}/s"), json!({"spec": {"replicas": 8}})).await;
    world.delete(&format!("{PODS}/p6"), json!({})).await;
    world.pass(1000).await;
    assert_eq!(numbers(&world, "least").await, [2, 6, 4, 8]);
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn a_percentage_of_pods_whose_owner_does_not_scale_cannot_be_told() {
    let world = World::new(quick(1)).await;
    world.pod("free", json!({"metadata": {"labels": {"app": "a"}}})).await;
    budget(&world, "b", json!({"maxUnavailable": 1})).await;
    world.pass(1000).await;
    let reasons = || async {
        let events = world.items("/api/v1/namespaces/default/events").await;
        events.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&world, "b").await, [0, 1, 0, 0]);
    assert!(reasons().await.contains(&"UnmanagedPods".to_owned()));

    let mut owner = common::owner(&world.map("m", &[]).await, false);
    owner["controller"] = json!(true);
    world.pod("owned", json!({"metadata": {"labels": {"app": "a"}, "ownerReferences": [owner]}})).await;
    world.pass(1000).await;
    let budget = world.get(&format!("{BUDGETS}/b")).await;
    let failed = condition(&budget, "DisruptionAllowed");
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("False"), &json!("SyncFailed")));
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(reasons().await.contains(&"CalculateExpectedPodCountFailed".to_owned()));
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn a_pod_whose_eviction_came_to_nothing_counts_again_after_two_minutes() {
    let world = World::new(quick(1)).await;
    for n in 0..3 {
        let metadata = json!({"labels": {"app": "a"}, "finalizers": ["example.com/stay"]});
        world.pod(&format!("p{n}"), json!({"metadata": metadata})).await;
    }
    budget(&world, "b", json!({"minAvailable": 2})).await;
    world.pass(1000).await;
    // Someone took p0 off the budget and never deleted it.
    let disrupted = json!({"status": {"disruptedPods": {"p0": "2026-01-01T00:00:01Z"}, "disruptionsAllowed": 0}});
    world.merge(&format!("{BUDGETS}/b/status"), disrupted).await;
    world.pass(1000).await;
    assert_eq!(numbers(&world, "b").await, [0, 2, 2, 3]);
    world.pass(130_000).await;
    assert_eq!(numbers(&world, "b").await, [1, 3, 2, 3]);
    assert_eq!(world.get(&format!("{BUDGETS}/b")).await["status"]["disruptedPods"], Value::Null);
}
