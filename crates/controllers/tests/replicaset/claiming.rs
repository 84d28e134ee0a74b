//! Who owns which pod: the table of claims, the patches, and what their results mean.

use muster_controllers::plan::{ClaimAction, ClaimOutcome, ClaimPlan, Failure, Refusal, Written};
use muster_controllers::replicaset::claiming::claimed;
use muster_controllers::replicaset::{Snapshot, decide_claims};
use muster_objects::{Pod, ReplicaSet, ResourceVersion};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{ago, labels, orphan, pod, reference_to, replica_set, snapshot, terminating, uid};
use crate::world::{failure, invalid, not_found};

fn relabelled(mut pod: Pod) -> Pod {
    pod.meta.labels = labels(&[("app", "db")]);
    pod
}

fn of_another(mut pod: Pod) -> Pod {
    pod.meta.controller = Some(reference_to("web", 2).into());
    pod
}

/// What the plan does to each pod, and the pods that are claimed when every write succeeds.
fn outcome(snapshot: &Snapshot<ReplicaSet>) -> (ClaimPlan, Vec<String>) {
    let plan = decide_claims(snapshot);
    let mut outcome = ClaimOutcome::default();
    for patch in &plan.patches {
        outcome.settle(patch, Ok(written(patch.key.name.as_ref(), &patch.uid)));
    }
    (plan, names(snapshot, &outcome))
}

fn names(snapshot: &Snapshot<ReplicaSet>, outcome: &ClaimOutcome) -> Vec<String> {
    let claimed = claimed(&snapshot.owner.meta, &snapshot.selector, snapshot.active(), outcome);
    claimed.iter().map(|claimed| claimed.pod.meta.name.to_string()).collect()
}

fn written(name: &str, uid: &muster_objects::Uid) -> Written {
    Written { name: name.into(), uid: uid.clone(), resource_version: Some(ResourceVersion(9_000)) }
}

/// The cases of upstream's `TestClaimPods`, and the states of an owner and a pod that it leaves out.
///
/// Contract: RS-05, RS-06
#[test]
fn table_of_claims() {
    let being_deleted = || {
        let mut owner = replica_set(2);
        owner.meta.deletion_timestamp = Some(ago(1));
        owner
    };
    let elsewhere = |mut pod: Pod| {
        pod.meta.namespace = "other".into();
        pod
    };
    let (a, b) = (|| pod("a", 11), || orphan("b", 12));
    // owner, pods, patches, claimed
    type Case = (&'static str, ReplicaSet, Vec<Pod>, &'static [(&'static str, ClaimAction)], &'static [&'static str]);
    let cases: Vec<Case> = vec![
        ("owned and matching is kept", replica_set(2), vec![a()], &[], &["a"]),
        ("a matching orphan is adopted", replica_set(2), vec![b()], &[("b", ClaimAction::Adopt)], &["b"]),
        ("an orphan of other labels is left", replica_set(2), vec![relabelled(b())], &[], &[]),
        ("owned, relabelled: released", replica_set(2), vec![relabelled(a())], &[("a", ClaimAction::Release)], &[]),
        (
            "another's pod is left, matching or not",
            replica_set(2),
            vec![of_another(a()), relabelled(of_another(b()))],
            &[],
            &[],
        ),
        (
            "a dying owner keeps, and neither adopts nor releases",
            being_deleted(),
            vec![a(), b(), relabelled(pod("c", 13))],
            &[],
            &["a"],
        ),
        ("a dying orphan is not adopted", replica_set(2), vec![terminating(b())], &[], &[]),
        (
            "a dying pod of ours is not counted, nor released",
            replica_set(2),
            vec![terminating(relabelled(a()))],
            &[],
            &[],
        ),
        ("another namespace is out of reach", replica_set(2), vec![elsewhere(b()), a()], &[], &["a"]),
        (
            "keeping, adopting and releasing at once",
            replica_set(2),
            vec![a(), relabelled(pod("c", 13)), orphan("d", 14)],
            &[("c", ClaimAction::Release), ("d", ClaimAction::Adopt)],
            &["a", "d"],
        ),
    ];
    for (name, owner, pods, patches, expected) in cases {
        let (plan, claimed) = outcome(&snapshot(owner, pods));
        let found: Vec<_> = plan.patches.iter().map(|patch| (&*patch.key.name, patch.action)).collect();
        assert_eq!(found, patches, "{name}");
        assert_eq!(claimed, expected, "{name}");
    }
}

/// Contract: RS-05
#[test]
fn finished_and_dying_pods_do_not_count() {
    let mut failed = pod("failed", 11);
    failed.phase = muster_objects::PodPhase::Failed;
    let mut succeeded = pod("succeeded", 12);
    succeeded.phase = muster_objects::PodPhase::Succeeded;
    let mut unknown = pod("unknown", 13);
    unknown.phase = muster_objects::PodPhase::Unknown;
    let snapshot = snapshot(replica_set(1), [failed, succeeded, unknown, terminating(pod("dying", 14))]);
    assert_eq!(names(&snapshot, &ClaimOutcome::default()), ["unknown"]);
}

/// Contract: RS-08
#[test]
fn adoption_adds_one_full_reference_and_carries_the_pods_uid() {
    let plan = decide_claims(&snapshot(replica_set(1), [orphan("b", 12)]));
    let body: Value = serde_json::from_slice(&plan.patches[0].body).expect("a patch is JSON");
    let expected = json!({"metadata": {"uid": uid(12), "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid(1),
        "controller": true, "blockOwnerDeletion": true,
    }]}});
    assert_eq!(body, expected);
}

/// Contract: RS-08
#[test]
fn release_removes_the_reference_by_uid() {
    let plan = decide_claims(&snapshot(replica_set(1), [relabelled(pod("a", 11))]));
    let body: Value = serde_json::from_slice(&plan.patches[0].body).expect("a patch is JSON");
    let expected = json!({"metadata": {"uid": uid(11), "ownerReferences": [{"$patch": "delete", "uid": uid(1)}]}});
    assert_eq!(body, expected);
}

/// Contract: RS-07
#[test]
fn permission_is_only_asked_for_adoptions_and_read_from_the_fresh_owner() {
    assert!(!decide_claims(&snapshot(replica_set(1), [relabelled(pod("a", 11))])).needs_permission());
    let plan = decide_claims(&snapshot(replica_set(1), [orphan("b", 12)]));
    assert!(plan.needs_permission());
    let read = |metadata: Value| plan.permission(Ok(json!({"metadata": metadata}).to_string().as_bytes()));
    assert_eq!(read(json!({"uid": uid(1), "resourceVersion": "101"})), Ok(()));
    let refused = |result: Result<(), Failure>| result.expect_err("refused").message;
    assert_eq!(
        refused(read(json!({"uid": uid(2)}))),
        format!(
            "can't recheck DeletionTimestamp: original ReplicaSet default/web is gone: got uid {}, wanted {}",
            uid(2),
            uid(1)
        ),
    );
    assert_eq!(
        refused(read(json!({"uid": uid(1), "deletionTimestamp": "2026-01-02T15:04:05Z"}))),
        "default/web has just been deleted at 2026-01-02 15:04:05 +0000 UTC",
    );
    let gone = failure(404, "NotFound", "replicasets.apps \"web\" not found");
    let why = plan.permission(Err(&gone)).expect_err("refused");
    assert_eq!(why.message, "can't recheck DeletionTimestamp: replicasets.apps \"web\" not found");
    // The failure names the pod, and the owner's absence is not taken for the pod's.
    let error = plan.patches[0].refused(&why);
    assert_eq!(error.message, format!("can't adopt Pod default/b ({}): {}", uid(12), why.message),);
    let mut outcome = ClaimOutcome::default();
    outcome.settle(&plan.patches[0], Err(error.clone()));
    assert_eq!(outcome.failures, [error]);
    assert!(plan.permission(Ok(b"not an object")).is_err());
    // How soon it is tried again is decided by what the server said, or that it said nothing (B-09).
    for failure in [Failure::unanswered("connection refused"), failure(503, "ServiceUnavailable", "x"), gone] {
        let why = plan.permission(Err(&failure)).expect_err("refused");
        let expected = if failure.is_not_found() { Refusal::Other } else { Refusal::Unavailable };
        assert_eq!(plan.patches[0].refused(&why).refusal(), expected, "{failure}");
    }
}

/// Contract: RS-08
#[test]
fn what_the_results_of_claims_mean() {
    let plan = decide_claims(&snapshot(replica_set(1), [relabelled(pod("a", 11)), orphan("b", 12)]));
    let (release, adopt) = (&plan.patches[0], &plan.patches[1]);
    // action, result, whether it fails the sync
    let cases = [
        (release, not_found("a"), false),
        (adopt, not_found("b"), false),
        (release, invalid("a"), false),
        (adopt, invalid("b"), true),
        (release, failure(500, "InternalError", "boom"), true),
        (adopt, failure(409, "Conflict", "changed"), true),
    ];
    for (patch, result, fails) in cases {
        let mut outcome = ClaimOutcome::default();
        assert_eq!(outcome.settle(patch, Err(result.clone())), None);
        assert!(outcome.adopted.is_empty(), "{:?} {result}", patch.action);
        assert_eq!(outcome.error(), fails.then_some(result.clone()), "{:?} {result}", patch.action);
    }
    let mut outcome = ClaimOutcome::default();
    assert_eq!(outcome.settle(release, Ok(written("a", &uid(11)))), Some(ResourceVersion(9_000)));
    assert_eq!(outcome.settle(adopt, Ok(written("b", &uid(12)))), Some(ResourceVersion(9_000)));
    assert_eq!(outcome.adopted.keys().collect::<Vec<_>>(), [&uid(12)]);
}

/// Contract: RS-08
#[test]
fn each_distinct_error_is_reported_once() {
    let (a, b) = (Failure::local("a"), Failure::local("b"));
    assert_eq!(Failure::aggregate(&[]), None);
    assert_eq!(Failure::aggregate(std::slice::from_ref(&a)), Some(a.clone()));
    assert_eq!(Failure::aggregate(&[a.clone(), a.clone()]).expect("some").message, "a");
    assert_eq!(Failure::aggregate(&[a.clone(), b, a]).expect("some").message, "[a, b]");
}

/// Pods of all kinds, each with a uid of its own.
fn any_pods() -> impl Strategy<Value = Vec<Pod>> {
    let pod = |(number, (owner, matching, dying))| {
        let mut pod = pod(&format!("p-{number}"), 100 + number);
        pod.meta.controller = match owner {
            0 => None,
            1 => pod.meta.controller,
            _ => Some(reference_to("web", 2).into()),
        };
        let pod = if matching { pod } else { relabelled(pod) };
        if dying { terminating(pod) } else { pod }
    };
    let kinds = prop::collection::vec((0..3_u8, any::<bool>(), any::<bool>()), 0..20);
    kinds.prop_map(move |kinds| (0_u64..).zip(kinds).map(pod).collect())
}

proptest! {
    /// Claiming is settled by one round: once the patches are done, nothing more changes hands, and what is
    /// claimed is exactly what is owned, selected and active.
    ///
    /// Contract: RS-06
    #[test]
    fn claims_are_settled_by_one_round(pods in any_pods(), dying_owner: bool) {
        let mut owner = replica_set(1);
        owner.meta.deletion_timestamp = dying_owner.then(|| ago(1));
        let before = snapshot(owner.clone(), pods.clone());
        let (plan, claimed) = outcome(&before);
        let after: Vec<Pod> = pods.into_iter().map(|mut pod| {
            match plan.patches.iter().find(|patch| patch.uid == pod.meta.uid).map(|patch| patch.action) {
                Some(ClaimAction::Adopt) => pod.meta.controller = Some(reference_to("web", 1).into()),
                Some(ClaimAction::Release) => pod.meta.controller = None,
                None => {}
            }
            pod
        }).collect();
        let after = snapshot(owner, after);
        prop_assert!(decide_claims(&after).is_empty());
        prop_assert_eq!(names(&after, &ClaimOutcome::default()), claimed.clone());
        let ours: Vec<String> = after.active()
            .filter(|pod| pod.meta.is_controlled_by(&uid(1)) && after.selector.matches(&pod.meta.labels))
            .map(|pod| pod.meta.name.to_string()).collect();
        prop_assert_eq!(ours, claimed);
        // A dying owner moves nothing.
        prop_assert!(!dying_owner || plan.is_empty());
    }
}
