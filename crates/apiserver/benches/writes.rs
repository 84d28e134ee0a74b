//! How many writes a second the server does in the process, on one thread: creating a pod, binding it, and reporting
//! its status, as a cluster does for each pod.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::{ApiServer, Options};
use muster_objects::time::Timestamp;
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(server: &ApiServer, method: Method, path: &str, content_type: &str, body: Bytes) -> Bytes {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", content_type)
        .header("User-Agent", "bench/1")
        .body(Full::new(body))
        .expect("the request is well formed");
    let response = server.service().answer(request).await;
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.into_body().collect().await.expect("bodies cannot fail").to_bytes()
}

fn pod(name: &str) -> Bytes {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "11111111-2222-4333-8444-555555555555",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"containers": [{
            "name": "c", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }]},
    });
    Bytes::from(pod.to_string())
}

fn writes(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = c.benchmark_group("writes");
    group.sample_size(20).throughput(Throughput::Elements(1));

    let server = ApiServer::new(Options::seeded(1, Timestamp::from_seconds(1_800_000_000)));
    let mut next = 0_u64;
    group.bench_function("create a pod", |b| {
        b.iter(|| {
            next += 1;
            let body = pod(&format!("pod-{next}"));
            runtime.block_on(send(&server, Method::POST, PODS, "application/json", body))
        });
    });

    let ready = Bytes::from(
        json!({"status": {
            "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "hostIP": "10.1.0.1",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
            "containerStatuses": [{
                "name": "c", "image": "nginx:1.27", "imageID": "", "ready": true, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
        }})
        .to_string(),
    );
    let (mut bound, mut reported) = (0_u64, 0_u64);
    group.bench_function("bind a pod", |b| {
        b.iter_batched(
            || {
                bound += 1;
                let name = format!("bind-{bound}");
                runtime.block_on(send(&server, Method::POST, PODS, "application/json", pod(&name)));
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n"},
                });
                (format!("{PODS}/{name}/binding"), Bytes::from(binding.to_string()))
            },
            |(path, body)| runtime.block_on(send(&server, Method::POST, &path, "application/json", body)),
            criterion::BatchSize::SmallInput,
        );
    });
    group.bench_function("report a pod's status", |b| {
        b.iter_batched(
            || {
                reported += 1;
                let name = format!("status-{reported}");
                runtime.block_on(send(&server, Method::POST, PODS, "application/json", pod(&name)));
                format!("{PODS}/{name}/status")
            },
            |path| {
                let content_type = "application/strategic-merge-patch+json";
                runtime.block_on(send(&server, Method::PATCH, &path, content_type, ready.clone()))
            },
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// What a page of a hundred costs among many: no more than among few.
fn pages(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = c.benchmark_group("pages");
    group.sample_size(20);
    for objects in [200, 10_000] {
        let server = ApiServer::new(Options::seeded(1, Timestamp::from_seconds(1_800_000_000)));
        let maps = "/api/v1/namespaces/default/configmaps";
        let make = |name: String| {
            let body = Bytes::from(json!({"metadata": {"name": name}, "data": {"key": "value"}}).to_string());
            runtime.block_on(send(&server, Method::POST, maps, "application/json", body));
        };
        (0..objects).for_each(|number| make(format!("map-{number:05}")));
        let first = format!("{maps}?limit=100");
        let page: serde_json::Value = serde_json::from_slice(&runtime.block_on(send(
            &server,
            Method::GET,
            &first,
            "application/json",
            Bytes::new(),
        )))
        .expect("a list");
        let second = format!("{first}&continue={}", page["metadata"]["continue"].as_str().unwrap_or_default());
        // The rest of the list is of a version that is the present no more.
        make("zzz".to_owned());
        group.bench_function(format!("the second page of a hundred of {objects}"), |b| {
            b.iter(|| runtime.block_on(send(&server, Method::GET, &second, "application/json", Bytes::new())));
        });
    }
    group.finish();
}

/// What an apply costs by the length of a keyed list: in proportion, and no more.
fn applies(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = c.benchmark_group("applies");
    group.sample_size(10);
    for entries in [1000, 8000] {
        let server = ApiServer::new(Options::seeded(1, Timestamp::from_seconds(1_800_000_000)));
        let mut turn = 0;
        group.throughput(Throughput::Elements(entries));
        group.bench_function(format!("a ReplicaSet with {entries} environment variables"), |b| {
            b.iter(|| {
                turn += 1;
                let env: Vec<_> =
                    (0..entries).map(|at| json!({"name": format!("NAME_{at}"), "value": format!("{turn}")})).collect();
                let set = json!({
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"},
                    "spec": {
                        "selector": {"matchLabels": {"app": "a"}},
                        "template": {
                            "metadata": {"labels": {"app": "a"}},
                            "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
                        },
                    },
                });
                let path = "/apis/apps/v1/namespaces/default/replicasets/set?fieldManager=bench";
                let body = Bytes::from(set.to_string());
                runtime.block_on(send(&server, Method::PATCH, path, "application/apply-patch+yaml", body))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, writes, pages, applies);
criterion_main!(benches);
