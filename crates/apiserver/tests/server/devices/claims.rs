//! Claims to devices, templates of them and classes: what they may not say, what a claim is told to have got, and how
//! quotas count them.

use serde_json::{Value, json};

use super::{
    CLAIMS, CLASSES, LABEL, SUBDOMAIN, TEMPLATES, UNKNOWN, allocation, causes, change_status, exactly, invalid, make,
    object, refused, told,
};
use crate::support::start;

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
