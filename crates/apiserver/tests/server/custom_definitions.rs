//! Kinds that come and go with CustomResourceDefinitions, from outside.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PAINTS: &str = "/apis/example.com/v1/namespaces/default/paints";

/// A definition of paints with these versions.
fn paints(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": versions,
        },
    })
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn paint(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Paint", "metadata": {"name": name}, "spec": spec})
}

fn color() -> Value {
    json!({"color": {"type": "string", "description": "What it looks like."}})
}

async fn define(server: &Server, definition: &Value) {
    let answer = server.post(DEFINITIONS, definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

fn condition(definition: &Value, kind: &str) -> Value {
    let all = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or_default()
}

/// Contract: API-28
#[tokio::test]
async fn a_kind_is_served_when_its_definition_is_written_and_gone_when_that_is_deleted() {
    let server = support::start();
    assert_eq!(server.get("/apis/example.com").await.status, 404);
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    assert_eq!(server.post(PAINTS, &paint("a", &json!({"color": "red"}))).await.status, 201);
    let mut watch = server.watch(&format!("{PAINTS}?watch=1")).await;
    assert_eq!(watch.brief().await, Some(("ADDED".to_owned(), "a".to_owned())));

    let answer = server.delete(&format!("{DEFINITIONS}/paints.example.com"), None).await;
    assert_eq!(answer.status, 200);
    assert_eq!(condition(&answer.json(), "Terminating")["reason"], "InstanceDeletionPending");
    assert_eq!(watch.brief().await, Some(("DELETED".to_owned(), "a".to_owned())));
    assert_eq!(watch.brief().await, None, "the watch ends with the kind");
    assert_eq!(server.get(PAINTS).await.status, 404);
    assert_eq!(server.get("/apis/example.com").await.status, 404);
    assert_eq!(server.get(&format!("{DEFINITIONS}/paints.example.com")).await.status, 404);

    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    assert_eq!(server.get(PAINTS).await.json()["items"], json!([]), "the objects went with it");
}

/// Contract: API-28
#[tokio::test]
async fn an_object_with_a_finalizer_keeps_the_definition() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    let mut held = paint("a", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(server.post(PAINTS, &held).await.status, 201);
    let own = format!("{DEFINITIONS}/paints.example.com");
    assert_eq!(server.delete(&own, None).await.status, 200);
    let found = server.get(&own).await.json();
    assert_eq!(condition(&found, "Terminating")["reason"], "InstanceDeletionInProgress");
    let refused = server.post(PAINTS, &paint("b", &json!({}))).await;
    assert_eq!(refused.status, 405, "{}", refused.json());
    assert_eq!(refused.json()["message"], "create not allowed while custom resource definition is terminating");
    assert_eq!(server.merge(&format!("{PAINTS}/a"), &json!({"metadata": {"finalizers": null}})).await.status, 200);
    assert_eq!(server.get(&own).await.status, 404);
}

/// Each write to one of them used to look at all of them.
///
/// Contract: API-22, API-28
#[tokio::test]
async fn many_objects_with_finalizers_leave_one_after_the_other() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    let names: Vec<String> = (0..600).map(|n| format!("p{n}")).collect();
    for name in &names {
        let mut one = paint(name, &json!({"color": "red"}));
        one["metadata"]["finalizers"] = json!(["example.com/hold"]);
        assert_eq!(server.post(PAINTS, &one).await.status, 201);
    }
    let own = format!("{DEFINITIONS}/paints.example.com");
    assert_eq!(server.delete(&own, None).await.status, 200);
    let marked = server.get(&format!("{PAINTS}/p599")).await.json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    for name in &names {
        let answer = server.merge(&format!("{PAINTS}/{name}"), &json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    assert_eq!(server.get(&own).await.status, 404);
}

/// Contract: API-28
#[tokio::test]
async fn a_name_that_becomes_free_is_taken_by_who_waits_for_it() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    let mut other = paints(&json!([version("v1", true, &color())]));
    other["metadata"]["name"] = json!("dyes.example.com");
    other["spec"]["names"] = json!({"plural": "dyes", "kind": "Paint"});
    define(&server, &other).await;
    let own = format!("{DEFINITIONS}/dyes.example.com");
    let waiting = server.get(&own).await.json();
    assert_eq!(condition(&waiting, "NamesAccepted")["status"], "False");
    assert_eq!(condition(&waiting, "NamesAccepted")["message"], "\"PaintList\" is already in use");
    assert_eq!(server.get("/apis/example.com/v1/dyes").await.status, 404);
    server.delete(&format!("{DEFINITIONS}/paints.example.com"), None).await;
    assert_eq!(condition(&server.get(&own).await.json(), "Established")["status"], "True");
    assert_eq!(server.get("/apis/example.com/v1/dyes").await.status, 200);
}

/// Contract: API-28, API-29
#[tokio::test]
async fn objects_outlive_a_change_of_schema_and_of_the_version_they_are_stored_in() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    assert_eq!(server.post(PAINTS, &paint("a", &json!({"color": "red"}))).await.status, 201);
    let own = format!("{DEFINITIONS}/paints.example.com");
    let gloss = json!({"gloss": {"type": "boolean", "default": true}, "color": {"type": "string"}});
    let only_gloss = json!({"gloss": {"type": "boolean", "default": true}});
    let versions = json!([version("v1", true, &gloss), version("v2", false, &only_gloss)]);
    let answer = server.merge(&own, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    let v1 = server.get(&format!("{PAINTS}/a")).await.json();
    assert_eq!(v1["spec"], json!({"color": "red", "gloss": true}), "what it was stored without is filled in");
    let v2 = server.get("/apis/example.com/v2/namespaces/default/paints/a").await.json();
    assert_eq!(v2["spec"], json!({"gloss": true}), "what the version does not know is left out");
    assert_eq!(v2["apiVersion"], "example.com/v2");

    let (mut first, mut second) = (versions[0].clone(), versions[1].clone());
    first["storage"] = json!(false);
    second["storage"] = json!(true);
    let answer = server.merge(&own, &json!({"spec": {"versions": [first, second]}})).await;
    assert_eq!(answer.json()["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(server.get(&format!("{PAINTS}/a")).await.json()["spec"]["color"], "red");
    let table = server.send("GET", PAINTS, &[("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await;
    assert_eq!(table.json()["rows"][0]["cells"][0], "a");
}

/// Contract: API-28
#[tokio::test]
async fn objects_of_versions_that_are_not_served_for_now_stay() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    assert_eq!(server.post(PAINTS, &paint("a", &json!({"color": "red"}))).await.status, 201);
    let mut watch = server.watch(&format!("{PAINTS}?watch=1")).await;
    assert_eq!(watch.brief().await, Some(("ADDED".to_owned(), "a".to_owned())));
    let own = format!("{DEFINITIONS}/paints.example.com");
    for served in [false, true] {
        let mut only = version("v1", true, &color());
        only["served"] = json!(served);
        let answer = server.merge(&own, &json!({"spec": {"versions": [only]}})).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        assert_eq!(server.get(&format!("{PAINTS}/a")).await.status, if served { 200 } else { 404 });
    }
    assert_eq!(watch.brief().await, None, "what a watch shows is not what is served now");
}

/// Defines paints in two versions, between which a webhook converts that takes connections and says nothing.
async fn define_silent(server: &Server) -> std::net::TcpListener {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/", silent.local_addr().expect("an address"));
    let mut definition = paints(&json!([version("v1", true, &color()), version("v2", false, &color())]));
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]},
    });
    define(server, &definition).await;
    silent
}

/// Waits until the webhook is asked, expects another request to be answered meanwhile, and ends the webhook.
async fn answered_meanwhile(silent: std::net::TcpListener, other: impl Future<Output = support::Answer>) {
    let accept = move || silent.accept().map(|asked| (silent, asked));
    let asked = tokio::task::spawn_blocking(accept).await.expect("no panic").expect("a connection");
    // Less than conversions may take.
    let other = tokio::time::timeout(Duration::from_secs(20), other).await.expect("an answer meanwhile");
    assert!(other.status < 300, "{}", other.json());
    drop(asked);
}

const OLDER_PAINTS: &str = "/apis/example.com/v2/namespaces/default/paints";

/// Contract: API-22, API-28
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_that_waits_for_a_conversion_holds_up_nobody_else() {
    let server = support::start();
    let silent = define_silent(&server).await;
    assert_eq!(server.post(PAINTS, &paint("a", &json!({"color": "red"}))).await.status, 201);
    let path = format!("{OLDER_PAINTS}?watch=1");
    tokio::join!(server.watch(&path), answered_meanwhile(silent, server.get("/api/v1/namespaces/default")));
}

/// Contract: API-21, API-28
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_quota_is_held_while_a_webhook_converts() {
    let server = support::start();
    let silent = define_silent(&server).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/paints.example.com": "5", "count/configmaps": "5"}}});
    assert_eq!(server.post("/api/v1/namespaces/default/resourcequotas", &quota).await.status, 201);
    let mut older = paint("a", &json!({"color": "red"}));
    older["apiVersion"] = json!("example.com/v2");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let other = server.post("/api/v1/namespaces/default/configmaps", &other);
    let (waited, ()) = tokio::join!(server.post(OLDER_PAINTS, &older), answered_meanwhile(silent, other));
    assert_eq!(waited.status, 500, "{}", waited.json());
}

/// Contract: API-28
#[tokio::test]
async fn kinds_are_put_back_with_the_storage() {
    for was_there in [true, false] {
        let server = support::start();
        let storage = &server.api.registry().storage;
        let before = storage.version();
        define(&server, &paints(&json!([version("v1", true, &color())]))).await;
        assert_eq!(server.get(PAINTS).await.status, 200);
        let defined = storage.version();
        if was_there {
            assert_eq!(server.delete(&format!("{DEFINITIONS}/paints.example.com"), None).await.status, 200);
            assert_eq!(server.get(PAINTS).await.status, 404);
        }
        storage.restore(if was_there { defined } else { before }).expect("a version in the history");
        assert_eq!(server.get(PAINTS).await.status, if was_there { 200 } else { 404 });
    }
}

/// Contract: API-04, API-28
#[tokio::test]
async fn documents_have_the_schema_at_once() {
    let server = support::start();
    let index = || async { server.get("/openapi/v3").await.json()["paths"]["apis/example.com/v1"].clone() };
    assert_eq!(index().await, Value::Null);
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    let before = index().await;
    let three = server.get("/openapi/v3/apis/example.com/v1").await.json();
    let own = &three["components"]["schemas"]["com.example.v1.Paint"];
    assert_eq!(own["properties"]["spec"]["properties"]["color"]["description"], "What it looks like.");
    assert_eq!(own["x-kubernetes-group-version-kind"][0]["kind"], "Paint");
    // In version 3 nothing may stand beside a reference, and `kubectl explain` does not read it there.
    let metadata = &own["properties"]["metadata"];
    assert_eq!(
        metadata["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
    assert!(metadata["$ref"].is_null() && metadata["description"].is_string(), "{metadata}");
    assert!(three["components"]["schemas"]["com.example.v1.PaintList"].is_object());
    assert!(three["paths"]["/apis/example.com/v1/namespaces/{namespace}/paints/{name}"]["patch"].is_object());
    let two = server.get("/openapi/v2").await.json();
    assert_eq!(two["definitions"]["com.example.v1.Paint"]["properties"]["spec"]["type"], "object");

    let size = json!({"size": {"type": "integer"}});
    let change = json!({"spec": {"versions": [version("v1", true, &size)]}});
    assert_eq!(server.merge(&format!("{DEFINITIONS}/paints.example.com"), &change).await.status, 200);
    assert_ne!(index().await, before, "the document's address changes with it");
}

/// Contract: API-29
#[tokio::test]
async fn a_custom_object_has_no_protobuf() {
    let server = support::start();
    define(&server, &paints(&json!([version("v1", true, &color())]))).await;
    server.post(PAINTS, &paint("a", &json!({}))).await;
    for path in [PAINTS.to_owned(), format!("{PAINTS}/a")] {
        let answer = server.send("GET", &path, &[("Accept", "application/vnd.kubernetes.protobuf")], "").await;
        assert_eq!(answer.status, 406, "{path}");
    }
    let both = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(server.send("GET", &format!("{PAINTS}/a"), &[("Accept", both)], "").await.status, 200);
}

/// Contract: API-28
#[tokio::test]
async fn a_definition_takes_nothing_from_kubernetes_own_kinds() {
    let server = support::start();
    let mut own = paints(&json!([version("v1", true, &color())]));
    own["metadata"] = json!({
        "name": "leases.coordination.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
    });
    own["spec"]["group"] = json!("coordination.k8s.io");
    own["spec"]["names"] = json!({"plural": "leases", "kind": "Lease"});
    define(&server, &own).await;
    let served = server.get("/apis/coordination.k8s.io/v1/namespaces/default/leases").await.json();
    assert_eq!(served["kind"], "LeaseList");
    assert_eq!(served["metadata"]["continue"], Value::Null, "it is the server's own");
    server.delete(&format!("{DEFINITIONS}/leases.coordination.k8s.io"), None).await;
    assert_eq!(server.get("/apis/coordination.k8s.io/v1/namespaces/default/leases").await.status, 200);
}

/// Contract: API-29
#[tokio::test]
async fn numbers_are_kept_as_go_keeps_them() {
    let server = support::start();
    let any = json!({"x": {"x-kubernetes-preserve-unknown-fields": true}, "whole": {"type": "integer"}, "text": {"type": "string"}});
    define(&server, &paints(&json!([version("v1", true, &any)]))).await;
    let text = |answer: &support::Answer| String::from_utf8_lossy(&answer.body).into_owned();
    let create = async |name: &str, spec: &str| {
        let body =
            format!(r#"{{"apiVersion":"example.com/v1","kind":"Paint","metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        server.send("POST", PAINTS, &[("content-type", "application/json")], body).await
    };
    for (at, (sent, kept)) in [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("0.0000001", "1e-7"),
        ("0.000001", "0.000001"),
        ("12345678901234567890", "12345678901234567000"),
        ("-0.0", "0"),
        ("9007199254740993", "9007199254740993"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = create(&format!("n{at}"), &format!(r#"{{"x":{sent}}}"#)).await;
        assert_eq!(answer.status, 201, "{sent}");
        let kept = format!(r#""spec":{{"x":{kept}}}"#);
        assert!(text(&answer).contains(&kept), "{sent}: {}", text(&answer));
        assert!(text(&server.get(&format!("{PAINTS}/n{at}")).await).contains(&kept), "{sent}");
    }
    let told =
        async |spec: &str| create("refused", spec).await.json()["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        told(r#"{"x":1E400}"#).await,
        "Paint in version \"v1\" cannot be handled as a Paint: json: cannot unmarshal number 1E400 into Go value of type float64"
    );
    let message = told(r#"{"text":12345678901234567890}"#).await;
    assert!(message.ends_with("spec.text in body must be of type string: \"number\""), "{message}");
    let message = told(r#"{"whole":12345678901234567890}"#).await;
    assert!(message.contains("spec.whole in body must be of type integer: \"number\""), "{message}");
}
