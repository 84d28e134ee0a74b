//! What a server has from its start, and what it keeps up by itself.

use serde_json::{Value, json};

use crate::support::{self, Server};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn names(server: &Server, path: &str) -> Vec<String> {
    let list = server.get(path).await.json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Contract: API-25
#[tokio::test(start_paused = true)]
async fn every_version_that_is_served_has_an_api_service() {
    let server = support::start();
    let mut served: Vec<String> = Vec::new();
    let groups = server.get("/apis").await.json();
    for group in groups["groups"].as_array().expect("groups") {
        let versions = group["versions"].as_array().expect("versions");
        let version = |v: &Value| {
            format!("{}.{}", v["version"].as_str().unwrap_or_default(), group["name"].as_str().unwrap_or_default())
        };
        served.extend(versions.iter().map(version));
    }
    served.push("v1.".to_owned());
    served.retain(|name| name != "v1.apiregistration.k8s.io");
    served.sort_unstable();
    assert_eq!(names(&server, SERVICES).await, served);
}

/// Contract: API-25, API-28
#[tokio::test(start_paused = true)]
async fn api_services_follow_kinds_that_come_and_go() {
    let server = support::start();
    let version = |name: &str, served: bool| json!({"name": name, "served": served, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": [version("v1", true), version("v2", true)],
        },
    });
    assert_eq!(server.post(DEFINITIONS, &definition).await.status, 201);
    let service = server.get(&format!("{SERVICES}/v1.example.com")).await.json();
    assert_eq!(service["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    let spec = json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(service["spec"], spec);
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local");

    let fewer = json!({"spec": {"versions": [version("v1", true), version("v2", false)]}});
    let status = async |name: &str| server.get(&format!("{SERVICES}/{name}")).await.status;
    assert_eq!(status("v2.example.com").await, 200);
    assert_eq!(server.merge(&format!("{DEFINITIONS}/paints.example.com"), &fewer).await.status, 200);
    assert_eq!((status("v1.example.com").await, status("v2.example.com").await), (200, 404));
    assert_eq!(server.delete(&format!("{DEFINITIONS}/paints.example.com"), None).await.status, 200);
    assert_eq!((status("v1.example.com").await, status("v1.apps").await), (404, 200));
}

/// Contract: API-25
#[tokio::test(start_paused = true)]
async fn system_priority_classes_and_flow_control_are_there() {
    let server = support::start();
    assert_eq!(names(&server, CLASSES).await, ["system-cluster-critical", "system-node-critical"]);
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    assert_eq!(names(&server, &format!("{flow}/flowschemas")).await, ["catch-all", "exempt"]);
    assert_eq!(names(&server, &format!("{flow}/prioritylevelconfigurations")).await, ["catch-all", "exempt"]);
}

/// Contract: API-25
#[tokio::test(start_paused = true)]
async fn flow_control_is_stored_and_what_every_server_has_of_it_stays() {
    let server = support::start();
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let named = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let queued = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}});
    let level = server.post(levels, &named("PriorityLevelConfiguration", "mine", queued)).await;
    assert_eq!(level.status, 201, "{}", level.json());
    let defaulted = json!({
        "nominalConcurrencyShares": 30, "lendablePercent": 0,
        "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}},
    });
    assert_eq!(level.json()["spec"]["limited"], defaulted);
    let rules = json!([{
        "subjects": [{"kind": "User", "user": {"name": "jane"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
    }]);
    let spec = json!({"priorityLevelConfiguration": {"name": "mine"}, "rules": rules});
    let schema = server.post(schemas, &named("FlowSchema", "mine", spec)).await;
    assert_eq!(schema.status, 201, "{}", schema.json());
    assert_eq!(schema.json()["spec"]["matchingPrecedence"], 1000);
    let status = json!({"status": {"conditions": [{"type": "Dangling", "status": "False"}]}});
    let patched = server.merge(&format!("{schemas}/mine/status"), &status).await;
    assert_eq!(patched.json()["status"]["conditions"][0]["type"], "Dangling");
    assert_eq!(server.delete(&format!("{schemas}/mine"), None).await.status, 200);

    for (list, change, allowed) in [
        (schemas, json!({"spec": {"matchingPrecedence": 5}}), false),
        (levels, json!({"spec": {"exempt": {"lendablePercent": 50}}}), true),
        (levels, json!({"spec": {"type": "Limited"}}), false),
    ] {
        let answer = server.merge(&format!("{list}/exempt"), &change).await;
        assert_eq!(answer.status, if allowed { 200 } else { 422 }, "{change}: {}", answer.json());
    }
    for list in [schemas, levels] {
        let old = server.get(&format!("{list}/exempt")).await.json();
        assert_eq!(server.delete(&format!("{list}/exempt"), None).await.status, 200);
        let new = server.get(&format!("{list}/exempt")).await.json();
        assert_ne!(old["metadata"]["uid"], new["metadata"]["uid"]);
        assert_eq!(new["metadata"]["annotations"], json!({"apf.kubernetes.io/autoupdate-spec": "true"}));
    }
}
