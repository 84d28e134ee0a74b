//! What a server has from its start, and what it keeps up by itself.

mod support;

use serde_json::{Value, json};
use support::Server;

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
    assert_eq!(server.delete(&format!("{flow}/flowschemas/exempt"), None).await.status, 405);
}
