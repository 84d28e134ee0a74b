//! The devices that drivers offer: what slices may not say, when they count as changed, and how they are found.

use serde_json::{Value, json};

use super::{
    CLAIMS, IDENTIFIER, LABEL, SLICES, SUBDOMAIN, allocation, change_status, exactly, invalid, make, object, refused,
    slice,
};
use crate::support::start;

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
            ("spec.nodeSelector.nodeSelectorTerms", invalid("null", "must have exactly one node selector term")),
            ("spec.allNodes", invalid("false", "must be either unset or set to true")),
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
