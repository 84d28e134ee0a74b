//! What the status says, and when it is written.

use muster_controllers::plan::{ClaimOutcome, Failure, Outcome, Requeue};
use muster_controllers::replicaset::status::{Counts, REPLICA_FAILURE, calculate, write};
use muster_controllers::replicaset::{Snapshot, decide, requeue::until_available, status_after};
use muster_objects::{Condition, ConditionStatus, Pod, PodPhase, ReplicaSet, ReplicaSetStatus, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

use crate::fixtures::{
    NOW, ago, labels, pending, pod, pods, ready_since, remembered, replica_set, replica_set_named, snapshot,
    terminating,
};

fn counted(owner: &ReplicaSet, pods: &[Pod]) -> (i32, i32, i32, i32) {
    let Counts { replicas, fully_labeled, ready, available } = Counts::of(owner, pods, NOW);
    (replicas, fully_labeled, ready, available)
}

/// The cases of upstream's `TestCalculateStatus`.
///
/// Contract: RS-15
#[test]
fn table_of_counts() {
    let owner = replica_set(2);
    let long = ReplicaSet { min_ready_seconds: 7_200, ..replica_set(2) };
    // The template asks for a label that the selector does not.
    let partly = ReplicaSet {
        template: replica_set_named("x", 1, 1, &json!({"app": "web", "tier": "front"})).template,
        ..replica_set(2)
    };
    let more = {
        let mut pod = pod("more", 12);
        pod.meta.labels = labels(&[("app", "web"), ("tier", "front"), ("more", "")]);
        pod
    };
    let not_ready = Pod { ready: None, ..pod("not-ready", 13) };
    let cases = [
        ("none", &owner, vec![], (0, 0, 0, 0)),
        ("one", &owner, pods(1), (1, 1, 1, 1)),
        ("two", &owner, pods(2), (2, 2, 2, 2)),
        ("not fully labelled", &partly, pods(1), (1, 0, 1, 1)),
        ("more labels than the template's", &partly, vec![more, pod("a", 11)], (2, 1, 2, 2)),
        ("not ready", &owner, vec![not_ready.clone(), pod("a", 11)], (2, 2, 1, 1)),
        ("ready for an hour of two", &long, vec![pod("a", 11), not_ready], (2, 2, 1, 0)),
        ("unknown phase still counts", &owner, vec![Pod { phase: PodPhase::Unknown, ..pod("a", 11) }], (1, 1, 1, 1)),
    ];
    for (name, owner, pods, expected) in cases {
        assert_eq!(counted(owner, &pods), expected, "{name}");
    }
    let counts = Counts { replicas: 4, fully_labeled: 3, ready: 2, available: 1 };
    let ReplicaSetStatus { replicas, fully_labeled_replicas, ready_replicas, available_replicas, .. } =
        calculate(&owner, counts, None, None, NOW);
    assert_eq!((replicas, fully_labeled_replicas, ready_replicas, available_replicas), (4, 3, 2, 1));
}

/// Ready for exactly `minReadySeconds` is available, and a nanosecond less is not; the time is compared
/// with the `now` that is handed in, which the caller has moved to the server's clock.
///
/// Contract: RS-15, B-11
#[test]
fn availability_by_the_second_and_by_the_clock_handed_in() {
    let owner = ReplicaSet { min_ready_seconds: 10, ..replica_set(1) };
    let pod = Pod { ready: ready_since(Some(ago(10))), ..pod("a", 11) };
    let available = |now: Timestamp| Counts::of(&owner, [&pod], now).available;
    assert_eq!((available(NOW), available(NOW.plus_nanos(-1))), (1, 0));
    // A controller whose clock runs 5 s ahead of the server's would count too early; corrected, it does not.
    let (ahead, offset) = (ago(5) + Duration::from_secs(5), Duration::from_secs(5));
    assert_eq!((available(ahead), available(ahead - offset)), (1, 0));
    // No transition time: never available by waiting.
    let timeless = Pod { ready: ready_since(None), ..pod.clone() };
    assert_eq!(Counts::of(&owner, [&timeless], NOW).available, 0);
    let at_once = ReplicaSet { min_ready_seconds: 0, ..owner.clone() };
    assert_eq!(Counts::of(&at_once, [&timeless], NOW).available, 1);
}

/// Owned, matching, being deleted and not finished: those terminate. Orphans and others' pods do not count.
///
/// Contract: RS-15
#[test]
fn terminating_replicas() {
    let mut relabelled = terminating(pod("relabelled", 12));
    relabelled.meta.labels = labels(&[("app", "db")]);
    let mut finished = terminating(pod("finished", 13));
    finished.phase = PodPhase::Succeeded;
    let orphan = terminating(crate::fixtures::orphan("orphan", 14));
    let snapshot = snapshot(
        replica_set(1),
        [terminating(pod("a", 11)), relabelled, finished, orphan, terminating(pending("b", 15)), pod("alive", 16)],
    );
    assert_eq!(snapshot.terminating(), 2);
    let (write, ..) = status_after(&snapshot, &ClaimOutcome::default(), &Outcome::default(), Duration::ZERO, NOW);
    let status = write.expect("a new status").status;
    assert_eq!((&status["terminatingReplicas"], &status["replicas"]), (&json!(2), &json!(1)));
}

fn with_conditions(conditions: Vec<Condition>) -> ReplicaSet {
    let mut owner = replica_set(2);
    owner.status.conditions = conditions;
    owner
}

fn condition(kind: &str, reason: &str) -> Condition {
    Condition::new(kind, ConditionStatus::True, reason, "before", ago(60))
}

/// The cases of upstream's `TestCalculateStatusConditions`.
///
/// Contract: RS-16
#[test]
fn table_of_conditions() {
    let other = condition("Other", "Reason");
    let before = condition(REPLICA_FAILURE, "FailedDelete");
    let error = Failure::local("fake error");
    let set = |reason: &str| Condition::new(REPLICA_FAILURE, ConditionStatus::True, reason, "fake error", NOW);
    let none: &[Condition] = &[];
    // conditions before, pods, whether managing failed, conditions after
    let cases = [
        ("too few, failed", vec![], 1, true, vec![set("FailedCreate")]),
        ("too many, failed", vec![], 3, true, vec![set("FailedDelete")]),
        ("as many, failed", vec![], 2, true, vec![set("")]),
        ("none failed, none there", vec![], 2, false, none.to_vec()),
        ("recovered", vec![before.clone()], 2, false, vec![]),
        ("failed again: the first failure stays", vec![before.clone()], 1, true, vec![before.clone()]),
        ("others stay in their place", vec![other.clone(), before], 2, false, vec![other.clone()]),
        ("and come first", vec![other.clone()], 1, true, vec![other, set("FailedCreate")]),
    ];
    for (name, conditions, count, failed, expected) in cases {
        let owner = with_conditions(conditions);
        let counts = Counts::of(&owner, &pods(count), NOW);
        let status = calculate(&owner, counts, Some(0), failed.then_some(&error), NOW);
        assert_eq!(status.conditions, expected, "{name}");
    }
}

fn synced(replicas: i32) -> ReplicaSet {
    let mut owner = replica_set(replicas);
    owner.status = ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        terminating_replicas: Some(0),
        observed_generation: 1,
        conditions: vec![],
    };
    owner
}

/// Contract: RS-17
#[test]
fn a_status_that_is_so_already_is_not_written() {
    let snapshot = snapshot(synced(2), pods(2));
    let plan = decide(&snapshot, &ClaimOutcome::default(), NOW);
    assert_eq!((plan.status, plan.requeue), (None, Requeue::None));
    assert!(plan.steps.is_empty());
}

/// Contract: RS-17
#[test]
fn every_difference_is_written_by_itself() {
    let none: fn(&mut ReplicaSet) = |_| {};
    type Case = (&'static str, fn(&mut ReplicaSet), bool);
    let cases: [Case; 9] = [
        ("nothing", none, false),
        ("replicas", |owner| owner.status.replicas = 1, true),
        ("fullyLabeledReplicas", |owner| owner.status.fully_labeled_replicas = 1, true),
        ("readyReplicas", |owner| owner.status.ready_replicas = 1, true),
        ("availableReplicas", |owner| owner.status.available_replicas = 1, true),
        ("terminatingReplicas", |owner| owner.status.terminating_replicas = None, true),
        ("conditions", |owner| owner.status.conditions = vec![condition(REPLICA_FAILURE, "FailedCreate")], true),
        ("the generation", |owner| owner.meta.generation = 2, true),
        (
            "a foreign condition is no difference",
            |owner| owner.status.conditions = vec![condition("Other", "x")],
            false,
        ),
    ];
    for (name, change, differs) in cases {
        let mut owner = synced(2);
        change(&mut owner);
        let (write, ..) =
            status_after(&snapshot(owner, pods(2)), &ClaimOutcome::default(), &Outcome::default(), Duration::ZERO, NOW);
        assert_eq!(write.is_some(), differs, "{name}");
    }
}

/// The generation that the decision was made for, every count, and zero as Go leaves it out.
///
/// Contract: RS-15, RS-17
#[test]
fn the_patch_says_everything_and_means_one_object() {
    let owner = replica_set(2);
    let (write, ..) = status_after(
        &snapshot(owner, [Pod { ready: None, ..pod("a", 11) }]),
        &ClaimOutcome::default(),
        &Outcome::default(),
        Duration::ZERO,
        NOW,
    );
    let write = write.expect("a difference");
    let body: serde_json::Value = serde_json::from_slice(&write.body()).expect("JSON");
    let expected = json!({
        "metadata": {"uid": crate::fixtures::uid(1)},
        "status": {
            "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": null, "availableReplicas": null,
            "terminatingReplicas": 0, "observedGeneration": 1,
        },
    });
    assert_eq!(body, expected);
}

/// The conditions are in the patch only where they changed, and gone ones by a directive.
///
/// Contract: RS-16
#[test]
fn conditions_in_the_patch() {
    let status = |owner: ReplicaSet, outcome: &Outcome| {
        let (write, ..) =
            status_after(&snapshot(owner, pods(1)), &ClaimOutcome::default(), outcome, Duration::ZERO, NOW);
        write.expect("a difference").status
    };
    let failed = Outcome { error: Some(Failure::local("no")), ..Outcome::default() };
    let set = status(replica_set(2), &failed);
    assert_eq!(
        set["conditions"],
        json!([{"type": "ReplicaFailure", "status": "True", "lastTransitionTime": NOW, "reason": "FailedCreate", "message": "no"}]),
    );
    let removed = status(with_conditions(vec![condition(REPLICA_FAILURE, "FailedCreate")]), &Outcome::default());
    assert_eq!(removed["conditions"], json!([{"$patch": "delete", "type": "ReplicaFailure"}]));
    // Conditions of other writers are kept.
    let among_others = vec![condition("Other", "x"), condition(REPLICA_FAILURE, "FailedCreate")];
    let removed = status(with_conditions(among_others), &Outcome::default());
    assert_eq!(removed["conditions"], json!([{"$patch": "delete", "type": "ReplicaFailure"}]));
    let added = status(with_conditions(vec![condition("Other", "x")]), &failed);
    assert_eq!(added["conditions"].as_array().map(Vec::len), Some(1));
    // The one that is written last is the last, as in Kubernetes, which writes the whole list.
    assert_eq!(added["$setElementOrder/conditions"], json!([{"type": "Other"}, {"type": "ReplicaFailure"}]));
    let kept = status(with_conditions(vec![condition(REPLICA_FAILURE, "FailedCreate")]), &failed);
    assert_eq!(kept.get("conditions"), None);
}

/// The cases of upstream's `TestFindMinNextPodAvailability` and `TestReplicaSetAvailabilityCheck`.
///
/// Contract: RS-18
#[test]
fn table_of_requeues() {
    let since = |nanos: i64| Pod { ready: ready_since(Some(NOW.plus_nanos(-nanos))), ..pod("p", 11) };
    let not_ready = Pod { ready: None, ..pod("n", 12) };
    let timeless = Pod { ready: ready_since(None), ..pod("t", 13) };
    let second = 1_000_000_000;
    let ms = Duration::from_millis;
    let cases = [
        ("no minReadySeconds", 0, vec![since(0)], None),
        ("none ready", 10, vec![not_ready.clone()], None),
        ("all available", 10, vec![since(11 * second), since(10 * second)], None),
        ("just turned ready", 1, vec![since(0)], Some(ms(1_000))),
        ("20 of 30 seconds", 30, vec![since(20 * second), not_ready], Some(ms(10_000))),
        ("the earliest of several", 5, vec![since(0), since(2 * second), since(4_300_000_000)], Some(ms(700))),
        ("one that will, beside one that is", 5, vec![since(9 * second), since(second)], Some(ms(4_000))),
        ("no transition time: the whole span", 7, vec![timeless], Some(ms(7_000))),
        ("a node ahead: at most the whole span", 7, vec![since(-60 * second)], Some(ms(7_000))),
    ];
    for (name, min_ready_seconds, pods, expected) in cases {
        let owner = ReplicaSet { min_ready_seconds, ..replica_set(3) };
        let Counts { ready, available, .. } = Counts::of(&owner, &pods, NOW);
        assert_eq!(until_available(&pods, min_ready_seconds, (ready, available), NOW), expected, "{name}");
    }
}

/// Contract: RS-18
#[test]
fn a_sync_is_queued_again_for_the_earliest_pod() {
    let owner = ReplicaSet { min_ready_seconds: 5, ..replica_set(2) };
    let young = Pod { ready: ready_since(Some(ago(2))), ..pod("young", 11) };
    let plan = decide(&snapshot(owner, [young, pod("old", 12)]), &ClaimOutcome::default(), NOW);
    assert_eq!(plan.requeue, Requeue::After(Duration::from_secs(3)));
}

fn any_snapshot() -> impl Strategy<Value = Snapshot<ReplicaSet>> {
    let any_pod = (0_u64..30, any::<bool>(), 0_u64..40, any::<bool>()).prop_map(|(number, ready, since, dying)| {
        let pod = pod(&format!("p-{number}"), 100 + number);
        let pod = Pod { ready: ready.then(|| ready_since(Some(ago(since)))).flatten(), ..pod };
        if dying { terminating(pod) } else { pod }
    });
    (prop::collection::vec(any_pod, 0..12), 0_i32..12, 0_i32..30, any::<bool>()).prop_map(
        |(pods, replicas, min_ready_seconds, failing)| {
            let mut owner = ReplicaSet { min_ready_seconds, ..replica_set(replicas) };
            if failing {
                owner.status.conditions = vec![condition(REPLICA_FAILURE, "FailedCreate")];
            }
            snapshot(owner, pods)
        },
    )
}

proptest! {
    /// Written once, the status is not written again while nothing changes; and the counts are ordered.
    ///
    /// Contract: RS-15, RS-16, RS-17
    #[test]
    fn status_is_idempotent(snapshot in any_snapshot(), failed: bool) {
        let error = Failure::local("no");
        let outcome = Outcome { error: failed.then_some(error.clone()), ..Outcome::default() };
        let active: Vec<&Pod> = snapshot.active().map(AsRef::as_ref).collect();
        let counts = Counts::of(&*snapshot.owner, active, NOW);
        prop_assert!(counts.available <= counts.ready && counts.ready <= counts.replicas);
        prop_assert!(counts.fully_labeled <= counts.replicas);
        let after = calculate(&*snapshot.owner, counts, Some(snapshot.terminating()), outcome.error.as_ref(), NOW);
        let (first, ..) = status_after(&snapshot, &ClaimOutcome::default(), &outcome, Duration::ZERO, NOW);
        prop_assert_eq!(&first, &write(&*snapshot.owner, &after, true));
        let mut owner = (*snapshot.owner).clone();
        owner.status = after;
        let again = Snapshot { owner: owner.into(), ..snapshot };
        let (second, ..) = status_after(&again, &ClaimOutcome::default(), &outcome, Duration::ZERO, NOW);
        prop_assert_eq!(second, None);
    }
}

/// On a server that does not store it, the number of terminating pods alone is nothing to write; with other changes it
/// is sent all the same.
///
/// Contract: RS-15, RS-17
#[test]
fn terminating_replicas_that_do_not_stick_are_not_written_again_and_again() {
    let mut owner = replica_set(2);
    let status = json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1,
    });
    owner.status = serde_json::from_value(status).expect("a status");
    let written = |owner: &ReplicaSet, stores_terminating| {
        let memory = remembered(|memory| memory.stores_terminating = stores_terminating);
        let snapshot = Snapshot { memory, ..snapshot(owner.clone(), pods(2)) };
        let (write, ..) = status_after(&snapshot, &ClaimOutcome::default(), &Outcome::default(), Duration::ZERO, NOW);
        write.map(|write| write.status["terminatingReplicas"].clone())
    };
    assert_eq!(written(&owner, true), Some(json!(0)), "it may be a status of an older controller");
    assert_eq!(written(&owner, false), None);
    owner.status.terminating_replicas = Some(3);
    assert_eq!(written(&owner, false), Some(json!(0)), "what is stored is kept true");
    (owner.status.terminating_replicas, owner.status.replicas) = (None, 1);
    assert_eq!(written(&owner, false), Some(json!(0)));
}
