//! Who may do what, by the roles and bindings that are stored.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use http::Response;
use muster_apiserver::Options;
use muster_apiserver::access::authentication::Anonymous;
use muster_apiserver::access::authorizer::Mode;
use muster_apiserver::http::LARGEST_BODY;
use muster_apiserver::http::muster::{Asked, Extension};
use serde_json::{Value, json};

use crate::support::{Server, options, start, start_with};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
const BOB: (&str, &str) = ("Impersonate-User", "bob");

/// What the reference has at its start, as far as a client cares.
///
/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn the_first_roles_and_bindings_are_the_references() {
    let expected: Value = serde_json::from_str(include_str!("../vectors/bootstrap-policy.json")).expect("JSON");
    let server = start();
    for (plural, expected) in expected.as_object().expect("kinds") {
        let list = server.get(&format!("{GROUP}/{plural}")).await.json();
        let mut found = list["items"].as_array().expect("items").clone();
        for object in &mut found {
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
        }
        let expected = expected.as_array().expect("objects");
        let names = |objects: &[Value]| -> Vec<String> {
            objects.iter().map(|object| object["metadata"].to_string()).collect()
        };
        assert_eq!(names(&found), names(expected), "{plural}");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found, expected, "{plural}");
        }
    }
}

/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn roles_and_bindings_take_effect_at_once_and_end_with_them() {
    let server = start();
    assert_eq!(as_bob(&server, "pods").await, 403);
    write(&server, "roles", "reader", &json!({"rules": [rule("list", "pods")]})).await;
    assert_eq!(as_bob(&server, "pods").await, 403, "nobody has the role");
    write(&server, "rolebindings", "bob", &binding("Role", "reader")).await;
    assert_eq!(as_bob(&server, "pods").await, 200);
    assert_eq!(as_bob(&server, "secrets").await, 403);

    let wider = json!({"metadata": {"name": "reader"}, "rules": [rule("list", "pods"), rule("list", "secrets")]});
    assert_eq!(server.put(&format!("{GROUP}/namespaces/default/roles/reader"), &wider).await.status, 200);
    assert_eq!(as_bob(&server, "secrets").await, 200);

    server.delete(&format!("{GROUP}/namespaces/default/roles/reader"), None).await;
    let refused = server.send("GET", "/api/v1/namespaces/default/pods", &[BOB], "").await;
    assert_eq!(refused.status, 403);
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.ends_with(r#": RBAC: role.rbac.authorization.k8s.io "reader" not found"#), "{message}");

    assert_eq!(as_bob(&server, "pods").await, 403);
}

/// Who may update may not make objects so.
///
/// Contract: API-12, API-31
#[tokio::test(start_paused = true)]
async fn an_update_that_creates_needs_both() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = start();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let all = |verbs: &[&str]| {
        let of = |group, resource| json!({"verbs": verbs, "apiGroups": [group], "resources": [resource]});
        json!({"metadata": {"name": "writer"}, "rules": [of("", "configmaps"), of("coordination.k8s.io", "leases")]})
    };
    let apply = ("Content-Type", "application/apply-patch+yaml");
    let written = async || {
        let put = server.send("PUT", &format!("{LEASES}/a"), &[BOB], lease.to_string()).await;
        let path = format!("{MAPS}/a?fieldManager=bob");
        [put, server.send("PATCH", &path, &[BOB, apply], map.to_string()).await]
    };
    write(&server, "roles", "writer", &all(&["get", "update", "patch"])).await;
    write(&server, "rolebindings", "bob", &binding("Role", "writer")).await;
    let refused = written().await.map(|answer| (answer.status, answer.json()["message"].clone()));
    let because = |name: &str, resource: &str, group: &str| {
        let plural = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let message = format!(
            r#"{plural} "{name}" is forbidden: User "bob" cannot create resource "{resource}" in API group "{group}" in the namespace "default""#
        );
        (403, json!(message))
    };
    assert_eq!(refused, [because("a", "leases", "coordination.k8s.io"), because("a", "configmaps", "")]);
    assert_eq!(
        server
            .put(&format!("{GROUP}/namespaces/default/roles/writer"), &all(&["update", "patch", "create"]))
            .await
            .status,
        200
    );
    assert_eq!(written().await.map(|answer| answer.status), [201, 201]);
    assert_eq!(
        server.put(&format!("{GROUP}/namespaces/default/roles/writer"), &all(&["update", "patch"])).await.status,
        200
    );
    assert_eq!(
        written().await.map(|answer| answer.status),
        [422, 200],
        "they are there, and a Lease is updated at a version"
    );
}

/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn roles_are_put_back_with_the_storage_though_versions_come_again() {
    let server = start();
    let storage = &server.api.registry().storage;
    let before = storage.version();
    write(&server, "roles", "reader", &json!({"rules": [rule("list", "pods")]})).await;
    write(&server, "rolebindings", "bob", &binding("Role", "reader")).await;
    assert_eq!(as_bob(&server, "pods").await, 200);
    let seen = storage.version();
    storage.restore(before).expect("a version in the history");
    for name in ["a", "b"] {
        assert_eq!(server.config_map(name, "x").await.status, 201);
    }
    assert_eq!(storage.version(), seen);
    assert_eq!(as_bob(&server, "pods").await, 403);
}

/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn a_binding_in_a_namespace_grants_a_clusters_role_there_only() {
    let server = start();
    write(&server, "rolebindings", "bob", &binding("ClusterRole", "view")).await;
    // Nobody gathers the rules of `view` but the controller of that.
    assert_eq!(as_bob(&server, "pods").await, 403);
    let rules = server.get(&format!("{GROUP}/clusterroles/system:aggregate-to-view")).await.json()["rules"].clone();
    let filled = json!({"rules": rules});
    assert_eq!(server.merge(&format!("{GROUP}/clusterroles/view"), &filled).await.status, 200);
    assert_eq!(as_bob(&server, "pods").await, 200);
    let elsewhere = server.send("GET", "/api/v1/namespaces/kube-system/pods", &[BOB], "").await;
    assert_eq!(elsewhere.status, 403);
    let everywhere = server.send("GET", "/api/v1/pods", &[BOB], "").await;
    assert_eq!(everywhere.status, 403);
}

/// Contract: API-01, API-31
#[tokio::test(start_paused = true)]
async fn where_all_is_allowed_a_credential_is_needed_still() {
    let server = start_with(Options { authorization: Mode::AlwaysAllow, ..options() });
    assert_eq!(as_bob(&server, "secrets").await, 200);
    let review = json!({"spec": {"user": "bob", "resourceAttributes": {"verb": "delete", "resource": "nodes"}}});
    let review = server.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.json();
    assert_eq!(review["status"]["allowed"], true, "{review}");
    for path in ["/api/v1/namespaces/default/pods", "/version"] {
        assert_eq!(server.send("GET", path, &[("Authorization", "")], "").await.status, 401, "{path}");
    }
}

/// Contract: API-36
#[tokio::test(start_paused = true)]
async fn where_all_is_denied_only_masters_may_and_nobody_may_be_kept_out() {
    let server = start_with(Options { authorization: Mode::AlwaysDeny, ..options() });
    write(&server, "roles", "all", &json!({"rules": [rule("*", "*")]})).await;
    write(&server, "rolebindings", "all", &binding("Role", "all")).await;
    let refused = server.send("GET", "/api/v1/namespaces/default/pods", &[BOB], "").await;
    assert_eq!(refused.status, 403);
    assert!(refused.json()["message"].as_str().is_some_and(|said| said.ends_with(": Everything is forbidden.")));
    let server = start_with(Options { anonymous: Some(Anonymous::Refused), ..options() });
    assert_eq!(server.send("GET", "/healthz", &[("Authorization", "")], "").await.status, 401);
}

/// Answers 202 with what it was asked.
struct Echo(&'static str);

impl Extension for Echo {
    fn answer(&self, asked: Asked) -> BoxFuture<'_, Response<Bytes>> {
        let Asked { method, rest, query, body } = asked;
        let said = format!("{}: {method} {rest:?} {query:?} {body:?}", self.0);
        Box::pin(ready(Response::builder().status(202).body(said.into()).expect("an answer")))
    }
}

/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn extensions_answer_masters_below_their_names() {
    let server = start_with(Options { authorization: Mode::AlwaysAllow, ..options() });
    assert_eq!(server.get("/muster/echo").await.status, 404, "there is none yet");
    server.api.extend("echo", Arc::new(Echo("first")));
    let second = Arc::new(Echo("second"));
    server.api.extend("echo", Arc::clone(&second) as Arc<_>);
    for (method, path, body, said) in [
        ("GET", "/muster/echo", "", r#"second: GET "" "" b"""#),
        ("GET", "/muster/echo/a/b%20c?d=%20&e", "", r#"second: GET "a/b c" "d=%20&e" b"""#),
        ("POST", "/muster/echo/a", "x", r#"second: POST "a" "" b"x""#),
        ("DELETE", "/muster/echo/a/", "", r#"second: DELETE "a" "" b"""#),
    ] {
        let answer = server.send(method, path, &[], body).await;
        assert_eq!((answer.status, &*answer.body), (202, said.as_bytes()), "{method} {path}");
        let refused = server.send(method, path, &[BOB], body).await;
        assert_eq!(refused.status, 403, "{method} {path}");
        let words = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(words.ends_with(": only the group system:masters may"), "{words}");
        assert_eq!(server.send(method, path, &[("Authorization", "")], body).await.status, 401, "{method} {path}");
    }
    for path in ["/muster", "/muster/", "/muster/ech", "/echo"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    let long = vec![b'x'; LARGEST_BODY + 1];
    assert_eq!(server.send("POST", "/muster/echo", &[], long).await.status, 413);
    server.api.stop();
    assert_eq!(Arc::strong_count(&second), 1, "the server let go of it");
}

fn rule(verb: &str, resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]})
}

fn binding(kind: &str, role: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    })
}

/// What bob is answered who lists.
async fn as_bob(server: &Server, plural: &str) -> u16 {
    server.send("GET", &format!("/api/v1/namespaces/default/{plural}"), &[BOB], "").await.status
}

/// Creates an object in the namespace `default`.
async fn write(server: &Server, plural: &str, name: &str, rest: &Value) {
    let mut object = rest.clone();
    object["metadata"] = json!({"name": name});
    let answer = server.post(&format!("{GROUP}/namespaces/default/{plural}"), &object).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

/// A policy shows what its parameters say to whom it refuses something.
///
/// Contract: API-30, API-31
#[tokio::test(start_paused = true)]
async fn nobody_has_policies_read_what_they_may_not_read() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
    let server = start();
    let rules = json!([
        {"verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]},
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
    ]);
    let role = json!({"metadata": {"name": "policies"}, "rules": rules});
    assert_eq!(server.post(&format!("{GROUP}/clusterroles"), &role).await.status, 201);
    let bound = binding("ClusterRole", "policies");
    let bound = json!({"metadata": {"name": "bob"}, "roleRef": bound["roleRef"], "subjects": bound["subjects"]});
    assert_eq!(server.post(&format!("{GROUP}/clusterrolebindings"), &bound).await.status, 201);
    let headers = [BOB, ("Content-Type", "application/json")];
    let matched = json!({"resourceRules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
    ]});
    for (prefix, own) in [
        ("validating", json!({"validations": [{"expression": "params.data.x == 'a'"}]})),
        (
            "mutating",
            json!({"reinvocationPolicy": "Never", "mutations": [{
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: params.data.x}]"},
            }]}),
        ),
    ] {
        let kinds = format!("{POLICIES}/{prefix}admissionpolicies");
        let bindings = format!("{POLICIES}/{prefix}admissionpolicybindings");
        let policy = |name: &str, kind: &str| {
            let mut spec = own.clone();
            spec["paramKind"] = json!({"apiVersion": "v1", "kind": kind});
            spec["matchConstraints"] = matched.clone();
            json!({"metadata": {"name": name}, "spec": spec}).to_string()
        };
        let refused = server.send("POST", &kinds, &headers, policy("p", "Secret")).await;
        assert_eq!(refused.status, 422);
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        let why = r#"spec.paramKind: Forbidden: user &{bob  [system:authenticated] map[]} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"#;
        assert!(message.ends_with(why), "{message}");
        assert_eq!(server.send("POST", &kinds, &headers, policy("free", "ConfigMap")).await.status, 201);
        let wider = [BOB, ("Content-Type", "application/merge-patch+json")];
        let patch = json!({"spec": {"paramKind": {"kind": "Secret"}}}).to_string();
        assert_eq!(server.send("PATCH", &format!("{kinds}/free"), &wider, patch).await.status, 422);

        let masters = [("Content-Type", "application/json")];
        assert_eq!(server.send("POST", &kinds, &masters, policy("p", "Secret")).await.status, 201);
        let bind = |name: &str, parameters: &str| {
            let reference = json!({"name": parameters, "namespace": "default", "parameterNotFoundAction": "Deny"});
            let mut spec = json!({"policyName": name, "paramRef": reference});
            if prefix == "validating" {
                spec["validationActions"] = json!(["Deny"]);
            }
            json!({"metadata": {"name": name}, "spec": spec}).to_string()
        };
        let refused = server.send("POST", &bindings, &headers, bind("p", "s")).await;
        assert_eq!(refused.status, 422);
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.ends_with("permission on the object referenced by paramRef"), "{message}");
        assert_eq!(server.send("POST", &bindings, &headers, bind("free", "c")).await.status, 201);
    }
}

/// A WebSocket is opened by GET: who may only read may run nothing in a pod.
///
/// Contract: API-23, API-31
#[tokio::test(start_paused = true)]
async fn who_connects_by_get_needs_what_a_post_needs() {
    let server = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    assert_eq!(server.post("/api/v1/namespaces/default/pods", &pod).await.status, 201);
    let role = |verbs: &[&str]| {
        let resources = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"];
        let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": resources});
        json!({"metadata": {"name": "connects"}, "rules": [rule]})
    };
    let connects = async |method: &str, part: &str| {
        let path = format!("/api/v1/namespaces/default/pods/p/{part}");
        let answer = server.send(method, &path, &[BOB], "").await;
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    write(&server, "roles", "connects", &role(&["get"])).await;
    write(&server, "rolebindings", "bob", &binding("Role", "connects")).await;
    for part in ["exec", "attach", "portforward"] {
        assert_eq!(connects("GET", part).await, (403, r#"pods "p" is forbidden: "#.to_owned()), "{part}");
        assert_eq!(connects("POST", part).await.0, 403, "{part}");
    }
    let missing = server.send("GET", "/api/v1/namespaces/default/pods/q/exec", &[BOB], "").await;
    assert_eq!(missing.status, 403, "whether there is such a pod is not told");
    assert_eq!(connects("GET", "exec?dryRun=All").await, (400, "dryRun is not supported".to_owned()));
    assert_eq!(connects("GET", "proxy").await.0, 400, "it is told that containers are simulated");
    let wider = server.put(&format!("{GROUP}/namespaces/default/roles/connects"), &role(&["get", "create"])).await;
    assert_eq!(wider.status, 200);
    for part in ["exec", "attach", "portforward"] {
        assert_eq!([connects("GET", part).await.0, connects("POST", part).await.0], [400, 400], "{part}");
    }
}
