//! Kinds whose versions a webhook tells in one another, from outside: `spec.a` of v1 is `spec.b` of v2, both have `spec.x`, and only
//! v2 has `spec.n`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::webhook::{Reply, Webhook, allow, configuration, patch};
use crate::support::{self, Answer, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FIRST: &str = "/apis/example.com/v1/namespaces/default/widgets";
const SECOND: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// Defines widgets that are stored as v1.
async fn define(server: &Server, conversion: &Value) {
    let version = |name: &str, fields: &[&str]| {
        let fields: Value = fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        let spec = json!({"type": "object", "properties": fields});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", &["a", "x"]), version("v2", &["b", "n", "x"])], "conversion": conversion,
        },
    });
    let answer = server.post(DEFINITIONS, &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

/// Converts a review's objects, but for those that are named so.
fn convert(request: &Value) -> Reply {
    let version = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let (from, to) = if version.ends_with("v1") { ("b", "a") } else { ("a", "b") };
    let mut objects = request["objects"].as_array().cloned().unwrap_or_default();
    for object in &mut objects {
        if object["metadata"]["name"] == "stubborn" {
            return Reply::Review(json!({"result": {"status": "Failed", "message": "it stays as it is"}}));
        }
        object["apiVersion"] = json!(version);
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("n");
            if let Some(value) = spec.remove(from) {
                spec.insert(to.to_owned(), value);
            }
        }
    }
    Reply::Review(json!({"convertedObjects": objects, "result": {"status": "Success"}}))
}

fn by_webhook(webhook: &Webhook) -> Value {
    let config = json!({
        "url": format!("https://{}/convert", webhook.address), "caBundle": webhook.authorities(),
    });
    json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}})
}

fn widget(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

/// What `matchPolicy` makes of a write in one version, for who asks for another.
///
/// Contract: API-28, API-30, API-33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_and_policies_see_a_custom_object_in_the_version_that_they_name() {
    let server = support::start();
    let webhook = Webhook::start(|request, path| match path {
        "/convert" => convert(request),
        _ if request["operation"] == "DELETE" => {
            let shown = &request["oldObject"];
            match shown["apiVersion"] == "example.com/v2" && shown["spec"]["b"] == "three+" {
                true => allow(),
                false => Reply::Review(json!({"allowed": false, "status": {"message": shown.to_string()}})),
            }
        }
        _ => {
            let shown = &request["object"];
            if shown["apiVersion"] != "example.com/v2" || !shown["spec"]["a"].is_null() {
                return Reply::Review(json!({"allowed": false, "status": {"message": shown.to_string()}}));
            }
            let changed = format!("{}+", shown["spec"]["b"].as_str().unwrap_or_default());
            patch(&json!([{"op": "replace", "path": "/spec/b", "value": changed}]))
        }
    })
    .await;
    define(&server, &by_webhook(&webhook)).await;
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]},
    ]);
    let condition = "request.operation == 'DELETE' || object.apiVersion == 'example.com/v2'";
    let fields = json!({"rules": rules, "matchConditions": [{"name": "version", "expression": condition}]});
    let hook = configuration("Mutating", "m", &webhook.client_config(), &fields);
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(server.post(hooks, &hook).await.status, 201);
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{
                "expression": "(request.operation == 'DELETE' ? oldObject : object).spec.b.endsWith('+')",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    for (plural, object) in [("validatingadmissionpolicies", &policy), ("validatingadmissionpolicybindings", &binding)]
    {
        let answer = server.post(&format!("{policies}/{plural}"), object).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
    webhook.heard();

    let made = server.post(FIRST, &widget("v1", "w", &json!({"a": "one"}))).await;
    assert_eq!((made.status, &made.json()["spec"]), (201, &json!({"a": "one+"})), "{}", made.json());
    assert_eq!(made.json()["apiVersion"], "example.com/v1");
    let changed = server.merge(&format!("{FIRST}/w"), &json!({"spec": {"a": "two"}})).await;
    assert_eq!((changed.status, &changed.json()["spec"]), (200, &json!({"a": "two+"})));
    let asked = webhook.heard().into_iter().rfind(|request| request["operation"] == "UPDATE").expect("it was asked");
    assert_eq!(asked["kind"]["version"], "v2");
    assert_eq!(
        (&asked["oldObject"]["apiVersion"], &asked["oldObject"]["spec"]),
        (&json!("example.com/v2"), &json!({"b": "one+"}))
    );
    // In its own version it is shown as it was sent.
    let second = server.merge(&format!("{SECOND}/w"), &json!({"spec": {"b": "three"}})).await;
    assert_eq!((second.status, &second.json()["spec"]), (200, &json!({"b": "three+"})));
    assert_eq!(server.get(&format!("{FIRST}/w")).await.json()["spec"], json!({"a": "three+"}));

    let refused = server.post(FIRST, &widget("v1", "stubborn", &json!({"a": "one"}))).await;
    assert_eq!(told(&refused), (500, format!("Internal error occurred: {STUBBORN}")));
    // What is deleted is told in that version too, whatever it is stored as.
    for path in [FIRST, SECOND] {
        let deleted = server.delete(&format!("{path}/w?dryRun=All"), None).await;
        assert_eq!(deleted.status, 200, "{}", deleted.json());
    }
}

const STUBBORN: &str = "conversion webhook for example.com/v1, Kind=Widget failed: it stays as it is";

/// Contract: API-28, API-30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_converted_for_a_policy_is_a_failure_of_the_policy() {
    let server = support::start();
    let webhook = Webhook::start(|request, _| convert(request)).await;
    define(&server, &by_webhook(&webhook)).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]},
    ]);
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    assert_eq!(server.post(&format!("{group}/validatingadmissionpolicybindings"), &binding).await.status, 201);
    for (policy, status) in [("Fail", 422), ("Ignore", 201)] {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p"},
            "spec": {
                "failurePolicy": policy, "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "true"}],
            },
        });
        let path = format!("{group}/validatingadmissionpolicies");
        let _ = server.delete(&format!("{path}/p"), None).await;
        assert_eq!(server.post(&path, &object).await.status, 201);
        let answer = server.post(&format!("{FIRST}?dryRun=All"), &widget("v1", "stubborn", &json!({"a": "one"}))).await;
        let (found, message) = told(&answer);
        assert_eq!(found, status, "{message}");
        let why = format!("failed to configure binding: failed to convert object version: {STUBBORN}");
        assert_eq!(message.ends_with(&why), policy == "Fail", "{message}");
    }
}

/// Contract: API-28, API-33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_of_one_version_see_what_others_of_it_have_made_for_one_conversion() {
    let server = support::start();
    let webhook = Webhook::start(|request, path| match path {
        "/convert" => convert(request),
        "/one" => patch(&json!([{"op": "add", "path": "/spec/n", "value": "made"}])),
        _ if request["object"]["spec"]["n"] == "made" => allow(),
        _ => Reply::Review(json!({"allowed": false, "status": {"message": request["object"].to_string()}})),
    })
    .await;
    define(&server, &by_webhook(&webhook)).await;
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]},
    ]);
    for name in ["one", "three", "two"] {
        let config = json!({
            "url": format!("https://{}/{name}", webhook.address), "caBundle": webhook.authorities(),
        });
        let hook = configuration("Mutating", name, &config, &json!({"rules": rules}));
        let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        assert_eq!(server.post(hooks, &hook).await.status, 201);
    }
    webhook.heard();
    let made = server.post(FIRST, &widget("v1", "w", &json!({"a": "one"}))).await;
    assert_eq!((made.status, &made.json()["spec"]), (201, &json!({"a": "one"})), "{}", made.json());
    let conversions = webhook.heard().iter().filter(|request| !request["desiredAPIVersion"].is_null()).count();
    assert_eq!(conversions, 2, "there and back");
}

/// Contract: API-28, API-30, B-34
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_of_one_version_see_what_those_of_another_have_made() {
    let server = support::start();
    let webhook = Webhook::start(|request, _| match request["objects"][0]["spec"]["b"] == "never+" {
        true => Reply::Review(json!({"result": {"status": "Failed", "message": "it stays as it is"}})),
        false => convert(request),
    })
    .await;
    define(&server, &by_webhook(&webhook)).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (name, version, field) in [("p1", "v2", "b"), ("p2", "v1", "a"), ("p3", "v2", "b")] {
        let expression =
            format!("[JSONPatch{{op: 'replace', path: '/spec/{field}', value: object.spec.{field} + '+'}}]");
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "reinvocationPolicy": "Never",
                "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [{
                    "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": [version],
                    "resources": ["widgets"],
                }]},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name},
        });
        for (plural, object) in [("mutatingadmissionpolicies", policy), ("mutatingadmissionpolicybindings", binding)] {
            let answer = server.post(&format!("{group}/{plural}"), &object).await;
            assert_eq!(answer.status, 201, "{}", answer.json());
        }
    }
    let made = server.post(FIRST, &widget("v1", "w", &json!({"a": "one"}))).await;
    assert_eq!((made.status, &made.json()["spec"]), (201, &json!({"a": "one+++"})), "{}", made.json());
    for name in ["p2", "p3"] {
        server.delete(&format!("{group}/mutatingadmissionpolicies/{name}"), None).await;
    }
    let refused = server.post(FIRST, &widget("v1", "x", &json!({"a": "never"}))).await;
    let why = "Internal error occurred: failed to convert object: conversion webhook for example.com/v2, Kind=Widget failed: it \
        stays as it is";
    assert_eq!((told(&refused), &refused.json()["reason"]), ((500, why.to_owned()), &json!("InternalError")));
}

/// Contract: API-28, API-33
#[tokio::test]
async fn without_a_webhook_only_the_version_is_another() {
    let server = support::start();
    define(&server, &json!({"strategy": "None"})).await;
    let hash = async |version: &str| {
        let told = server.get(&format!("/apis/example.com/{version}")).await.json();
        told["resources"][0]["storageVersionHash"].as_str().map(str::to_owned)
    };
    let (first, second) = (hash("v1").await, hash("v2").await);
    assert!(first.is_some() && first == second, "that of the stored version: {first:?}, {second:?}");
    let webhook = Webhook::agreeable().await;
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]},
    ]);
    let hook = configuration("Validating", "v", &webhook.client_config(), &json!({"rules": rules}));
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.post(hooks, &hook).await.status, 201);
    let made = server.post(FIRST, &widget("v1", "w", &json!({"a": "one"}))).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let heard = webhook.heard();
    let shown = &heard[0]["object"];
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("example.com/v2"), &json!({"a": "one"})));
}

async fn apply(server: &Server, path: &str, object: &Value, manager: &str, force: bool) -> Answer {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{path}/{name}?fieldManager={manager}&force={force}");
    server.send("PATCH", &path, &[("Content-Type", "application/apply-patch+yaml")], object.to_string()).await
}

/// Who owns what of an object, by manager.
fn owned(object: &Value) -> Vec<(String, String, Value)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| (text(e, "manager"), text(e, "apiVersion"), e["fieldsV1"].clone())).collect()
}

/// Contract: API-13, API-28
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers_own_fields_in_the_versions_that_they_wrote() {
    let server = support::start();
    let webhook = Webhook::start(|request, _| convert(request)).await;
    define(&server, &by_webhook(&webhook)).await;
    let first = |value: &str| widget("v1", "w", &json!({"a": value}));
    let second = |value: &str| widget("v2", "w", &json!({"b": value}));
    let entry =
        |manager: &str, version: &str, fields: Value| (manager.to_owned(), format!("example.com/{version}"), fields);
    let of_ctl = || entry("ctl", "v1", json!({"f:spec": {"f:a": {}}}));

    assert_eq!(apply(&server, FIRST, &first("one"), "ctl", false).await.status, 201);
    let labelled = server
        .merge(&format!("{SECOND}/w?fieldManager=other"), &json!({"metadata": {"labels": {"x": "y"}}}))
        .await
        .json();
    let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}});
    assert_eq!(owned(&labelled), [of_ctl(), entry("other", "v2", labels.clone())]);
    let again = apply(&server, FIRST, &first("two"), "ctl", false).await;
    assert_eq!((again.status, &again.json()["spec"]), (200, &json!({"a": "two"})), "{}", again.json());

    let refused = apply(&server, SECOND, &second("three"), "second", false).await;
    let why = "Apply failed with 1 conflict: conflict with \"ctl\": .spec.a";
    assert_eq!(told(&refused), (409, why.to_owned()));
    let forced = apply(&server, SECOND, &second("three"), "second", true).await;
    assert_eq!((forced.status, &forced.json()["spec"]), (200, &json!({"b": "three"})));
    let of_second = || entry("second", "v2", json!({"f:spec": {"f:b": {}}}));
    assert_eq!(owned(&forced.json()), [of_second(), entry("other", "v2", labels.clone())]);

    // An update takes a field from who owns it in another version, and says so in its own.
    let updated = server.merge(&format!("{FIRST}/w?fieldManager=third"), &json!({"spec": {"a": "four"}})).await.json();
    let third = entry("third", "v1", json!({"f:spec": {"f:a": {}}}));
    let mut owners = owned(&updated);
    owners.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(owners, [entry("other", "v2", labels), third]);
    // And one that sets what it is takes nothing.
    assert_eq!(apply(&server, SECOND, &second("four"), "second", false).await.status, 200);
    let same = server.merge(&format!("{FIRST}/w?fieldManager=fourth"), &json!({"spec": {"a": "four"}})).await.json();
    assert!(owned(&same).contains(&of_second()), "{same}");
}

/// What a manager does not apply any more is taken away in whatever version it applied it, or else it is told that it cannot be.
///
/// Contract: API-13, API-28
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_applied_in_another_version_is_taken_away_or_told() {
    let server = support::start();
    let fails = Arc::new(AtomicBool::new(false));
    let webhook = {
        let fails = Arc::clone(&fails);
        Webhook::start(move |request, _| match fails.load(Ordering::SeqCst) {
            true => Reply::Review(json!({"result": {"status": "Failed", "message": "it stays as it is"}})),
            false => convert(request),
        })
        .await
    };
    define(&server, &by_webhook(&webhook)).await;
    let both = widget("v2", "w", &json!({"b": "one", "x": "one"}));
    assert_eq!(apply(&server, SECOND, &both, "m", false).await.status, 201);
    let less = widget("v1", "w", &json!({"a": "one"}));
    fails.store(true, Ordering::SeqCst);
    assert_eq!(told(&apply(&server, FIRST, &less, "m", false).await), (500, STUBBORN.to_owned()));
    fails.store(false, Ordering::SeqCst);
    let applied = apply(&server, FIRST, &less, "m", false).await.json();
    assert_eq!(applied["spec"], json!({"a": "one"}));
}

/// Contract: API-13, API-28
#[tokio::test]
async fn what_was_applied_in_a_version_that_is_served_no_more_is_taken_away() {
    let server = support::start();
    let version = |name: &str, served: bool| {
        let text = json!({"type": "string"});
        let spec = json!({"type": "object", "properties": {"a": text, "x": text}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": served, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}})
    };
    let versions = |first: bool| json!([version("v1", first), version("v2", true)]);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions(true),
        },
    });
    assert_eq!(server.post(DEFINITIONS, &definition).await.status, 201);
    let both = widget("v1", "w", &json!({"a": "one", "x": "one"}));
    assert_eq!(apply(&server, FIRST, &both, "m", false).await.status, 201);
    let own = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(server.merge(&own, &json!({"spec": {"versions": versions(false)}})).await.status, 200);
    let applied = apply(&server, SECOND, &widget("v2", "w", &json!({"a": "one"})), "m", false).await;
    assert_eq!((applied.status, &applied.json()["spec"]), (200, &json!({"a": "one"})), "{}", applied.json());
}
