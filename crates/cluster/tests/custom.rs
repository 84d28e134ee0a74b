//! Kinds that come and go while the cluster runs: their objects are collected, counted, and deleted with their namespace.

mod common;

use common::{MAPS, World, owner, quick};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Defines widgets, and gadgets in the version that the group prefers, which widgets do not have.
async fn define(world: &World) {
    for (plural, singular, kind, version) in
        [("widgets", "widget", "Widget", "v1"), ("gadgets", "gadget", "Gadget", "v2")]
    {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                    "subresources": {
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                }],
            },
        });
        world.post(DEFINITIONS, definition).await;
    }
    world.pass(1000).await;
}

fn widget(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"replicas": 4},
    })
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn custom_objects_are_owners_and_owned() {
    let world = World::new(quick(0)).await;
    define(&world).await;
    let first = world.post(WIDGETS, widget("first", &[])).await;
    let map = world.map("m", &[owner(&first, false)]).await;
    world.post(WIDGETS, widget("second", &[owner(&map, false)])).await;
    world.pass(1000).await;
    assert_eq!(world.names(WIDGETS).await, ["first", "second"]);
    world.delete(&format!("{WIDGETS}/first"), json!({})).await;
    world.pass(2000).await;
    assert!(world.names(WIDGETS).await.is_empty());
    assert!(world.find(&format!("{MAPS}/m")).await.is_none());

    // A kind that is served no more takes what its objects own along.
    let last = world.post(WIDGETS, widget("last", &[])).await;
    world.map("m", &[owner(&last, false)]).await;
    world.pass(1000).await;
    world.delete(&format!("{DEFINITIONS}/widgets.example.com"), json!({})).await;
    world.pass(5000).await;
    assert!(world.find(&format!("{DEFINITIONS}/widgets.example.com")).await.is_none());
    assert!(world.find(&format!("{MAPS}/m")).await.is_none());
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_its_custom_objects() {
    let world = World::new(quick(0)).await;
    define(&world).await;
    world.post("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).await;
    let widgets = "/apis/example.com/v1/namespaces/n/widgets";
    world.post(widgets, widget("w", &[])).await;
    world.delete("/api/v1/namespaces/n", json!({})).await;
    world.pass(10_000).await;
    assert!(world.find("/api/v1/namespaces/n").await.is_none());
    assert!(world.items(widgets).await.is_empty());
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn a_quota_counts_custom_objects() {
    let world = World::new(quick(0)).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/widgets.example.com": "5"});
    world
        .post(
            quotas,
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    define(&world).await;
    for name in ["a", "b"] {
        world.post(WIDGETS, widget(name, &[])).await;
    }
    world.pass(1000).await;
    world.delete(&format!("{WIDGETS}/a"), json!({})).await;
    world.pass(10_000).await;
    let quota = world.get(&format!("{quotas}/q")).await;
    assert_eq!(quota["status"]["used"], json!({"count/widgets.example.com": "1"}));
}

/// Contract: API-27
#[tokio::test(start_paused = true)]
async fn a_budget_takes_the_scale_of_a_custom_owner() {
    let world = World::new(quick(1)).await;
    define(&world).await;
    let set = world.post(WIDGETS, widget("w", &[])).await;
    let mut reference = owner(&set, false);
    reference["controller"] = json!(true);
    let metadata = json!({"labels": {"app": "a"}, "ownerReferences": [reference]});
    world.pod("p", json!({"metadata": metadata})).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    world
        .post(
            budgets,
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                "spec": {"selector": {"matchLabels": {"app": "a"}}, "maxUnavailable": "50%"},
            }),
        )
        .await;
    world.pass(1000).await;
    let status = world.get(&format!("{budgets}/b")).await["status"].clone();
    assert_eq!((&status["expectedPods"], &status["desiredHealthy"]), (&json!(4), &json!(2)));
}
