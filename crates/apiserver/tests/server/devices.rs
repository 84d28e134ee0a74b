//! Devices from outside: classes of them, claims to them, and those that drivers offer. What is refused, and in which
//! words, is upstream's own, in its order but for what a map's order decides.

mod claims;
mod protobuf;
mod rights;
mod slices;

use serde_json::{Value, json};

use crate::support::{Answer, Server, start};

const GROUP: &str = "/apis/resource.k8s.io/v1";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const UNKNOWN: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

fn object(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "one"}, "spec": spec})
}

fn exactly(class: &str) -> Value {
    json!({"requests": [{"name": "gpu", "exactly": {"deviceClassName": class}}]})
}

fn slice(devices: &Value) -> Value {
    let pool = json!({"name": "node-a", "generation": 0, "resourceSliceCount": 1});
    object(
        "ResourceSlice",
        &json!({"driver": "dra.example.com", "pool": pool, "nodeName": "node-a", "devices": devices}),
    )
}

/// What is said to be wrong, without the word that it begins with where that is the kind of error.
fn causes(answer: &Answer) -> Vec<(String, String)> {
    assert_eq!(answer.status, 422, "{}", answer.json());
    let status = answer.json();
    let text = |cause: &Value, field: &str| cause[field].as_str().expect("a text").to_owned();
    let causes = status["details"]["causes"].as_array().expect("causes");
    causes.iter().map(|cause| (text(cause, "field"), text(cause, "message"))).collect()
}

async fn refused(server: &Server, path: &str, body: &Value, expected: &[(&str, String)]) {
    let found = causes(&server.post(&format!("{path}?dryRun=All"), body).await);
    let expected: Vec<(String, String)> =
        expected.iter().map(|(field, message)| ((*field).to_owned(), message.clone())).collect();
    assert_eq!(found, expected, "{body}");
}

fn invalid(value: &str, why: &str) -> String {
    format!("Invalid value: {value}: {why}")
}

async fn make(server: &Server, path: &str, body: &Value) -> Value {
    let answer = server.post(path, body).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()
}

fn allocation(device: &str) -> Value {
    let result = json!({"request": "gpu", "driver": "dra.example.com", "pool": "node-a", "device": device});
    json!({"devices": {"results": [result]}})
}

fn told(device: &str, fields: &Value) -> Value {
    let mut told = json!({"driver": "dra.example.com", "pool": "node-a", "device": device});
    told.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    told
}

async fn change_status(server: &Server, status: &Value) -> Answer {
    server.merge(&format!("{CLAIMS}/one/status"), &json!({"status": status})).await
}

/// Contract: API-43
#[tokio::test(start_paused = true)]
async fn the_group_is_served_in_its_one_version() {
    let server = start();
    let group = server.get("/apis/resource.k8s.io").await.json();
    assert_eq!(group["versions"], json!([{"groupVersion": "resource.k8s.io/v1", "version": "v1"}]));
    let list = server.get(GROUP).await.json();
    let named = |resource: &Value| (resource["name"].clone(), resource["namespaced"].clone());
    let resources: Vec<(Value, Value)> = list["resources"].as_array().expect("a list").iter().map(named).collect();
    let expected = [
        ("deviceclasses", false),
        ("resourceclaims", true),
        ("resourceclaims/status", true),
        ("resourceclaimtemplates", true),
        ("resourceslices", false),
    ];
    assert_eq!(resources, expected.map(|(name, namespaced)| (json!(name), json!(namespaced))));
}

/// Contract: API-16, API-43
#[tokio::test(start_paused = true)]
async fn what_is_not_said_is_filled_in() {
    let server = start();
    let toleration = json!([{"key": "a", "effect": "NoSchedule"}]);
    let requests = json!({"requests": [
        {"name": "one", "exactly": {"deviceClassName": "gpu", "tolerations": toleration}},
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 2}]},
    ]});
    let filled = json!({"requests": [
        {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
            "tolerations": [{"key": "a", "operator": "Equal", "effect": "NoSchedule"}]}},
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "any", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}]},
    ]});
    let claim = make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": requests}))).await;
    assert_eq!((&claim["spec"]["devices"], &claim["status"]), (&filled, &json!({})));
    assert_eq!(claim["metadata"].get("generation"), None);
    let template = object("ResourceClaimTemplate", &json!({"spec": {"devices": requests}}));
    assert_eq!(make(&server, TEMPLATES, &template).await["spec"]["spec"]["devices"], filled);

    // Lists as values of attributes belong to a feature that is off.
    let attributes = json!({"size": {"int": 3}, "sizes": {"int": 1, "ints": [1, 2]}});
    let taints = json!([{"key": "broken", "effect": "NoExecute"}]);
    let device = json!({"name": "a", "attributes": attributes, "taints": taints,
        "capacity": {"mem": {"value": "1Gi"}}, "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "mem"}}});
    let made = make(&server, SLICES, &slice(&json!([device]))).await;
    let found = &made["spec"]["devices"][0];
    assert_eq!(found["attributes"], json!({"size": {"int": 3}, "sizes": {"int": 1}}));
    assert_eq!(found.get("nodeAllocatableResourceMappings"), None);
    assert_eq!(found["taints"][0]["timeAdded"], made["metadata"]["creationTimestamp"]);
    assert_eq!(made["metadata"]["generation"], 1);
}

/// Contract: API-15, API-43
#[tokio::test(start_paused = true)]
async fn specs_of_claims_stay_and_slices_stay_with_their_driver() {
    let server = start();
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let other = json!({"spec": {"devices": exactly("other")}});
    let shown = r#"{"Devices":{"Requests":[{"Name":"gpu","Exactly":{"DeviceClassName":"other","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}"#;
    let refusal = causes(&server.merge(&format!("{CLAIMS}/one"), &other).await);
    assert_eq!(refusal, [("spec".to_owned(), invalid(shown, "field is immutable"))]);
    let labelled = server.merge(&format!("{CLAIMS}/one"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.status, 200);

    make(&server, TEMPLATES, &object("ResourceClaimTemplate", &json!({"spec": {"devices": exactly("gpu")}}))).await;
    let refusal = causes(
        &server.merge(&format!("{TEMPLATES}/one"), &json!({"spec": {"metadata": {"labels": {"a": "b"}}}})).await,
    );
    let shown = r#"{"labels":{"a":"b"},"Spec":{"Devices":"#;
    assert!(refusal.len() == 1 && refusal[0].1.starts_with(&format!("Invalid value: {shown}")), "{refusal:?}");

    make(&server, SLICES, &slice(&json!([{"name": "a"}]))).await;
    let moved = json!({"spec": {"driver": "b.example.com", "pool": {"name": "b"}, "nodeName": null, "allNodes": true}});
    let refusal = causes(&server.merge(&format!("{SLICES}/one"), &moved).await);
    let stays = |value: &str| invalid(value, "field is immutable");
    let expected = [
        ("spec.pool.name", stays("\"b\"")),
        ("spec.driver", stays("\"b.example.com\"")),
        ("spec.nodeName", stays("null")),
    ];
    assert_eq!(refusal, expected.map(|(field, why)| (field.to_owned(), why)));
    let grown =
        server.merge(&format!("{SLICES}/one"), &json!({"spec": {"devices": [{"name": "a"}, {"name": "b"}]}})).await;
    assert_eq!((grown.status, &grown.json()["metadata"]["generation"]), (200, &json!(2)));

    let class = make(&server, CLASSES, &object("DeviceClass", &json!({}))).await;
    assert_eq!(class["metadata"]["generation"], 1);
    let nameless =
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"generateName": "A-"}});
    let fields: Vec<String> =
        causes(&server.post(CLASSES, &nameless).await).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["metadata.name"]);
    let changed =
        server.merge(&format!("{CLASSES}/one"), &json!({"spec": {"extendedResourceName": "example.com/gpu"}})).await;
    assert_eq!((changed.status, &changed.json()["metadata"]["generation"]), (200, &json!(2)));
}

/// Very many of what is bounded are told of once, and quickly.
///
/// Contract: API-17, API-43
#[tokio::test(start_paused = true)]
async fn what_is_far_too_much_is_refused() {
    let server = start();
    let many = |text: &str| json!(vec![text; 20_000]);
    let device = json!({"name": "a", "bindingConditions": many("a"), "bindingFailureConditions": many("b")});
    let found = causes(&server.post(SLICES, &slice(&json!([device]))).await);
    let too_many = "Too many: 20000: must have at most 4 items".to_owned();
    assert_eq!(found[0], ("spec.devices[0].bindingConditions".to_owned(), too_many));
    let mut pool = slice(&json!([]));
    pool["spec"]["pool"]["name"] = json!("/".repeat(100_000));
    refused(&server, SLICES, &pool, &[("spec.pool.name", "Too long: may not be more than 253 bytes".to_owned())]).await;
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let mut given = allocation("a");
    given["devices"]["results"] = json!(vec![given["devices"]["results"][0].clone(); 5_000]);
    let told = json!({"allocation": given, "devices": vec![json!({"device": "b"}); 5_000]});
    let found = causes(&change_status(&server, &told).await);
    assert!(found.iter().any(|(_, why)| why == "Too many: 5000: must have at most 32 items"));
}
