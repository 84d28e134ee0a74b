//! Lists and watches of a shard: ranges of the hash of a uid or a namespace (KEP-5866).

use muster_objects::HashRange;
use muster_objects::shard::hash;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::support::{self, Server, start};

const MAPS: &str = "/api/v1/configmaps";
const HALF: u64 = 1 << 63;

fn sharded(path: &str, selector: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    format!("{path}{join}shardSelector={}", utf8_percent_encode(selector, NON_ALPHANUMERIC))
}

fn lower() -> HashRange {
    HashRange::new(0, HALF - 1).expect("a range")
}

fn upper() -> HashRange {
    HashRange::new(HALF, u64::MAX).expect("a range")
}

/// The names in a list, with their namespaces.
fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    let name = |item: &Value| {
        let part = |part: &str| item["metadata"][part].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", part("namespace"), part("name"))
    };
    items.iter().map(name).collect()
}

/// A ConfigMap `m` in each of eight namespaces; they are in both halves.
async fn filled() -> (Server, Vec<String>) {
    let server = start();
    let mut namespaces = Vec::new();
    for index in 0..8 {
        let name = format!("{index}-shard");
        server.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        server.post(&format!("/api/v1/namespaces/{name}/configmaps"), &json!({"metadata": {"name": "m"}})).await;
        namespaces.push(name);
    }
    let low = namespaces.iter().filter(|name| lower().has_namespace(name)).count();
    assert!((1..8).contains(&low), "both halves have some: {low}");
    (server, namespaces)
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_list_has_what_is_within_its_ranges_and_says_so() {
    let (server, namespaces) = filled().await;
    let all = server.get(MAPS).await.json();
    assert_eq!(all["metadata"]["shardInfo"], Value::Null);
    let mut found = Vec::new();
    for half in [lower(), upper()] {
        let list = server.get(&sharded(MAPS, &half.selector())).await.json();
        assert_eq!(list["metadata"]["shardInfo"], json!({"selector": half.selector()}));
        let expected: Vec<_> =
            namespaces.iter().filter(|name| half.has_namespace(name)).map(|name| format!("{name}/m")).collect();
        let mut here = names(&list);
        here.retain(|name| name.contains("-shard/"));
        assert_eq!(here, expected);
        found.extend(names(&list));
    }
    found.sort();
    assert_eq!(found, names(&all), "each object is in one half");

    let both = format!("  {} ||\n({})", lower().selector(), upper().selector());
    let list = server.get(&sharded(MAPS, &both)).await.json();
    assert_eq!(names(&list), names(&all));
    let told = format!("{} || {}", lower().selector(), upper().selector());
    assert_eq!(list["metadata"]["shardInfo"]["selector"], told, "as it was understood, not as it was written");
    assert_eq!(names(&server.get(&format!("{MAPS}?shardSelector=")).await.json()), names(&all));
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_range_has_its_start_and_not_its_end() {
    let (server, _) = filled().await;
    let at = hash("3-shard");
    for (start, end, within) in [(at, at + 1, true), (at + 1, at + 2, false), (at - 1, at, false)] {
        let selector = format!("shardRange(object.metadata.namespace, '0x{start:016x}', '0x{end:016x}')");
        let list = server.get(&sharded(MAPS, &selector)).await.json();
        assert_eq!(names(&list).contains(&"3-shard/m".to_owned()), within, "{selector}");
    }
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_kind_without_namespaces_is_sharded_by_its_uid() {
    let (server, _) = filled().await;
    let all = server.get("/api/v1/namespaces").await.json();
    let selector = format!("shardRange(object.metadata.uid, '0x{:016x}', '0x{HALF:016x}')", 0);
    let list = server.get(&sharded("/api/v1/namespaces", &selector)).await.json();
    let items = all["items"].as_array().expect("items").iter();
    let within = items.filter(|item| hash(item["metadata"]["uid"].as_str().unwrap_or_default()) < HALF);
    let within: Vec<_> = within.map(|item| item["metadata"]["name"].clone()).collect();
    let listed = list["items"].as_array().expect("items").iter();
    assert_eq!(listed.map(|item| item["metadata"]["name"].clone()).collect::<Vec<_>>(), within);
    assert!(!within.is_empty() && names(&all).len() > within.len(), "{within:?}");
    // All of them have the same namespace, which is none.
    let none = HashRange::new(hash(""), hash("")).expect("a range").selector();
    assert_eq!(names(&server.get(&sharded("/api/v1/namespaces", &none)).await.json()), names(&all));
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn pages_of_a_shard_are_full_and_end_with_it() {
    let (server, _) = filled().await;
    let all = names(&server.get(MAPS).await.json());
    let whole = names(&server.get(&sharded(MAPS, &lower().selector())).await.json());
    let mut token = String::new();
    let mut found = Vec::new();
    loop {
        let continued = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let page = server.get(&sharded(&format!("{MAPS}?limit=2{continued}"), &lower().selector())).await.json();
        assert_eq!(page["metadata"]["shardInfo"]["selector"], lower().selector());
        if found.is_empty() {
            // How many follow is counted among the objects of all shards.
            assert_eq!(page["metadata"]["remainingItemCount"], json!(all.len() - 2));
        }
        let names = names(&page);
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        assert!(names.len() == 2 || token.is_empty(), "{names:?}");
        found.extend(names);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, whole);
    let labelled = sharded(&format!("{MAPS}?limit=1&labelSelector=!none"), &lower().selector());
    assert_eq!(server.get(&labelled).await.json()["metadata"]["remainingItemCount"], Value::Null);
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn only_a_list_in_its_own_type_says_that_it_is_of_a_shard() {
    let (server, _) = filled().await;
    let path = sharded(MAPS, &lower().selector());
    let whole = server.get(&path).await.json();
    let listed = names(&whole).len();
    let accept = |accept: &'static str| {
        let (server, path) = (&server, &path);
        async move { server.send("GET", path, &[("Accept", accept)], "").await }
    };
    let partial = accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await.json();
    assert_eq!((partial["kind"].as_str(), names(&partial).len()), (Some("PartialObjectMetadataList"), listed));
    assert_eq!(partial["metadata"]["shardInfo"], Value::Null);
    let table = accept("application/json;as=Table;g=meta.k8s.io;v=v1").await.json();
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(listed));
    assert_eq!(table["metadata"]["shardInfo"], Value::Null);

    let protobuf = accept("application/vnd.kubernetes.protobuf").await;
    assert_eq!(protobuf.header("content-type"), "application/vnd.kubernetes.protobuf");
    // Of ListMeta the fifth field, a message whose first field is the text.
    let text = lower().selector();
    let length = u8::try_from(text.len()).expect("a short text");
    let info = [&[0x2a, length + 2, 0x0a, length], text.as_bytes()].concat();
    assert!(protobuf.body.windows(info.len()).any(|window| window == info));
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_list_of_custom_objects_has_what_is_within_and_does_not_say_so() {
    let (server, namespaces) = filled().await;
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
    });
    let names_of = json!({"kind": "Foo", "plural": "foos"});
    let definition = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "names": names_of, "scope": "Namespaced", "versions": [version]},
    });
    server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    for namespace in &namespaces {
        let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}});
        let made = server.post(&format!("/apis/example.com/v1/namespaces/{namespace}/foos"), &foo).await;
        assert_eq!(made.status, 201, "{}", made.json());
    }
    let list = server.get(&sharded("/apis/example.com/v1/foos", &lower().selector())).await.json();
    let within = namespaces.iter().filter(|name| lower().has_namespace(name)).map(|name| format!("{name}/f"));
    assert_eq!(names(&list), within.collect::<Vec<_>>());
    assert_eq!(list["metadata"]["shardInfo"], Value::Null);
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_is_within_its_ranges() {
    let (server, namespaces) = filled().await;
    let of = |range: HashRange| namespaces.iter().find(|name| range.has_namespace(name)).expect("one").clone();
    let (near, far) = (of(lower()), of(upper()));
    let watched =
        format!("{MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut watch = server.watch(&sharded(&watched, &lower().selector())).await;
    let mut initial = Vec::new();
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] == "BOOKMARK" {
            assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
            break;
        }
        assert_eq!(event["type"], "ADDED");
        initial.push(event["object"].clone());
    }
    let list = server.get(&sharded(MAPS, &lower().selector())).await.json();
    assert_eq!(names(&json!({"items": initial})), names(&list));

    for namespace in [&far, &near] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        server.post(&maps, &json!({"metadata": {"name": "n"}})).await;
        server.merge(&format!("{maps}/n"), &json!({"data": {"k": "v"}})).await;
        server.delete(&format!("{maps}/n"), None).await;
    }
    for word in ["ADDED", "MODIFIED", "DELETED"] {
        let event = watch.next().await.expect("an event");
        assert_eq!(
            (event["type"].as_str(), event["object"]["metadata"]["namespace"].as_str()),
            (Some(word), Some(&*near))
        );
    }
    // What comes next is the bookmark, as of all that has happened.
    let event = watch.next().await.expect("a bookmark");
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(support::version(&event["object"]), server.api.registry().storage.version());
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_within_its_ranges() {
    let (server, namespaces) = filled().await;
    let near = namespaces.iter().find(|name| lower().has_namespace(name)).expect("one");
    let maps = format!("/api/v1/namespaces/{near}/configmaps");
    let deleted = server.delete(&sharded(&maps, &upper().selector()), None).await;
    assert_eq!((deleted.status, names(&deleted.json()).len()), (200, 0));
    assert!(names(&server.get(&maps).await.json()).contains(&format!("{near}/m")));
    let deleted = server.delete(&sharded(&maps, &lower().selector()), None).await.json();
    assert_eq!(deleted["metadata"]["shardInfo"]["selector"], lower().selector());
    assert!(!names(&server.get(&maps).await.json()).contains(&format!("{near}/m")));
}

/// Contract: API-38
#[tokio::test(start_paused = true)]
async fn what_is_no_selector_is_refused_in_the_words_of_the_reference() {
    const UID: &str = "object.metadata.uid";
    let (zero, end) = ("'0x0000000000000000'", "'0x10000000000000000'");
    let range = |path: &str, start: &str, end: &str| format!("shardRange({path}, {start}, {end})");
    let cases = [
        (" ".to_owned(), "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("true".to_owned(), "unexpected expression kind 5; expected shardRange() call or || operator"),
        (UID.to_owned(), "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("[1]".to_owned(), "unexpected expression kind 4; expected shardRange() call or || operator"),
        ("{}".to_owned(), "unexpected expression kind 6; expected shardRange() call or || operator"),
        ("x".to_owned(), "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("A{}".to_owned(), "unexpected expression kind 8; expected shardRange() call or || operator"),
        ("has(object.metadata)".to_owned(), "unsupported function \"has\"; only shardRange() and || are allowed"),
        (
            format!("{0} && {0}", range(UID, zero, end)),
            "unsupported function \"_&&_\"; only shardRange() and || are allowed",
        ),
        (format!("!{}", range(UID, zero, end)), "unsupported function \"!_\"; only shardRange() and || are allowed"),
        (
            format!("{} || has(a.b) || nothing()", range(UID, zero, end)),
            "unsupported function \"has\"; only shardRange() and || are allowed",
        ),
        (
            format!("{} || {}", range(UID, zero, end), range("object.metadata.namespace", zero, end)),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
        ("shardRange(object.metadata.uid)".to_owned(), "shardRange() requires exactly 3 arguments, got 1"),
        (
            range("f(x).uid", zero, end),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1",
        ),
        (
            range("metadata.uid", zero, end),
            "unsupported field path \"metadata.uid\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (range(UID, "1", end), "hexStart must be a string literal, got int64"),
        (range(UID, "-1", end), "hexStart must be a string literal, got int64"),
        (range(UID, "1u", end), "hexStart must be a string literal, got uint64"),
        (range(UID, "1.0", end), "hexStart must be a string literal, got float64"),
        (range(UID, "null", end), "hexStart must be a string literal, got structpb.NullValue"),
        (range(UID, "b'0x'", end), "hexStart must be a string literal, got []uint8"),
        (range(UID, "true", end), "hexStart must be a string literal, got bool"),
        (range(UID, "x", end), "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
        (range(UID, zero, "'10000000000000000'"), "hexEnd must have '0x' prefix, got \"10000000000000000\""),
        (range(UID, zero, "'0x'"), "hexEnd: hex value is required after '0x'"),
        (
            range(UID, zero, "'0x000000000000000000'"),
            "hexEnd: hex value too long (18 chars, max 17): \"000000000000000000\"",
        ),
        (range(UID, zero, "'0x000000000000000A'"), "hexEnd: invalid hex character \"A\" in \"0x000000000000000A\""),
        (
            range(UID, zero, "'0x10000000000000001'"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\"",
        ),
        (
            range(UID, zero, "'0xff'"),
            "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0xff\" (did you mean \"0x00000000000000ff\"?)",
        ),
        (range(UID, zero, zero), "shard range start 0x0000000000000000 must be less than end 0x0000000000000000"),
        (
            range(UID, end, "'0xffffffffffffffff'"),
            "shard range start 0x10000000000000000 must be less than end 0xffffffffffffffff",
        ),
    ];
    let server = start();
    for (selector, why) in cases {
        for path in [MAPS.to_owned(), format!("{MAPS}?watch=1")] {
            let answer = server.get(&sharded(&path, &selector)).await;
            let expected = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("invalid shard selector: {why}"), "code": 500,
            });
            assert_eq!((answer.status, answer.json()), (500, expected), "{selector}");
        }
    }
    let unread = server.get(&sharded(MAPS, "shardRange(")).await.json();
    let message = unread["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("invalid shard selector: CEL parse error: Syntax error: "), "{unread}");
    let deep = format!("{}true", "!(".repeat(300));
    let unread = server.get(&sharded(MAPS, &deep)).await.json();
    assert_eq!(unread["message"], "invalid shard selector: CEL parse error: expression recursion limit exceeded: 250");
    // Other selectors are looked at first.
    let answer = server.get(&sharded(&format!("{MAPS}?labelSelector=%2C%2C%3D"), "x")).await;
    assert_eq!(answer.status, 400);
    // Whose method it is was never asked.
    let method = server.get(&sharded(MAPS, &format!("any.{}", range(UID, zero, end)))).await;
    assert_eq!(method.status, 200);
}
