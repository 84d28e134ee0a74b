//! Health, OpenAPI documents that a client has, audit ids, proxies, and what a pod is told of its node's place.

use std::collections::BTreeSet;

use muster_apiserver::admission::plugins::Plugin;
use serde_json::{Value, json};

use crate::support::{Server, listen, options, start, start_with};

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

/// Contract: API-02
#[tokio::test(start_paused = true)]
async fn checks_of_health_are_named_and_excluded_as_in_the_reference() {
    let server = start();
    let excluded = "[+]ping excluded: ok\n[+]etcd ok\n\
                    warn: some health checks cannot be excluded: no matches for \"x\",\"y\"\nlivez check passed\n";
    for (path, status, expected) in [
        ("/readyz?verbose", 200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"),
        ("/livez?verbose&exclude=y&exclude=ping&exclude=x", 200, excluded),
        ("/livez?exclude=etcd", 200, "ok"),
        ("/readyz/etcd", 200, "ok"),
        ("/livez/ping?verbose", 200, "ok"),
        ("/livez/ping?verbose&exclude=ping", 200, "ok"),
        ("/readyz/?verbose", 404, "404 page not found\n"),
        ("/livez/ping/", 404, "404 page not found\n"),
        ("/livez/none", 404, "404 page not found\n"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*String::from_utf8_lossy(&answer.body)), (status, expected), "{path}");
    }
}

/// Contract: API-04
#[tokio::test(start_paused = true)]
async fn a_client_that_has_a_document_is_not_sent_it_again() {
    let server = start();
    let index = server.get("/openapi/v3").await.json();
    let by_hash = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
    for (path, vary) in
        [("/openapi/v2", "Accept"), ("/openapi/v3", ""), ("/openapi/v3/apis/apps/v1", "Accept"), (by_hash, "Accept")]
    {
        let answer = server.get(path).await;
        let etag = answer.header("etag");
        assert_eq!((answer.status, answer.header("vary")), (200, vary), "{path}");
        assert!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'), "{path}: {etag}");
        let (listed, other) = (format!("\"x\" , W/{etag}"), format!("\"x\", {}", etag.trim_matches('"')));
        for (tags, status) in [(etag, 304), (&*listed, 304), ("*", 304), ("\"x\"", 200), (&*other, 200)] {
            let again = server.send("GET", path, &[("If-None-Match", tags)], "").await;
            assert_eq!((again.status, again.body.is_empty()), (status, status == 304), "{path} {tags}");
            assert_eq!((again.header("etag"), again.header("vary")), (etag, vary), "{path} {tags}");
        }
        let (cache, expires) = (answer.header("cache-control"), answer.header("expires"));
        if path == by_hash {
            assert_eq!(cache, "public, immutable");
            assert!(expires.starts_with("Sat, 15 Jan 2028 ") && expires.ends_with(" GMT"), "{expires}");
        } else {
            assert_eq!((cache, expires), ("no-cache, private", ""), "{path}");
        }
    }
    let moved = server.get("/openapi/v3/apis/apps/v1?hash=0").await;
    assert_eq!((moved.status, moved.header("location"), moved.header("expires")), (301, by_hash, ""));
    assert_eq!(server.get("/openapi/v3/apis/apps/v1?hash=").await.status, 200);
    assert_eq!(server.get("/openapi/v2/").await.status, 404);
    let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    for (accept, status) in
        [("text/html", 406), (protobuf, 406), ("text/html, application/*;q=0.1", 200), ("application/json", 200)]
    {
        let answer = server.send("GET", "/openapi/v3/apis/apps/v1", &[("Accept", accept)], "").await;
        assert_eq!((answer.status, answer.header("vary")), (status, "Accept"), "{accept}");
    }
}

/// Contract: API-04, API-28
#[tokio::test(start_paused = true)]
async fn a_new_kind_makes_the_documents_new_that_tell_of_it() {
    let server = start();
    let tags = async || {
        let mut tags = Vec::new();
        for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"] {
            tags.push(server.get(path).await.header("etag").to_owned());
        }
        tags
    };
    let before = tags().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let after = tags().await;
    let same: Vec<bool> = before.iter().zip(&after).map(|(before, after)| before == after).collect();
    assert_eq!(same, [false, false, true]);
    assert_eq!(server.get("/openapi/v3/apis/example.com/v1").await.status, 200);
}

/// Contract: API-23
#[tokio::test(start_paused = true)]
async fn a_proxy_is_refused_whatever_path_is_below_it() {
    let server = start();
    create_pod(&server, "p", "", &json!({})).await;
    for below in ["proxy", "proxy/", "proxy/a", "proxy/a//b/?x=y"] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let answer = server.send(method, &format!("{PODS}/p/{below}"), &[], "").await;
            let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(answer.status == 400 && message.contains("simulated"), "{method} {below}: {message}");
        }
    }
    for path in [
        &*format!("{PODS}/none/proxy/a"),
        &*format!("{PODS}/p/log/a"),
        "/api/v1/namespaces/default/configmaps/c/proxy/a",
        "/apis/apps/v1/namespaces/default/deployments/d/proxy/a",
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &answer.json()["kind"]), (404, &json!("Status")), "{path}");
    }
}

#[tokio::test]
async fn every_answer_on_a_socket_names_its_request() {
    let server = listen().await;
    let mut ids = BTreeSet::new();
    for (path, credential, status) in [
        ("/healthz", None, 200),
        ("/none", None, 404),
        (PODS, None, 200),
        (PODS, Some("Bearer wrong"), 401),
        (PODS, Some(""), 403),
    ] {
        let mut headers: Vec<(&str, &str)> = credential.map(|given| ("Authorization", given)).into_iter().collect();
        let fresh = server.send("GET", path, &headers, "").await;
        let id = fresh.header("audit-id").to_owned();
        assert_eq!((fresh.status, id.len(), id.as_bytes().get(14)), (status, 36, Some(&b'4')), "{path}: {id}");
        assert!(ids.insert(id), "{ids:?}");
        let given = "x".repeat(200);
        headers.push(("Audit-ID", &given));
        let echoed = server.send("GET", path, &headers, "").await;
        assert_eq!((echoed.status, echoed.header("audit-id")), (status, &*given), "{path}");
    }
}
