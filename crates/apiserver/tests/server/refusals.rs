//! What is refused before it comes to an object's own rules, and in which words.

use serde_json::{Value, json};

use crate::support::{Answer, Server, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

async fn patch(server: &Server, path: &str, kind: &str, body: &Value) -> Answer {
    server.send("PATCH", path, &[("Content-Type", kind)], body.to_string()).await
}

fn message(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("Warning").iter().filter_map(|value| value.to_str().ok()).collect()
}

async fn replica_set(server: &Server) {
    let set = json!({"metadata": {"name": "r"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    assert_eq!(server.post(SETS, &set).await.status, 201);
}

/// Contract: API-06, API-12
#[tokio::test(start_paused = true)]
async fn a_patch_may_take_the_kind_but_not_the_version() {
    let server = start();
    server.config_map("m", "1").await;
    replica_set(&server).await;
    let nameless = |name: &str| {
        (400, format!("the name of the object ({name} based on URL) was undeterminable: name must be provided"))
    };
    for (path, name, unknown) in [
        (format!("{MAPS}/m"), "m", &["data", "metadata"][..]),
        (format!("{SETS}/r"), "r", &["metadata", "spec", "status"]),
        (format!("{SETS}/r/status"), "r", &["metadata", "spec", "status"]),
        (format!("{SETS}/r/scale"), "r", &["metadata", "spec", "status"]),
    ] {
        for (kind, version) in [
            (MERGE_PATCH, json!({"apiVersion": null})),
            (MERGE_PATCH, json!({"apiVersion": "", "kind": null})),
            (JSON_PATCH, json!([{"op": "remove", "path": "/apiVersion"}])),
        ] {
            let answer = patch(&server, &path, kind, &version).await;
            assert_eq!(message(&answer), nameless(name), "{path} {version}");
            let want: Vec<String> = unknown.iter().map(|f| format!("299 - \"unknown field \\\"{f}\\\"\"")).collect();
            assert_eq!(warnings(&answer), want, "{path} {version}");
            let answer = patch(&server, &format!("{path}?fieldValidation=Ignore"), kind, &version).await;
            assert_eq!((message(&answer), warnings(&answer).len()), (nameless(name), 0), "{path} {version}");
            let (code, why) = message(&patch(&server, &format!("{path}?fieldValidation=Strict"), kind, &version).await);
            let want: Vec<String> = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
            let want = format!("strict decoding error: {}", want.join(", "));
            assert!(code == 422 && why.ends_with(&want), "{path} {version}: {why}");
        }
        for (kind, body) in [
            (MERGE_PATCH, json!({"kind": null})),
            (JSON_PATCH, json!([{"op": "remove", "path": "/kind"}])),
            // What comes out of it is read as what it was.
            (STRATEGIC_PATCH, json!({"kind": null, "apiVersion": null})),
        ] {
            let answer = patch(&server, &path, kind, &body).await;
            assert_eq!(answer.status, 200, "{path} {body}: {}", answer.json());
        }
    }
}

/// With `fieldValidation=Ignore` the reference reads a patch by other types.
///
/// Contract: API-06
#[tokio::test(start_paused = true)]
async fn a_patch_that_is_none_is_refused_in_the_words_of_who_reads_it() {
    let server = start();
    server.config_map("m", "1").await;
    let rejected = (422, "the server rejected our request due to an error in our request");
    let syntax = "invalid character 'x' looking for beginning of value";
    for (kind, body, lax, strict) in [
        (JSON_PATCH, "x", (400, syntax), (400, format!("error decoding patch: {syntax}"))),
        (
            JSON_PATCH,
            "{}",
            (400, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
            (
                400,
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".into(),
            ),
        ),
        (
            JSON_PATCH,
            "[1]",
            (400, "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
            (400, "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp".into()),
        ),
        (
            JSON_PATCH,
            r#"[{"op":1}]"#,
            rejected,
            (
                400,
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
                    .into(),
            ),
        ),
        (
            JSON_PATCH,
            r#"[{"op":"add","path":1}]"#,
            rejected,
            (
                400,
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string"
                    .into(),
            ),
        ),
        (JSON_PATCH, "[null]", rejected, (422, rejected.1.into())),
        (MERGE_PATCH, "x", (400, "Invalid JSON Patch"), (400, format!("error decoding patch: {syntax}"))),
        (
            MERGE_PATCH,
            "1",
            (400, "Invalid JSON Patch"),
            (
                400,
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}".into(),
            ),
        ),
        (MERGE_PATCH, "null", (400, "Invalid JSON Patch"), (400, "Invalid JSON Patch".into())),
    ] {
        for (validation, want) in
            [("Ignore", (lax.0, lax.1.to_owned())), ("Strict", strict.clone()), ("Warn", strict)]
        {
            let path = format!("{MAPS}/m?fieldValidation={validation}");
            let answer = server.send("PATCH", &path, &[("Content-Type", kind)], body).await;
            assert_eq!(message(&answer), want, "{validation} {body}");
        }
    }
    let list = json!(["<", null, {"a": null, "b": [null]}]);
    let answer = patch(&server, &format!("{MAPS}/m?fieldValidation=Ignore"), MERGE_PATCH, &list).await;
    let shown = r#"["\u003c",null,{"b":[null]}]"#;
    let why = r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    assert_eq!(message(&answer), (422, format!(" \"\" is invalid: patch: Invalid value: {shown:?}: {why}")));
}

/// Contract: API-06
#[tokio::test(start_paused = true)]
async fn the_body_of_an_update_is_read_before_the_name_in_its_path_is_looked_at() {
    let server = start();
    replica_set(&server).await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let invalid = "Name parameter invalid: \"a%b\": may not contain '%'";
    let differs = "the name of the object (x) does not match the name on the URL (a%b)";
    let unread = "the object provided is unrecognized";
    for path in [format!("{MAPS}/a%25b"), format!("{SETS}/a%25b/status"), format!("{SETS}/a%25b/scale")] {
        for (body, want) in
            [(named("x").to_string(), differs), (named("a%b").to_string(), invalid), ("{".into(), unread)]
        {
            let answer = server.send("PUT", &path, &[("Content-Type", "application/json")], body.clone()).await;
            let (code, why) = message(&answer);
            assert!(code == 400 && why.starts_with(want), "{path} {body}: {why}");
        }
        for method in ["GET", "DELETE", "PATCH"] {
            if (method, path.ends_with('b')) == ("DELETE", false) {
                continue;
            }
            let answer = server.send(method, &path, &[("Content-Type", MERGE_PATCH)], "{").await;
            assert_eq!(message(&answer), (400, invalid.to_owned()), "{method} {path}");
        }
    }
    // Not even that there is no such object.
    let answer = server.put(&format!("{SETS}/none/scale"), &named("x")).await;
    assert_eq!(message(&answer).1, "the name of the object (x) does not match the name on the URL (none)");
}

/// Contract: API-14
#[tokio::test(start_paused = true)]
async fn what_the_name_of_a_replication_controller_is_generated_from_may_be_anything() {
    let server = start();
    let spec = json!({
        "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let create = async |metadata: Value| {
        let answer = server.post(CONTROLLERS, &json!({"metadata": metadata, "spec": spec})).await;
        let causes = answer.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
        (answer.status, causes.iter().map(|cause| cause["field"].to_string()).collect::<Vec<_>>())
    };
    assert_eq!(create(json!({"name": "a", "generateName": "A B"})).await, (201, vec![]));
    assert_eq!(create(json!({"generateName": "a."})).await, (201, vec![]));
    assert_eq!(create(json!({"generateName": "A B"})).await, (422, vec!["\"metadata.name\"".to_owned()]));
}

/// Contract: API-06, API-17
#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_pods_devices_fits_the_pod() {
    let server = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "resourceClaims": [{"name": "x", "resourceClaimName": "n"}, {"name": "y", "resourceClaimName": "n"}],
        "initContainers": [{"name": "i", "image": "i"}],
        "containers": [{"name": "c", "image": "i", "resources": {
            "limits": {"a.b/c": "1"}, "claims": [{"name": "x", "request": "r"}, {"name": "y"}],
        }}],
    }});
    assert_eq!(server.post(PODS, &pod).await.status, 201);
    let claim = |name: &str, mappings: Value| json!({"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": mappings}});
    let mapping = |container: &str, resource: &str, request: &str| json!({"containerName": container, "resourceName": resource, "requestName": request});
    let health = |list: &str, container: &str, resource: &str, devices: Value| {
        json!({list: [{
            "name": container, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "allocatedResourcesStatus": [{"name": resource, "resources": devices}],
        }]})
    };
    let device = |id: &str, health: &str| json!({"resourceID": id, "health": health});
    let at = |rest: &str| format!("status.containerStatuses[0].allocatedResourcesStatus[0].{rest}");
    let extended = |rest: &str| format!("status.extendedResourceClaimStatus.{rest}");
    for (status, want) in [
        (claim("n", json!([mapping("c", "a.b/c", "r")])), vec![]),
        (
            claim("", json!([])),
            vec![
                (extended("requestMappings"), "at least one request mapping is required"),
                (extended("resourceClaimName"), "Required value"),
            ],
        ),
        (
            claim("N", json!([mapping("z", "a.b/c", "r"), mapping("i", "a.b/c", "r")])),
            vec![
                (
                    extended("requestMappings[0].containerName"),
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name",
                ),
                (
                    extended("requestMappings[1].resourceName"),
                    "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
                ),
                (extended("resourceClaimName"), "a lowercase RFC 1123 subdomain"),
            ],
        ),
        (
            claim("n", json!([mapping("c", "a.b/c", "R"), mapping("c", "a.b/c", "R")])),
            vec![
                (extended("requestName"), "a lowercase RFC 1123 label"),
                (extended("requestName"), "a lowercase RFC 1123 label"),
                (extended("requestMappings[1].containerName"), "Duplicate value: \"c\""),
                (extended("requestMappings[1].resourceName"), "Duplicate value: \"a.b/c\""),
                (extended("requestMappings[1].requestName"), "Duplicate value: \"R\""),
            ],
        ),
        (health("containerStatuses", "c", "a.b/c", json!([device("a", "Healthy"), device("b", "Unknown")])), vec![]),
        (health("containerStatuses", "c", "claim:x/r", json!([])), vec![]),
        (health("containerStatuses", "c", "claim:y", json!([])), vec![]),
        (health("containerStatuses", "other", "a.b/d", json!([])), vec![]),
        (
            health("containerStatuses", "c", "claim:x", json!([])),
            vec![(
                at("name"),
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
            )],
        ),
        (
            health(
                "containerStatuses",
                "c",
                "cpu",
                json!([device("a", "Ill"), device("a", "Healthy"), {"resourceID": "b", "health": "Unhealthy", "message": ""}]),
            ),
            vec![
                (at("name"), "must match one of the container's resource requests"),
                (at("resources[0].health"), "supported values: \"Healthy\", \"Unhealthy\", \"Unknown\""),
                (at("resources[1].resourceID"), "Duplicate value: \"a\""),
                (at("resources[2].message"), "must be non-empty if specified"),
            ],
        ),
        (
            health(
                "containerStatuses",
                "c",
                "a.b/c",
                json!([{"resourceID": "b", "health": "Unhealthy", "message": "m".repeat(1025)}]),
            ),
            vec![(at("resources[0].message"), "may not be more than 1024 bytes")],
        ),
        (
            health("ephemeralContainerStatuses", "c", "a.b/c", json!([])),
            vec![(
                "status.ephemeralContainerStatuses[0].allocatedResourcesStatus".to_owned(),
                "must not be specified in container status",
            )],
        ),
    ] {
        let answer = server.merge(&format!("{PODS}/p/status?dryRun=All"), &json!({"status": status})).await;
        let causes = answer.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
        assert_eq!((answer.status == 200, causes.len()), (want.is_empty(), want.len()), "{status}: {}", answer.json());
        for (cause, (field, why)) in causes.iter().zip(&want) {
            assert_eq!(cause["field"], json!(field), "{status}");
            assert!(cause["message"].as_str().is_some_and(|m| m.contains(why)), "{status}: {cause}");
        }
    }
    let status = json!({
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "n"}],
        "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "volumeMounts": [{"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "r"}}}],
        }],
    });
    let status = server.merge(&format!("{PODS}/p/status"), &json!({"status": status})).await.json()["status"].clone();
    assert_eq!(status["nodeAllocatableResourceClaimStatuses"], Value::Null, "a feature that is off");
    assert_eq!(status["containerStatuses"][0]["volumeMounts"], json!([{"name": "v", "mountPath": "/v"}]));
}

/// Contract: API-06, API-17
#[tokio::test(start_paused = true)]
async fn credentials_of_registries_are_an_object_of_json() {
    let server = start();
    for (text, want) in [
        ("{}", None),
        ("null", None),
        ("", Some("unexpected end of JSON input")),
        ("{", Some("unexpected end of JSON input")),
        ("{\"a\":}", Some("invalid character '}' looking for beginning of value")),
        ("'", Some("invalid character '\\'' looking for beginning of value")),
        ("[]", Some("json: cannot unmarshal array into Go value of type map[string]interface {}")),
        ("5", Some("json: cannot unmarshal number into Go value of type map[string]interface {}")),
    ] {
        for key in [".dockercfg", ".dockerconfigjson"] {
            let kind = format!("kubernetes.io/{}", &key[1..]);
            let secret = json!({"metadata": {"name": "s"}, "type": kind, "stringData": {key: text}});
            let answer = server.post("/api/v1/namespaces/default/secrets?dryRun=All", &secret).await;
            let said = answer.json()["details"]["causes"][0]["message"].as_str().map(str::to_owned);
            let want = want.map(|why| format!("Invalid value: \"<secret contents redacted>\": {why}"));
            assert_eq!(said, want, "{key} {text}");
        }
    }
}

/// Contract: API-06
#[tokio::test(start_paused = true)]
async fn other_kinds_of_options_are_looked_up_where_options_are() {
    let server = start();
    for (body, version) in
        [(json!({"kind": "Foo"}), "meta.k8s.io/v1"), (json!({"kind": "Foo", "apiVersion": "v1"}), "v1")]
    {
        let answer = server.delete(&format!("{MAPS}/none"), Some(&body)).await;
        let want = format!("no kind \"Foo\" is registered for version \"{version}\" in scheme");
        let (code, why) = message(&answer);
        assert!(code == 400 && why.starts_with(&want), "{why}");
    }
}
