//! The whole shell around the Deployment controller, against a scripted server under paused time.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    manager::{DEPLOYMENT, Manager, Options},
    metrics::Metrics,
    script::{Asked, Server, Stream, server},
    shutdown::{self, Trigger},
};

fn deployment(version: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "00000000-0000-0000-0000-000000000001",
            "resourceVersion": version.to_string(), "generation": 1,
        },
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {},
    })
}

/// A ReplicaSet as the server makes it of what was posted.
fn created(body: &[u8], version: u64) -> Value {
    let mut set: Value = serde_json::from_slice(body).unwrap();
    set["metadata"]["namespace"] = json!("ns");
    set["metadata"]["uid"] = json!(format!("00000000-0000-0000-0001-{version:012}"));
    set["metadata"]["resourceVersion"] = json!(version.to_string());
    set["metadata"]["generation"] = json!(1);
    set["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    set["status"] = json!({"replicas": 0});
    set
}

struct Cluster {
    server: Server,
    pods: Option<Stream>,
    sets: Option<Stream>,
    deployments: Option<Stream>,
    metrics: Metrics,
    /// The Deployment as the server has it.
    stored: Value,
    /// Dropped, it would stop the manager.
    _trigger: Trigger,
}

/// A manager of Deployments whose caches are about to sync.
async fn launch() -> Cluster {
    let (client, server) = server();
    let options = Options { controllers: BTreeSet::from([DEPLOYMENT]), ..Options::default() };
    let manager = Manager::new(&client, options);
    let metrics = manager.metrics();
    let (trigger, stop) = shutdown::channel();
    tokio::spawn(manager.run(stop));
    let mut cluster = Cluster {
        server,
        pods: None,
        sets: None,
        deployments: None,
        metrics,
        stored: deployment(10),
        _trigger: trigger,
    };
    for _ in 0..3 {
        let asked = cluster.server.next().await;
        cluster.watch(asked);
    }
    cluster
}

/// A manager whose caches have synced, with one Deployment at version 10 and nothing else.
async fn cluster() -> Cluster {
    let cluster = launch().await;
    cluster.deployments.as_ref().unwrap().event("ADDED", &deployment(10));
    for stream in [&cluster.pods, &cluster.sets, &cluster.deployments] {
        stream.as_ref().unwrap().bookmark(10, true);
    }
    cluster
}

impl Cluster {
    /// The next write that is not an Event; Events are accepted. A watch that has ended is opened again.
    async fn next(&mut self) -> Asked {
        loop {
            let asked = self.server.next().await;
            if asked.method.as_str() == "GET" {
                self.watch(asked);
            } else if let Some(asked) = accept_event(asked) {
                return asked;
            }
        }
    }

    fn watch(&mut self, asked: Asked) {
        let place = match asked.path.split('?').next().unwrap_or_default() {
            "/api/v1/pods" => &mut self.pods,
            "/apis/apps/v1/replicasets" => &mut self.sets,
            "/apis/apps/v1/deployments" => &mut self.deployments,
            other => panic!("{other}"),
        };
        *place = Some(asked.stream());
    }

    async fn nothing_more(&mut self) {
        while let Some(asked) = self.server.try_next().await {
            if let Some(asked) = accept_event(asked) {
                panic!("{} {}", asked.method, asked.path);
            }
        }
    }

    /// Answers the next request, which creates a ReplicaSet; the ReplicaSet.
    async fn create(&mut self, version: u64) -> Value {
        let asked = self.next().await;
        assert_eq!((asked.method.as_str(), &*asked.path), ("POST", "/apis/apps/v1/namespaces/ns/replicasets"));
        let set = created(&asked.body, version);
        asked.answer(201, set.to_string());
        set
    }

    /// Answers the next request, which writes the status; the Deployment that it leads to.
    async fn status(&mut self, version: u64) -> Value {
        let asked = self.next().await;
        self.write_status(asked, version).1
    }

    /// Answers a status write; returns its patch, and the Deployment after it.
    fn write_status(&mut self, asked: Asked, version: u64) -> (Value, Value) {
        assert_eq!(asked.method.as_str(), "PATCH", "{}", asked.path);
        assert_eq!(asked.path, "/apis/apps/v1/namespaces/ns/deployments/web/status");
        let patch: Value = serde_json::from_slice(&asked.body).unwrap();
        merge(&mut self.stored, &patch);
        self.stored["metadata"]["resourceVersion"] = json!(version.to_string());
        asked.answer(200, self.stored.to_string());
        (patch, self.stored.clone())
    }

    fn skips(&self) -> usize {
        let text = self.metrics.encode();
        let skips = text.lines().filter(|line| line.starts_with("deployment_controller_stale_sync_skips_total"));
        skips.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
    }
}

/// Merges as the server does: conditions by type, everything else by name.
fn merge(stored: &mut Value, patch: &Value) {
    for (name, value) in patch.as_object().unwrap() {
        match value {
            Value::Object(_) => {
                if !stored[name].is_object() {
                    stored[name] = json!({});
                }
                merge(&mut stored[name], value);
            }
            Value::Array(conditions) if name == "conditions" => {
                let mut merged = stored[name].as_array().cloned().unwrap_or_default();
                for condition in conditions {
                    merged.retain(|old| old["type"] != condition["type"]);
                    if condition.get("$patch").is_none() {
                        merged.push(condition.clone());
                    }
                }
                stored[name] = json!(merged);
            }
            Value::Null => {
                stored.as_object_mut().unwrap().remove(name);
            }
            _ if name.starts_with('$') => {}
            _ => stored[name] = value.clone(),
        }
    }
}

/// Accepts an Event; returns any other request.
fn accept_event(asked: Asked) -> Option<Asked> {
    if !asked.path.contains("/events") {
        return Some(asked);
    }
    asked.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
    None
}

/// Contract: INF-02
#[tokio::test(start_paused = true)]
async fn no_worker_starts_before_all_three_caches_have_synced() {
    let mut cluster = launch().await;
    cluster.deployments.as_ref().unwrap().event("ADDED", &deployment(10));
    cluster.deployments.as_ref().unwrap().bookmark(10, true);
    cluster.sets.as_ref().unwrap().bookmark(10, true);
    // Not so long that the streaming list is given up.
    tokio::time::sleep(Duration::from_secs(25)).await;
    cluster.nothing_more().await;
    cluster.pods.as_ref().unwrap().bookmark(10, true);
    assert_eq!(cluster.next().await.method.as_str(), "POST");
}

/// Contract: DEP-01, DEP-04, DEP-15
#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_replica_set_and_its_status() {
    let mut cluster = cluster().await;
    let set = cluster.create(11).await;
    assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "Deployment");
    assert_eq!(set["spec"]["replicas"], 1);
    let written = cluster.status(12).await;
    assert_eq!(written["status"]["observedGeneration"], 1);
    cluster.sets.as_ref().unwrap().event("ADDED", &set);
    cluster.deployments.as_ref().unwrap().event("MODIFIED", &written);
    cluster.nothing_more().await;

    // The ReplicaSet's controller reports its pod.
    let mut reported = set.clone();
    reported["metadata"]["resourceVersion"] = json!("13");
    reported["status"] = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1});
    cluster.sets.as_ref().unwrap().event("MODIFIED", &reported);
    let written = cluster.status(14).await;
    assert_eq!(written["status"]["availableReplicas"], 1, "{written}");
    cluster.deployments.as_ref().unwrap().event("MODIFIED", &written);
    // What changes nothing writes nothing.
    cluster.nothing_more().await;
}

/// Contract: RS-19, B-17
#[tokio::test(start_paused = true)]
async fn a_sync_waits_for_a_stale_cache_and_is_woken_by_it() {
    let mut cluster = cluster().await;
    let set = cluster.create(11).await;
    let mut written = cluster.status(12).await;
    cluster.nothing_more().await;
    assert_eq!(cluster.skips(), 0);
    // Another event of the Deployment comes before its cache shows its ReplicaSet.
    written["metadata"]["resourceVersion"] = json!("13");
    written["metadata"]["generation"] = json!(2);
    written["spec"]["replicas"] = json!(2);
    cluster.deployments.as_ref().unwrap().event("MODIFIED", &written);
    cluster.nothing_more().await;
    assert_eq!(cluster.skips(), 1, "a second ReplicaSet would have been made");
    let before = tokio::time::Instant::now();
    cluster.sets.as_ref().unwrap().event("ADDED", &set);
    let scaled = cluster.next().await;
    let name = set["metadata"]["name"].as_str().unwrap();
    assert_eq!(scaled.path, format!("/apis/apps/v1/namespaces/ns/replicasets/{name}"));
    assert_eq!(before.elapsed(), Duration::ZERO, "woken, not retried");
}

/// Contract: B-17
#[tokio::test(start_paused = true)]
async fn a_cache_that_never_catches_up_is_not_waited_for_without_limit() {
    let mut cluster = cluster().await;
    cluster.create(11).await;
    let mut written = cluster.status(12).await;
    written["metadata"]["resourceVersion"] = json!("13");
    cluster.deployments.as_ref().unwrap().event("MODIFIED", &written);
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.nothing_more().await;
    let text = cluster.metrics.encode();
    let retries = text.lines().find(|line| line.starts_with("workqueue_retries_total")).unwrap();
    assert!(!retries.ends_with(" 0"), "after the limit it is retried at a rate limit: {retries}");
}

/// Contract: B-06, DEP-23
#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_is_kept_and_its_condition_says_why() {
    let mut cluster = cluster().await;
    let start = tokio::time::Instant::now();
    let mut version = 10;
    let mut tries: Vec<Duration> = Vec::new();
    let mut told_after = None;
    while start.elapsed() < Duration::from_secs(3_600) {
        let asked = cluster.next().await;
        if asked.method.as_str() == "POST" {
            tries.push(start.elapsed());
            asked.refuse(403, "Forbidden", "the store is full");
            continue;
        }
        version += 1;
        assert!(version < 100, "a status that is the same is not written again");
        let (patch, written) = cluster.write_status(asked, version);
        let conditions = patch["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if let Some(told) = conditions.iter().find(|condition| condition["reason"] == "SyncError") {
            assert_eq!((&told["type"], &told["status"]), (&json!("ReplicaFailure"), &json!("True")));
            assert!(told["message"].as_str().unwrap().contains("the store is full"), "{told}");
            told_after.get_or_insert(tries.len());
        }
        cluster.deployments.as_ref().unwrap().event("MODIFIED", &written);
    }
    assert_eq!(told_after, Some(16), "with the first failure after fifteen");
    let gaps: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(tries.len() > 20, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= Duration::from_secs(300)), "{gaps:?}");
    assert_eq!(gaps.last(), Some(&Duration::from_secs(300)));

    // It recovers as soon as it can, and the condition is removed.
    cluster.create(version + 1).await;
    let asked = cluster.next().await;
    let (patch, _) = cluster.write_status(asked, version + 2);
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert!(conditions.contains(&json!({"$patch": "delete", "type": "ReplicaFailure"})), "{conditions:?}");
}
