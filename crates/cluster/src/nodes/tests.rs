use std::sync::Arc;

use muster_objects::{ResourceVersion, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, node, pod, uid};

const WALL: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn bound(n: u32, name: &str, tolerations: &Value) -> Arc<crate::pod::Pod> {
    pod(n, &json!({"spec": {"nodeName": name, "tolerations": tolerations}}))
}

fn tainted(keys: &[&str]) -> Value {
    let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
    json!({"spec": {"taints": taints}})
}

fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    json!([toleration])
}

/// Contract: SIM-06
#[test]
fn a_taint_evicts_at_once_in_time_or_never_as_the_pod_bears_it() {
    let mut evictor = Evictor::new();
    evictor.node_changed(at(0), &node("a", &json!({})));
    evictor.pod_changed(at(0), &bound(1, "a", &json!([])));
    evictor.pod_changed(at(0), &bound(2, "a", &tolerates("k", Some(30))));
    evictor.pod_changed(at(0), &bound(3, "a", &tolerates("k", None)));
    evictor.pod_changed(at(0), &bound(4, "b", &json!([])));
    assert_eq!(evictor.next(at(0)), None);
    evictor.node_changed(at(1000), &node("a", &tainted(&["k"])));
    let first = evictor.next(at(1000)).expect("one goes at once");
    assert_eq!((first.uid, first.cause), (uid(1), Cause::Taint));
    assert_eq!(evictor.next(at(1000)), None);
    assert_eq!(evictor.wake(), Some(at(31_000)));
    assert_eq!(evictor.next(at(30_999)), None);
    assert_eq!(evictor.next(at(31_000)).map(|eviction| eviction.uid), Some(uid(2)));
}

/// Contract: SIM-06
#[test]
fn a_taint_that_is_taken_back_calls_evictions_off_and_another_does_not_start_the_time_anew() {
    let mut evictor = Evictor::new();
    evictor.node_changed(at(0), &node("a", &tainted(&["k"])));
    evictor.pod_changed(at(0), &bound(1, "a", &tolerates("", Some(30))));
    evictor.node_changed(at(20_000), &node("a", &tainted(&["k", "l"])));
    assert_eq!(evictor.wake(), Some(at(30_000)));
    evictor.node_changed(at(25_000), &node("a", &json!({})));
    assert_eq!(evictor.next(at(60_000)), None);
    evictor.node_changed(at(60_000), &node("a", &tainted(&["k"])));
    assert_eq!(evictor.wake(), Some(at(90_000)));
    evictor.pod_deleted(&bound(1, "a", &json!([])));
    assert_eq!(evictor.wake(), None);
}

/// Contract: SIM-06
#[test]
fn pods_of_a_missing_node_are_collected_after_the_quarantine() {
    let mut evictor = Evictor::new();
    evictor.node_changed(at(0), &node("a", &json!({})));
    evictor.pod_changed(at(0), &bound(1, "a", &json!([])));
    let over = pod(2, &json!({"spec": {"nodeName": "a"}, "status": {"phase": "Failed"}}));
    evictor.pod_changed(at(0), &over);
    evictor.node_deleted(at(1000), &"a".into());
    assert_eq!(evictor.next(at(40_999)), None);
    let gone: Vec<_> = std::iter::from_fn(|| evictor.next(at(41_000))).map(|e| (e.uid, e.cause, e.terminal)).collect();
    assert_eq!(gone, [(uid(1), Cause::NodeGone, false), (uid(2), Cause::NodeGone, true)]);
    // One that comes back in time keeps its pods.
    let mut evictor = Evictor::new();
    evictor.pod_changed(at(0), &bound(1, "a", &json!([])));
    evictor.node_changed(at(39_000), &node("a", &json!({})));
    assert_eq!((evictor.next(at(99_000)), evictor.wake()), (None, None));
}

/// Contract: SIM-06
#[test]
fn an_out_of_service_node_lets_terminating_pods_go() {
    let mut evictor = Evictor::new();
    let down = json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    });
    let going = json!({"spec": {"nodeName": "a"}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    evictor
        .node_changed(at(0), &node("a", &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})));
    evictor.pod_changed(at(0), &pod(1, &going));
    evictor.pod_changed(at(0), &bound(2, "a", &json!([])));
    assert_eq!(evictor.next(at(0)), None);
    evictor.node_changed(at(0), &node("a", &down));
    assert_eq!(evictor.next(at(0)).map(|e| (e.uid, e.cause)), Some((uid(1), Cause::OutOfService)));
    assert_eq!(evictor.next(at(0)), None);
}

/// Contract: SIM-06
#[test]
fn silence_is_borne_for_its_grace_and_a_lease_is_a_sign_of_life() {
    let mut health = Health::new();
    let name: Arc<str> = "a".into();
    assert_eq!(health.node_changed(at(0), WALL, &node("a", &json!({}))), []);
    for renewal in 1..=10 {
        health.lease_changed(at(renewal * 10_000), &name, ResourceVersion(renewal));
        assert_eq!(health.check(at(renewal * 10_000)), []);
    }
    // The same version again is an echo, not a sign.
    health.lease_changed(at(130_000), &name, ResourceVersion(10));
    assert_eq!(health.check(at(150_000)), []);
    assert_eq!(health.check(at(150_001)), [Remedy::Lost { node: Arc::clone(&name), never: false }]);
    assert_eq!(health.check(at(155_001)), [], "once, until it could have been seen");
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}, "metadata": {"resourceVersion": "7"}});
    let remedies = health.node_changed(at(156_000), WALL, &node("a", &lost));
    assert_eq!(remedies[0], Remedy::PodsNotReady { node: Arc::clone(&name) });
    let Remedy::Taint { patch, .. } = &remedies[1] else { panic!("{remedies:?}") };
    let patch: Value = serde_json::from_slice(patch).expect("JSON");
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let effects: Vec<_> =
        patch["spec"]["taints"].as_array().expect("taints").iter().map(|t| (&t["key"], &t["effect"])).collect();
    let key = &json!("node.kubernetes.io/unreachable");
    assert_eq!(effects, [(key, &json!("NoSchedule")), (key, &json!("NoExecute"))]);
    assert_eq!(health.check(at(900_000)), [], "what is known to be lost is not lost again");
    // A node that never posted anything has a minute.
    health.node_changed(at(900_000), WALL, &node("b", &json!({"status": {"conditions": []}})));
    assert_eq!(health.check(at(960_000)), []);
    assert_eq!(health.check(at(960_001)), [Remedy::Lost { node: "b".into(), never: true }]);
}

/// Contract: SIM-06
#[test]
fn taints_follow_condition_and_cordon_and_leave_those_of_others() {
    let mine = json!({"key": "mine", "value": "1", "effect": "NoSchedule"});
    let ours = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect});
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (name, change, want) in [
        ("healthy", json!({"spec": {"taints": [mine]}}), None),
        ("cordoned", json!({"spec": {"unschedulable": true, "taints": [mine]}}), Some(vec!["mine", "unschedulable"])),
        ("uncordoned", json!({"spec": {"taints": [ours("unschedulable", "NoSchedule"), mine]}}), Some(vec!["mine"])),
        ("not ready", json!({"status": {"conditions": ready("False")}}), Some(vec!["not-ready", "not-ready"])),
        (
            "ready again",
            json!({"spec": {"taints": [ours("not-ready", "NoSchedule"), ours("unreachable", "NoExecute")]}}),
            Some(vec![]),
        ),
        (
            "from not ready to unreachable",
            json!({"spec": {"taints": [ours("not-ready", "NoExecute")]}, "status": {"conditions": ready("Unknown")}}),
            Some(vec!["unreachable", "unreachable"]),
        ),
    ] {
        let mut health = Health::new();
        let remedies = health.node_changed(at(0), WALL, &node("a", &change));
        let keys = remedies.iter().find_map(|remedy| match remedy {
            Remedy::Taint { patch, .. } => {
                let patch: Value = serde_json::from_slice(patch).expect("JSON");
                let taints = patch["spec"]["taints"].as_array().expect("taints").clone();
                Some(
                    taints
                        .iter()
                        .map(|t| t["key"].as_str().expect("a key").replace("node.kubernetes.io/", ""))
                        .collect::<Vec<_>>(),
                )
            }
            _ => None,
        });
        assert_eq!(keys, want.map(|keys| keys.into_iter().map(str::to_owned).collect()), "{name}");
        assert_eq!(health.node_changed(at(0), WALL, &node("a", &change)), [], "{name}: asked for once");
    }
}
