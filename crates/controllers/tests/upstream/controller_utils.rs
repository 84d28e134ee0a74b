//! `controller_utils_test.go` and `controller_ref_manager_test.go`: what the controllers share.

use std::time::Duration;

use muster_controllers::plan::ClaimOutcome;
use muster_controllers::replicaset::claiming::claimed;
use muster_controllers::replicaset::ranking::{Circumstances, Colocation};
use muster_controllers::replicaset::requeue::until_available;
use muster_controllers::replicaset::status::Counts;
use muster_machinery::claim::release_patch;
use muster_objects::pod::Restarts;
use muster_objects::{Pod, PodPhase, ReplicaSet, Timestamp, Uid};
use muster_schema::template::hash;
use serde_json::{Value, json};

use crate::fixtures::decode;
use crate::pods::{NOW, ago, pod, ready_since, replica_set, snapshot, uid};

/// `TestClaimedPodFiltering`: three ways to carry a reference, beside none, a plain one, and one that says that it does
/// not control.
///
/// Contract: RS-06
#[test]
fn claimed_are_those_that_are_controlled_and_selected() {
    let mine = |controls: Value| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid(1), "controller": controls});
    let other = |controls: Value| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid(9), "controller": controls});
    let (yes, no, unsaid) = (json!(true), json!(false), json!(null));
    let mut all = Vec::new();
    let mut add = |name: &str, labels: Value, references: Value| {
        let number = u64::try_from(all.len()).expect("few");
        let metadata = json!({
            "namespace": "default", "name": name, "uid": uid(20 + number), "labels": labels, "ownerReferences": references,
        });
        all.push(decode::<Pod>(&json!({"metadata": metadata, "status": {"phase": "Running"}})));
    };
    // Alone, beside one that does not control, and beside one that does not say.
    for (round, beside) in [None, Some(other(no.clone())), Some(other(unsaid.clone()))].into_iter().enumerate() {
        let with = |reference: Option<Value>| Value::Array(beside.iter().cloned().chain(reference).collect());
        let plain = if round == 1 { no.clone() } else { unsaid.clone() };
        add("claimed", json!({"app": "web"}), with(Some(mine(yes.clone()))));
        add(
            "wrong-selector",
            if round == 2 { unsaid.clone() } else { json!({"app": "baz"}) },
            with(Some(mine(yes.clone()))),
        );
        add("not-controlled", json!({"app": "web"}), with(Some(mine(plain))));
        add("of-another", json!({"app": "web"}), with(Some(other(yes.clone()))));
        add("of-another-workload", json!({"app": "bee"}), with(Some(other(yes.clone()))));
        add("alone", json!({"app": "beetle"}), with(None));
    }
    assert_eq!(all.len(), 18);
    let snapshot = snapshot(replica_set(3), all);
    let found = claimed(&snapshot.owner.meta, &snapshot.selector, snapshot.active(), &ClaimOutcome::default());
    let uids: Vec<&Uid> = found.iter().map(|claimed| &claimed.pod.meta.uid).collect();
    assert_eq!(uids, [&uid(20), &uid(26), &uid(32)], "the first of each round");
}

/// `TestActivePodFiltering` and `TestCountTerminatingPods`.
///
/// Contract: RS-05, RS-15
#[test]
fn pods_are_active_or_terminating_or_over() {
    let of = |name: &str, number: u64, phase| Pod { phase, ..pod(name, number) };
    let dying = |mut pod: Pod| {
        pod.meta.deletion_timestamp = Some(ago(5));
        pod
    };
    let snapshot = snapshot(
        replica_set(3),
        [
            of("a", 11, PodPhase::Succeeded),
            of("b", 12, PodPhase::Failed),
            dying(of("c", 13, PodPhase::Pending)),
            dying(of("d", 14, PodPhase::Running)),
            of("e", 15, PodPhase::Unset),
            of("f", 16, PodPhase::Running),
            of("g", 17, PodPhase::Running),
        ],
    );
    assert_eq!(snapshot.active().map(|pod| &*pod.meta.name).collect::<Vec<_>>(), ["e", "f", "g"]);
    assert_eq!(snapshot.terminating(), 2);
}

/// `TestSortingActivePods`, in each of many orders; and the equal ones of `TestSortingActivePodsWithRanks`.
///
/// Contract: DEL-01, DEL-04
#[test]
fn ten_pods_have_one_order() {
    const MONTH: u64 = 30 * 24 * 3_600;
    let bare = |name: &str, node: bool, phase| {
        let mut pod = Pod { node_name: node.then(|| "foo".into()), phase, ready: None, ..pod(name, 11) };
        pod.meta.creation_timestamp = None;
        pod
    };
    let ready = |name: &str, since: Option<Timestamp>, restarts: (i32, i32), created: Option<Timestamp>| {
        let mut pod = Pod { ready: ready_since(since), ..bare(name, true, PodPhase::Running) };
        pod.restarts = Restarts { regular: restarts.0, sidecar: restarts.1 };
        pod.meta.creation_timestamp = created;
        pod
    };
    let then = Some(ago(MONTH));
    let sorted = [
        bare("nowhere", false, PodPhase::Pending),
        bare("pending", true, PodPhase::Pending),
        bare("unknown", true, PodPhase::Unknown),
        bare("not-ready", true, PodPhase::Running),
        ready("ready-no-time", None, (3, 0), None),
        ready("ready-now", Some(NOW), (3, 0), None),
        ready("ready-for-long", then, (3, 0), None),
        ready("sidecar-restarts", then, (2, 2), Some(NOW)),
        ready("restarts", then, (2, 0), Some(NOW)),
        ready("oldest", then, (2, 0), then),
    ];
    let by = Circumstances { colocation: &Colocation::default(), min_ready_seconds: 0, now: NOW };
    for turn in 0..sorted.len() {
        let mut all = sorted.to_vec();
        all.rotate_left(turn);
        all.swap(0, turn);
        all.sort_by(|a, b| by.rank(a).cmp(&by.rank(b)));
        assert_eq!(all, sorted, "turned by {turn}");
    }
    for pod in &sorted {
        assert!(by.rank(pod).cmp(&by.rank(pod)).is_eq(), "{}", pod.meta.name);
    }
}

/// `TestNextPodAvailabilityCheck`, `TestFindMinNextPodAvailabilitySimpleCheck` and the first of
/// `TestFindMinNextPodAvailability`: counted at one moment, looked at two seconds later.
///
/// Contract: RS-18
#[test]
fn table_of_next_looks() {
    let since = |seconds: u64| Pod { ready: ready_since(Some(ago(seconds))), ..pod("p", 11) };
    let not_ready = || Pod { ready: None, ..pod("n", 12) };
    let mixed = || vec![not_ready(), since(2), since(0), since(4), not_ready()];
    let available = || vec![not_ready(), since(15), since(11), since(10), not_ready()];
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    type Case = (&'static str, Vec<Pod>, i32, u64, Option<Duration>);
    let cases: [Case; 11] = [
        ("not ready", vec![not_ready()], 0, 0, None),
        ("available at once", vec![since(0)], 0, 0, None),
        ("just ready", vec![since(0)], 1, 0, seconds(1)),
        ("20 of 30 s", vec![since(20)], 30, 0, seconds(10)),
        ("available", vec![since(51)], 50, 0, None),
        ("no pods", vec![], 0, 0, None),
        ("none ready", vec![not_ready(), not_ready()], 0, 0, None),
        ("several, available at once", vec![since(0), since(0)], 0, 0, None),
        ("the earliest of several", mixed(), 10, 0, seconds(6)),
        ("all that are ready are available", available(), 10, 0, None),
        ("two seconds after counting", mixed(), 10, 2, seconds(4)),
    ];
    for (name, pods, min_ready_seconds, late, expected) in cases {
        let owner = ReplicaSet { min_ready_seconds, ..replica_set(3) };
        let Counts { ready, available, .. } = Counts::of(&owner, &pods, NOW);
        let now = NOW + Duration::from_secs(late);
        assert_eq!(until_available(&pods, min_ready_seconds, (ready, available), now), expected, "{name}");
    }
}

/// `TestComputeHash`.
///
/// Contract: DEP-04
#[test]
fn collisions_change_the_hash() {
    let of = |collisions| hash("{}", collisions).text;
    assert_ne!(of(Some(1)), of(Some(2)));
    assert_ne!(of(None), of(Some(i32::MAX)));
}

/// `TestGeneratePatchBytesForDelete`, of one owner: whatever a uid holds, the patch is JSON.
///
/// Contract: RS-08
#[test]
fn table_of_release_patches() {
    for (owner, object) in [("ss1", "ss2"), ("ss1\"hello", "ss2"), ("ss1", "ss2\"hello")] {
        let patch = release_patch(&Uid::new(owner), &Uid::new(object));
        let expected = json!({"metadata": {"uid": object, "ownerReferences": [{"$patch": "delete", "uid": owner}]}});
        assert_eq!(serde_json::from_slice::<Value>(&patch).expect("JSON"), expected);
    }
}
