//! Devices from outside: classes of them, claims to them, and those that drivers offer. What is refused, and in which
//! words, is upstream's own, in its order but for what a map's order decides.

use muster_apiserver::codec::to_protobuf;
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

/// Contract: API-05, API-18, API-43
#[tokio::test(start_paused = true)]
async fn what_comes_as_protobuf_is_as_what_comes_as_json_and_a_deletion_tells_what_it_was() {
    let server = start();
    let opaque = json!({"driver": "a.example.com", "parameters": {"b": [1, {"c": null}]}});
    let selector = json!({"cel": {"expression": "device.driver == 'a'"}});
    let toleration = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3});
    let request = json!({"deviceClassName": "gpu", "selectors": [selector], "allocationMode": "ExactCount", "count": 2,
        "adminAccess": false, "tolerations": [toleration], "capacity": {"requests": {"a.example.com/mem": "1Gi"}}});
    let mut alternative = request.clone();
    alternative["name"] = json!("b");
    alternative.as_object_mut().expect("an object").remove("adminAccess");
    let devices = json!({
        "requests": [{"name": "a", "exactly": request}, {"name": "any", "firstAvailable": [alternative]}],
        "constraints": [{"requests": ["a"], "matchAttribute": "a.example.com/b"}, {"distinctAttribute": "a.example.com/c"}],
        "config": [{"requests": ["any/b"], "opaque": opaque}],
    });
    let class =
        json!({"selectors": [selector], "config": [{"opaque": opaque}], "extendedResourceName": "example.com/gpu"});
    let policy = json!({"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}});
    let device = json!({
        "name": "a", "allowMultipleAllocations": true, "bindsToNode": true, "allNodes": true,
        "attributes": {"b": {"bool": false}, "i": {"int": 0}, "s": {"string": ""}, "v": {"version": "1.0.0-a.1+b"}},
        "capacity": {"m": {"value": "4", "requestPolicy": policy}}, "bindingConditions": ["x"], "bindingFailureConditions": ["y"],
        "consumesCounters": [{"counterSet": "c", "counters": {"d": {"value": "10m"}}}],
        "taints": [{"key": "t", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}],
    });
    let offered = json!({"driver": "a.example.com", "pool": {"name": "p/q", "generation": 3, "resourceSliceCount": 2},
        "perDeviceNodeSelection": true, "devices": [device]});
    for (path, object) in [
        (CLASSES, object("DeviceClass", &class)),
        (CLAIMS, object("ResourceClaim", &json!({"devices": devices}))),
        (
            TEMPLATES,
            object("ResourceClaimTemplate", &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": devices}})),
        ),
        (SLICES, object("ResourceSlice", &offered)),
    ] {
        let made = make(&server, path, &object).await;
        assert_eq!(made["spec"], object["spec"], "{path}");
        let deleted = server.delete(&format!("{path}/one"), None).await;
        assert_eq!((deleted.status, &deleted.json()["spec"]), (200, &object["spec"]), "{path}");
        let protobuf = to_protobuf(&object.clone().into()).expect("protobuf has a form for it");
        let headers = [("Content-Type", "application/vnd.kubernetes.protobuf")];
        let answer = server.send("POST", path, &headers, protobuf).await;
        assert_eq!((answer.status, &answer.json()["spec"]), (201, &object["spec"]), "{path}");
        let answer = server.send("GET", &format!("{path}/one"), &[("Accept", headers[0].1)], "").await;
        assert_eq!((answer.status, answer.header("Content-Type")), (200, headers[0].1), "{path}");
    }
}

/// Contract: API-17, API-43
#[tokio::test(start_paused = true)]
async fn what_claims_and_classes_may_not_say() {
    let server = start();
    let claim = |devices: &Value| object("ResourceClaim", &json!({"devices": devices}));
    let request = |fields: &Value| claim(&json!({"requests": [{"name": "gpu", "exactly": fields}]}));
    let at = "spec.devices.requests[0]";
    let one_of = "exactly one of `exactly` or `firstAvailable` is required";
    let parameters = |value: &Value| json!({"opaque": {"driver": "dra.example.com", "parameters": value}});

    let both = json!({"requests": [
        {"name": "a b", "exactly": {"deviceClassName": "gpu"}, "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
        {"name": "none"}, {"name": "none", "exactly": {"deviceClassName": "gpu"}},
    ]});
    refused(
        &server,
        CLAIMS,
        &claim(&both),
        &[
            ("spec.devices.requests[0].name", invalid("\"a b\"", LABEL)),
            (at, invalid("null", &format!("{one_of}, but multiple fields are set"))),
            ("spec.devices.requests[1]", format!("Required value: {one_of}")),
            ("spec.devices.requests[2]", "Duplicate value: \"none\"".to_owned()),
        ],
    )
    .await;
    let fields = json!({"allocationMode": "Some", "selectors": [{}, {"cel": {"expression": "1"}}], "tolerations": [
        {"operator": "Exists", "value": "x"}, {"operator": "Like", "effect": "No"}]});
    refused(
        &server,
        CLAIMS,
        &request(&fields),
        &[
            ("spec.devices.requests[0].exactly.deviceClassName", "Required value".to_owned()),
            ("spec.devices.requests[0].exactly.selectors[0].cel", "Required value".to_owned()),
            (
                "spec.devices.requests[0].exactly.selectors[1].cel.expression",
                invalid("\"1\"", "must evaluate to bool or the unknown type, not int"),
            ),
            (
                "spec.devices.requests[0].exactly.allocationMode",
                r#"Unsupported value: "Some": supported values: "All", "ExactCount""#.to_owned(),
            ),
            (
                "spec.devices.requests[0].exactly.tolerations[0].value",
                invalid("\"x\"", "must be empty for operator `Exists`"),
            ),
            (
                "spec.devices.requests[0].exactly.tolerations[1].operator",
                r#"Unsupported value: "Like": supported values: "Equal", "Exists""#.to_owned(),
            ),
            (
                "spec.devices.requests[0].exactly.tolerations[1].effect",
                r#"Unsupported value: "No": supported values: "NoExecute", "NoSchedule", "None""#.to_owned(),
            ),
        ],
    )
    .await;
    let count = "spec.devices.requests[0].exactly.count";
    let all = json!({"deviceClassName": "gpu", "allocationMode": "All", "count": 2});
    let why = invalid("2", "must not be specified when allocationMode is 'All'");
    refused(&server, CLAIMS, &request(&all), &[(count, why)]).await;
    let negative = json!({"deviceClassName": "gpu", "count": -1});
    refused(&server, CLAIMS, &request(&negative), &[(count, invalid("-1", "must be greater than zero"))]).await;

    let references = json!({
        "requests": [{"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}],
        "constraints": [
            {"requests": ["any", "any/a", "any/b", "other", "a/b/c", "any"], "matchAttribute": "a.example.com/model"},
            {"matchAttribute": "model"}, {"distinctAttribute": "/x"}, {},
        ],
        "config": [{"requests": ["no"]}, parameters(&json!(null)), parameters(&json!([1])),
            parameters(&json!({"a": "x".repeat(10_240)})), parameters(&json!({}))],
    });
    let full = "a fully qualified name must be a domain and a name separated by a slash";
    let constraint =
        "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    refused(
        &server,
        CLAIMS,
        &claim(&references),
        &[
            ("spec.devices.constraints[0].requests[2]", invalid("\"any/b\"", UNKNOWN)),
            ("spec.devices.constraints[0].requests[3]", invalid("\"other\"", UNKNOWN)),
            ("spec.devices.constraints[0].requests[4]", invalid("\"a/b/c\"", UNKNOWN)),
            ("spec.devices.constraints[0].requests[5]", "Duplicate value: \"any\"".to_owned()),
            ("spec.devices.constraints[1].matchAttribute", invalid("\"model\"", full)),
            ("spec.devices.constraints[2].distinctAttribute", invalid("\"\"", "the domain must not be empty")),
            ("spec.devices.constraints[3]", format!("Required value: {constraint}")),
            ("spec.devices.config[0].requests[0]", invalid("\"no\"", UNKNOWN)),
            ("spec.devices.config[0].opaque", "Required value".to_owned()),
            ("spec.devices.config[1].opaque.parameters", "Required value".to_owned()),
            ("spec.devices.config[2].opaque.parameters", invalid("\"<value omitted>\"", "must be a valid JSON object")),
            ("spec.devices.config[3].opaque.parameters", "Too long: may not be more than 10240 bytes".to_owned()),
        ],
    )
    .await;
    let many = vec![json!({"name": "a", "exactly": {"deviceClassName": "gpu"}}); 33];
    let too_many = "Too many: 33: must have at most 32 items".to_owned();
    refused(&server, CLAIMS, &claim(&json!({"requests": many})), &[("spec.devices.requests", too_many)]).await;

    let template = json!({"metadata": {"labels": {"a": "b c"}}, "spec": {"devices": exactly("A")}});
    let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    refused(
        &server,
        TEMPLATES,
        &object("ResourceClaimTemplate", &template),
        &[
            ("spec.metadata.labels", invalid("\"b c\"", why)),
            ("spec.spec.devices.requests[0].exactly.deviceClassName", invalid("\"A\"", SUBDOMAIN)),
        ],
    )
    .await;

    let long = "a".repeat(10_241);
    let costly = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, 1 < 2))))))";
    let class = json!({
        "selectors": [{"cel": {"expression": long}}, {"cel": {"expression": costly}},
            {"cel": {"expression": "device.driver == 'a' && device.attributes['b'].c"}}],
        "config": [{}], "extendedResourceName": "gpu",
    });
    refused(
        &server,
        CLASSES,
        &object("DeviceClass", &class),
        &[
            ("spec.selectors[0].cel.expression", "Too long: may not be more than 10240 bytes".to_owned()),
            ("spec.selectors[1].cel.expression", "Forbidden: too complex, exceeds cost limit".to_owned()),
            ("spec.config[0].opaque", "Required value".to_owned()),
            ("spec.extendedResourceName", invalid("\"gpu\"", "must be a valid extended resource name")),
        ],
    )
    .await;
}

/// Contract: API-17, API-43
#[tokio::test(start_paused = true)]
async fn what_slices_may_not_say() {
    let server = start();
    let nowhere = json!({"driver": "", "pool": {"name": "a b/", "generation": -1}, "allNodes": false, "nodeName": "",
        "nodeSelector": {"nodeSelectorTerms": []}});
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    refused(
        &server,
        SLICES,
        &object("ResourceSlice", &nowhere),
        &[
            ("spec.driver", "Required value".to_owned()),
            ("spec.pool.name", invalid("\"a b\"", SUBDOMAIN)),
            ("spec.pool.name", invalid("\"\"", SUBDOMAIN)),
            ("spec.pool.resourceSliceCount", invalid("0", "must be greater than zero")),
            ("spec.pool.generation", invalid("-1", "must be greater than or equal to zero")),
            ("spec.nodeName", invalid("\"\"", "must be either unset or set to a non-empty string")),
            (
                "spec.nodeSelector.nodeSelectorTerms",
                "Required value: must have at least one node selector term".to_owned(),
            ),
            ("spec.allNodes", invalid("false", "must be either unset or set to true")),
            ("spec.nodeSelector.nodeSelectorTerms", invalid("null", "must have exactly one node selector term")),
        ],
    )
    .await;
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let mut mixed = slice(&json!([{"name": "a"}]));
    mixed["spec"]["nodeName"] = json!(null);
    mixed["spec"]["nodeSelector"] = json!({"nodeSelectorTerms": [term, term]});
    mixed["spec"]["sharedCounters"] = json!([{"name": "A", "counters": {"b c": {"value": "1"}}}]);
    let shown = r#"{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null}"#;
    refused(
        &server,
        SLICES,
        &mixed,
        &[
            (
                "spec.nodeSelector.nodeSelectorTerms",
                invalid(&format!("[{shown},{shown}]"), "must have exactly one node selector term"),
            ),
            ("spec", invalid("\"\"", "only one of `sharedCounters` or `devices` is allowed")),
            ("spec.sharedCounters[0].name", invalid("\"A\"", LABEL)),
            ("spec.sharedCounters[0].counters", invalid("\"b c\"", LABEL)),
        ],
    )
    .await;
    let mut everywhere = slice(&json!([]));
    everywhere["spec"]["allNodes"] = json!(true);
    let several = invalid("\"{`nodeName`, `allNodes`}\"", &format!("{one}, but multiple fields are set"));
    refused(&server, SLICES, &everywhere, &[("spec", several)]).await;
    let mut nothing = slice(&json!([]));
    nothing["spec"].as_object_mut().expect("a spec").remove("nodeName");
    refused(&server, SLICES, &nothing, &[("spec", format!("Required value: {one}"))]).await;

    let devices = json!([
        {"name": "A", "nodeName": "node-a", "attributes": {
            "1st": {"string": "x".repeat(65)}, "a.example.com/": {"int": 1, "bool": true}, "v": {"version": "1.02.3"}, "z": {}}},
        {"name": "b", "bindingFailureConditions": ["x"],
            "taints": [{"key": "", "effect": "None"}, {"key": "a", "value": "b c"}],
            "consumesCounters": [{"counterSet": "", "counters": {}}]},
        {"name": "b", "bindingConditions": ["x", "x"], "bindingFailureConditions": ["x"],
            "capacity": {"mem": {"value": "1", "requestPolicy": {"default": "1"}}}},
    ]);
    let per_device = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let shown = r#"{"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}"#;
    let key = "name part must be non-empty";
    let label = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    refused(
        &server,
        SLICES,
        &slice(&devices),
        &[
            ("spec.devices[0].name", invalid("\"A\"", LABEL)),
            ("spec.devices[0].attributes", invalid("\"1st\"", IDENTIFIER)),
            ("spec.devices[0].attributes[1st].string", "Too long: may not be more than 64 bytes".to_owned()),
            ("spec.devices[0].attributes", invalid("\"\"", "the name must not be empty")),
            ("spec.devices[0].attributes[a.example.com/]", invalid(shown, "exactly one value must be specified")),
            (
                "spec.devices[0].attributes[v].version",
                invalid("\"1.02.3\"", "must be a string compatible with semver.org spec 2.0.0"),
            ),
            ("spec.devices[0].attributes[z]", invalid("\"\"", "exactly one value must be specified")),
            ("spec.devices[0]", invalid("null", per_device)),
            ("spec.devices[1].taints[0].key", invalid("\"\"", key)),
            ("spec.devices[1].taints[0].key", invalid("\"\"", name)),
            ("spec.devices[1].taints[1].value", invalid("\"b c\"", label)),
            ("spec.devices[1].taints[1].effect", "Required value".to_owned()),
            ("spec.devices[1].consumesCounters[0].counterSet", "Required value".to_owned()),
            ("spec.devices[1].consumesCounters[0].counters", "Required value".to_owned()),
            (
                "spec.devices[1].bindingConditions",
                invalid("null", "bindingConditions are required to use bindingFailureConditions"),
            ),
            (
                "spec.devices[2].capacity[mem].requestPolicy",
                "Forbidden: allowMultipleAllocations must be true".to_owned(),
            ),
            ("spec.devices[2].bindingConditions[1]", "Duplicate value: \"x\"".to_owned()),
            (
                "spec.devices[2].bindingFailureConditions[0]",
                invalid("\"x\"", "bindingFailureConditions must not overlap with bindingConditions"),
            ),
            ("spec.devices[2]", "Duplicate value: \"b\"".to_owned()),
        ],
    )
    .await;
    let attributes: Value =
        (0..33).map(|at| (format!("a{at}"), json!({"int": at}))).collect::<serde_json::Map<_, _>>().into();
    let why = invalid("33", "the total number of attributes and capacities must not exceed 32");
    refused(&server, SLICES, &slice(&json!([{"name": "a", "attributes": attributes}])), &[("spec.devices[0]", why)])
        .await;
    let many = |count: usize, fields: &Value| {
        let device = |at| {
            let mut device = fields.clone();
            device["name"] = json!(format!("d{at}"));
            device
        };
        slice(&(0..count).map(device).collect::<Vec<Value>>().into())
    };
    let too_many = |found: usize, most: usize| format!("Too many: {found}: must have at most {most} items");
    refused(&server, SLICES, &many(129, &json!({})), &[("spec.devices", too_many(129, 128))]).await;
    let tainted = json!({"taints": [{"key": "a", "effect": "None"}]});
    refused(&server, SLICES, &many(65, &tainted), &[("spec.devices", too_many(65, 64))]).await;
    make(&server, &format!("{SLICES}?dryRun=All"), &many(128, &json!({}))).await;

    let path = "spec.devices[0].capacity[m].requestPolicy";
    let at = |field: &str| format!("{path}.{field}");
    let range = |min: &str, max: &str, step: &str| json!({"min": min, "max": max, "step": step});
    for (policy, expected) in [
        (
            json!({"default": "3", "validValues": ["2", "1", "11", "2"]}),
            vec![
                (at("validValues[1]"), invalid("\"1\"", "values must be sorted in ascending order")),
                (at("validValues[3]"), invalid("\"2\"", "values must be sorted in ascending order")),
                (at("validValues[2]"), invalid("\"11\"", "option is larger than capacity value: 10")),
                (at("validValues[3]"), "Duplicate value: \"2\"".to_owned()),
                (at("validValues"), invalid("\"3\"", "default value is not valid according to the requestPolicy")),
            ],
        ),
        (
            json!({"default": "1", "validRange": range("2", "11", "4")}),
            vec![
                (at("validRange.min"), invalid("\"1\"", "default is less than min: 2")),
                (at("validRange.max"), invalid("\"11\"", "max is larger than capacity value: 10")),
                (at("validRange.step"), invalid("\"1\"", "value is not a multiple of a given step (4) from (2)")),
                (at("validRange.step"), invalid("\"11\"", "value is not a multiple of a given step (4) from (2)")),
            ],
        ),
        (
            json!({"validRange": range("1", "2", "1")}),
            vec![(at("default"), "Required value: required when validRange is defined".to_owned())],
        ),
        (
            json!({"default": "1", "validRange": range("1", "2", "1"), "validValues": ["1"]}),
            vec![(
                path.to_owned(),
                "Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time".to_owned(),
            )],
        ),
    ] {
        let device = json!({"name": "a", "allowMultipleAllocations": true,
            "capacity": {"m": {"value": "10", "requestPolicy": policy}}});
        let expected: Vec<(&str, String)> = expected.iter().map(|(field, why)| (field.as_str(), why.clone())).collect();
        refused(&server, SLICES, &slice(&json!([device])), &expected).await;
    }
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

/// Contract: API-17, API-43
#[tokio::test(start_paused = true)]
async fn what_a_claim_has_got_is_told_as_a_whole() {
    let server = start();
    let mut claim = object("ResourceClaim", &json!({"devices": exactly("gpu")}));
    claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    claim["status"] = json!({"allocation": allocation("a")});
    assert_eq!(make(&server, CLAIMS, &claim).await["status"], json!({}), "nobody creates a claim with a status");

    let consumer = json!({"resource": "pods", "name": "a", "uid": "1"});
    let early = causes(&change_status(&server, &json!({"reservedFor": [consumer, consumer, {"name": "b"}]})).await);
    let path = |field: &str| format!("status.reservedFor{field}");
    assert_eq!(
        early,
        [
            (path("[2].resource"), "Required value".to_owned()),
            (path("[2].uid"), "Required value".to_owned()),
            (path("[1]"), "Duplicate value: \"1\"".to_owned()),
            (path(""), "Forbidden: may not be specified when `allocated` is not set".to_owned()),
        ]
    );
    let wrong = json!({"allocation": {
        "devices": {
            "results": [{"request": "no", "driver": "a b", "pool": "", "device": "X", "shareID": "1"}],
            "config": [{"source": "Nobody", "requests": ["gpu"]}],
        },
        "nodeSelector": {"nodeSelectorTerms": []},
    }});
    let at = |field: &str| format!("status.allocation.devices.{field}");
    assert_eq!(
        causes(&change_status(&server, &wrong).await),
        [
            (at("results[0].request"), invalid("\"no\"", UNKNOWN)),
            (at("results[0].driver"), invalid("\"a b\"", SUBDOMAIN)),
            (at("results[0].pool"), "Required value".to_owned()),
            (at("results[0].device"), invalid("\"X\"", LABEL)),
            (at("results[0].shareID"), invalid("\"1\"", "error validating uid: invalid UUID length: 1")),
            (
                at("config[0].source"),
                r#"Unsupported value: "Nobody": supported values: "FromClaim", "FromClass""#.to_owned()
            ),
            (at("config[0].opaque"), "Required value".to_owned()),
            (
                "status.allocation.nodeSelector.nodeSelectorTerms".to_owned(),
                "Required value: must have at least one node selector term".to_owned(),
            ),
        ]
    );
    let given = change_status(&server, &json!({"allocation": allocation("a"), "reservedFor": [consumer]})).await;
    assert_eq!(given.status, 200, "{}", given.json());
    let other = causes(&change_status(&server, &json!({"allocation": allocation("b")})).await);
    let shown = r#"{"Devices":{"Results":[{"Request":"gpu","Driver":"dra.example.com","Pool":"node-a","Device":"b","AdminAccess":null,"Tolerations":null,"BindingConditions":null,"BindingFailureConditions":null,"ShareID":null,"ConsumedCapacity":null}],"Config":null},"NodeSelector":null,"AllocationTimestamp":null}"#;
    assert_eq!(other, [("status.allocation".to_owned(), invalid(shown, "field is immutable"))]);

    let network = json!({"networkData": {"interfaceName": "x".repeat(257), "ips": ["10.0.0.1", "10.9.8.007/24", "::ffff:10.0.0.1/120"]},
        "data": "text", "conditions": []});
    let at = |field: &str| format!("status.devices[0]{field}");
    assert_eq!(
        causes(&change_status(&server, &json!({"devices": [told("b", &network)]})).await),
        [
            (
                at(""),
                invalid(
                    r#"{"Driver":"dra.example.com","Pool":"node-a","Device":"b","ShareID":""}"#,
                    "must be an allocated device in the claim"
                )
            ),
            (at(".data"), invalid("\"<value omitted>\"", "must be a valid JSON object")),
            (at(".networkData.interfaceName"), "Too long: may not be more than 256 bytes".to_owned()),
            (
                at(".networkData.ips[0]"),
                invalid("\"10.0.0.1\"", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
            ),
            (at(".networkData.ips[1]"), invalid("\"10.9.8.007/24\"", "must be in canonical form (\"10.9.8.7/24\")")),
            (
                at(".networkData.ips[2]"),
                invalid("\"::ffff:10.0.0.1/120\"", "must be in canonical form (\"10.0.0.1/24\")"),
            ),
        ]
    );
    let fine = change_status(&server, &json!({"devices": [told("a", &json!({"data": {"a": 1}}))]})).await;
    assert_eq!(fine.json()["status"]["devices"], json!([told("a", &json!({"conditions": null, "data": {"a": 1}}))]));

    // On its way out nobody else may have it reserved, and what is told of devices goes with them.
    assert_eq!(server.delete(&format!("{CLAIMS}/one"), None).await.status, 200);
    let late = causes(
        &change_status(&server, &json!({"reservedFor": [consumer, {"resource": "pods", "name": "b", "uid": "2"}]}))
            .await,
    );
    let why = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    assert_eq!(late, [(path(""), why.to_owned())]);
    let returned = change_status(&server, &json!({"allocation": null, "reservedFor": null})).await;
    assert_eq!((returned.status, &returned.json()["status"]), (200, &json!({})));
}

/// Each driver applies what it tells of its devices, some of which are shares of one.
///
/// Contract: API-13, API-43
#[tokio::test(start_paused = true)]
async fn drivers_apply_what_they_tell_of_devices() {
    let server = start();
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let mut given = allocation("a");
    let share = "ac051fac-2ead-46d9-b8b4-4e0fbeb7455d";
    let mut other = given["devices"]["results"][0].clone();
    other["shareID"] = json!(share);
    given["devices"]["results"].as_array_mut().expect("a list").push(other);
    assert_eq!(change_status(&server, &json!({"allocation": given})).await.status, 200);
    let apply = async |manager: &str, device: Value| {
        let body = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "one"},
            "status": {"devices": [device]}});
        let path = format!("{CLAIMS}/one/status?fieldManager={manager}");
        let answer =
            server.send("PATCH", &path, &[("Content-Type", "application/apply-patch+yaml")], body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    };
    apply("one", told("a", &json!({"networkData": {"interfaceName": "eth0"}}))).await;
    let both = apply("two", told("a", &json!({"shareID": share, "networkData": {"interfaceName": "eth1"}}))).await;
    let names = |claim: &Value| -> Vec<Value> {
        let devices = claim["status"]["devices"].as_array().expect("a list");
        devices.iter().map(|device| device["networkData"]["interfaceName"].clone()).collect()
    };
    assert_eq!(names(&both), [json!("eth0"), json!("eth1")]);
    let changed = apply("one", told("a", &json!({"networkData": {"interfaceName": "eth2"}}))).await;
    assert_eq!(names(&changed), [json!("eth2"), json!("eth1")]);
}

/// What is filled in anew is no change, and what is dropped is one.
///
/// Contract: API-15, API-43
#[tokio::test(start_paused = true)]
async fn the_generation_of_a_slice_counts_what_was_sent() {
    let server = start();
    let tainted = |fields: Value| {
        let mut device = json!({"name": "a", "taints": [{"key": "t", "effect": "None"}]});
        device.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        slice(&json!([device]))
    };
    let made = make(&server, SLICES, &tainted(json!({}))).await;
    let put = async |fields: Value| server.put(&format!("{SLICES}/one"), &tainted(fields)).await.json();
    let same = put(json!({})).await;
    assert_eq!(same["metadata"], made["metadata"]);
    let dropped = put(json!({"nodeAllocatableResourceMappings": {"cpu": {}}})).await;
    assert_eq!((&dropped["metadata"]["generation"], &dropped["spec"]), (&json!(2), &made["spec"]));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let later = put(json!({})).await;
    assert_eq!(later["metadata"]["generation"], 3);
    assert_ne!(later["spec"], made["spec"]);
}

/// Contract: API-13, API-43
#[tokio::test(start_paused = true)]
async fn who_writes_the_status_of_a_claim_owns_nothing_of_its_metadata() {
    let server = start();
    let apply = async |manager: &str, part: &str, label: &str, fields: Value| {
        let mut body = object("ResourceClaim", &json!({"devices": exactly("gpu")}));
        body["metadata"]["labels"] = json!({"a": label});
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let path = format!("{CLAIMS}/one{part}?fieldManager={manager}");
        let yaml = [("Content-Type", "application/apply-patch+yaml")];
        server.send("PATCH", &path, &yaml, body.to_string()).await
    };
    assert_eq!(apply("one", "", "b", json!({})).await.status, 201);
    let told = apply("two", "/status", "c", json!({"status": {"allocation": allocation("a")}})).await;
    assert_eq!((told.status, &told.json()["metadata"]["labels"]), (200, &json!({"a": "b"})));
    assert_eq!(apply("one", "", "d", json!({})).await.json()["metadata"]["labels"], json!({"a": "d"}));
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

/// Contract: API-43
#[tokio::test(start_paused = true)]
async fn devices_that_others_have_are_had_in_some_namespaces_only() {
    let server = start();
    let mut devices = exactly("gpu");
    devices["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let claim = object("ResourceClaim", &json!({"devices": devices}));
    let template = object("ResourceClaimTemplate", &json!({"spec": {"devices": devices}}));
    let why = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let field = "spec.devices.requests[0].adminAccess";
    refused(&server, CLAIMS, &claim, &[(field, why.to_owned())]).await;
    refused(&server, TEMPLATES, &template, &[(field, why.to_owned())]).await;
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let mut given = allocation("a");
    given["devices"]["results"][0]["adminAccess"] = json!(true);
    let refusal = causes(&change_status(&server, &json!({"allocation": given})).await);
    assert_eq!(refusal, [("status.allocation.devices.results[0].adminAccess".to_owned(), why.to_owned())]);

    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    assert_eq!(server.merge("/api/v1/namespaces/default", &label).await.status, 200);
    make(&server, &format!("{CLAIMS}?dryRun=All"), &{
        let mut claim = claim.clone();
        claim["metadata"]["name"] = json!("two");
        claim
    })
    .await;
    make(&server, TEMPLATES, &template).await;
    assert_eq!(change_status(&server, &json!({"allocation": given})).await.status, 200);
}

/// Who may write a claim's status may not yet give devices to it, nor speak for a driver.
///
/// Contract: API-31, API-43
#[tokio::test(start_paused = true)]
async fn devices_are_given_and_told_of_by_those_who_may() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
    let server = start();
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let account = "system:serviceaccount:default:driver";
    let role = async |name: &str, rule: Value| {
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        make(&server, &format!("{ROLES}/clusterroles"), &role).await;
        let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": account});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]});
        make(&server, &format!("{ROLES}/clusterrolebindings"), &binding).await;
    };
    let rule = |verbs: &[&str], resource: &str, names: &[&str]| json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs, "resourceNames": names});
    let write = async |node: Option<&str>, status: Value| {
        let mut headers = vec![("Content-Type", "application/merge-patch+json"), ("Impersonate-User", account)];
        if let Some(node) = node {
            headers.push(("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", node));
        }
        server.send("PATCH", &format!("{CLAIMS}/one/status"), &headers, json!({"status": status}).to_string()).await
    };
    role("status", rule(&["patch"], "resourceclaims/status", &[])).await;
    let on_node = {
        let mut given = allocation("a");
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["node-a"]});
        given["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        given
    };
    let why = format!(
        r#"Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "{account}" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope"#
    );
    let refusal = causes(&write(None, json!({"allocation": on_node})).await);
    assert_eq!(refusal, [("status.allocation".to_owned(), why)]);
    role("binding", rule(&["patch"], "resourceclaims/binding", &[])).await;
    let given = write(None, json!({"allocation": on_node})).await;
    assert_eq!(given.status, 200, "{}", given.json());

    // Nor may others say who has it reserved.
    let reserved = json!({"reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]});
    server.delete(&format!("{ROLES}/clusterrolebindings/binding"), None).await;
    let refusal = causes(&write(None, reserved.clone()).await);
    assert!(refusal.len() == 1 && refusal[0].1.contains("resourceclaims/binding"), "{refusal:?}");
    role("again", rule(&["patch"], "resourceclaims/binding", &[])).await;
    assert_eq!(write(None, reserved).await.status, 200);

    let news = json!({"devices": [told("a", &json!({}))]});
    let why = |verbs: &str, verb: &str| {
        format!(
            r#"Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[{verbs}]" permission: resourceclaims.resource.k8s.io "dra.example.com" is forbidden: User "{account}" cannot {verb} resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default""#
        )
    };
    let (near, any) = ("associated-node:patch", "arbitrary-node:patch");
    for (node, verbs, verb) in [
        (None, any.to_owned(), any),
        (Some("node-b"), any.to_owned(), any),
        (Some("node-a"), format!("{near} {any}"), near),
    ] {
        let refusal = causes(&write(node, news.clone()).await);
        assert_eq!(refusal, [("status.devices".to_owned(), why(&verbs, verb))], "{node:?}");
    }
    role("near", rule(&[near], "resourceclaims/driver", &["dra.example.com"])).await;
    assert_eq!(write(None, news.clone()).await.status, 422);
    assert_eq!(write(Some("node-a"), news.clone()).await.status, 200);
    let other = json!({"devices": [told("a", &json!({"data": {"b": 1}}))]});
    assert_eq!(write(None, other).await.status, 422, "something else told of it");
    assert_eq!(write(None, json!({"devices": []})).await.status, 422, "what is no more told of");
    let mut whole = server.get(&format!("{CLAIMS}/one")).await.json();
    whole["status"]["devices"] = json!([]);
    let headers = [("Content-Type", "application/json"), ("Impersonate-User", account)];
    role("put", rule(&["update"], "resourceclaims/status", &[])).await;
    let put = server.send("PUT", &format!("{CLAIMS}/one/status"), &headers, whole.to_string()).await;
    assert!(causes(&put)[0].1.contains("verb=\"[arbitrary-node:update]\""), "{}", put.json());
    role("any", rule(&[any], "resourceclaims/driver", &["dra.example.com"])).await;
    assert_eq!(write(None, json!({"devices": []})).await.status, 200);
    // With the devices goes what is told of them, whoever may speak for their drivers.
    assert_eq!(write(Some("node-a"), json!({"devices": [told("a", &json!({}))]})).await.status, 200);
    server.delete(&format!("{ROLES}/clusterrolebindings/any"), None).await;
    server.delete(&format!("{ROLES}/clusterrolebindings/near"), None).await;
    assert_eq!(write(None, json!({"allocation": null, "reservedFor": null})).await.json()["status"], json!({}));
}

/// Contract: API-21, API-43
#[tokio::test(start_paused = true)]
async fn quotas_count_what_claims_ask_for_at_most() {
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    let server = start();
    let hard = json!({"gpu.deviceclass.resource.k8s.io/devices": "36", "count/resourceclaims.resource.k8s.io": "5"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    make(&server, QUOTAS, &quota).await;
    assert_eq!(server.merge(&format!("{QUOTAS}/q/status"), &json!({"status": {"hard": hard}})).await.status, 200);
    let alternatives = json!({"requests": [
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "any", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "count": 2}, {"name": "b", "deviceClassName": "gpu", "count": 3},
            {"name": "c", "deviceClassName": "other", "count": 90}]},
    ]});
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": alternatives}))).await;
    let used = server.get(&format!("{QUOTAS}/q")).await.json()["status"]["used"].clone();
    assert_eq!(
        used,
        json!({"gpu.deviceclass.resource.k8s.io/devices": "35", "count/resourceclaims.resource.k8s.io": "1"})
    );
    let another = |name: &str| {
        let mut claim = object("ResourceClaim", &json!({"devices": exactly("gpu")}));
        claim["metadata"]["name"] = json!(name);
        claim
    };
    assert_eq!(server.post(CLAIMS, &another("two")).await.status, 201);
    let refused = server.post(CLAIMS, &another("three")).await;
    assert_eq!(refused.status, 403);
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.ends_with("exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=1, used: gpu.deviceclass.resource.k8s.io/devices=36, limited: gpu.deviceclass.resource.k8s.io/devices=36"), "{message}");
}

/// Contract: API-10, API-11, API-43
#[tokio::test(start_paused = true)]
async fn slices_are_found_by_node_and_driver_and_shown_in_tables() {
    let server = start();
    make(&server, SLICES, &slice(&json!([{"name": "a"}]))).await;
    let mut shared = slice(&json!([]));
    shared["metadata"]["name"] = json!("two");
    shared["spec"]["allNodes"] = json!(true);
    shared["spec"]["driver"] = json!("B.example.com");
    shared["spec"].as_object_mut().expect("a spec").remove("nodeName");
    let answer = server.post(SLICES, &shared).await;
    let warning =
        r#"299 - "spec.driver: driver names should be lowercase; \"B.example.com\" contains uppercase characters""#;
    assert_eq!((answer.status, answer.header("Warning")), (201, warning));
    for (selector, expected) in [
        ("spec.nodeName=node-a", vec!["one"]),
        ("spec.nodeName=", vec!["two"]),
        ("spec.driver=B.example.com", vec!["two"]),
        ("spec.driver!=B.example.com", vec!["one"]),
    ] {
        let list = server.get(&format!("{SLICES}?fieldSelector={}", selector.replace('=', "%3D"))).await.json();
        let names: Vec<&str> = list["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, expected, "{selector}");
    }
    let unknown = server.get(&format!("{SLICES}?fieldSelector=spec.pool%3Da")).await;
    assert_eq!(unknown.status, 400);
    let message = unknown.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.ends_with("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool"),
        "{message}"
    );

    let table = async |path: &str| -> Vec<Value> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = server.send("GET", path, &[("Accept", accept)], "").await.json();
        let mut cells: Vec<Value> = Vec::new();
        for row in table["rows"].as_array().expect("rows") {
            let mut row = row["cells"].as_array().expect("cells").clone();
            row.pop();
            cells.push(row.into());
        }
        cells
    };
    let rows = [json!(["one", "node-a", "dra.example.com", "node-a"]), json!(["two", "", "B.example.com", "node-a"])];
    assert_eq!(table(SLICES).await, rows);
    let mut claim = object("ResourceClaim", &json!({"devices": exactly("gpu")}));
    claim["metadata"]["finalizers"] = json!(["example.com/a"]);
    make(&server, CLAIMS, &claim).await;
    assert_eq!(table(CLAIMS).await, [json!(["one", "pending"])]);
    let consumer = json!({"resource": "pods", "name": "a", "uid": "1"});
    assert_eq!(change_status(&server, &json!({"allocation": allocation("a")})).await.status, 200);
    assert_eq!(table(CLAIMS).await, [json!(["one", "allocated"])]);
    assert_eq!(change_status(&server, &json!({"reservedFor": [consumer]})).await.status, 200);
    server.delete(&format!("{CLAIMS}/one"), None).await;
    assert_eq!(table(CLAIMS).await, [json!(["one", "deleted,allocated,reserved"])]);
}
