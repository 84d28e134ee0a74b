//! What kinds that arrive at run time cost: serving 500 CustomResourceDefinitions of the size that operators ship, and
//! creating custom objects beside ConfigMaps of the same size.
//!
//! Prints times, resident memory and the ratio of the rates, all of one run.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::{ApiServer, Options};
use muster_objects::time::Timestamp;
use serde_json::{Map, Value, json};

/// How many definitions.
const DEFINITIONS: usize = 500;
/// About how many bytes of schema each has.
const SCHEMA_BYTES: usize = 64 << 10;
/// How many objects of each kind are created.
const OBJECTS: usize = 2000;
/// About how many bytes an object has.
const OBJECT_BYTES: usize = 4 << 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let server = ApiServer::new(Options::seeded(1, Timestamp::from_seconds(1_800_000_000)));
        println!("{cores} cores");
        objects(&server).await;
        definitions(&server).await;
    });
}

/// Creates definitions, and waits until each is served.
async fn definitions(server: &ApiServer) {
    let before = resident();
    let (schema, mut size, mut created) = (wide(), 0, Duration::ZERO);
    for number in 0..DEFINITIONS {
        let body = definition(&format!("kind{number}s"), &schema);
        size = body.len();
        let begun = Instant::now();
        assert_eq!(post(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).await, 201);
        created += begun.elapsed();
    }
    let begun = Instant::now();
    let mut waited = Duration::ZERO;
    for number in 0..DEFINITIONS {
        let asked = Instant::now();
        served(server, &format!("kind{number}s")).await;
        waited = waited.max(asked.elapsed());
    }
    println!(
        "{DEFINITIONS} definitions of {size} bytes: created after {:.2} s, all served after {:.2} s (the last waited for {:.1} ms), {:.0} MiB more resident memory",
        created.as_secs_f64(),
        (created + begun.elapsed()).as_secs_f64(),
        waited.as_secs_f64() * 1000.0,
        resident() - before,
    );
}

/// Creates ConfigMaps and custom objects of the same size, in turns.
async fn objects(server: &ApiServer) {
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(
        post(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("plains", &wide())).await,
        201
    );
    served(server, "plains").await;
    let customs = "/apis/bench.example.com/v1/namespaces/default/plains";
    let (mut of_maps, mut of_customs) = (Duration::ZERO, Duration::ZERO);
    for number in 0..OBJECTS {
        let text = "x".repeat(OBJECT_BYTES / 32);
        let data: Map<String, Value> = (0..32).map(|at| (format!("field{at}"), json!(text))).collect();
        let name = format!("o{number}");
        let map = Bytes::from(json!({"metadata": {"name": name}, "data": data}).to_string());
        let custom = json!({
            "apiVersion": "bench.example.com/v1", "kind": "Plain", "metadata": {"name": name},
            "spec": {"group0": data},
        });
        let begun = Instant::now();
        assert_eq!(post(server, maps, map).await, 201);
        of_maps += begun.elapsed();
        let begun = Instant::now();
        assert_eq!(post(server, customs, Bytes::from(custom.to_string())).await, 201);
        of_customs += begun.elapsed();
    }
    let rate = |took: Duration| OBJECTS as f64 / took.as_secs_f64();
    println!(
        "objects of {OBJECT_BYTES} bytes created a second: {:.0} ConfigMaps, {:.0} custom objects, ratio {:.2} (at least 0.5)",
        rate(of_maps),
        rate(of_customs),
        rate(of_customs) / rate(of_maps),
    );
}

/// A definition whose kind is the plural name without its last letter.
fn definition(plural: &str, spec: &Value) -> Bytes {
    let singular = plural.strip_suffix('s').unwrap_or(plural);
    let kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.bench.example.com")},
        "spec": {
            "group": "bench.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    });
    Bytes::from(definition.to_string())
}

/// A schema with as many described fields as operators' have.
fn wide() -> Value {
    const DESCRIPTION: &str = "What this field is for, in a sentence or two, as the comments of Go types tell it: it has a \
                               default, it may be left out, and what happens then is told as well.";
    let field = || json!({"type": "string", "description": DESCRIPTION, "maxLength": 1024});
    let group = || {
        let fields: Map<String, Value> = (0..32).map(|at| (format!("field{at}"), field())).collect();
        json!({"type": "object", "description": DESCRIPTION, "properties": fields})
    };
    let one = group().to_string().len();
    let groups: Map<String, Value> = (0..SCHEMA_BYTES / one).map(|at| (format!("group{at}"), group())).collect();
    json!({"type": "object", "properties": groups})
}

/// Waits until a kind is served.
async fn served(server: &ApiServer, plural: &str) {
    let path = format!("/apis/bench.example.com/v1/namespaces/default/{plural}");
    while send(server, Method::GET, &path, Bytes::new()).await != 200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn post(server: &ApiServer, path: &str, body: Bytes) -> u16 {
    send(server, Method::POST, path, body).await
}

async fn send(server: &ApiServer, method: Method, path: &str, body: Bytes) -> u16 {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", "application/json")
        .header("User-Agent", "bench/1")
        .body(Full::new(body))
        .expect("the request is well formed");
    let response = server.service().answer(request).await;
    let status = response.status().as_u16();
    response.into_body().collect().await.expect("bodies cannot fail");
    status
}

/// This process's resident memory in MiB; 0 where the system does not tell.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or_default();
    kib / 1024.0
}
