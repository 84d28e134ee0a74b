//! The slim pod: what is read, what is skipped, and what the controllers ask of it.

use std::time::Duration;

use muster_objects::pod::{POD_DELETION_COST, parse_deletion_cost};
use muster_objects::{
    ConditionStatus, Interner, Labels, Object, Pod, PodPhase, Readiness, ResourceVersion, Restarts, Timestamp, Uid,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(json: &Value) -> Pod {
    Pod::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("a pod")
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

/// A ready pod; its condition changed at 15:04:10.
fn ready() -> Value {
    json!({ "status": { "phase": "Running", "conditions": [
        { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T15:04:00Z" },
        { "type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T15:04:10Z" },
    ]}})
}

/// Exactly the fields that the controllers read, out of all that a server sends.
///
/// Contract: INF-10, DEL-01
#[test]
fn a_whole_pod() {
    let json = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "web-x2v8k", "namespace": "shop", "uid": "3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11",
            "resourceVersion": "1843", "generation": 3, "creationTimestamp": "2026-01-02T15:04:05Z",
            "deletionTimestamp": "2026-01-02T16:00:00Z", "deletionGracePeriodSeconds": 30,
            "labels": { "z": "26", "app": "web" },
            "annotations": { "x": "y", POD_DELETION_COST: "-12", "{\"}": "\\" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1" },
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "d", "uid": "u2", "controller": false },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u3", "controller": true,
                  "blockOwnerDeletion": true },
            ],
            "managedFields": [{ "manager": "k", "fieldsV1": { "f:metadata": { "k:{\"uid\":\"u3\"}": {} } } }],
        },
        "spec": {
            "nodeName": "node-1",
            "initContainers": [
                { "name": "sidecar", "restartPolicy": "Always" },
                { "name": "setup", "image": "i" },
            ],
            "containers": [{ "name": "a", "env": [{ "name": "nodeName", "value": "}{" }] }],
            "aFieldOfTomorrow": { "nodeName": "not this one", "deep": [[[{}]], 1.5e300, true] },
        },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-02T15:04:08Z" },
                { "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T15:04:09Z", "reason": "R" },
            ],
            "containerStatuses": [
                { "name": "a", "restartCount": 2, "state": { "running": {} } },
                { "name": "b", "restartCount": 7 },
            ],
            "initContainerStatuses": [
                { "name": "setup", "restartCount": 90 },
                { "name": "sidecar", "restartCount": 4 },
            ],
        },
    });
    let pod = decode(&json);
    assert_eq!((&*pod.meta.namespace, &*pod.meta.name), ("shop", "web-x2v8k"));
    assert_eq!(pod.meta.key().to_string(), "shop/web-x2v8k");
    assert_eq!(pod.meta.uid, Uid::new("3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11"));
    assert_eq!((pod.meta.resource_version, pod.meta.generation), (ResourceVersion(1843), 3));
    assert_eq!(pod.meta.creation_timestamp, Some(time("2026-01-02T15:04:05Z")));
    assert_eq!(pod.meta.deletion_timestamp, Some(time("2026-01-02T16:00:00Z")));
    assert_eq!(pod.meta.labels, [("app", "web"), ("z", "26")].into_iter().collect::<Labels>());
    let controller = pod.meta.controller.as_deref().expect("a controller");
    assert_eq!((&*controller.api_version, &*controller.kind, &*controller.name), ("apps/v1", "ReplicaSet", "web"));
    assert_eq!(controller.uid.to_string(), "u3");
    assert_eq!((pod.node_name.as_deref(), pod.phase, pod.deletion_cost), (Some("node-1"), PodPhase::Running, -12));
    let transition = Some(time("2026-01-02T15:04:09Z"));
    assert_eq!(pod.ready, Some(Readiness { status: ConditionStatus::False, last_transition_time: transition }));
    assert_eq!(pod.restarts, Restarts { regular: 7, sidecar: 4 }, "an init container that ends is no sidecar");
}

/// Absent, null and empty are the same, as they are for Go; and so is a pod with its parts in any order.
#[test]
fn nothing_is_something_too() {
    let empty = decode(&json!({}));
    let nulls = json!({
        "metadata": {
            "name": null, "labels": null, "annotations": null, "ownerReferences": null, "creationTimestamp": null,
            "deletionTimestamp": null, "generation": null, "resourceVersion": "", "uid": null,
        },
        "spec": { "nodeName": "", "initContainers": null },
        "status": { "phase": null, "conditions": null, "containerStatuses": [], "startTime": null },
    });
    assert_eq!(decode(&nulls), empty);
    assert_eq!(decode(&json!({ "metadata": null, "spec": null, "status": null })), empty);
    let labels = json!({ "metadata": { "labels": {}, "annotations": { "a": null } } });
    assert_eq!(decode(&labels), empty);
    assert_eq!((empty.phase.ordinal(), empty.node_name), (0, None));
    let zero = decode(&json!({ "metadata": { "creationTimestamp": "0001-01-01T00:00:00Z" } }));
    assert_eq!(zero.meta.creation_timestamp, None, "Go's zero time");
    let reversed =
        br#"{"status":{"conditions":[{"status":"True","type":"Ready"}],"phase":"Failed"},"metadata":{"name":"a"}}"#;
    let reversed = Pod::decode(reversed, &mut Interner::new()).expect("a pod");
    assert_eq!((&*reversed.meta.name, reversed.phase, reversed.is_ready()), ("a", PodPhase::Failed, true));
}

#[test]
fn what_is_no_pod_is_an_error_that_says_where() {
    let bodies = [
        "",
        "[]",
        "{",
        "{}x",
        r#"{"metadata":{"name":7}}"#,
        r#"{"metadata":{"resourceVersion":"abc"}}"#,
        r#"{"metadata":{"resourceVersion":"007"}}"#,
        r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
        r#"{"metadata":{"labels":["a"]}}"#,
        r#"{"status":{"containerStatuses":[{"restartCount":"1"}]}}"#,
        r#"{"status":{"containerStatuses":[{"restartCount":99999999999}]}}"#,
    ];
    for body in bodies {
        let error = Pod::decode(body.as_bytes(), &mut Interner::new()).expect_err(body).to_string();
        assert!(error.starts_with("cannot decode Pod: ") && error.contains(" at line 1 column "), "{body}: {error}");
    }
}

/// Contract: DEL-02
#[test]
fn deletion_cost_is_a_strict_int32() {
    let cases = [
        ("0", 0),
        ("10", 10),
        ("-10", -10),
        ("2147483647", i32::MAX),
        ("-2147483648", i32::MIN),
        ("2147483648", 0),
        ("-2147483649", 0),
        ("+10", 0),
        ("007", 0),
        ("00", 0),
        ("-0", 0),
        // Upstream only looks at the first digit of a negative number's sign, and so does this.
        ("-007", -7),
        ("", 0),
        (" 1", 0),
        ("1 ", 0),
        ("1.0", 0),
        ("1e3", 0),
        ("0x1", 0),
        ("-", 0),
        ("--1", 0),
        ("ten", 0),
    ];
    for (text, cost) in cases {
        assert_eq!(parse_deletion_cost(text), cost, "{text:?}");
        let pod = decode(&json!({ "metadata": { "annotations": { POD_DELETION_COST: text } } }));
        assert_eq!(pod.deletion_cost, cost, "{text:?}");
    }
    assert_eq!(decode(&json!({ "metadata": { "annotations": { "other": "5" } } })).deletion_cost, 0);
}

/// Contract: RS-05, RS-15
#[test]
fn active_and_terminating() {
    let pod = |phase: &str, deleted: bool| {
        let deletion = deleted.then_some("2026-01-02T15:04:05Z");
        decode(&json!({ "metadata": { "deletionTimestamp": deletion }, "status": { "phase": phase } }))
    };
    for (phase, ends) in
        [("Pending", false), ("Running", false), ("Unknown", false), ("", false), ("Succeeded", true), ("Failed", true)]
    {
        assert_eq!((pod(phase, false).is_active(), pod(phase, false).is_terminating()), (!ends, false), "{phase}");
        assert_eq!((pod(phase, true).is_active(), pod(phase, true).is_terminating()), (false, !ends), "{phase}");
    }
}

/// Contract: DEL-01
#[test]
fn phases_in_the_order_of_deletion() {
    let ordinal = |phase: &str| decode(&json!({ "status": { "phase": phase } })).phase.ordinal();
    assert!(ordinal("Pending") < ordinal("Unknown") && ordinal("Unknown") < ordinal("Running"));
    assert_eq!([ordinal("Failed"), ordinal("Succeeded"), ordinal("Dreaming")], [0; 3]);
}

/// The cases of upstream's `TestIsPodAvailable`, and the moments around the change.
///
/// Contract: RS-15, RS-18
#[test]
fn availability_by_the_conditions_time() {
    let at = |seconds| time("2026-01-02T15:04:10Z") + Duration::from_secs(seconds);
    let pod = decode(&ready());
    let cases = [
        (0, at(0), true, None),
        (5, at(0), false, Some(5)),
        (5, at(4), false, Some(1)),
        (5, at(5), true, None),
        (5, at(60), true, None),
    ];
    for (min_ready_seconds, now, available, check) in cases {
        assert_eq!(pod.is_available(min_ready_seconds, now), available, "{min_ready_seconds} s at {now}");
        let check = check.map(Duration::from_secs);
        assert_eq!(pod.next_availability_check(min_ready_seconds, now), check, "{min_ready_seconds} s at {now}");
    }
    // A node whose clock is ahead.
    assert!(pod.is_available(0, time("2026-01-02T15:00:00Z")));
    assert!(!pod.is_available(1, time("2026-01-02T15:00:00Z")));

    let mut unready = ready();
    unready["status"]["conditions"][1]["status"] = json!("False");
    let unready = decode(&unready);
    assert!(!unready.is_available(0, at(100)) && unready.next_availability_check(5, at(0)).is_none());

    let mut timeless = ready();
    timeless["status"]["conditions"][1]["lastTransitionTime"] = json!(null);
    let timeless = decode(&timeless);
    assert!(timeless.is_available(0, at(0)), "at once where nothing is to be waited for");
    assert!(!timeless.is_available(1, at(1_000_000)), "a zero time never turns available");
    assert_eq!(timeless.next_availability_check(1, at(0)), None);
    assert!(pod.is_available(i32::MAX, at(u64::from(i32::MAX.unsigned_abs()))));
}

/// Contract: B-08
#[test]
fn how_long_a_finished_pod_lived() {
    let pod = |status: Value| {
        decode(&json!({ "metadata": { "creationTimestamp": "2026-01-02T15:04:05Z" }, "status": status }))
    };
    let finished = |time: &str| json!({ "state": { "terminated": { "exitCode": 1, "finishedAt": time } } });
    let (eight, nine) = ("2026-01-02T15:04:08Z", "2026-01-02T15:04:09Z");
    let conditions = json!([{ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T15:04:30Z" }]);
    let cases = [
        // The last container's end, before anything else.
        (
            json!({ "phase": "Failed", "containerStatuses": [finished(nine), finished(eight)], "conditions": conditions }),
            Some(4),
        ),
        (json!({ "phase": "Succeeded", "containerStatuses": [finished(eight)] }), Some(3)),
        // Nothing of containers: evicted, or refused by its node.
        (json!({ "phase": "Failed", "startTime": eight, "conditions": conditions }), Some(25)),
        (json!({ "phase": "Failed", "reason": "OutOfcpu", "startTime": "2026-01-02T15:04:06Z" }), Some(1)),
        (json!({ "phase": "Failed", "reason": "Evicted" }), None),
        // A clock that is behind.
        (json!({ "phase": "Failed", "startTime": "2026-01-02T15:04:00Z" }), Some(0)),
        // Not at its end.
        (json!({ "phase": "Running", "containerStatuses": [finished(eight)], "startTime": eight }), None),
    ];
    for (status, seconds) in cases {
        assert_eq!(pod(status.clone()).lifetime(), seconds.map(Duration::from_secs), "{status}");
    }
}

proptest! {
    /// Contract: DEL-02
    #[test]
    fn every_int32_is_a_deletion_cost(cost in any::<i32>()) {
        prop_assert_eq!(parse_deletion_cost(&cost.to_string()), cost);
    }

    /// A pod turns available exactly when the wait that it announces has passed.
    ///
    /// Contract: RS-18
    #[test]
    fn the_announced_wait_is_the_wait(min_ready_seconds in 0_i32..1_000, waited in 0_u64..1_000_000_000_000) {
        let pod = decode(&ready());
        let now = time("2026-01-02T15:04:10Z") + Duration::from_nanos(waited);
        match pod.next_availability_check(min_ready_seconds, now) {
            Some(wait) => {
                prop_assert!(!pod.is_available(min_ready_seconds, now));
                prop_assert!(!pod.is_available(min_ready_seconds, now + wait - Duration::from_nanos(1)));
                prop_assert!(pod.is_available(min_ready_seconds, now + wait));
            }
            None => prop_assert!(pod.is_available(min_ready_seconds, now)),
        }
    }
}
