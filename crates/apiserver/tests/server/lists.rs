//! Lists: pages, versions, tables, and what cannot be listed any more.

use serde_json::{Value, json};

use crate::support::{forgetful, start, start_with, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Contract: API-08
#[tokio::test(start_paused = true)]
async fn pages_are_pinned_to_the_version_of_the_first() {
    let server = start();
    for index in 0..7 {
        server.config_map(&format!("m{index}"), "x").await;
    }
    let first = server.get(&format!("{MAPS}?limit=3")).await.json();
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["m0".into(), "m1".into(), "m2".into()], &json!(4))
    );

    server.delete(&format!("{MAPS}/m4"), None).await;
    server.config_map("m3a", "x").await;
    server.merge(&format!("{MAPS}/m5"), &json!({"data": {"changed": "yes"}})).await;

    let mut token = first["metadata"]["continue"].as_str().expect("a token").to_owned();
    let mut rest = Vec::new();
    let mut pages = 0;
    while !token.is_empty() {
        let page = server.get(&format!("{MAPS}?limit=3&continue={token}")).await.json();
        assert_eq!(version(&page), version(&first));
        for item in page["items"].as_array().expect("items") {
            assert!(item["data"]["changed"].is_null(), "{item}");
        }
        rest.extend(names(&page));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        pages += 1;
    }
    assert_eq!((rest, pages), (["m3", "m4", "m5", "m6"].map(str::to_owned).to_vec(), 2));

    let exact =
        server.get(&format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", version(&first))).await.json();
    assert_eq!(names(&exact).len(), 7);
    let newer =
        server.get(&format!("{MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", version(&first))).await;
    assert!(version(&newer.json()) > version(&first));
}

/// Contract: API-08
#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_is_504() {
    let server = start();
    let current = server.api.registry().storage.version();
    for path in
        [format!("{MAPS}?resourceVersion=999"), format!("{MAPS}?resourceVersion=999&resourceVersionMatch=Exact")]
    {
        let answer = server.get(&path).await;
        assert_eq!((answer.status, answer.header("retry-after")), (504, "1"));
        let status = answer.json();
        assert_eq!(status["message"], format!("Timeout: Too large resource version: 999, current: {current}"));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
}

/// Contract: API-08
#[tokio::test(start_paused = true)]
async fn an_expired_continue_is_410_with_a_token_to_go_on_inconsistently() {
    let server = start_with(forgetful());
    for index in 0..4 {
        server.config_map(&format!("m{index}"), "x").await;
    }
    let first = server.get(&format!("{MAPS}?limit=2")).await.json();
    let token = first["metadata"]["continue"].as_str().expect("a token");
    for index in 0..60 {
        server.merge(&format!("{MAPS}/m0"), &json!({"data": {"n": index.to_string()}})).await;
    }
    let expired = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((expired.status, &expired.json()["reason"]), (410, &json!("Expired")));
    let token = expired.json()["metadata"]["continue"].as_str().expect("another token").to_owned();
    let rest = server.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((rest.status, names(&rest.json())), (200, vec!["m2".into(), "m3".into()]));

    let exact = server.get(&format!("{MAPS}?resourceVersion=5&resourceVersionMatch=Exact")).await;
    assert_eq!(
        (exact.status, &exact.json()["message"]),
        (410, &json!("The resourceVersion for the provided list is too old."))
    );
}

/// Contract: API-08
#[tokio::test(start_paused = true)]
async fn a_token_that_is_none_says_where_it_breaks() {
    let server = start();
    for (token, at) in [("x", 0), ("!!", 0), ("abcde", 4), ("ab=", 2)] {
        let answer = server.get(&format!("{MAPS}?continue={token}")).await;
        let message =
            format!("invalid continue token: continue key is not valid: illegal base64 data at input byte {at}");
        assert_eq!((answer.status, &answer.json()["message"]), (400, &json!(message)), "{token}");
    }
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn errors_are_yaml_where_that_is_asked_for_and_nothing_is_exported() {
    let server = start();
    let yaml = [("Accept", "application/yaml")];
    let missing = server.send("GET", "/apis/apps/v1/namespaces/default/nosuch", &yaml, "").await;
    assert_eq!((missing.status, missing.header("content-type")), (404, "application/yaml"));
    let large = "x".repeat(4 << 20);
    for (method, path, body, code) in [
        ("PUT", MAPS, "{}", 405),
        ("POST", "/api/v1", "{}", 405),
        ("POST", MAPS, &large, 413),
        ("PATCH", &format!("{MAPS}/m"), "{}", 415),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", 400),
    ] {
        let refused = server.send(method, path, &yaml, body.to_owned()).await;
        assert_eq!((refused.status, refused.header("content-type")), (code, "application/yaml"), "{method} {path}");
        assert!(refused.body.starts_with(b"apiVersion: v1\n"), "{method} {path}");
    }
    let html = server.send("GET", "/version", &[("Accept", "text/html")], "").await;
    assert_eq!((html.status, server.get("/version").await.status), (406, 200));
    let exported = server.get(&format!("{MAPS}/m?export=true")).await;
    assert_eq!(exported.status, 400);
    let partial = [("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let none = server.send("GET", &format!("{MAPS}?labelSelector=none"), &partial, "").await.json();
    assert_eq!((&none["kind"], none.get("items")), (&json!("PartialObjectMetadataList"), Some(&Value::Null)));
}

/// Contract: API-03
#[tokio::test(start_paused = true)]
async fn groups_are_told_by_any_method_and_versions_by_get_alone() {
    let server = start();
    let routed = ["/api", "/api/v1", "/apis/apps/v1", "/version", "/openid/v1/jwks"];
    let unrouted = ["/apis", "/apis/apps"];
    let unknown = ["/apis/none", "/apis/none/v1", "/apis/apps/v9", "/none"];
    for (paths, code) in [(&routed[..], 405), (&unrouted[..], 200), (&unknown[..], 404)] {
        for path in paths {
            for method in ["HEAD", "POST", "PUT", "OPTIONS"] {
                assert_eq!(server.send(method, path, &[], "").await.status, code, "{method} {path}");
            }
        }
    }
    for path in ["/none", "/healthz"] {
        assert_eq!(server.get(path).await.header("x-content-type-options"), "nosniff", "{path}");
    }
}

/// Contract: API-10
#[tokio::test(start_paused = true)]
async fn selectors_choose_and_unknown_ones_are_400() {
    let server = start();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "2")] {
        server.config_map(name, label).await;
    }
    let table = [
        ("labelSelector=k%3D2", vec!["b", "c"]),
        ("labelSelector=k!%3D2", vec!["a"]),
        ("labelSelector=k%20in%20(1,3)", vec!["a"]),
        ("labelSelector=k%20notin%20(1)", vec!["b", "c"]),
        ("labelSelector=!k", vec![]),
        ("labelSelector=k%3E1", vec!["b", "c"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.name!%3Db,metadata.namespace%3Ddefault", vec!["a", "c"]),
        ("fieldSelector=metadata.name%3Db&labelSelector=k%3D1", vec![]),
    ];
    for (query, expected) in table {
        assert_eq!(names(&server.get(&format!("{MAPS}?{query}")).await.json()), expected, "{query}");
    }
    let unknown = server.get(&format!("{MAPS}?fieldSelector=data.a%3Db")).await;
    assert_eq!(unknown.status, 400);
    let pods = server.get("/api/v1/pods?fieldSelector=spec.containers%3Dx").await;
    assert_eq!((pods.status, &pods.json()["message"]), (400, &json!("field label not supported: spec.containers")));
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn a_table_carries_as_much_of_its_objects_as_is_asked_for() {
    let server = start();
    server.config_map("a", "1").await;
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    for (query, kind) in [
        ("", json!("PartialObjectMetadata")),
        ("?includeObject=Object", json!("ConfigMap")),
        ("?includeObject=None", json!(null)),
    ] {
        let table = server.send("GET", &format!("{MAPS}{query}"), &accept, "").await.json();
        assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{query}");
    }
}

/// A pod that has run to its end says so in its row.
///
/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn the_row_of_a_pod_that_is_over_has_a_condition() {
    let server = start();
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(server.post(pods, &pod).await.status, 201);
    for (phase, conditions) in [
        ("Running", Value::Null),
        (
            "Succeeded",
            json!([{"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."}]),
        ),
        ("Failed", json!([{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}])),
    ] {
        let status = json!({"status": {"phase": phase}});
        assert_eq!(server.merge(&format!("{pods}/a/status"), &status).await.status, 200);
        let table = server.send("GET", pods, &accept, "").await.json();
        assert_eq!(table["rows"][0]["conditions"], conditions, "{phase}");
    }
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn objects_lists_errors_and_events_are_told_in_protobuf() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let server = start();
    server.config_map("a", "1").await;
    let accept = |accept: &'static str| [("Accept", accept)];
    let preferred = accept("application/vnd.kubernetes.protobuf,application/json");
    for (path, status, kind) in [
        (format!("{MAPS}/a"), 200, "ConfigMap"),
        (MAPS.to_owned(), 200, "ConfigMapList"),
        (format!("{MAPS}/none"), 404, "Status"),
    ] {
        for headers in [accept(PROTOBUF), preferred] {
            let answer = server.send("GET", &path, &headers, String::new()).await;
            assert_eq!((answer.status, answer.header("content-type")), (status, PROTOBUF), "{path}");
            // The envelope's type: version, then kind.
            let head = [&b"k8s\0\x0a"[..], &[u8::try_from(kind.len()).expect("short") + 6, 10, 2], b"v1\x12"].concat();
            assert!(answer.body.starts_with(&head), "{path}: {:?}", answer.body);
            assert!(answer.body[head.len() + 1..].starts_with(kind.as_bytes()), "{path}: {:?}", answer.body);
        }
    }
    // Protobuf has no form of a table, and says nothing of groups.
    let table = accept("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, application/json");
    for (path, headers) in [(MAPS, table), ("/apis/apps/v1", preferred)] {
        let answer = server.send("GET", path, &headers, String::new()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{path}");
    }
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let answer = server.send("GET", &path, &accept(PROTOBUF), String::new()).await;
    assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
    let (length, event) = answer.body.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().expect("four bytes")) as usize, event.len());
    assert!(event.starts_with(b"\x0a\x05ADDED"), "{event:?}");
}

/// Contract: API-35
#[tokio::test(start_paused = true)]
async fn fields_of_answers_are_in_the_reference_s_order() {
    let server = start();
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}});
    server.post(MAPS, &map).await;
    let refused = server.post(MAPS, &map).await;
    let expected = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
        r#""message":"configmaps \"m\" already exists","reason":"AlreadyExists","#,
        r#""details":{"name":"m","kind":"configmaps"},"code":409}"#,
        "\n"
    );
    assert_eq!(refused.body, expected);
    let invalid = json!({"metadata": {"name": "<>"}});
    let body = server.post(MAPS, &invalid).await.body;
    let body = String::from_utf8_lossy(&body);
    assert!(body.contains(r#"ConfigMap \"\u003c\u003e\" is invalid"#), "{body}");
    let cause = r#""causes":[{"reason":"FieldValueInvalid","message":"#;
    assert!(body.contains(cause) && body.contains(r#","field":"metadata.name"}]},"code":422}"#), "{body}");

    for query in ["", "?pretty=true"] {
        let body = server.get(&format!("{MAPS}/m{query}")).await.body;
        let body = String::from_utf8_lossy(&body).split_whitespace().collect::<String>();
        let begin = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"default","#;
        assert!(body.starts_with(begin), "{body}");
        let at = |key: &str| body.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {body}"));
        assert!(at("uid") < at("resourceVersion") && at("managedFields") < at("data"), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn components_are_what_the_server_was_told() {
    let server = start();
    let path = "/api/v1/componentstatuses";
    let scheduler = server.get(&format!("{path}/scheduler")).await;
    assert_eq!(scheduler.header("warning"), r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#);
    assert_eq!(scheduler.json()["metadata"], json!({"name": "scheduler"}));
    assert_eq!(scheduler.json()["conditions"][0]["status"], "False");
    server.api.registry().publish_component("scheduler", true);
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let rows = server.send("GET", path, &headers, "").await.json()["rows"].clone();
    let cells: Vec<_> = rows.as_array().expect("rows").iter().map(|row| row["cells"].clone()).collect();
    let refused = r#"Get "https://127.0.0.1:10257/healthz": dial tcp 127.0.0.1:10257: connect: connection refused"#;
    assert_eq!(
        cells,
        [
            json!(["controller-manager", "Unhealthy", refused, ""]),
            json!(["etcd-0", "Healthy", "ok", ""]),
            json!(["scheduler", "Healthy", "ok", ""]),
        ]
    );
    assert_eq!(server.get(&format!("{path}?watch=true")).await.status, 405);
    assert_eq!(server.delete(&format!("{path}/scheduler"), None).await.status, 405);
}
