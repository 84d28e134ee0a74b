//! The status of ResourceQuotas on an embedded server in virtual time.

mod common;

use common::{MAPS, PODS, World, quick};
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(world: &World, name: &str, spec: Value) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec});
    world.post(QUOTAS, quota).await;
}

async fn used(world: &World, name: &str) -> Value {
    world.get(&format!("{QUOTAS}/{name}")).await["status"]["used"].clone()
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn a_quota_says_what_its_namespace_uses_also_when_that_becomes_less() {
    let world = World::new(quick(1)).await;
    let asking = |change: Value| {
        let mut pod = json!({"spec": {"containers": [
            {"name": "app", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}},
        ]}});
        common::merge(&mut pod, &change);
        pod
    };
    for name in ["a", "b"] {
        world.pod(name, asking(json!({}))).await;
    }
    world.pod("plain", json!({})).await;
    for name in ["x", "y", "z"] {
        world.map(name, &[]).await;
    }
    world.pass(1000).await;
    quota(
        &world,
        "all",
        json!({"hard": {
            "pods": "10", "requests.cpu": "1", "limits.cpu": "2", "configmaps": "10", "count/services": "3",
            "count/leases.coordination.k8s.io": "4", "requests.storage": "1Gi",
        }}),
    )
    .await;
    quota(&world, "poor", json!({"hard": {"pods": "10"}, "scopes": ["BestEffort"]})).await;
    world.pass(1000).await;
    let expected = json!({
        "pods": "3", "requests.cpu": "200m", "limits.cpu": "400m", "configmaps": "4", "count/services": "1",
        "count/leases.coordination.k8s.io": "0",
    });
    let all = world.get(&format!("{QUOTAS}/all")).await;
    assert_eq!(all["status"]["hard"], all["spec"]["hard"]);
    for (name, amount) in expected.as_object().expect("an object") {
        assert_eq!(all["status"]["used"][name], *amount, "{name}");
    }
    assert_eq!(used(&world, "poor").await, json!({"pods": "1"}));

    world.delete(&format!("{PODS}/a"), json!({})).await;
    world.delete(&format!("{MAPS}/x"), json!({})).await;
    world
        .merge(
            &format!("{PODS}/b"),
            json!({"metadata": {"annotations": {"muster.dev/fate": "succeed", "muster.dev/run-for": "1s"}}}),
        )
        .await;
    world.pass(5000).await;
    let after = used(&world, "all").await;
    for (name, amount) in [("pods", "1"), ("requests.cpu", "0"), ("limits.cpu", "0"), ("configmaps", "3")] {
        assert_eq!(after[name], amount, "{name}");
    }

    world.merge(&format!("{QUOTAS}/all"), json!({"spec": {"hard": {"pods": "20", "limits.cpu": null}}})).await;
    world.pass(1000).await;
    let all = world.get(&format!("{QUOTAS}/all")).await;
    assert_eq!((&all["status"]["hard"]["pods"], all["status"]["used"].get("limits.cpu")), (&json!("20"), None));
    let version = all["metadata"]["resourceVersion"].clone();
    world.pass(3_600_000).await;
    assert_eq!(world.get(&format!("{QUOTAS}/all")).await["metadata"]["resourceVersion"], version, "it is right");
}
