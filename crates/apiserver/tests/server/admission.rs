//! Webhooks and admission policies, from outside: a server, a client, and webhooks on the loopback.

use std::sync::Once;

use muster_apiserver::admission::{Admission, at_once};
use muster_apiserver::model::Part;
use muster_apiserver::registry::options::WriteOptions;
use muster_apiserver::registry::update::Update;
use muster_apiserver::tls::Tls;
use muster_apiserver::webhook::hosts::ServiceHost;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{
    self, Answer, Server, start,
    webhook::{Reply, Webhook, allow, bundle, configuration, deny, patch},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A ConfigMap.
fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

impl Server {
    async fn configure(&self, kind: &str, name: &str, webhook: &Value, fields: &Value) {
        let path = format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase());
        let answer = self.post(&path, &configuration(kind, name, webhook, fields)).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
    }

    async fn unconfigure(&self, kind: &str, name: &str) {
        let path = format!("{GROUP}/{}webhookconfigurations/{name}", kind.to_lowercase());
        assert_eq!(self.delete(&path, None).await.status, 200);
    }

    /// A policy, with a binding of the same name.
    async fn policy(&self, name: &str, spec: &Value, binding: &Value) {
        let mut policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [{
                "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }]}},
        });
        merge(&mut policy["spec"], spec);
        let answer = self.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let mut bound = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        merge(&mut bound["spec"], binding);
        let answer = self.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &bound).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
}

fn merge(into: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("fields") {
        into[field] = value.clone();
    }
}

/// The status and the message of an answer.
fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

/// Contract: API-30, API-33
#[tokio::test]
async fn a_webhook_is_told_of_every_write() {
    let server = start();
    let webhook = Webhook::agreeable().await;
    server.configure("Validating", "all", &webhook.client_config(), &json!({})).await;
    let one = format!("{CONFIG_MAPS}/one");
    let body = config_map("one", &json!({"a": "b"}));
    let apply = [("Content-Type", "application/apply-patch+yaml")];
    for (method, path, headers, body) in [
        ("POST", CONFIG_MAPS.to_owned(), &[("Content-Type", "application/json")], body.to_string()),
        ("PUT", format!("{one}?fieldManager=me&dryRun=All"), &[("Content-Type", "application/json")], body.to_string()),
        (
            "PATCH",
            one.clone(),
            &[("Content-Type", "application/merge-patch+json")],
            json!({"data": {"c": "d"}}).to_string(),
        ),
        ("PATCH", format!("{CONFIG_MAPS}/two?fieldManager=me"), &apply, config_map("two", &json!({})).to_string()),
        (
            "DELETE",
            format!("{one}?propagationPolicy=Background"),
            &[("Content-Type", "application/json")],
            String::new(),
        ),
        ("DELETE", CONFIG_MAPS.to_owned(), &[("Content-Type", "application/json")], String::new()),
    ] {
        let answer = server.send(method, &path, headers, body).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.json());
    }
    let heard: Vec<Value> = webhook.heard();
    let expected = [
        ("CREATE", "one", json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}), (true, false)),
        (
            "UPDATE",
            "one",
            json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me"}),
            (true, true),
        ),
        ("UPDATE", "one", json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}), (true, true)),
        (
            "CREATE",
            "two",
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}),
            (true, false),
        ),
        (
            "DELETE",
            "one",
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}),
            (false, true),
        ),
        // Of many that are deleted at once none is named.
        ("DELETE", "", json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}), (false, true)),
    ];
    assert_eq!(heard.len(), expected.len(), "{heard:?}");
    for (request, (operation, name, options, (new, old))) in heard.iter().zip(expected) {
        assert_eq!(request["operation"], operation);
        assert_eq!(request["name"].as_str().unwrap_or_default(), name, "{operation}");
        assert_eq!(request["options"], options, "{operation}");
        assert_eq!((request["object"].is_object(), request["oldObject"].is_object()), (new, old), "{operation}");
        assert_eq!(request["namespace"], "default");
        assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
        assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
        assert_eq!(request["userInfo"]["username"], "admin");
        assert_eq!(request["dryRun"], json!(options["dryRun"].is_array()));
        assert_eq!(request["query"], "timeout=10s");
    }
    assert_eq!(heard[2]["object"]["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(heard[2]["oldObject"]["data"], json!({"a": "b"}));

    server.unconfigure("Validating", "all").await;
    server.config_map("three", "x").await;
    assert!(webhook.heard().is_empty(), "nobody is asked where nothing is configured");
}

/// Contract: API-30, API-33
#[tokio::test]
async fn what_a_webhook_says_is_passed_on() {
    let server = start();
    let webhook = Webhook::start(|request, _| match request["name"].as_str().unwrap_or_default() {
        "refused" => deny("no such thing"),
        "coded" => Reply::Review(json!({
            "allowed": false, "warnings": ["not \"this\""],
            "status": {"code": 422, "reason": "Invalid", "message": "wrong", "details": {"causes": [{"field": "data"}]}},
        })),
        "silent" => Reply::Review(json!({"allowed": false})),
        "warned" => Reply::Review(json!({"allowed": true, "warnings": ["careful"]})),
        "mistaken" => Reply::Review(json!({"allowed": true, "uid": "another"})),
        "broken" => Reply::Other(500, "oops".to_owned()),
        "patched" => patch(&json!([])),
        _ => allow(),
    })
    .await;
    server.configure("Validating", "v", &webhook.client_config(), &json!({})).await;
    let failed = "Internal error occurred: failed calling webhook \"v.example.com\": ";
    let denied = "admission webhook \"v.example.com\" denied the request";
    for (name, status, message, warning) in [
        ("fine", 201, String::new(), ""),
        ("refused", 400, format!("{denied}: no such thing"), ""),
        ("coded", 422, format!("{denied}: wrong"), "299 - \"not \\\"this\\\"\""),
        ("silent", 400, format!("{denied} without explanation"), ""),
        ("warned", 201, String::new(), "299 - \"careful\""),
        (
            "broken",
            500,
            format!(
                "{failed}failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding"
            ),
            "",
        ),
        (
            "patched",
            500,
            format!("{failed}received invalid webhook response: validating webhook may not return response.patch"),
            "",
        ),
    ] {
        let answer = server.post(CONFIG_MAPS, &config_map(name, &json!({}))).await;
        assert_eq!(told(&answer), (status, message), "{name}");
        assert_eq!(answer.header("warning"), warning, "{name}");
    }
    let answer = server.post(CONFIG_MAPS, &config_map("mistaken", &json!({}))).await;
    assert!(told(&answer).1.starts_with(&format!("{failed}received invalid webhook response: expected response.uid=")));
    let answer = server.post(CONFIG_MAPS, &config_map("coded", &json!({}))).await.json();
    assert_eq!((&answer["reason"], &answer["details"]), (&json!("Invalid"), &json!({"causes": [{"field": "data"}]})));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/refused")).await.status, 404);
}

/// Contract: API-30, API-33
#[tokio::test]
async fn webhooks_change_objects_and_are_asked_again() {
    let server = start();
    // Each counts in a label how often it changed the object.
    let count = |request: &Value, path: &str| {
        let label = path.trim_matches('/');
        let labels = &request["object"]["metadata"]["labels"];
        let before: u32 = labels[label].as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut operations = Vec::new();
        if labels.is_null() {
            operations.push(json!({"op": "add", "path": "/metadata/labels", "value": {}}));
        }
        let (path, value) = (format!("/metadata/labels/{label}"), (before + 1).to_string());
        operations.push(json!({"op": "add", "path": path, "value": value}));
        patch(&json!(operations))
    };
    let webhook = Webhook::start(count).await;
    for (name, again) in [("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")] {
        let config = json!({
            "url": format!("https://{}/{name}", webhook.address), "caBundle": webhook.authorities(),
        });
        server.configure("Mutating", name, &config, &json!({"reinvocationPolicy": again})).await;
    }
    let answer = server.post(CONFIG_MAPS, &config_map("one", &json!({}))).await.json();
    // The first is asked again, as others changed the object after it; the last is, as the first then did.
    assert_eq!(answer["metadata"]["labels"], json!({"a": "2", "b": "1", "c": "2"}));
    let owned = &answer["metadata"]["managedFields"][0]["fieldsV1"];
    assert!(owned["f:metadata"].is_null(), "what webhooks add is nobody's: {owned}");
    let stored = server.get(&format!("{CONFIG_MAPS}/one")).await.json();
    assert_eq!(stored["metadata"]["labels"], answer["metadata"]["labels"]);
}

/// Contract: API-30, API-33
#[tokio::test]
async fn what_a_webhook_makes_of_an_object_is_checked() {
    let server = start();
    let webhook = Webhook::start(|request, _| {
        let operation = match request["name"].as_str().unwrap_or_default() {
            "moved" => json!({"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}),
            "invalid" => json!({"op": "add", "path": "/data", "value": {"not a key": "x"}}),
            "gone" => json!({"op": "remove", "path": "/data/none"}),
            "another" => json!({"op": "replace", "path": "/kind", "value": "Secret"}),
            "unmanaged" => json!({"op": "add", "path": "/metadata/managedFields", "value": [{"operation": "None"}]}),
            _ => json!({"op": "add", "path": "/unknown", "value": 1}),
        };
        patch(&json!([operation]))
    })
    .await;
    server.configure("Mutating", "m", &webhook.client_config(), &json!({})).await;
    for (name, status, message) in [
        ("odd", 201, ""),
        ("moved", 400, "the namespace of the provided object does not match the namespace sent on the request"),
        ("another", 500, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (
            "gone",
            500,
            "Internal error occurred: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            "invalid",
            422,
            "ConfigMap \"invalid\" is invalid: data[not a key]: Invalid value: \"not a key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        ),
    ] {
        let answer = server.post(CONFIG_MAPS, &config_map(name, &json!({"a": "YQ=="}))).await;
        assert_eq!(told(&answer), (status, message.to_owned()), "{name}");
    }
    let answer = server.post(CONFIG_MAPS, &config_map("unmanaged", &json!({"a": "b"}))).await;
    let warning = "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: operation must be `Apply` or `Update`\"";
    assert_eq!((answer.status, answer.header("warning")), (201, warning));
    assert_eq!(answer.json()["metadata"]["managedFields"][0]["operation"], "Update");
}

/// Contract: API-33
#[tokio::test]
async fn a_webhook_is_asked_about_what_it_is_meant_for() {
    let server = start();
    let webhook = Webhook::agreeable().await;
    let labelled = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "b"}},
    });
    let rule = |groups: &str, versions: &str, resources: &str, scope: &str| {
        json!({"rules": [{
            "operations": ["CREATE"], "apiGroups": [groups], "apiVersions": [versions], "resources": [resources],
            "scope": scope,
        }]})
    };
    let system = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let mut exact = rule("autoscaling", "v1", "*", "*");
    exact["matchPolicy"] = json!("Exact");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
    for (fields, path, body, expected) in [
        (rule("", "v1", "configmaps", "Namespaced"), CONFIG_MAPS, &labelled, true),
        (rule("", "v1", "configmaps", "Cluster"), CONFIG_MAPS, &labelled, false),
        (rule("", "v1", "*/*", "*"), CONFIG_MAPS, &labelled, true),
        (rule("", "v1", "*/status", "*"), CONFIG_MAPS, &labelled, false),
        (rule("apps", "*", "*", "*"), CONFIG_MAPS, &labelled, false),
        (rule("", "v2", "configmaps", "*"), CONFIG_MAPS, &labelled, false),
        (json!({"objectSelector": {"matchLabels": {"a": "b"}}}), CONFIG_MAPS, &labelled, true),
        (json!({"objectSelector": {"matchLabels": {"a": "c"}}}), CONFIG_MAPS, &labelled, false),
        (system.clone(), CONFIG_MAPS, &labelled, false),
        (system, "/api/v1/namespaces/kube-system/configmaps", &labelled, true),
        (rule("autoscaling", "v1", "*", "*"), autoscalers, &autoscaler, true),
        (exact, autoscalers, &autoscaler, false),
        (rule("", "v1", "namespaces", "Cluster"), "/api/v1/namespaces", &namespace, true),
        (rule("", "v1", "namespaces", "Namespaced"), "/api/v1/namespaces", &namespace, false),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object.metadata.labels.a == 'b'"}]}),
            CONFIG_MAPS,
            &labelled,
            true,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "request.userInfo.username != 'admin'"}]}),
            CONFIG_MAPS,
            &labelled,
            false,
        ),
    ] {
        server.configure("Validating", "v", &webhook.client_config(), &fields).await;
        let answer = server.post(&format!("{path}?dryRun=All"), body).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let heard = webhook.heard();
        assert_eq!(heard.len(), usize::from(expected), "{fields} {path}");
        if path == autoscalers && expected {
            assert_eq!(heard[0]["object"]["apiVersion"], "autoscaling/v1");
            assert_eq!(heard[0]["kind"]["version"], "v1");
            assert_eq!(heard[0]["requestKind"]["version"], "v2");
        }
        server.unconfigure("Validating", "v").await;
    }
    // Nobody can be kept from changing webhooks.
    let rules = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]});
    server.configure("Validating", "v", &webhook.client_config(), &rules).await;
    server.unconfigure("Validating", "v").await;
    assert!(webhook.heard().is_empty());
}

/// Contract: API-33
#[tokio::test]
async fn parts_of_objects_are_admitted_too() {
    let server = start();
    let webhook = Webhook::start(|request, _| match request["kind"]["kind"].as_str() {
        Some("Scale") => patch(&json!([{"op": "add", "path": "/spec/replicas", "value": 7}])),
        Some("PodExecOptions") => deny("no commands"),
        _ => allow(),
    })
    .await;
    let rules = json!({"rules": [
        {"operations": ["*"], "apiGroups": ["apps", ""], "apiVersions": ["v1"], "resources": ["*/*"]},
    ]});
    server.configure("Mutating", "m", &webhook.client_config(), &rules).await;
    let container = json!({"containers": [{"name": "c", "image": "i"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": container}},
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(server.post(deployments, &deployment).await.status, 201);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": container});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    server.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    assert_eq!(server.post(pods, &pod).await.status, 201);
    webhook.heard();

    let scaled = server.merge(&format!("{deployments}/d/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 7);
    let status = server.merge(&format!("{deployments}/d/status"), &json!({"status": {"replicas": 1}})).await;
    assert_eq!(status.status, 200);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"},
    });
    assert_eq!(server.post(&format!("{pods}/p/binding"), &binding).await.status, 201);
    let exec = server.post(&format!("{pods}/p/exec?command=ls&container=c"), &json!({})).await;
    assert_eq!(told(&exec), (400, "admission webhook \"m.example.com\" denied the request: no commands".to_owned()));
    assert_eq!(server.delete(&format!("{pods}/p?gracePeriodSeconds=3"), None).await.status, 200);

    let heard: Vec<(Value, Value, Value, Value)> = webhook
        .heard()
        .into_iter()
        .map(|r| {
            (
                r["operation"].clone(),
                r["subResource"].clone(),
                r["kind"]["kind"].clone(),
                r["object"]["command"].clone(),
            )
        })
        .collect();
    let none = Value::Null;
    let expected = [
        (json!("UPDATE"), json!("scale"), json!("Scale"), none.clone()),
        (json!("UPDATE"), json!("status"), json!("Deployment"), none.clone()),
        (json!("CREATE"), json!("binding"), json!("Binding"), none.clone()),
        (json!("CONNECT"), json!("exec"), json!("PodExecOptions"), json!(["ls"])),
        (json!("DELETE"), none.clone(), json!("Pod"), none),
    ];
    assert_eq!(heard, expected);
}

/// Contract: API-33
#[tokio::test]
async fn webhooks_that_cannot_be_asked_matter_or_do_not() {
    let server = start();
    let one = Webhook::agreeable().await;
    let other = Tls::generate(&[]).expect("an authority");
    let port = TcpListener::bind("127.0.0.1:0").await.and_then(|it| it.local_addr()).expect("a free port").port();
    let url = |url: String| json!({"url": url});
    let service = |name: &str, port: u16| json!({"service": {"namespace": "default", "name": name, "port": port}});
    for (name, spec) in [
        ("headless", json!({"clusterIP": "None", "ports": [{"port": 443}]})),
        ("empty", json!({"clusterIP": "10.96.0.77", "ports": [{"port": 443}]})),
    ] {
        let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        assert_eq!(server.post("/api/v1/namespaces/default/services", &body).await.status, 201);
    }
    let strange = json!({"url": one.client_config()["url"], "caBundle": bundle(other.ca_pem())});
    let call = |url: &str, why: &str| format!("Post \"{url}?timeout=10s\": {why}");
    let at = |name: &str, port: u16| format!("https://{name}.default.svc:{port}/");
    for (config, expected) in [
        (
            url(format!("https://127.0.0.1:{port}")),
            call(
                &format!("https://127.0.0.1:{port}/"),
                &format!("dial tcp 127.0.0.1:{port}: connect: connection refused"),
            ),
        ),
        (
            strange,
            call(
                one.client_config()["url"].as_str().expect("a URL"),
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
        ),
        (service("none", 443), call(&at("none", 443), "service \"none\" not found")),
        (service("headless", 443), call(&at("headless", 443), "cannot route to service with ClusterIP \"None\"")),
        (service("empty", 80), call(&at("empty", 80), "no service port 80 found for service \"empty\"")),
        (service("empty", 443), call(&at("empty", 443), "dial tcp 10.96.0.77:443: connect: connection refused")),
    ] {
        server.configure("Validating", "v", &config, &json!({})).await;
        let answer = server.config_map("x", "y").await;
        let failed = format!("failed calling webhook \"v.example.com\": failed to call webhook: {expected}");
        assert_eq!(told(&answer), (500, format!("Internal error occurred: {failed}")));
        assert_eq!(answer.json()["details"]["causes"], json!([{"message": failed}]));
        server.unconfigure("Validating", "v").await;
        server.configure("Validating", "v", &config, &json!({"failurePolicy": "Ignore"})).await;
        assert_eq!(server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("x", &json!({}))).await.status, 201);
        server.unconfigure("Validating", "v").await;
    }
}

/// Contract: API-33
#[tokio::test]
async fn a_service_leads_to_its_ready_endpoints() {
    let server = start();
    let webhook = Webhook::agreeable().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"ports": [{"name": "https", "port": 443}]},
    });
    assert_eq!(server.post("/api/v1/namespaces/default/services", &service).await.status, 201);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "", "namespace": "default", "labels": {}},
        "ports": [{"name": "https", "port": webhook.address.port(), "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["127.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": true}},
        ],
    });
    // Nobody may send endpoints on the loopback: they are put into storage.
    let put = |mut slice: Value, service: &str| {
        slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!(service);
        slice["metadata"]["name"] = json!(service);
        let (registry, slice) = (server.api.registry(), slice.as_object().cloned().expect("an object"));
        let kind = registry.find("discovery.k8s.io", "v1", "endpointslices").expect("EndpointSlices");
        registry
            .storage
            .create(kind.id, kind.draft(&slice.into(), None).expect("a small object"))
            .expect("a new object");
    };
    put(slice.clone(), "hook");
    let config = json!({
        "service": {"namespace": "default", "name": "hook", "path": "/review"}, "caBundle": webhook.authorities(),
    });
    server.configure("Validating", "v", &config, &json!({})).await;
    assert_eq!(server.config_map("x", "y").await.status, 201);
    assert_eq!(webhook.heard().len(), 1);
    // The webhook has to be known by the Service's name.
    let mut other = service;
    other["metadata"]["name"] = json!("other");
    assert_eq!(server.post("/api/v1/namespaces/default/services", &other).await.status, 201);
    put(slice, "other");
    server.unconfigure("Validating", "v").await;
    let config = json!({"service": {"namespace": "default", "name": "other"}, "caBundle": webhook.authorities()});
    server.configure("Validating", "v", &config, &json!({})).await;
    let why =
        "tls: failed to verify certificate: x509: certificate is valid for hook.default.svc, not other.default.svc";
    assert!(told(&server.config_map("z", "y").await).1.ends_with(why));
}

/// Contract: API-33
#[tokio::test]
async fn a_webhook_is_trusted_by_its_own_certificate() {
    let server = start();
    let webhook = Webhook::pinned().await;
    server.configure("Validating", "v", &webhook.client_config(), &json!({})).await;
    assert_eq!(server.config_map("x", "y").await.status, 201);
    server.unconfigure("Validating", "v").await;
    let other = Webhook::pinned().await;
    let config = json!({"url": webhook.client_config()["url"], "caBundle": other.authorities()});
    server.configure("Validating", "v", &config, &json!({})).await;
    let why = "x509: certificate signed by unknown authority";
    assert!(told(&server.config_map("z", "y").await).1.ends_with(why));
}

/// Contract: API-33
#[tokio::test]
async fn a_service_may_be_told_to_be_elsewhere() {
    let webhook = Webhook::agreeable().await;
    let mut options = support::options();
    let host = format!("default/hook={}", webhook.address).parse::<ServiceHost>().expect("a host");
    options.settings.webhook_hosts = [host].into_iter().collect();
    let server = support::start_with(options);
    // There is no such Service.
    let config = json!({"service": {"namespace": "default", "name": "hook"}, "caBundle": webhook.authorities()});
    server.configure("Validating", "v", &config, &json!({})).await;
    assert_eq!(server.config_map("x", "y").await.status, 201);
    assert_eq!(webhook.heard().len(), 1);
}

/// Contract: API-33
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let server = start();
    // Connections are taken by the system, and nobody says anything on them.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let config = json!({"url": url});
    server.configure("Validating", "v", &config, &json!({"timeoutSeconds": 3})).await;
    let answer = server.config_map("x", "y").await;
    let why = format!("Post \"{url}/?timeout=3s\": context deadline exceeded");
    assert_eq!(
        told(&answer),
        (
            500,
            format!("Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: {why}")
        )
    );
    server.unconfigure("Validating", "v").await;

    for name in ["a", "b"] {
        let fields = json!({"timeoutSeconds": 30, "failurePolicy": "Ignore"});
        server.configure("Mutating", name, &config, &fields).await;
    }
    let too_long = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    let answer = server.config_map("x", "y").await;
    assert_eq!(told(&answer), (504, too_long.to_owned()), "the second is not waited for as long as it wants");
    let answer = server.post(&format!("{CONFIG_MAPS}?timeout=5s"), &config_map("x", &json!({}))).await;
    assert_eq!(told(&answer), (504, too_long.to_owned()), "a client may want less");
}

/// Contract: API-30
#[tokio::test]
async fn a_policy_denies_warns_and_explains() {
    let server = start();
    let denied = "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ";
    let deny = |validation: Value| json!({"validations": [validation]});
    let none = json!({});
    for (spec, binding, status, message, warning) in [
        (deny(json!({"expression": "true"})), &none, 201, "", ""),
        (
            deny(json!({"expression": "size(object.data) > 5"})),
            &none,
            422,
            "failed expression: size(object.data) > 5",
            "",
        ),
        (deny(json!({"expression": "false", "message": "no", "reason": "Forbidden"})), &none, 403, "no", ""),
        (
            deny(json!({"expression": "false", "messageExpression": "'not ' + object.metadata.name", "message": "no"})),
            &none,
            422,
            "not x",
            "",
        ),
        (
            deny(json!({"expression": "object.data.none == ''"})),
            &none,
            422,
            "expression 'object.data.none == ''' resulted in error: no such key: none",
            "",
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.none == ''"}]}),
            &none,
            201,
            "",
            "",
        ),
        (
            json!({
                "variables": [
                    {"name": "size", "expression": "object.data.size()"},
                    {"name": "twice", "expression": "variables.size * 2"},
                ],
                "validations": [{"expression": "variables.twice < 2", "messageExpression": "string(variables.twice)"}],
            }),
            &none,
            422,
            "2",
            "",
        ),
        (
            json!({
                "matchConditions": [{"name": "a", "expression": "object.metadata.name != 'x'"}],
                "validations": [{"expression": "false"}],
            }),
            &none,
            201,
            "",
            "",
        ),
        (
            deny(json!({"expression": "namespaceObject.metadata.name == 'default' && request.operation == 'CREATE'"})),
            &none,
            201,
            "",
            "",
        ),
        (
            deny(json!({"expression": "authorizer.group('').resource('pods').check('get').allowed()"})),
            &none,
            201,
            "",
            "",
        ),
        (
            deny(json!({
                "expression": "authorizer.serviceAccount('default', 'default').group('').resource('pods').check('get').allowed()",
                "message": "the service account may not",
            })),
            &none,
            422,
            "the service account may not",
            "",
        ),
        (
            deny(json!({"expression": "false", "message": "no"})),
            &json!({"validationActions": ["Warn", "Audit"]}),
            201,
            "",
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no\"",
        ),
        (
            deny(json!({"expression": "false", "message": "no"})),
            &json!({"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}),
            201,
            "",
            "",
        ),
    ] {
        server.policy("p", &spec, binding).await;
        let answer = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("x", &json!({"a": "b"}))).await;
        let message = if message.is_empty() { String::new() } else { format!("{denied}{message}") };
        assert_eq!(told(&answer), (status, message), "{spec}");
        assert_eq!(answer.header("warning"), warning, "{spec}");
        for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
            assert_eq!(server.delete(&format!("{GROUP}/{plural}/p"), None).await.status, 200);
        }
    }
}

/// Contract: API-30
#[tokio::test]
async fn a_policy_has_parameters() {
    let server = start();
    let mut limits = config_map("limits", &json!({"most": "1"}));
    limits["metadata"]["labels"] = json!({"limits": "yes"});
    assert_eq!(server.post(CONFIG_MAPS, &limits).await.status, 201);
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        }]},
        "validations": [{
            "expression": "size(object.data) <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most",
        }],
    });
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let nothing = "expression 'size(object.data) <= int(params.data.most)' resulted in error: no such key: data";
    let by = |more: Value| {
        let mut reference = json!({"parameterNotFoundAction": "Deny"});
        merge(&mut reference, &more);
        json!({"paramRef": reference})
    };
    for (binding, expected) in [
        (by(json!({"name": "limits", "namespace": "default"})), "at most 1"),
        // Without a namespace that of the request counts.
        (by(json!({"name": "limits"})), "at most 1"),
        (by(json!({"selector": {"matchLabels": {"limits": "yes"}}})), "at most 1"),
        (by(json!({"name": "none"})), missing),
        (by(json!({"selector": {"matchLabels": {"limits": "no"}}})), missing),
        (by(json!({"name": "none", "parameterNotFoundAction": "Allow"})), ""),
        (json!({}), nothing),
    ] {
        server.policy("p", &spec, &binding).await;
        let body = config_map("x", &json!({"a": "1", "b": "2"}));
        let answer = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &body).await;
        let denied = "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ";
        let expected = if expected.is_empty() { (201, String::new()) } else { (422, format!("{denied}{expected}")) };
        assert_eq!(told(&answer), expected, "{binding}");
        for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
            assert_eq!(server.delete(&format!("{GROUP}/{plural}/p"), None).await.status, 200);
        }
    }
}

/// Contract: API-11, API-30, API-33
#[tokio::test]
async fn a_write_that_came_in_between_has_webhooks_asked_anew() {
    let server = start();
    assert_eq!(server.config_map("x", "y").await.status, 201);
    let (api, once) = (server.api.clone(), Once::new());
    let webhook = Webhook::start(move |_, _| {
        // While it is asked for the first time, the object is written.
        once.call_once(|| {
            let registry = api.registry();
            let kind = registry.find("", "v1", "configmaps").expect("ConfigMaps");
            let (namespace, name, options) = ("default", "x", &WriteOptions::default());
            let (part, admission) = (Part::Main, Admission::OWN);
            let update = Update { namespace, name, part, subresource: "", options, admission };
            let mut warnings = Vec::new();
            let written = registry.change(&kind, update, None, &mut warnings, |live, _| {
                let mut next = live.clone();
                next.insert("data", json!({"between": "1"}).into());
                Ok(next)
            });
            at_once(written).expect("a write");
        });
        allow()
    })
    .await;
    server.configure("Validating", "v", &webhook.client_config(), &json!({})).await;
    let answer = server.merge(&format!("{CONFIG_MAPS}/x"), &json!({"data": {"own": "2"}})).await;
    assert_eq!(answer.json()["data"], json!({"between": "1", "own": "2"}));
    let heard: Vec<Value> = webhook.heard().into_iter().map(|request| request["oldObject"]["data"].clone()).collect();
    assert_eq!(heard, [json!({"a": "b"}), json!({"between": "1"})]);
}

/// Contract: API-28, API-30
#[tokio::test]
async fn the_deletion_of_a_definition_is_asked_about() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let server = start();
    let schema = json!({"type": "object"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    assert_eq!(server.post(DEFINITIONS, &definition).await.status, 201);
    let webhook = Webhook::agreeable().await;
    let rules = json!([{
        "operations": ["DELETE"], "apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["v1"],
        "resources": ["customresourcedefinitions"],
    }]);
    server.configure("Validating", "all", &webhook.client_config(), &json!({"rules": rules})).await;
    let spec = json!({
        "matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": "they stay"}],
    });
    server.policy("stay", &spec, &json!({})).await;

    let own = format!("{DEFINITIONS}/paints.example.com");
    let (status, message) = told(&server.delete(&own, None).await);
    assert_eq!(status, 422, "{message}");
    assert!(message.ends_with("denied request: they stay"), "{message}");
    assert_eq!(server.delete(DEFINITIONS, None).await.status, 422, "as one of all, too");
    let stays = server.get(&own).await.json();
    assert_eq!(stays["metadata"]["deletionTimestamp"], Value::Null);

    assert_eq!(server.delete(&format!("{GROUP}/validatingadmissionpolicies/stay"), None).await.status, 200);
    webhook.heard();
    assert_eq!(server.delete(&own, None).await.status, 200);
    let heard: Vec<Value> = webhook.heard();
    assert_eq!(heard[0]["operation"], "DELETE");
    assert_eq!(heard[0]["name"], "paints.example.com");
    assert_eq!(heard[0]["oldObject"]["spec"]["group"], "example.com");
}

/// Webhooks are asked about reviews as about anything else; policies are not, which reviews are needed to mend.
///
/// Contract: API-31, API-33
#[tokio::test]
async fn webhooks_are_asked_about_reviews() {
    let server = start();
    let webhook = Webhook::start(|request, _| match request["object"]["spec"]["user"].as_str() {
        Some("eve") => deny("nobody asks about eve"),
        _ => allow(),
    })
    .await;
    let rules = json!([{
        "operations": ["*"], "apiGroups": ["authorization.k8s.io"], "apiVersions": ["v1"], "resources": ["*"],
    }]);
    server.configure("Validating", "v", &webhook.client_config(), &json!({"rules": rules})).await;
    let review = |user: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "nonResourceAttributes": {"path": "/healthz", "verb": "get"}}})
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = server.post(path, &review("bob")).await;
    assert_eq!((answer.status, &answer.json()["status"]["allowed"]), (201, &json!(false)), "{}", answer.json());
    let asked = &webhook.heard()[0];
    assert_eq!((&asked["kind"]["kind"], &asked["operation"]), (&json!("SubjectAccessReview"), &json!("CREATE")));
    let refused = server.post(path, &review("eve")).await;
    let why = "admission webhook \"v.example.com\" denied the request: nobody asks about eve";
    assert_eq!(told(&refused), (400, why.to_owned()));
    // One that says nothing is refused before anybody is asked.
    webhook.heard();
    let nothing =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "bob"}});
    assert_eq!(server.post(path, &nothing).await.status, 422);
    assert!(webhook.heard().is_empty());
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}});
    assert_eq!(server.post("/apis/authentication.k8s.io/v1/tokenreviews", &token).await.status, 201);
    assert!(webhook.heard().iter().all(|asked| asked["kind"]["kind"] == "SubjectAccessReview"));
}
