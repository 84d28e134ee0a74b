//! What the fuzz targets do: a server in this process is sent requests that nobody would write.
//!
//! Whatever is sent, it is answered, and not with 500: a panic, an endless loop (libFuzzer's time limit), or memory
//! without bounds (its memory limit) is a fault, and so is an answer that blames the server for what a client sent
//! (API-22). Nothing is stored but what a target says.

use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::disk::{Contents, Engine};
use muster_apiserver::http::Service;
use muster_apiserver::snapshot::Snapshot;
use muster_apiserver::storage::disk::Stored;
use muster_apiserver::{ApiServer, Options};
use muster_objects::time::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const JSON: &str = "application/json";

/// Bodies are sent to these, which have little and much of everything: lists, maps, quantities, times, bytes, and raw
/// JSON.
const COLLECTIONS: [&str; 8] = [
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    DEFINITIONS,
];

/// Patches are sent to these.
const OBJECTS: [&str; 4] = [
    "/api/v1/namespaces/default/services/kubernetes",
    "/apis/apps/v1/namespaces/default/deployments/fuzzed",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin",
    "/apis/example.com/v1/namespaces/default/things/fuzzed",
];

const PATCHES: [&str; 5] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A body of any form: two bytes say the form and the collection, the rest is sent.
pub fn bodies(data: &[u8]) {
    let [form, collection, body @ ..] = data else { return };
    let form = [JSON, "application/yaml", "application/vnd.kubernetes.protobuf"][usize::from(*form) % 3];
    let path = COLLECTIONS[usize::from(*collection) % COLLECTIONS.len()];
    let validation = ["Strict", "Warn", "Ignore"][usize::from(*collection) / COLLECTIONS.len() % 3];
    send(Method::POST, &format!("{path}?dryRun=All&fieldValidation={validation}"), form, body);
}

/// A patch of any kind: two bytes say the kind and the object, the rest is sent.
pub fn patches(data: &[u8]) {
    let [kind, object, body @ ..] = data else { return };
    let (kind, path) = (PATCHES[usize::from(*kind) % PATCHES.len()], OBJECTS[usize::from(*object) % OBJECTS.len()]);
    let by = if kind.contains("apply") { "&fieldManager=fuzz&force=true" } else { "" };
    send(Method::PATCH, &format!("{path}?dryRun=All{by}"), kind, body);
}

/// The selectors of a list: labels in the first line, fields in the second.
pub fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (labels, fields) = text.split_once('\n').unwrap_or((text, ""));
    for path in ["/api/v1/pods", "/api/v1/services", "/apis/example.com/v1/things"] {
        let path = format!("{path}?labelSelector={}&fieldSelector={}", encoded(labels), encoded(fields));
        send(Method::GET, &path, JSON, b"");
    }
}

/// The token with which a list goes on.
pub fn tokens(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    send(Method::GET, &format!("/api/v1/services?limit=1&continue={}", encoded(text)), JSON, b"");
}

/// A rule in CEL: as a schema has it, where it judges a default, and as an admission policy has it.
pub fn rules(data: &[u8]) {
    let Ok(rule) = std::str::from_utf8(data) else { return };
    let mut schema = example_schema();
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([{"rule": rule}]);
    define(&schema);
    send(Method::POST, &format!("{THINGS}?dryRun=All"), JSON, thing("new").to_string().as_bytes());
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "fuzz"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
            ]},
            "validations": [{"expression": rule, "messageExpression": rule}],
        },
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All";
    send(Method::POST, path, JSON, policy.to_string().as_bytes());
}

/// The schema of a custom resource, and an object by it.
pub fn schemas(data: &[u8]) {
    let Ok(schema) = serde_json::from_slice::<Value>(data) else { return };
    define(&schema);
    send(Method::POST, &format!("{THINGS}?dryRun=All"), JSON, thing("new").to_string().as_bytes());
}

/// A file that a cluster is kept in. The first byte says which: a snapshot as it is, the lines of one, or a file of data,
/// some of whose bytes are others, four bytes saying where and one how. It is refused, or it is what was written.
pub fn files(data: &[u8]) {
    let [which, data @ ..] = data else { return };
    match which % 3 {
        0 => drop(Snapshot::read(data)),
        1 => {
            let mut lines = GzEncoder::new(Vec::new(), Compression::none());
            lines.write_all(data).expect("memory");
            drop(Snapshot::read(&*lines.finish().expect("memory")));
        }
        _ => changed(data),
    }
}

fn changed(changes: &[u8]) {
    static WRITTEN: OnceLock<(TempDir, Contents, Vec<u8>)> = OnceLock::new();
    let (folder, contents, file) = WRITTEN.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let stored = (0..20_u64).map(|index| Stored {
            table: "configmaps".into(),
            namespace: "default".into(),
            name: format!("m{index:02}").into(),
            version: index + 1,
            json: thing(&"x".repeat(64 << (index % 8))).to_string().into(),
        });
        let contents = Contents { version: 20, stored: stored.collect() };
        let path = folder.path().join("written");
        Engine::create(&path, &contents, false).expect("a file");
        let file = std::fs::read(&path).expect("the file");
        (folder, contents, file)
    });
    let mut file = file.clone();
    for change in changes.chunks_exact(5) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % file.len();
        file[at] ^= change[4];
    }
    let path = folder.path().join("changed");
    std::fs::write(&path, file).expect("a file");
    if let Ok(read) = Engine::read(&path) {
        assert_eq!((read.version, &read.stored), (contents.version, &contents.stored));
    }
}

/// Gives the custom resource another schema, if that is one.
fn define(schema: &Value) {
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]);
    send(
        Method::PATCH,
        &format!("{DEFINITIONS}/things.example.com"),
        "application/json-patch+json",
        patch.to_string().as_bytes(),
    );
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A server that was started once, with an object for each patch.
struct Server {
    runtime: Runtime,
    service: Service,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let api = ApiServer::new(Options::seeded(1, Timestamp::from_seconds(1_800_000_000)));
        let server = Server { runtime, service: api.service() };
        for (path, object) in [
            (DEFINITIONS, definition()),
            (THINGS, thing("fuzzed")),
            ("/apis/apps/v1/namespaces/default/deployments", deployment()),
        ] {
            let code = server.send(Method::POST, path, JSON, object.to_string().as_bytes());
            assert_eq!(code, 201, "{path}");
        }
        server
    })
}

fn send(method: Method, path: &str, content_type: &str, body: &[u8]) -> u16 {
    server().send(method, path, content_type, body)
}

impl Server {
    fn send(&self, method: Method, path: &str, content_type: &str, body: &[u8]) -> u16 {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else { return 0 };
        let answer: Response<Bytes> = self.runtime.block_on(async {
            let (parts, body) = self.service.answer(request).await.into_parts();
            Response::from_parts(parts, body.collect().await.expect("a body within the process").to_bytes())
        });
        let code = answer.status().as_u16();
        // Apply has 500 without a reason for what does not fit the type, as the reference has.
        let blamed = code == 500
            && serde_json::from_slice::<Value>(answer.body()).is_ok_and(|status| status["reason"] == "InternalError");
        assert!(!blamed, "{path}: {}", String::from_utf8_lossy(answer.body()));
        code
    }
}

fn example_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "text": {"type": "string", "default": "a", "maxLength": 64},
                    "number": {"type": "integer", "default": 1},
                    "ratio": {"type": "number", "default": 1.5},
                    "at": {"type": "string", "format": "date-time"},
                    "any": {"x-kubernetes-int-or-string": true},
                    "list": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 64}},
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 8},
                },
            },
        },
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": example_schema()}}
            ],
        },
    })
}

fn thing(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name},
        "spec": {"text": "b", "number": -1, "ratio": 0.5, "any": "50%", "list": ["x", "y"], "map": {"k": 1}},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fuzzed", "labels": {"app": "fuzzed"}},
        "spec": {
            "selector": {"matchLabels": {"app": "fuzzed"}},
            "template": {
                "metadata": {"labels": {"app": "fuzzed"}},
                "spec": {"containers": [
                    {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]},
                ]},
            },
        },
    })
}
