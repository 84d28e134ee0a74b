//! The small nouns: times, uids, versions, labels, sharing, events, leases, envelopes.

use std::time::Duration;

use muster_objects::event::event_name;
use muster_objects::intern::Interner;
use muster_objects::json::from_slice;
use muster_objects::lease::Lease;
use muster_objects::names::GoQuoted;
use muster_objects::stream::{Bookmark, ListPage, WatchEvent, WatchEventType};
use muster_objects::{
    Event, EventType, IntOrPercent, Labels, Meta, Moment, Object, ObjectKey, ObjectReference, Pod, ResourceVersion,
    Timestamp, Uid,
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn times_are_read_and_written_as_kubernetes_does() {
    let cases = [
        ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
        ("2026-01-02T15:04:05Z", 1_767_366_245_000_000_000, "2026-01-02T15:04:05Z"),
        ("2024-02-29T23:59:59Z", 1_709_251_199_000_000_000, "2024-02-29T23:59:59Z"),
        ("2000-03-01T00:00:00Z", 951_868_800_000_000_000, "2000-03-01T00:00:00Z"),
        ("1969-12-31T23:59:59.5Z", -500_000_000, "1969-12-31T23:59:59Z"),
        ("2026-01-02T17:04:05+02:00", 1_767_366_245_000_000_000, "2026-01-02T15:04:05Z"),
        ("2026-01-02T15:04:05.123456789Z", 1_767_366_245_123_456_789, "2026-01-02T15:04:05Z"),
        ("2026-01-02T15:04:05.1234567899Z", 1_767_366_245_123_456_789, "2026-01-02T15:04:05Z"),
        ("9999-12-31T23:59:59Z", i64::MAX, "2262-04-11T23:47:16Z"),
    ];
    for (text, nanos, shown) in cases {
        let time = Timestamp::parse(text).expect(text);
        assert_eq!((time.as_nanos(), time.to_string().as_str()), (nanos, shown), "{text}");
    }
    let wrong = [
        "",
        "2026",
        "2026-01-02",
        "2026-01-02 15:04:05Z",
        "2026-01-02T15:04:05",
        "2026-13-02T15:04:05Z",
        "2026-00-02T15:04:05Z",
        "2025-02-29T15:04:05Z",
        "2026-01-32T15:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T15:60:05Z",
        "2026-01-02T15:04:60Z",
        "2026-01-02T15:04:05.Z",
        "2026-01-02T15:04:05+0200",
        "2026-01-02T15:04:05Zx",
        "+026-01-02T15:04:05Z",
        "2026-01-02T15:04:05é",
    ];
    for text in wrong {
        assert!(Timestamp::parse(text).is_err(), "{text}");
    }
    let time = Timestamp::from_nanos(1_767_366_245_012_345_999);
    assert_eq!(time.micro().to_string(), "2026-01-02T15:04:05.012345Z");
    assert_eq!(time.truncate_to_seconds().as_nanos(), 1_767_366_245_000_000_000);
}

#[test]
fn time_is_counted_without_overflow() {
    let time = Timestamp::from_seconds(100);
    assert_eq!(time.saturating_since(Timestamp::from_seconds(90)), Duration::from_secs(10));
    assert_eq!(time.saturating_since(Timestamp::from_seconds(110)), Duration::ZERO);
    assert_eq!(time.nanos_since(Timestamp::from_seconds(110)), -10_000_000_000);
    assert_eq!(Timestamp::from_nanos(i64::MAX) + Duration::MAX, Timestamp::from_nanos(i64::MAX));
    assert_eq!(
        Timestamp::from_nanos(i64::MAX).saturating_since(Timestamp::from_nanos(i64::MIN)),
        // The earliest time is one later than the earliest number.
        Duration::from_nanos(u64::MAX - 1)
    );
    assert_eq!(Moment::from_nanos(5) + Duration::MAX, Moment::from_nanos(u64::MAX));
    assert_eq!(Moment::from_nanos(5) - Duration::MAX, Moment::ORIGIN);
    assert_eq!(Moment::ORIGIN.saturating_since(Moment::from_nanos(5)), Duration::ZERO);
}

/// Contract: API-07
#[test]
fn resource_versions_are_decimal_numbers() {
    for (text, version) in [("0", 0), ("1", 1), ("18446744073709551615", u64::MAX)] {
        assert_eq!(text.parse(), Ok(ResourceVersion(version)));
        assert_eq!(ResourceVersion(version).to_string(), text);
    }
    for text in ["", "01", "-1", "+1", "1a", "abc", " 1", "18446744073709551616", "0x1"] {
        let error = text.parse::<ResourceVersion>().expect_err(text).to_string();
        assert_eq!(error, format!("resource version is not well formed: {text}"));
    }
    assert!(ResourceVersion(9) < ResourceVersion(10), "as numbers, not as text");
}

#[test]
fn keys_and_quotes_are_shown_as_kubernetes_shows_them() {
    assert_eq!(ObjectKey::new("ns", "a").to_string(), "ns/a");
    assert_eq!(ObjectKey::new("", "node-1").to_string(), "node-1");
    let quoted = GoQuoted("a\"b\\c\n\t\u{1}\u{7f}é\u{200b}😀'").to_string();
    assert_eq!(quoted, r#""a\"b\\c\n\t\x01\x7fé\u200b😀'""#);
}

#[test]
fn shared_labels_are_asked_about_once() {
    let [web, db]: [Labels; 2] = ["web", "db"].map(|app| [("app", app)].into_iter().collect());
    let (same, equal) = (web.clone(), [("app", "web")].into_iter().collect::<Labels>());
    let mut asked = 0;
    let mut is_web = Labels::asked_once(|labels| {
        asked += 1;
        labels.get("app") == Some("web")
    });
    let answers = [&web, &same, &web, &db, &Labels::EMPTY, &Labels::EMPTY, &web, &equal].map(&mut is_web);
    assert_eq!(answers, [true, true, true, false, false, false, true, true]);
    drop(is_web);
    assert_eq!(asked, 5, "web, db, none, web again, and what only equals it");
}

#[test]
fn labels_are_sorted_and_the_last_of_a_key_counts() {
    let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
    assert_eq!(labels.to_string(), "a=2,b=3");
    assert_eq!((labels.get("b"), labels.get("c"), labels.len()), (Some("3"), None, 2));
    let many: Labels = (0..40).map(|number| (format!("k{number:02}"), number.to_string())).collect();
    assert!((0..40).all(|number| many.get(&format!("k{number:02}")) == Some(&number.to_string())));
    assert_eq!(many.get("k"), None);
    let json = serde_json::to_string(&labels).expect("JSON");
    assert_eq!(json, r#"{"a":"2","b":"3"}"#);
    assert_eq!(serde_json::from_str::<Labels>(&json).expect("labels"), labels);
}

/// Contract: INF-10
#[test]
fn what_recurs_is_held_once_and_what_is_gone_is_dropped() {
    let mut interner = Interner::new();
    let json = |name: &str, owner: u32| {
        let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("rs-{owner}"), "uid": format!("uid-{owner}"), "controller": true }]);
        let labels = json!({ "b": "2", "a": "1" });
        let metadata = json!({ "namespace": "ns", "name": name, "labels": labels, "ownerReferences": owner });
        json!({ "metadata": metadata, "spec": { "nodeName": "node" } }).to_string()
    };
    let one = Pod::decode(json("one", 1).as_bytes(), &mut interner).expect("a pod");
    let two = Pod::decode(json("two", 1).as_bytes(), &mut interner).expect("a pod");
    assert!(one.meta.labels.same(&two.meta.labels));
    assert!(std::sync::Arc::ptr_eq(&one.meta.namespace, &two.meta.namespace));
    let controllers = (one.meta.controller.as_ref().expect("one"), two.meta.controller.as_ref().expect("one"));
    assert!(std::sync::Arc::ptr_eq(controllers.0, controllers.1));
    let unsorted = br#"{"metadata":{"labels":{"b":"2","a":"1"}}}"#;
    let unsorted = Pod::decode(unsorted, &mut interner).expect("a pod");
    assert!(unsorted.meta.labels.same(&one.meta.labels), "in whatever order they are written");
    for owner in 0..5_000 {
        Pod::decode(json("churn", owner).as_bytes(), &mut interner).expect("a pod");
    }
    assert!(interner.len() < 2_200, "{} values are held for three pods", interner.len());
    drop((one, two, unsorted));
    interner.sweep();
    assert!(interner.is_empty());
}

fn involved(namespace: &str, name: &str) -> ObjectReference {
    let meta = Meta {
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::new("3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11"),
        resource_version: ResourceVersion(42),
        ..Meta::default()
    };
    ObjectReference::to("apps/v1", "ReplicaSet", &meta)
}

/// Contract: EV-01
#[test]
fn an_event_has_every_field_that_upstreams_has() {
    let now = Timestamp::parse("2026-01-02T15:04:05.5Z").expect("a time");
    let event = Event::new(
        involved("shop", "web"),
        "replicaset-controller",
        EventType::Normal,
        "SuccessfulCreate",
        "Created pod: web-x",
        now,
    );
    let expected = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": { "name": format!("web.{:x}", 1_767_366_245_500_000_000_u64), "namespace": "shop" },
        "involvedObject": {
            "kind": "ReplicaSet", "namespace": "shop", "name": "web", "apiVersion": "apps/v1",
            "uid": "3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11", "resourceVersion": "42",
        },
        "reason": "SuccessfulCreate", "message": "Created pod: web-x",
        "source": { "component": "replicaset-controller" },
        "firstTimestamp": "2026-01-02T15:04:05Z", "lastTimestamp": "2026-01-02T15:04:05Z", "count": 1,
        "type": "Normal", "eventTime": null,
        "reportingComponent": "replicaset-controller", "reportingInstance": "",
    });
    assert_eq!(serde_json::from_slice::<Value>(&event.to_json()).expect("JSON"), expected);
    let again: Event = serde_json::from_value(expected).expect("an event");
    assert_eq!(again.metadata, event.metadata);
    assert_eq!(event.key(), ObjectKey::new("shop", event.metadata.name.as_str()));
}

/// Contract: EV-01
#[test]
fn an_event_about_what_has_no_namespace_is_in_default_and_a_long_name_gives_way() {
    let now = Timestamp::from_nanos(0x18_86f0_1234_5678);
    let event = Event::new(involved("", "node-1"), "c", EventType::Warning, "R", "m", now);
    assert_eq!((event.metadata.namespace.as_str(), event.metadata.name.as_str()), ("default", "node-1.1886f012345678"));
    let long = involved("ns", &"a".repeat(250));
    assert_eq!(event_name(&long, now), "3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11.1886f012345678");
}

#[test]
fn a_lease_keeps_what_it_does_not_know() {
    let json = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "l", "namespace": "kube-system", "uid": "u", "labels": { "a": "b" } },
        "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T15:04:05.000001Z",
            "acquireTime": "2026-01-02T15:04:05.000000Z", "leaseTransitions": 2, "strategy": "OldestEmulationVersion",
        },
    });
    let lease: Lease = serde_json::from_value(json.clone()).expect("a lease");
    assert_eq!(lease.spec.renew_time.map(|time| time.0.as_nanos()), Some(1_767_366_245_000_001_000));
    assert_eq!(serde_json::to_value(&lease).expect("JSON"), json);
    // Who wrote which field the server keeps where an update does not say.
    let mut managed = json.clone();
    managed["metadata"]["managedFields"] = json!([{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }]);
    for read in [serde_json::from_value::<Lease>(managed.clone()), from_slice(managed.to_string().as_bytes())] {
        assert_eq!(read.expect("a lease"), lease);
    }
    let fresh = serde_json::to_value(Lease::new("ns", "l")).expect("JSON");
    assert_eq!(fresh["metadata"], json!({ "namespace": "ns", "name": "l" }));
}

#[test]
fn percentages_survive_serde() {
    for (json, value) in [
        ("3", IntOrPercent::Int(3)),
        ("\"25%\"", IntOrPercent::Percent(25)),
        ("\"x\"", IntOrPercent::Other("x".into())),
    ] {
        assert_eq!(serde_json::from_str::<IntOrPercent>(json).expect(json), value);
        assert_eq!(serde_json::to_string(&value).expect("JSON"), json);
    }
    assert!(serde_json::from_str::<IntOrPercent>("2147483648").is_err());
    let refused = |text: &str| IntOrPercent::from(text).scaled(1, true).unwrap_err().to_string();
    let said = "invalid value for IntOrString: invalid value \"9223372036854775808%\": strconv.Atoi: parsing ";
    assert_eq!(refused("9223372036854775808%"), format!("{said}\"9223372036854775808\": value out of range"));
    assert!(refused("%").ends_with("parsing \"\": invalid syntax"));
}

/// Contract: INF-03
#[test]
fn a_line_of_a_watch_is_taken_apart_in_any_spelling() {
    use WatchEventType::{Added, Bookmark, Deleted, Error, Modified};
    let cases: [(&str, WatchEventType, &str); 7] = [
        (r#"{"type":"ADDED","object":{"a":{"b":"}"}}}"#, Added, r#"{"a":{"b":"}"}}"#),
        ("{\"type\":\"MODIFIED\",\"object\":{}}\n", Modified, "{}"),
        (r#"{"type":"DELETED","object":{}}"#, Deleted, "{}"),
        (r#"{"type":"BOOKMARK","object":{}}"#, Bookmark, "{}"),
        (r#"{"type":"ERROR","object":{}}"#, Error, "{}"),
        (r#"{ "object" : {"x":1} , "type" : "ADDED" }"#, Added, r#"{"x":1}"#),
        (r#"{"type":"ADDED","object":{},"new":1}"#, Added, "{}"),
    ];
    for (line, kind, object) in cases {
        let event = WatchEvent::decode(line.as_bytes()).expect(line);
        // The quick way leaves what stands behind the object to the object's own decoder.
        if line.contains("new") {
            assert!(Pod::decode(event.object, &mut Interner::new()).is_err() || event.object == object.as_bytes());
            continue;
        }
        assert_eq!((event.kind, std::str::from_utf8(event.object)), (kind, Ok(object)), "{line}");
    }
    for line in
        ["", "{}", "null", r#"{"type":"ADDED"}"#, r#"{"type":"LOST","object":{}}"#, r#"{"type":"ADDED","object":"#]
    {
        assert!(WatchEvent::decode(line.as_bytes()).is_err(), "{line}");
    }
}

/// Contract: INF-01, INF-09
#[test]
fn bookmarks_and_pages_say_how_far_they_go() {
    let plain = Bookmark::decode(br#"{"kind":"Pod","metadata":{"resourceVersion":"12","creationTimestamp":null}}"#)
        .expect("a bookmark");
    assert_eq!(plain, Bookmark { resource_version: ResourceVersion(12), initial_events_end: false });
    let end = br#"{"metadata":{"resourceVersion":"13","annotations":{"k8s.io/initial-events-end":"true","x":"y"}}}"#;
    assert!(Bookmark::decode(end).expect("a bookmark").initial_events_end);
    assert!(Bookmark::decode(br#"{"metadata":{}}"#).is_err());

    let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"t\"o","remainingItemCount":3},"items":[{"metadata":{"name":"a"}}, {"metadata":{"name":"b"}}]}"#;
    let page = ListPage::decode(body).expect("a page");
    assert_eq!(
        (page.resource_version, page.continue_token.as_deref(), page.remaining_item_count),
        (ResourceVersion(9), Some("t\"o"), Some(3))
    );
    let mut interner = Interner::new();
    let names: Vec<_> =
        page.items.iter().map(|item| Pod::decode(item, &mut interner).expect("a pod").meta.name).collect();
    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    let empty = ListPage::decode(br#"{"metadata":{"resourceVersion":"9"},"items":null}"#).expect("a page");
    assert!(empty.items.is_empty() && empty.continue_token.is_none());
    assert!(ListPage::decode(b"[]").is_err());
}

proptest! {
    #[test]
    fn times_survive_a_round_trip(seconds in -9_223_372_036_i64..9_223_372_036) {
        let time = Timestamp::from_seconds(seconds);
        prop_assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
        let micro = time.plus_nanos(123_456_000);
        prop_assert_eq!(Timestamp::parse(&micro.micro().to_string()), Ok(micro));
    }

    #[test]
    fn no_text_makes_the_parser_of_times_panic(text in "[0-9TZ:.+-]{0,40}|\\PC{0,25}") {
        let _ = Timestamp::parse(&text);
    }

    /// Equal and ordered as their texts are, whatever form they are held in.
    ///
    /// Contract: DEL-04
    #[test]
    fn uids_are_ordered_as_their_texts(
        a in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-fA-F-]{36}|[ -~]{0,40}",
        b in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-fA-F-]{36}|[ -~]{0,40}",
    ) {
        let (uid_a, uid_b) = (Uid::new(&a), Uid::new(&b));
        prop_assert_eq!(uid_a.to_string(), a.clone());
        prop_assert_eq!(uid_a.cmp(&uid_b), a.cmp(&b));
        prop_assert_eq!(uid_a == uid_b, a == b);
    }
}
