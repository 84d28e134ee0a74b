use std::time::Duration;

use muster_objects::{Timestamp, Uid};
use serde_json::{Value, json};

use super::decide::Note;
use super::*;
use crate::testing::{decode_pod, merge, pod_json, slim, uid, uid_text};

const NOW: &str = "2026-01-01T00:10:00Z";

fn now() -> Timestamp {
    Timestamp::parse(NOW).expect("a time")
}

fn budget(spec: &Value, status: &Value) -> Slim<Budget> {
    slim(&json!({
        "metadata": {
            "name": "budget", "namespace": "ns", "uid": uid_text(900), "resourceVersion": "5", "generation": 3,
        },
        "spec": spec,
        "status": status,
    }))
}

/// The pod `p<n>`, ready and controlled by the ReplicaSet of that number.
fn pod(n: u32, owner: u32, change: &Value) -> Arc<Pod> {
    let mut pod = pod_json(
        n,
        &json!({
            "metadata": {"labels": {"app": "web"}, "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid_text(owner), "controller": true,
            }]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    merge(&mut pod, change);
    decode_pod(&pod)
}

fn pods(count: u32) -> Vec<Arc<Pod>> {
    (1..=count).map(|n| pod(n, 100, &json!({}))).collect()
}

fn unready(n: u32) -> Arc<Pod> {
    pod(n, 100, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
}

fn scales(of: &[(u32, u32, i32)]) -> Result<Scales, String> {
    let mut scales = Scales::default();
    for (controller, owner, replicas) in of {
        scales.insert(uid(*controller), Scale { owner: uid(*owner), replicas: *replicas });
    }
    Ok(scales)
}

/// Healthy, desired, expected, allowed.
fn counts(status: &Value) -> [i64; 4] {
    ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
        .map(|field| status["status"][field].as_i64().expect("a number"))
}

/// Contract: API-27
#[test]
fn what_is_allowed_follows_from_what_is_healthy_and_desired() {
    let going = pod(3, 100, &json!({"metadata": {"deletionTimestamp": NOW}}));
    let two_and_one = vec![pod(1, 100, &json!({})), pod(2, 100, &json!({})), unready(3)];
    for (name, spec, pods, scale, expected) in [
        ("no pod", json!({"minAvailable": 1}), vec![], vec![], [0, 1, 0, 0]),
        ("one more than needed", json!({"minAvailable": 2}), pods(3), vec![], [3, 2, 3, 1]),
        ("as many as needed", json!({"minAvailable": 3}), pods(3), vec![], [3, 3, 3, 0]),
        ("too few", json!({"minAvailable": 5}), pods(3), vec![], [3, 5, 3, 0]),
        ("one is not ready", json!({"minAvailable": 1}), two_and_one.clone(), vec![], [2, 1, 3, 1]),
        ("one is going", json!({"minAvailable": 1}), vec![pod(1, 100, &json!({})), going], vec![], [1, 1, 2, 0]),
        ("a share, rounded up", json!({"minAvailable": "28%"}), pods(10), vec![(100, 100, 10)], [10, 3, 10, 7]),
        ("a share of what should be", json!({"minAvailable": "50%"}), pods(3), vec![(100, 100, 10)], [3, 5, 10, 0]),
        ("so many may be missing", json!({"maxUnavailable": 1}), pods(3), vec![(100, 100, 3)], [3, 2, 3, 1]),
        ("more than there are", json!({"maxUnavailable": 9}), pods(3), vec![(100, 100, 3)], [3, 0, 3, 3]),
        ("a share may be missing", json!({"maxUnavailable": "30%"}), two_and_one, vec![(100, 100, 3)], [2, 2, 3, 0]),
        (
            "several under one scale",
            json!({"maxUnavailable": 1}),
            vec![pod(1, 100, &json!({})), pod(2, 101, &json!({}))],
            vec![(100, 200, 2), (101, 200, 2)],
            [2, 1, 2, 1],
        ),
        ("neither", json!({}), pods(2), vec![], [2, 0, 0, 0]),
    ] {
        let budget = budget(&merged(&spec), &json!({}));
        let decision = decide(&budget, &pods, scales(&scale), now());
        let status = decision.status.expect("it is new");
        assert_eq!(counts(&status), expected, "{name}");
        assert_eq!(status["status"]["observedGeneration"], 3, "{name}");
        let (value, reason) = if expected[3] > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        assert_eq!(
            status["status"]["conditions"],
            json!([{
                "type": "DisruptionAllowed", "status": value, "observedGeneration": 3, "lastTransitionTime": NOW,
                "reason": reason, "message": "",
            }]),
            "{name}"
        );
    }
}

fn merged(spec: &Value) -> Value {
    let mut with = json!({"selector": {"matchLabels": {"app": "web"}}});
    merge(&mut with, spec);
    with
}

/// What a patch makes of a status.
fn written(patch: &Value) -> Value {
    let mut status = json!({});
    merge(&mut status, &patch["status"]);
    status
}

/// Contract: API-27
#[test]
fn a_status_that_is_right_is_not_written() {
    let spec = merged(&json!({"minAvailable": 2}));
    let first = decide(&budget(&spec, &json!({})), &pods(3), scales(&[]), now()).status.expect("it is new");
    let later = now() + Duration::from_secs(60);
    let right = budget(&spec, &written(&first));
    assert_eq!(decide(&right, &pods(3), scales(&[]), later).status, None);
    // Another count keeps the condition, and the time at which that changed.
    let patch = decide(&right, &pods(4), scales(&[]), later).status.expect("it changed");
    assert_eq!(patch["metadata"], json!({"uid": uid_text(900), "resourceVersion": "5"}));
    assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], NOW);
    let patch = decide(&right, &pods(2), scales(&[]), later).status.expect("it changed");
    assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:11:00Z");
    let old = budget(&spec, &{
        let mut status = written(&first);
        status["observedGeneration"] = json!(2);
        status
    });
    assert!(decide(&old, &pods(3), scales(&[]), later).status.is_some(), "another generation is observed");
}

/// Contract: API-27
#[test]
fn a_granted_eviction_counts_until_it_is_given_up() {
    let spec = merged(&json!({"minAvailable": 1}));
    let going = pod(3, 100, &json!({"metadata": {"deletionTimestamp": NOW}}));
    let disrupted = json!({"disruptedPods": {
        "p1": "2026-01-01T00:09:00Z", "p2": "2026-01-01T00:07:59Z", "p3": "2026-01-01T00:09:59Z", "gone": NOW,
    }});
    let mut all = pods(2);
    all.extend([going, pod(4, 100, &json!({}))]);
    let decision = decide(&budget(&spec, &disrupted), &all, scales(&[]), now());
    let status = decision.status.expect("it changed");
    assert_eq!(counts(&status), [2, 1, 4, 1], "p2 and p4 are healthy");
    assert_eq!(
        status["status"]["disruptedPods"],
        json!({"p1": "2026-01-01T00:09:00Z", "p2": null, "p3": null, "gone": null})
    );
    let told: Vec<(&str, &str)> = decision
        .tell
        .iter()
        .map(|(about, note)| (about.as_ref().map_or("", |meta| &*meta.name), note.reason))
        .collect();
    assert_eq!(told, [("p2", "NotDeleted")]);
    // It is looked at again when the other is given up.
    let again = decision.again.expect("there is one left");
    assert!((60..61).contains(&again.as_secs()), "{again:?}");
    let later = decide(&budget(&spec, &disrupted), &pods(1), scales(&[]), now() + again);
    assert_eq!((later.again, later.tell.len()), (None, 1));
}

/// Contract: API-27
#[test]
fn what_cannot_be_told_allows_nothing() {
    let spec = merged(&json!({"maxUnavailable": 1}));
    let allowing = json!({"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    let error = "jobs.batch does not implement the scale subresource";
    let decision = decide(&budget(&spec, &allowing), &pods(3), Err(error.to_owned()), now());
    let status = decision.status.expect("it changed");
    assert_eq!(counts(&status), [3, 2, 3, 0]);
    let condition = &status["status"]["conditions"][0];
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("SyncFailed"), &json!(error)));
    let told: Vec<&Note> = decision.tell.iter().map(|(_, note)| note).collect();
    assert_eq!(told[0].reason, "CalculateExpectedPodCountFailed");
    assert_eq!(told[0].message, format!("Failed to calculate the number of expected pods: {error}"));
    let again = decide(&budget(&spec, &written(&status)), &pods(3), Err(error.to_owned()), now());
    assert_eq!(again.status, None, "it says so already");
}

/// Contract: API-27
#[test]
fn pods_that_nothing_controls_are_told_of_where_they_count() {
    let unmanaged = [pod(1, 100, &json!({"metadata": {"ownerReferences": null}}))];
    let reasons = |spec: &Value, pods: &[Arc<Pod>]| -> Vec<String> {
        let decision = decide(&budget(&merged(spec), &json!({})), pods, scales(&[]), now());
        decision.tell.into_iter().map(|(_, note)| format!("{}: {}", note.reason, note.message)).collect()
    };
    assert_eq!(reasons(&json!({"minAvailable": 1}), &unmanaged), Vec::<String>::new());
    let told = reasons(&json!({"minAvailable": "50%"}), &unmanaged);
    let selector =
        "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}";
    assert!(told[0].starts_with("UnmanagedPods: Pods selected by this PodDisruptionBudget"), "{told:?}");
    assert!(told[0].contains(&format!("(selector: {selector})")), "{told:?}");
    assert_eq!(reasons(&json!({"minAvailable": 1}), &[]), ["NoPods: No matching pods found"]);
}

/// Contract: API-27
#[test]
fn a_change_of_a_pod_concerns_the_budgets_that_select_it() {
    let mut budgets: Cache<Slim<Budget>> = Cache::new();
    for (name, selector) in [
        ("all", json!({})),
        ("none", Value::Null),
        ("web", json!({"matchLabels": {"app": "web"}})),
        ("api", json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["api"]}]})),
    ] {
        let mut budget: Slim<Budget> = budget(&json!({"selector": selector}), &json!({}));
        budget.meta.name = name.into();
        budget.meta.uid = Uid::new(name);
        budgets.apply(budget);
    }
    let names = |change: &Change<Pod>| -> Vec<String> {
        concerned(change, &budgets).iter().map(|key| key.name.to_string()).collect()
    };
    let web = pod(1, 100, &json!({}));
    let api = pod(1, 100, &json!({"metadata": {"labels": {"app": "api"}}}));
    assert_eq!(names(&Change::Added(web.clone())), ["all", "web"]);
    assert_eq!(names(&Change::Updated { old: web, new: api }), ["all", "web", "api"]);
}
