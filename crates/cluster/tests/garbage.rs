//! Garbage collection on an embedded server in virtual time.

mod common;

use common::{MAPS, PODS, World, is_ready, owner, quick};
use serde_json::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// A ReplicaSet of no replicas: something with the semantics of an owner.
async fn set(world: &World, name: &str, owners: &[Value]) -> Value {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "ownerReferences": owners},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "nginx:1"}]}},
        },
    });
    world.post(SETS, set).await
}

async fn maps(world: &World) -> Vec<String> {
    world.names(MAPS).await.into_iter().filter(|name| name != "kube-root-ca.crt").collect()
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn dependents_of_an_absent_owner_go_and_theirs_after_them() {
    let world = World::new(quick(1)).await;
    let top = set(&world, "top", &[]).await;
    let middle = set(&world, "middle", &[owner(&top, true)]).await;
    for n in 0..20 {
        world.map(&format!("leaf-{n}"), &[owner(&middle, false)]).await;
        world.pod(&format!("pod-{n}"), json!({"metadata": {"ownerReferences": [owner(&middle, true)]}})).await;
    }
    let other = world.map("other", &[]).await;
    world.pass(1000).await;
    assert_eq!(maps(&world).await.len(), 21);
    assert!(world.items(PODS).await.iter().all(is_ready));
    world.delete(&format!("{SETS}/top"), json!({"propagationPolicy": "Background"})).await;
    assert_eq!(world.names(SETS).await, ["middle"], "the owner is gone at once");
    world.pass(1000).await;
    assert!(world.names(SETS).await.is_empty());
    assert!(world.names(PODS).await.is_empty());
    assert_eq!(
        world.items(MAPS).await.iter().filter(|map| map["metadata"]["uid"] == other["metadata"]["uid"]).count(),
        1
    );
    assert_eq!(maps(&world).await, ["other"]);
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn an_owner_that_never_was_is_looked_up_and_its_dependent_goes() {
    let world = World::new(quick(1)).await;
    let real = world.map("real", &[]).await;
    let mut ghost = owner(&real, false);
    ghost["uid"] = json!("00000000-0000-4000-8000-00000000dead");
    let mut nobody = ghost.clone();
    nobody["name"] = json!("nobody");
    world.map("of-a-ghost", std::slice::from_ref(&ghost)).await;
    world.map("of-nobody", std::slice::from_ref(&nobody)).await;
    world.map("of-both", &[ghost.clone(), nobody]).await;
    world.map("of-a-ghost-and-the-real-one", &[ghost, owner(&real, true)]).await;
    let mut unknown = owner(&real, false);
    unknown["apiVersion"] = json!("example.com/v1");
    unknown["kind"] = json!("Widget");
    unknown["uid"] = json!("00000000-0000-4000-8000-00000000beef");
    world.map("of-an-unknown-kind", &[unknown]).await;
    world.pass(1000).await;
    assert_eq!(maps(&world).await, ["of-a-ghost-and-the-real-one", "of-an-unknown-kind", "real"]);
    let mixed = world.get(&format!("{MAPS}/of-a-ghost-and-the-real-one")).await;
    assert_eq!(
        mixed["metadata"]["ownerReferences"],
        json!([owner(&real, true)]),
        "only the dangling one is taken away"
    );
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn foreground_waits_for_blocking_dependents() {
    let world = World::new(quick(1)).await;
    let top = set(&world, "top", &[]).await;
    let middle = set(&world, "middle", &[owner(&top, true)]).await;
    let held = json!({"metadata": {"ownerReferences": [owner(&middle, true)], "finalizers": ["example.com/hold"]}});
    world.pod("held", held).await;
    world.map("loose", &[owner(&top, false)]).await;
    world.pass(100).await;
    world.delete(&format!("{SETS}/top"), json!({"propagationPolicy": "Foreground"})).await;
    world.pass(1000).await;
    let top = world.get(&format!("{SETS}/top")).await;
    assert_eq!(top["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let middle = world.get(&format!("{SETS}/middle")).await;
    assert!(!middle["metadata"]["deletionTimestamp"].is_null(), "the dependent is deleted in the foreground too");
    assert!(!world.get(&format!("{PODS}/held")).await["metadata"]["deletionTimestamp"].is_null());
    assert!(maps(&world).await.is_empty(), "what does not block is deleted as well");
    world.merge(&format!("{PODS}/held"), json!({"metadata": {"finalizers": null}})).await;
    world.pass(1000).await;
    assert!(world.names(PODS).await.is_empty());
    assert!(world.names(SETS).await.is_empty());
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn orphans_lose_their_reference_and_stay() {
    let world = World::new(quick(1)).await;
    let top = set(&world, "top", &[]).await;
    let other = world.map("other", &[]).await;
    for n in 0..40 {
        world.map(&format!("child-{n:02}"), &[owner(&top, true), owner(&other, false)]).await;
    }
    world.pass(100).await;
    world.delete(&format!("{SETS}/top"), json!({"propagationPolicy": "Orphan"})).await;
    world.pass(1000).await;
    assert!(world.names(SETS).await.is_empty());
    let children = world.items(MAPS).await;
    let children: Vec<_> = children
        .iter()
        .filter(|map| map["metadata"]["name"].as_str().is_some_and(|n| n.starts_with("child")))
        .collect();
    assert_eq!(children.len(), 40);
    for child in children {
        assert_eq!(child["metadata"]["ownerReferences"], json!([owner(&other, false)]));
    }
    world.pass(60_000).await;
    assert_eq!(maps(&world).await.len(), 41, "and nothing follows");
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn a_dependent_that_waits_for_one_owner_but_has_another_is_let_go() {
    let world = World::new(quick(1)).await;
    let (going, staying) = (set(&world, "going", &[]).await, set(&world, "staying", &[]).await);
    world.map("shared", &[owner(&going, true), owner(&staying, true)]).await;
    world.pass(100).await;
    world.delete(&format!("{SETS}/going"), json!({"propagationPolicy": "Foreground"})).await;
    world.pass(1000).await;
    assert_eq!(world.names(SETS).await, ["staying"]);
    assert_eq!(
        world.get(&format!("{MAPS}/shared")).await["metadata"]["ownerReferences"],
        json!([owner(&staying, true)])
    );
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn a_cycle_of_blocking_owners_can_be_deleted() {
    let world = World::new(quick(1)).await;
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[owner(&a, true)]).await;
    world.merge(&format!("{MAPS}/a"), json!({"metadata": {"ownerReferences": [owner(&b, true)]}})).await;
    world.pass(100).await;
    world.delete(&format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"})).await;
    world.pass(2000).await;
    assert!(maps(&world).await.is_empty());
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn a_dependent_that_is_adopted_in_time_stays() {
    let world = World::new(quick(1)).await;
    let (old, new) = (world.map("old", &[]).await, world.map("new", &[]).await);
    world.map("child", &[owner(&old, false)]).await;
    world.pass(100).await;
    // Both before the collector has seen either.
    world.merge(&format!("{MAPS}/child"), json!({"metadata": {"ownerReferences": [owner(&new, false)]}})).await;
    world.delete(&format!("{MAPS}/old"), json!({})).await;
    world.pass(5000).await;
    assert_eq!(maps(&world).await, ["child", "new"]);
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn objects_without_a_namespace_own_those_in_one() {
    let world = World::new(quick(1)).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hers"}});
    let node = world.post("/api/v1/nodes", node).await;
    world.map("of-a-node", &[owner(&node, false)]).await;
    world.pass(5000).await;
    assert_eq!(maps(&world).await, ["of-a-node"]);
    world.delete("/api/v1/nodes/hers", json!({})).await;
    world.pass(1000).await;
    assert!(maps(&world).await.is_empty());
}

/// Contract: API-19
#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_owns_nothing_and_is_told_of() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let world = World::new(quick(0)).await;
    world
        .post("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elsewhere"}});
    let elsewhere = world.post("/api/v1/namespaces/other/configmaps", elsewhere).await;
    world.pass(1000).await;
    let child = world.map("child", &[owner(&elsewhere, false)]).await;
    world.pass(5000).await;
    assert!(maps(&world).await.is_empty());
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let told = world.items(EVENTS).await;
    let told: Vec<&Value> = told.iter().filter(|event| event["reason"] == "OwnerRefInvalidNamespace").collect();
    let [event] = told[..] else { panic!("{told:?}") };
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: elsewhere, uid: {}] does not exist in namespace \"default\"",
        uid(&elsewhere)
    );
    assert_eq!((&event["message"], &event["type"]), (&json!(message), &json!("Warning")));
    assert_eq!(event["source"]["component"], "garbage-collector-controller");
    let about = &event["involvedObject"];
    assert_eq!((&about["name"], &about["uid"]), (&json!("child"), &json!(uid(&child))));
}
