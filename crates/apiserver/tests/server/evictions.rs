//! Evictions at the same time: a budget is spent once.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::listen;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const COUNT: usize = 24;

/// Contract: API-27
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_pods_are_evicted_than_the_budget_allows() {
    let server = Arc::new(listen().await);
    for at in 0..COUNT {
        let name = format!("p{at}");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        assert_eq!(server.post(PODS, &pod).await.status, 201);
        let runs = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(server.merge(&format!("{PODS}/{name}/status"), &runs).await.status, 200);
    }
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 5},
    });
    assert_eq!(server.post(BUDGETS, &budget).await.status, 201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 5, "currentHealthy": COUNT, "desiredHealthy": COUNT - 5,
        "expectedPods": COUNT,
    }});
    assert_eq!(server.merge(&format!("{BUDGETS}/web/status"), &status).await.status, 200);

    let asked: Vec<_> = (0..COUNT)
        .map(|at| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let name = format!("p{at}");
                let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
                server.post(&format!("{PODS}/{name}/eviction"), &body).await.status
            })
        })
        .collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("an answer"));
    }
    let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(201), count(429)), (5, COUNT - 5), "{answers:?}");

    let budget = server.get(&format!("{BUDGETS}/web")).await.json();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    let pods = server.get(PODS).await.json();
    let going = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let going: Vec<&str> = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(going)
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    let told: Vec<&String> =
        budget["status"]["disruptedPods"].as_object().into_iter().flat_map(|pods| pods.keys()).collect();
    assert_eq!(told, going);
}
