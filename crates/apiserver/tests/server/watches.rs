//! Watches: order, selectors, bookmarks, beginnings and ends.

use std::time::Duration;

use serde_json::json;

use crate::support::{forgetful, start, start_with, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn every_watcher_sees_the_same_events_in_the_order_of_commits() {
    let server = start();
    let mut watchers = Vec::new();
    for _ in 0..50 {
        watchers.push(
            server.watch(&format!("{MAPS}?watch=1&resourceVersion={}", server.api.registry().storage.version())).await,
        );
    }
    let mut expected = Vec::new();
    for index in 0..20 {
        let created = server.config_map(&format!("m{index}"), "1").await.json();
        expected.push(("ADDED".to_owned(), version(&created)));
        if index % 3 == 0 {
            let changed = server.merge(&format!("{MAPS}/m{index}"), &json!({"data": {"n": "1"}})).await.json();
            expected.push(("MODIFIED".to_owned(), version(&changed)));
        }
        if index % 4 == 0 {
            server.delete(&format!("{MAPS}/m{index}"), None).await;
            expected.push(("DELETED".to_owned(), server.api.registry().storage.version()));
        }
    }
    for watcher in &mut watchers {
        for (word, at) in &expected {
            let event = watcher.next().await.expect("an event");
            assert_eq!((event["type"].as_str(), version(&event["object"])), (Some(word.as_str()), *at));
        }
    }
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selector_is_deleted_and_one_that_enters_is_added() {
    let server = start();
    let mut watch = server.watch(&format!("{MAPS}?watch=1&labelSelector=k%3Din")).await;
    server.config_map("a", "out").await;
    server.config_map("b", "in").await;
    let relabel = |name: &'static str, to: &'static str| {
        let server = &server;
        async move { server.merge(&format!("{MAPS}/{name}"), &json!({"metadata": {"labels": {"k": to}}})).await.json() }
    };
    relabel("a", "in").await;
    let left = relabel("b", "out").await;
    relabel("b", "in").await;
    server.delete(&format!("{MAPS}/a"), None).await;
    assert_eq!(watch.brief().await, Some(("ADDED".into(), "b".into())));
    assert_eq!(watch.brief().await, Some(("ADDED".into(), "a".into())));
    let event = watch.next().await.expect("an event");
    // Shown as it last matched, at the version at which it left.
    assert_eq!((&event["type"], &event["object"]["metadata"]["labels"]["k"]), (&json!("DELETED"), &json!("in")));
    assert_eq!(version(&event["object"]), version(&left));
    assert_eq!(watch.brief().await, Some(("ADDED".into(), "b".into())));
    assert_eq!(watch.brief().await, Some(("DELETED".into(), "a".into())));
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn a_watch_begins_where_it_is_asked_to() {
    let server = start();
    let first = version(&server.config_map("a", "1").await.json());
    server.config_map("b", "1").await;
    for query in
        ["watch=1", "watch=1&resourceVersion=0", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"]
    {
        let mut watch = server.watch(&format!("{MAPS}?{query}&timeoutSeconds=5")).await;
        assert_eq!(watch.brief().await, Some(("ADDED".into(), "a".into())), "{query}");
        assert_eq!(watch.brief().await, Some(("ADDED".into(), "b".into())), "{query}");
        assert_eq!(watch.next().await, None, "it ends after five seconds");
    }
    let mut watch = server.watch(&format!("{MAPS}?watch=1&resourceVersion={first}&timeoutSeconds=5")).await;
    assert_eq!(watch.brief().await, Some(("ADDED".into(), "b".into())));
    assert_eq!(watch.next().await, None);
    let begun = tokio::time::Instant::now();
    let current = server.api.registry().storage.version();
    let mut over = server.watch(&format!("{MAPS}?watch=1&resourceVersion={current}&timeoutSeconds=-1")).await;
    assert_eq!((over.next().await, begun.elapsed().as_secs()), (None, 0));

    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server.watch(&format!("{MAPS}?{query}")).await;
    watch.next().await;
    watch.next().await;
    let mark = watch.next().await.expect("a bookmark");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&mark["object"]), server.api.registry().storage.version());
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn bookmarks_come_about_every_minute_and_carry_the_version() {
    let server = start();
    let began = tokio::time::Instant::now();
    let current = server.api.registry().storage.version();
    let watch = format!("{MAPS}?watch=1&resourceVersion={current}&allowWatchBookmarks=true&timeoutSeconds=300");
    let mut watch = server.watch(&watch).await;
    // Written elsewhere: no event for this watch, but the version moves on.
    server
        .put(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
            &json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            }),
        )
        .await;
    let mark = watch.next().await.expect("a bookmark");
    assert_eq!((mark["type"].as_str(), version(&mark["object"])), (Some("BOOKMARK"), current + 1));
    assert!(began.elapsed() >= Duration::from_secs(55) && began.elapsed() <= Duration::from_secs(65));
    watch.next().await.expect("another");
    assert!(began.elapsed() >= Duration::from_secs(110) && began.elapsed() <= Duration::from_secs(130));
}

/// Contract: API-09, API-35
#[tokio::test(start_paused = true)]
async fn the_object_of_a_bookmark_is_the_references_with_nothing_in_it() {
    let server = start();
    let counted = r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}"#;
    for (path, kind, end) in [
        (MAPS.to_owned(), r#""ConfigMap","apiVersion":"v1""#, r#""annotations":{"k8s.io/initial-events-end":"true"}}"#.to_owned()),
        (workloads("replicasets"), r#""ReplicaSet","apiVersion":"apps/v1""#, format!(r#"}}}},{counted}}},"status":{{"replicas":0}}"#)),
        (workloads("deployments"), r#""Deployment","apiVersion":"apps/v1""#, format!(r#"}}}},{counted},"strategy":{{}}}},"status":{{}}"#)),
        (workloads("daemonsets"), r#""DaemonSet","apiVersion":"apps/v1""#, r#""updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#.to_owned()),
    ] {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
        let answer = server.get(&format!("{path}?{query}")).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let begin = format!(r#"{{"type":"BOOKMARK","object":{{"kind":{kind},"metadata":{{"resourceVersion":""#);
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.trim_end().ends_with(&format!("{end}}}}}")), "{text}");
        let counts = text.contains(r#""deprecated.daemonset.template.generation":"0""#);
        assert_eq!(counts, path.ends_with("daemonsets"), "{text}");
    }
}

fn workloads(plural: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/{plural}")
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn too_old_is_an_error_event() {
    let server = start_with(forgetful());
    server.config_map("a", "1").await;
    for index in 0..60 {
        server.merge(&format!("{MAPS}/a"), &json!({"data": {"n": index.to_string()}})).await;
    }
    let mut watch = server.watch(&format!("{MAPS}?watch=1&resourceVersion=5")).await;
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert!(event["object"]["message"].as_str().expect("a message").starts_with("too old resource version: 5 ("));
    assert_eq!(watch.next().await, None);
    let body = server.get(&format!("{MAPS}?watch=1&resourceVersion=5")).await.body;
    let begin =
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"#;
    assert!(body.starts_with(begin.as_bytes()), "{body:?}");
}

/// Contract: API-22
#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_ended() {
    let server = start_with(forgetful());
    let mut slow = server.watch(&format!("{MAPS}?watch=1&resourceVersion=4")).await;
    let filler = "x".repeat(10_000);
    server.config_map("a", "1").await;
    // More than its connection holds, and more than the history keeps.
    for index in 0..100 {
        server.merge(&format!("{MAPS}/a"), &json!({"data": {"n": index.to_string(), "filler": filler}})).await;
    }
    let mut seen = 0;
    while slow.next().await.is_some() {
        seen += 1;
    }
    assert!(seen < 101, "it saw all {seen} events");
    assert_eq!(server.get("/readyz").await.status, 200);
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn a_table_tells_its_columns_in_the_first_event_only() {
    let server = start();
    server.config_map("a", "1").await;
    server.config_map("b", "1").await;
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let answer = server.send("GET", &format!("{MAPS}?watch=1&timeoutSeconds=1"), &accept, "").await;
    let events: Vec<serde_json::Value> = answer
        .body
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).expect("JSON"))
        .collect();
    assert_eq!(events.len(), 2);
    assert!(events[0]["object"]["columnDefinitions"].is_array());
    assert!(events[1]["object"]["columnDefinitions"].is_null());
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn a_watch_may_ask_for_any_length() {
    let server = start();
    server.config_map("a", "1").await;
    let mut watch = server.watch(&format!("{MAPS}?watch=1&timeoutSeconds={}", i64::MAX)).await;
    assert_eq!(watch.brief().await, Some(("ADDED".into(), "a".into())));
}

/// Contract: API-09
#[tokio::test(start_paused = true)]
async fn watches_end_when_the_server_stops() {
    let server = start();
    let mut watch = server.watch(&format!("{MAPS}?watch=1&resourceVersion=4")).await;
    server.api.stop();
    assert_eq!(watch.next().await, None);
}
