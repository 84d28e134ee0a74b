//! Namespaces on an embedded server in virtual time.

mod common;

use std::time::Duration;

use common::{World, condition, quick};
use muster_cluster::Options;
use serde_json::{Value, json};

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "app", "image": "nginx:1"}]}})
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn every_namespace_is_furnished_and_refurnished() {
    let world = World::new(quick(1)).await;
    world.post("/api/v1/namespaces", namespace("mine")).await;
    world.pass(1000).await;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease", "mine"] {
        let path = format!("/api/v1/namespaces/{name}");
        assert!(world.find(&format!("{path}/serviceaccounts/default")).await.is_some(), "{name}");
        let map = world.get(&format!("{path}/configmaps/kube-root-ca.crt")).await;
        assert_eq!(map["data"], json!({"ca.crt": "the certificate"}), "{name}");
    }
    let path = "/api/v1/namespaces/mine";
    world.delete(&format!("{path}/serviceaccounts/default"), json!({})).await;
    world
        .merge(&format!("{path}/configmaps/kube-root-ca.crt"), json!({"data": {"ca.crt": "forged", "more": "x"}}))
        .await;
    world.pass(1000).await;
    assert!(world.find(&format!("{path}/serviceaccounts/default")).await.is_some());
    let map = world.get(&format!("{path}/configmaps/kube-root-ca.crt")).await;
    assert_eq!(map["data"], json!({"ca.crt": "the certificate"}));
    let version = map["metadata"]["resourceVersion"].clone();
    world.pass(600_000).await;
    let map = world.get(&format!("{path}/configmaps/kube-root-ca.crt")).await;
    assert_eq!(map["metadata"]["resourceVersion"], version, "what is right is left alone");
}

/// Contract: API-36
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_left_alone_for_as_long_as_is_said() {
    let world = World::new(Options { namespace_grace: Duration::from_secs(5), ..quick(1) }).await;
    world.post("/api/v1/namespaces", namespace("mine")).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    world.post("/api/v1/namespaces/mine/configmaps", map).await;
    world.pass(1000).await;
    world.delete("/api/v1/namespaces/mine", json!({})).await;
    world.pass(4900).await;
    assert!(world.find("/api/v1/namespaces/mine/configmaps/a").await.is_some(), "others may empty it");
    world.pass(2000).await;
    assert!(world.find("/api/v1/namespaces/mine").await.is_none());
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn deletion_empties_a_namespace_then_removes_it() {
    let world = World::new(Options { pod_shutdown: Duration::from_secs(3), ..quick(1) }).await;
    world.post("/api/v1/namespaces", namespace("mine")).await;
    let path = "/api/v1/namespaces/mine";
    for n in 0..5 {
        world.post(&format!("{path}/pods"), pod(&format!("p{n}"))).await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}});
        world.post(&format!("{path}/configmaps"), map).await;
    }
    world.pass(1000).await;
    world.delete(path, json!({})).await;
    world.pass(1000).await;
    let terminating = world.get(path).await;
    assert_eq!(terminating["status"]["phase"], "Terminating");
    let remaining = condition(&terminating, "NamespaceContentRemaining");
    assert_eq!(
        (&remaining["status"], &remaining["message"]),
        (&json!("True"), &json!("Some resources are remaining: pods. has 5 resource instances"))
    );
    let refused = world.try_post(&format!("{path}/pods"), pod("late")).await.expect_err("it is terminating");
    assert!(refused.api().is_some_and(muster_runtime::client::ApiError::is_namespace_terminating), "{refused}");
    world.pass(5000).await;
    assert_eq!(world.find(path).await, None);
    // Made again, it is empty but for what every namespace gets.
    world.post("/api/v1/namespaces", namespace("mine")).await;
    world.pass(1000).await;
    assert!(world.names(&format!("{path}/pods")).await.is_empty());
    assert_eq!(world.names(&format!("{path}/configmaps")).await, ["kube-root-ca.crt"]);
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn content_that_finalizers_keep_keeps_the_namespace() {
    let world = World::new(quick(1)).await;
    world.post("/api/v1/namespaces", namespace("mine")).await;
    let path = "/api/v1/namespaces/mine";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    world.post(&format!("{path}/configmaps"), map).await;
    world.delete(path, json!({})).await;
    world.pass(10_000).await;
    let terminating = world.get(path).await;
    let finalizers = condition(&terminating, "NamespaceFinalizersRemaining");
    assert_eq!(
        finalizers["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    assert_eq!(condition(&terminating, "NamespaceDeletionDiscoveryFailure")["status"], "False");
    world.merge(&format!("{path}/configmaps/held"), json!({"metadata": {"finalizers": null}})).await;
    world.pass(5000).await;
    assert_eq!(world.find(path).await, None);
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn an_empty_namespace_goes_within_a_second_and_finalizers_of_others_are_left() {
    let world = World::new(quick(0)).await;
    let mut mine = namespace("mine");
    mine["spec"] = json!({"finalizers": ["kubernetes", "example.com/mine"]});
    world.post("/api/v1/namespaces", mine).await;
    world.post("/api/v1/namespaces", namespace("other")).await;
    for name in ["mine", "other"] {
        world.delete(&format!("/api/v1/namespaces/{name}"), json!({})).await;
    }
    world.pass(1000).await;
    assert_eq!(world.find("/api/v1/namespaces/other").await, None);
    let mine = world.get("/api/v1/namespaces/mine").await;
    assert_eq!(mine["spec"]["finalizers"], json!(["example.com/mine"]));
}
