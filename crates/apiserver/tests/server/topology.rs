//! What a pod is told of its node's place.

use muster_apiserver::admission::plugins::Plugin;
use serde_json::{Value, json};

use crate::support::{Server, options, start, start_with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

async fn create_pod(server: &Server, name: &str, node: &str, labels: &Value) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    let answer = server.post(PODS, &pod).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()["metadata"]["labels"].clone()
}

/// Binds a pod by a Binding at this path, and gives its labels then.
async fn bind(server: &Server, path: &str, name: &str, target: &Value, labels: &Value) -> Value {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "labels": labels}, "target": target,
    });
    let answer = server.post(path, &binding).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    server.get(&format!("{PODS}/{name}")).await.json()["metadata"]["labels"].clone()
}

async fn with_node(server: Server) -> Server {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {ZONE: "z", REGION: "r", "kubernetes.io/os": "linux"}},
    });
    assert_eq!(server.post("/api/v1/nodes", &node).await.status, 201);
    server
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_labelled_with_the_zone_and_region_of_its_node() {
    let server = with_node(start()).await;
    let place = json!({ZONE: "z", REGION: "r"});
    assert_eq!(create_pod(&server, "new", "n", &json!({ZONE: "mine"})).await, place, "its own is overwritten");
    let mine = json!({ZONE: "mine"});
    assert_eq!(create_pod(&server, "lost", "none", &mine).await, mine, "there is no such node");
    let changed = server.merge(&format!("{PODS}/new"), &json!({"metadata": {"labels": mine}})).await;
    assert_eq!(changed.json()["metadata"]["labels"], json!({ZONE: "mine", REGION: "r"}), "updates are left alone");

    let node = json!({"kind": "Node", "name": "n"});
    assert_eq!(create_pod(&server, "a", "", &mine).await, mine, "it is on no node");
    let labels = bind(&server, &format!("{PODS}/a/binding"), "a", &node, &json!({ZONE: "other", "x": "y"})).await;
    assert_eq!(labels, json!({ZONE: "z", REGION: "r", "x": "y"}));
    create_pod(&server, "b", "", &mine).await;
    let labels = bind(&server, &format!("{PODS}/b/binding"), "b", &json!({"name": "n"}), &json!({})).await;
    assert_eq!(labels, mine, "the binding does not say that it is to a node");
    create_pod(&server, "c", "", &mine).await;
    let labels = bind(&server, "/api/v1/namespaces/default/bindings", "c", &node, &json!({})).await;
    assert_eq!(labels, mine, "the older way to bind is another resource");

    let mut options = options();
    options.settings.plugins.disable(Plugin::PodTopologyLabels);
    let server = with_node(start_with(options)).await;
    assert_eq!(create_pod(&server, "new", "n", &mine).await, mine);
    create_pod(&server, "a", "", &mine).await;
    assert_eq!(bind(&server, &format!("{PODS}/a/binding"), "a", &node, &json!({})).await, mine);
}
