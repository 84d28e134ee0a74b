//! Quotas from outside: what is refused, by whomever and however often it is asked for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Server};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with a quota, of which a controller has said what is limited.
async fn with_quota(server: Server, spec: Value) -> Server {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    assert_eq!(server.post(QUOTAS, &quota).await.status, 201);
    let status = json!({"status": {"hard": spec["hard"]}});
    assert_eq!(server.merge(&format!("{QUOTAS}/q/status"), &status).await.status, 200);
    server
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": resources}]},
    })
}

async fn used(server: &Server) -> Value {
    server.get(&format!("{QUOTAS}/q")).await.json()["status"]["used"].clone()
}

/// Sends all at once, and counts the answers of each status.
async fn at_once(server: &Server, path: &str, bodies: Vec<Value>) -> (usize, usize) {
    let answers = futures::future::join_all(bodies.iter().map(|body| server.post(path, body))).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    (count(201), count(403))
}

/// Contract: API-21, B-25
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_do_not_exceed_a_quota() {
    let hard = json!({"hard": {"configmaps": "7", "requests.cpu": "1", "pods": "50"}});
    let server = with_quota(support::start(), hard).await;
    let map = |i| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{i}")}});
    assert_eq!(at_once(&server, MAPS, (0..40).map(map).collect()).await, (7, 33));
    let pods = (0..40).map(|i| pod(&format!("p{i}"), "150m")).collect();
    assert_eq!(at_once(&server, PODS, pods).await, (6, 34));
    assert_eq!(used(&server).await, json!({"configmaps": "7", "requests.cpu": "900m", "pods": "6"}));
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn what_is_gone_or_over_is_not_counted() {
    let server = with_quota(support::start(), json!({"hard": {"pods": "2", "count/pods": "5"}})).await;
    let create = async |name: &str| server.post(PODS, &pod(name, "1")).await.status;
    assert_eq!((create("a").await, create("b").await, create("c").await), (201, 201, 403));
    assert_eq!(create("a").await, 403, "refused before its name is looked at");

    let done = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(server.merge(&format!("{PODS}/a/status"), &done).await.status, 200);
    assert_eq!((create("c").await, create("d").await), (201, 403));
    assert_eq!(used(&server).await, json!({"pods": "2", "count/pods": "3"}));

    // On a node that does not answer a pod stays, but counts only as long as its grace.
    assert_eq!(server.delete(&format!("{PODS}/b"), Some(&json!({"gracePeriodSeconds": 5}))).await.status, 200);
    assert_eq!(create("d").await, 403);
    tokio::time::advance(Duration::from_secs(15)).await;
    assert_eq!((create("d").await, create("e").await), (201, 403));
    assert_eq!(used(&server).await, json!({"pods": "2", "count/pods": "4"}));

    assert_eq!(server.delete(&format!("{PODS}/b"), Some(&json!({"gracePeriodSeconds": 0}))).await.status, 200);
    assert_eq!(create("e").await, 403);
    assert_eq!(server.delete(&format!("{PODS}/d"), Some(&json!({"gracePeriodSeconds": 0}))).await.status, 200);
    assert_eq!((create("e").await, create("f").await), (201, 403));
    assert_eq!(used(&server).await, json!({"pods": "2", "count/pods": "3"}));
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn sums_outlive_the_history_that_they_are_made_of() {
    let server = with_quota(support::start_with(support::forgetful()), json!({"hard": {"requests.cpu": "3"}})).await;
    assert_eq!(server.post(PODS, &pod("a", "1")).await.status, 201);
    for index in 0..60 {
        let label = json!({"metadata": {"labels": {"n": index.to_string()}}});
        assert_eq!(server.merge(&format!("{PODS}/a"), &label).await.status, 200);
    }
    assert_eq!(server.post(PODS, &pod("b", "1500m")).await.status, 201);
    let refused = server.post(PODS, &pod("c", "600m")).await.json();
    assert_eq!(
        refused["message"],
        "pods \"c\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=2500m, limited: requests.cpu=3"
    );
    assert_eq!(server.post(PODS, &pod("c", "500m")).await.status, 201);
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn sums_are_of_what_is_there_after_a_restore() {
    let server = with_quota(support::start(), json!({"hard": {"requests.cpu": "3"}})).await;
    let storage = server.api.registry().storage.clone();
    let before = storage.version();
    for name in ["a", "b", "c"] {
        assert_eq!(server.post(PODS, &pod(name, "1")).await.status, 201);
    }
    let after = storage.version();
    storage.restore(before).expect("a version in the history");
    while storage.version() < after {
        server.config_map(&format!("m{}", storage.version()), "x").await;
    }
    assert_eq!(server.post(PODS, &pod("d", "3")).await.status, 201);
    assert_eq!(server.post(PODS, &pod("e", "1m")).await.status, 403);
}

/// Contract: API-21
#[tokio::test(start_paused = true)]
async fn only_what_is_in_all_scopes_counts() {
    let spec = json!({
        "hard": {"pods": "1"},
        "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]},
        ]},
    });
    let server = with_quota(support::start(), spec).await;
    let create = async |name: &str, class: &str, deadline: Value| {
        let mut pod = pod(name, "1");
        pod["spec"]["priorityClassName"] = class.into();
        pod["spec"]["activeDeadlineSeconds"] = deadline;
        server.post(PODS, &pod).await.status
    };
    assert_eq!(create("a", "system-node-critical", json!(5)).await, 201);
    assert_eq!(create("b", "system-cluster-critical", Value::Null).await, 201);
    assert_eq!(create("c", "system-node-critical", Value::Null).await, 201);
    assert_eq!(create("d", "system-node-critical", Value::Null).await, 403);
    assert_eq!(create("d", "system-node-critical", json!(5)).await, 201);
    assert_eq!(used(&server).await, json!({"pods": "1"}));
    // With a deadline it leaves the scope.
    let deadline = json!({"spec": {"activeDeadlineSeconds": 9}});
    assert_eq!(server.merge(&format!("{PODS}/c"), &deadline).await.status, 200);
    assert_eq!(create("e", "system-node-critical", Value::Null).await, 201);
}

/// Contract: API-21, B-25
#[tokio::test(start_paused = true)]
async fn a_quota_holds_before_anybody_has_summed_up() {
    let server = support::start();
    let spec = json!({"hard": {"configmaps": "1"}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    assert_eq!(server.post(QUOTAS, &quota).await.status, 201);
    assert_eq!((server.config_map("a", "x").await.status, server.config_map("b", "x").await.status), (201, 403));
    // What is limited is for the controller to say, and nothing is told of use before.
    assert_eq!(used(&server).await, Value::Null);
}

/// Contract: API-21, B-25
#[tokio::test(start_paused = true)]
async fn a_dry_run_or_a_write_that_fails_uses_nothing() {
    let server = with_quota(support::start(), json!({"hard": {"configmaps": "2"}})).await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(server.post(MAPS, &map("a")).await.status, 201);
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), &map("b")).await.status, 201);
    assert_eq!(server.post(MAPS, &map("a")).await.status, 409);
    assert_eq!(used(&server).await, json!({"configmaps": "1"}));
    assert_eq!(server.post(MAPS, &map("b")).await.status, 201);
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), &map("c")).await.status, 403);
}
