//! Requests whose bodies are protobuf, as kubectl and client-go send them.

use muster_apiserver::codec::to_protobuf;
use muster_apiserver::kinds;
use muster_apiserver::model::api_version;
use serde_json::{Value, json};

use crate::support::{Answer, Server, start};

const HEADERS: [(&str, &str); 1] = [("Content-Type", "application/vnd.kubernetes.protobuf")];

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> Answer {
    let body = to_protobuf(&body.clone().into()).expect("protobuf has a form for it");
    server.send(method, path, &HEADERS, body).await
}

/// The object without what differs between two creations.
fn lasting(answer: &Answer) -> Value {
    let mut object = answer.json();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    object
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn every_kind_is_created_from_protobuf_as_from_json() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/kinds.json")).expect("the vectors are JSON");
    let server = start();
    for group in vectors["kinds"].as_array().expect("a list") {
        let kinds = kinds::all();
        let known = kinds.iter().map(|kind| kind.resource());
        let resource = known.into_iter().find(|resource| *resource.kind == group["kind"]).expect("a served kind");
        let mut object = group["base"].clone();
        let version = api_version(&resource.group, &resource.version);
        object["apiVersion"] = json!(version);
        object["kind"] = json!(resource.kind);
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        let scope = if resource.namespaced { "/namespaces/default" } else { "" };
        if object["metadata"]["namespace"].is_string() || resource.kind == "Event" {
            object["metadata"]["namespace"] = json!("default");
            object["involvedObject"]["namespace"] = json!("default");
        }
        let path = format!("{root}/{version}{scope}/{}?dryRun=All", resource.plural);
        let from_json = server.post(&path, &object).await;
        assert_eq!(from_json.status, 201, "{path}: {}", from_json.json());
        let from_protobuf = send(&server, "POST", &path, &object).await;
        assert_eq!(lasting(&from_protobuf), lasting(&from_json), "{path}");
    }
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn scales_options_bindings_and_evictions_are_read_from_protobuf() {
    let server = start();
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    assert_eq!(send(&server, "POST", sets, &set).await.status, 201);
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "s"}, "spec": {"replicas": 7},
    });
    let scaled = send(&server, "PUT", &format!("{sets}/s/scale"), &scale).await.json();
    assert_eq!(scaled["spec"]["replicas"], 7);
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"});
    let deleted = send(&server, "DELETE", &format!("{sets}/s"), &options).await;
    assert_eq!(deleted.status, 200, "{}", deleted.json());
    let left = server.get(&format!("{sets}/s")).await.json();
    assert_eq!(left["metadata"]["finalizers"], json!(["foregroundDeletion"]));

    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(send(&server, "POST", pods, &pod).await.status, 201);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"},
    });
    let bound = send(&server, "POST", &format!("{pods}/p/binding"), &binding).await;
    assert_eq!(bound.status, 201, "{}", bound.json());
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let evicted = send(&server, "POST", &format!("{pods}/p/eviction"), &eviction).await;
    assert_eq!(evicted.status, 201, "{}", evicted.json());
}

/// A client's zero-based clock, or one far ahead: client-go's own tests count from the year 1.
///
/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn times_of_every_year_go_through_protobuf() {
    let server = start();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (name, time) in [
        ("first", "0001-01-01T00:00:02.000000Z"),
        ("old", "1676-01-01T00:00:00.000001Z"),
        ("now", "2026-01-01T00:00:00.123456Z"),
        ("far", "9999-12-31T23:59:59.999999Z"),
    ] {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"renewTime": time},
        });
        let created = send(&server, "POST", leases, &lease).await;
        assert_eq!(created.status, 201, "{}", created.json());
        let stored = server.get(&format!("{leases}/{name}")).await.json();
        assert_eq!(stored["spec"]["renewTime"], time);
        // And out again.
        let accept = [("Accept", "application/vnd.kubernetes.protobuf")];
        let told = server.send("GET", &format!("{leases}/{name}"), &accept, Vec::<u8>::new()).await;
        assert_eq!(told.body, to_protobuf(&stored.into()).expect("a Lease has a form in protobuf"));
    }
}
