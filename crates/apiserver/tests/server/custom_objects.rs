//! What becomes of objects of kinds that came at run time, from outside.

use serde_json::{Value, json};

use crate::support::{Answer, Server, start};

const PAINTS: &str = "/apis/example.com/v1/namespaces/default/paints";

/// A version of a kind, with a spec and a status that has a default.
fn version(name: &str, storage: bool, spec: &Value, rules: &Value) -> Value {
    let conditions = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type"], "properties": {
            "type": {"type": "string"}, "note": {"type": "string"},
        }},
    });
    let mut status = json!({"type": "object", "properties": {"conditions": conditions}});
    if storage {
        status["default"] = json!({"conditions": [{"type": "Waiting"}]});
    }
    let spec = json!({"type": "object", "properties": spec, "x-kubernetes-validations": rules});
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    })
}

async fn define(server: &Server, versions: &Value) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": versions,
        },
    });
    let answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

fn paint(api_version: &str, spec: &Value, status: Option<Value>) -> Value {
    let mut paint = json!({"apiVersion": api_version, "kind": "Paint", "metadata": {"name": "p"}, "spec": spec});
    if let Some(status) = status {
        paint["status"] = status;
    }
    paint
}

/// The messages of an answer's causes, each with its field.
fn causes(answer: &Answer) -> Vec<(String, String)> {
    let told = answer.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    told.iter().map(|cause| (text(cause, "field"), text(cause, "message"))).collect()
}

/// Contract: API-15, API-28
#[tokio::test]
async fn a_scale_may_be_written_whatever_its_version_is() {
    let server = start();
    define(&server, &json!([version("v1", true, &json!({"replicas": {"type": "integer"}}), &json!([]))])).await;
    let paints = "/apis/example.com/v1/namespaces/default/paints";
    let made = server.post(paints, &paint("example.com/v1", &json!({"replicas": 1}), None)).await.json();
    let scale = |version: Value| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3},
            "metadata": {"name": "p", "namespace": "default", "resourceVersion": version},
        })
    };
    let written = server.put(&format!("{paints}/p/scale"), &scale(Value::Null)).await;
    assert_eq!((written.status, &written.json()["spec"]["replicas"]), (200, &json!(3)), "{}", written.json());
    let old = made["metadata"]["resourceVersion"].clone();
    assert_eq!(server.put(&format!("{paints}/p/scale"), &scale(old)).await.status, 409);
    // Of the object itself the version is needed.
    assert_eq!(
        server.put(&format!("{paints}/p"), &paint("example.com/v1", &json!({"replicas": 4}), None)).await.status,
        422
    );
}

/// Contract: API-06, API-12, API-28
#[tokio::test]
async fn a_patch_that_takes_kind_or_version_is_refused() {
    let server = start();
    define(&server, &json!([version("v1", true, &json!({"replicas": {"type": "integer"}}), &json!([]))])).await;
    assert_eq!(server.post(PAINTS, &paint("example.com/v1", &json!({"replicas": 1}), None)).await.status, 201);
    let patch = async |path: &str, kind: &str, body: Value| {
        let kind = format!("application/{kind}-patch+json");
        let answer = server.send("PATCH", path, &[("Content-Type", &kind)], body.to_string()).await;
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let missing = "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'";
    let replace = |field: &str, value: Value| json!([{"op": "replace", "path": format!("/{field}"), "value": value}]);
    for path in [format!("{PAINTS}/p"), format!("{PAINTS}/p/status")] {
        for (kind, body, code, want) in [
            ("merge", json!({"apiVersion": null}), 500, missing),
            ("merge", json!({"apiVersion": "example.com/"}), 500, missing),
            ("json", json!([{"op": "remove", "path": "/apiVersion"}]), 500, missing),
            (
                "json",
                replace("apiVersion", Value::Null),
                422,
                ": .apiVersion accessor error: <nil> is of the type <nil>, expected string",
            ),
            (
                "json",
                replace("apiVersion", json!(5)),
                422,
                "json: cannot unmarshal number into Go struct field .apiVersion of type string",
            ),
            (
                "json",
                replace("kind", json!({})),
                422,
                "json: cannot unmarshal object into Go struct field .kind of type string",
            ),
            ("merge", json!({"apiVersion": "a/b/c"}), 422, ": unexpected GroupVersion string: a/b/c"),
            // The whole object is shown, with what the patch is not about.
            ("merge", json!({"kind": null}), 422, "\"status\":{\"conditions\":[{\"type\":\"Waiting\"}]}}'"),
            (
                "strategic-merge",
                json!({}),
                415,
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ),
        ] {
            let (found, why) = patch(&path, kind, body.clone()).await;
            assert!(found == code && why.ends_with(want), "{path} {kind} {body}: {found} {why}");
        }
    }
    let lists = [
        ("merge", format!("{PAINTS}/p?fieldValidation=Ignore"), json!([1])),
        ("json", format!("{PAINTS}/p"), json!([{"op": "replace", "path": "", "value": [1]}])),
    ];
    let list = r#"Kind string "json:\"kind,omitempty\"" }"#;
    for (kind, path, body) in lists {
        let (found, why) = patch(&path, kind, body).await;
        assert!(found == 422 && why.contains("cannot unmarshal array") && why.ends_with(list), "{kind}: {found} {why}");
    }
    for (said, want) in [
        (
            json!({"apiVersion": "apps/v2"}),
            "Paint.apps \"p\" is invalid: apiVersion: Invalid value: \"apps/v2\": must be example.com/v1",
        ),
        (
            json!({"apiVersion": "v2"}),
            "Paint \"p\" is invalid: apiVersion: Invalid value: \"v2\": must be example.com/v1",
        ),
    ] {
        assert_eq!(patch(&format!("{PAINTS}/p"), "merge", said).await, (422, want.to_owned()));
    }
    // A scale is one in every version that it does not say.
    let scale = format!("{PAINTS}/p/scale");
    assert_eq!(patch(&scale, "merge", json!({"apiVersion": null, "kind": null})).await.0, 200);
    assert_eq!(patch(&scale, "strategic-merge", json!({})).await.0, 415);
}

/// Contract: API-28, API-29
#[tokio::test]
async fn a_status_that_is_not_taken_leaves_its_default() {
    let server = start();
    let spec = json!({"replicas": {"type": "integer"}});
    define(&server, &json!([version("v1", true, &spec, &json!([])), version("v1beta1", false, &spec, &json!([]))]))
        .await;
    let waiting = json!({"conditions": [{"type": "Waiting"}]});
    for (url, body) in [
        (format!("{PAINTS}?dryRun=All"), paint("example.com/v1", &json!({}), Some(json!({})))),
        // What is stored of another version has the default of that in which it is.
        (format!("{}?dryRun=All", PAINTS.replace("v1", "v1beta1")), paint("example.com/v1beta1", &json!({}), None)),
        (PAINTS.to_owned(), paint("example.com/v1", &json!({}), Some(json!({"conditions": []})))),
    ] {
        let answer = server.post(&url, &body).await;
        assert_eq!((answer.status, &answer.json()["status"]), (201, &waiting), "{url}");
    }
    assert_eq!(server.get(&format!("{PAINTS}/p")).await.json()["status"], waiting);
}

/// Contract: API-15, API-28
#[tokio::test]
async fn elements_that_share_their_keys_are_owned_as_one() {
    let server = start();
    let spec = json!({"color": {"type": "string"}});
    define(&server, &json!([version("v1", true, &spec, &json!([]))])).await;
    let twice = json!({"conditions": [{"type": "A", "note": "x"}, {"type": "A", "note": "y"}]});
    let answer = server.post(PAINTS, &paint("example.com/v1", &json!({"color": "red"}), Some(twice))).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let owned = &answer.json()["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*owned, json!({"f:spec": {".": {}, "f:color": {}}}));
}

/// Contract: API-15, API-28
#[tokio::test]
async fn managers_own_what_a_value_was_and_what_it_is() {
    let server = start();
    let spec = json!({
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "when": {"type": "string", "format": "date-time"},
    });
    define(&server, &json!([version("v1", true, &spec, &json!([]))])).await;
    let any = json!({"any": {"number": 3, "was": "text", "were": {"a": 1}}});
    let answer = server.post(&format!("{PAINTS}?fieldManager=one"), &paint("example.com/v1", &any, None)).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    // A whole number is an integer whatever way it is written, and a change of the way is none.
    let next = json!({"spec": {"any": {"number": 3.0, "was": {"b": 2}, "were": "text", "more": 1e3}}});
    let answer = server.merge(&format!("{PAINTS}/p?fieldManager=two"), &next).await;
    let spec = &answer.json()["spec"]["any"];
    assert_eq!(*spec, json!({"number": 3, "was": {"b": 2}, "were": "text", "more": 1000}), "{}", answer.json());
    let managers = answer.json()["metadata"]["managedFields"].clone();
    let fields = |name: &str| {
        let all = managers.as_array().cloned().unwrap_or_default();
        all.into_iter().find(|m| m["manager"] == name).map(|m| m["fieldsV1"]["f:spec"]["f:any"].clone())
    };
    assert_eq!(fields("two"), Some(json!({"f:more": {}, "f:was": {".": {}, "f:b": {}}, "f:were": {}})));
    assert_eq!(fields("one"), Some(json!({".": {}, "f:number": {}})));

    // Of a text with a format the type is not known to managers, but to the schema.
    let wrong =
        json!({"apiVersion": "example.com/v1", "kind": "Paint", "metadata": {"name": "q"}, "spec": {"when": 3}});
    let url = format!("{PAINTS}/q?fieldManager=one");
    let answer =
        server.send("PATCH", &url, &[("Content-Type", "application/apply-patch+yaml")], wrong.to_string()).await;
    assert_eq!((answer.status, causes(&answer)[0].0.as_str()), (422, "spec.when"));
}

/// Contract: API-17, API-28, API-30
#[tokio::test]
async fn numbers_are_what_their_worth_makes_them() {
    let server = start();
    let spec = json!({
        "replicas": {"type": "integer", "format": "int32", "maximum": 1_000_000},
        "layers": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
        "depth": {"type": "integer"},
    });
    let rules = json!([{"rule": "!has(self.depth) || self.depth < 5", "message": "too deep"}]);
    define(&server, &json!([version("v1", true, &spec, &rules)])).await;
    let skipped = (
        "<nil>",
        "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    );
    for (spec, expected) in [
        (
            json!({"replicas": 1e20}),
            vec![
                (
                    "spec.replicas",
                    "Invalid value: \"float64\": spec.replicas in body must be of type int32: \"float64\"",
                ),
                (
                    "<nil>",
                    "Invalid value: \"\": Checked value must be of type integer with format int32 in spec.replicas",
                ),
                ("spec.replicas", "Invalid value: 1e+20: spec.replicas in body should be less than or equal to 1e+06"),
                (
                    ".spec.replicas",
                    "Invalid value: 0: .spec.replicas accessor error: 1e+20 is of the type float64, expected int64",
                ),
                skipped,
            ],
        ),
        (
            json!({"replicas": 1_000_001}),
            vec![(
                "spec.replicas",
                "Invalid value: 1000001: spec.replicas in body should be less than or equal to 1000000",
            )],
        ),
        (json!({"layers": [1, 2]}), vec![("spec.layers", "Too many: 2: must have at most 1 item"), skipped]),
        (
            json!({"depth": 3.0}),
            vec![(
                "spec",
                "Invalid value: \"object\": invalid data, expected int, got float64 evaluating rule: too deep",
            )],
        ),
        (
            json!("none"),
            vec![
                ("spec", "Invalid value: \"string\": spec in body must be of type object: \"string\""),
                (
                    ".spec.replicas",
                    "Invalid value: 0: .spec.replicas accessor error: none is of the type string, expected map[string]interface{}",
                ),
                skipped,
            ],
        ),
    ] {
        let answer = server.post(PAINTS, &paint("example.com/v1", &spec, None)).await;
        let mut told = causes(&answer);
        let mut expected: Vec<_> = expected.iter().map(|(f, m)| ((*f).to_owned(), (*m).to_owned())).collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{spec}");
    }
}

/// Contract: API-05, API-28
#[tokio::test]
async fn parts_that_a_custom_kind_does_not_have_miss_the_object() {
    let server = start();
    let mut plain = version("v1", true, &json!({}), &json!([]));
    plain["subresources"] = json!({"status": {}});
    define(&server, &json!([plain])).await;
    let body = paint("example.com/v1", &json!({}), None);
    assert_eq!(server.post(PAINTS, &body).await.status, 201);
    let details = json!({"group": "example.com", "kind": "paints", "name": "p"});
    for part in ["scale", "other"] {
        let answer = server.get(&format!("{PAINTS}/p/{part}")).await;
        assert_eq!((answer.status, &answer.json()["details"]), (404, &details), "{part}");
        assert_eq!(answer.json()["message"], "paints.example.com \"p\" not found");
    }
    for (method, path, verb) in
        [("POST", "p/status", "create"), ("DELETE", "p/status", "delete"), ("POST", "p", "create")]
    {
        let answer = server.send(method, &format!("{PAINTS}/{path}"), &[], body.to_string()).await;
        let expected = format!("{verb} is not supported on resources of kind \"paints.example.com\"");
        assert_eq!((answer.status, &answer.json()["message"]), (405, &json!(expected)), "{method} {path}");
    }
}
