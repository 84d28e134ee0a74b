//! Whole syncs against a server in memory: what is written, in which order, and what failures lead to.

use std::time::Duration;

use muster_controllers::pause::{COUNTS_PAUSE, CountsWait, LONGEST_COUNTS_WAIT};
use muster_controllers::plan::{Announcement, Failure, Next, Outcome, Report, Requeue, SyncSteps, Verdict};
use muster_controllers::replicaset::{Expected, ReplicaSync, Snapshot};
use muster_objects::{Condition, ConditionStatus, Pod, ReplicaSet, ResourceVersion};
use serde_json::{Value, json};

use crate::fixtures::{
    NOW, ago, labels, orphan, pending, pod, pods, ready_since, remembered, replica_set, snapshot, uid,
};
use crate::world::{World, conflict, failure, invalid, not_found};

fn run(world: &mut World, snapshot: Snapshot<ReplicaSet>) -> Verdict {
    world.run(&mut ReplicaSync::new(snapshot))
}

fn told(warning: bool, reason: &'static str, message: &str) -> Announcement {
    Announcement { warning, reason, message: message.to_owned() }
}

fn quota() -> Failure {
    failure(
        403,
        "Forbidden",
        "pods \"web-\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
    )
}

fn terminating_namespace() -> Failure {
    Failure {
        causes: vec!["NamespaceTerminating".to_owned()],
        ..failure(403, "Forbidden", "pods \"web-\" is forbidden: unable to create new content in namespace default")
    }
}

fn fresh_owner(resource_version: &str) -> Value {
    json!({"metadata": {"uid": uid(1), "resourceVersion": resource_version, "generation": 9}})
}

fn fresh_pod(number: u64, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({"metadata": {
        "uid": uid(number), "resourceVersion": "4444", "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid(1), "controller": true}],
    }});
    change(&mut pod);
    pod
}

/// Upstream's `TestSyncReplicaSetDoesNothing`, and the reason why: a sync that changes nothing writes nothing.
///
/// Contract: RS-17
#[test]
fn nothing_to_do_is_nothing_done() {
    let mut owner = replica_set(2);
    owner.status = serde_json::from_value(json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "terminatingReplicas": 0, "observedGeneration": 1,
    }))
    .expect("a status");
    let mut world = World::default();
    assert_eq!(run(&mut world, snapshot(owner, pods(2))), Verdict::done(Requeue::None));
    assert_eq!(world.requests, Vec::<String>::new());
}

/// Counts that are about to change again are deferred for a moment: right after a status write, or after pods were
/// managed. A condition is written at once.
///
/// Contract: RS-15, RS-17
#[test]
fn counts_wait_for_a_moment_and_conditions_do_not() {
    let wait = Duration::from_millis(7);
    let counts_wait = CountsWait { left: Some(wait), waited: Duration::ZERO };
    let waiting =
        |owner| Snapshot { memory: remembered(|memory| memory.counts_wait = counts_wait), ..snapshot(owner, pods(2)) };
    let mut world = World::default();
    assert_eq!(run(&mut world, waiting(replica_set(2))), Verdict::done(Requeue::After(wait)));
    assert_eq!(world.requests, Vec::<String>::new());
    let mut owner = replica_set(2);
    owner.status.conditions.push(Condition::new("ReplicaFailure", ConditionStatus::True, "FailedCreate", "no", NOW));
    assert_eq!(run(&mut world, waiting(owner)), Verdict::done(Requeue::None));
    assert_eq!(world.requests, ["PATCH web/status"]);
}

/// What is put off is not put off for longer than until the owner is looked at anyway.
///
/// Contract: RS-17, RS-18
#[test]
fn counts_wait_no_longer_than_until_the_next_look() {
    let looked_at_after = |wait: Duration| {
        let counts_wait = CountsWait { left: Some(wait), waited: Duration::ZERO };
        let young = Pod { ready: ready_since(Some(ago(20))), ..pod("a", 11) };
        let snapshot = Snapshot {
            memory: remembered(|memory| memory.counts_wait = counts_wait),
            ..snapshot(ReplicaSet { min_ready_seconds: 30, ..replica_set(1) }, [young])
        };
        run(&mut World::default(), snapshot).requeue
    };
    assert_eq!(looked_at_after(Duration::from_secs(7)), Requeue::After(Duration::from_secs(7)));
    assert_eq!(looked_at_after(Duration::from_secs(13)), Requeue::After(Duration::from_secs(10)));
}

/// No event may follow upon a round that failed, and its retry may be far off.
///
/// Contract: RS-16, RS-17
#[test]
fn counts_do_not_wait_after_a_failed_round() {
    let mut owner = replica_set(5);
    owner.status.conditions.push(Condition::new("ReplicaFailure", ConditionStatus::True, "FailedCreate", "no", NOW));
    let mut world = World { creations: [Ok(()), Err(quota())].into(), ..World::default() };
    assert_eq!(run(&mut world, snapshot(owner, pods(2))).error, Some(quota()));
    assert_eq!(world.status().expect("written")["replicas"], 2);
}

/// Rounds that follow upon each other put the counts off again and again, and each takes its time: after a second in
/// all they are written.
///
/// Contract: RS-17
#[test]
fn counts_wait_no_longer_than_a_second_in_all() {
    let growing = |waited| {
        let counts_wait = CountsWait { left: None, waited };
        ReplicaSync::new(Snapshot {
            memory: remembered(|memory| memory.counts_wait = counts_wait),
            ..snapshot(replica_set(3), pods(2))
        })
    };
    let ends_after = |waited: Duration, took: Duration| {
        let mut sync = growing(waited);
        let Next::Perform(plan) = sync.next(Report::Begin, NOW) else { panic!("a pod is missing") };
        assert_eq!(plan.creations(), 1);
        sync.next(Report::Performed(Outcome { created: 1, ..Outcome::default() }), NOW + took)
    };
    let most = LONGEST_COUNTS_WAIT - COUNTS_PAUSE;
    let second = Duration::from_millis(1);
    for (waited, took) in [(Duration::ZERO, Duration::ZERO), (most, Duration::ZERO), (Duration::ZERO, most)] {
        let end = ends_after(waited, took);
        assert!(
            matches!(&end, Next::Done(verdict) if *verdict == Verdict::done(Requeue::After(COUNTS_PAUSE))),
            "{end:?}"
        );
    }
    for (waited, took) in [(most + second, Duration::ZERO), (Duration::ZERO, most + second), (most, second)] {
        let end = ends_after(waited, took);
        assert!(matches!(&end, Next::WriteStatus(write) if write.status["replicas"] == 2), "{end:?}");
    }
}

/// Contract: RS-09, RS-11, RS-19
#[test]
fn creations_have_events_and_are_recorded() {
    let mut world = World::default();
    let mut sync = ReplicaSync::new(snapshot(replica_set(3), []));
    assert_eq!(sync.owner().component, "replicaset-controller");
    assert_eq!(world.run(&mut sync), Verdict::done(Requeue::After(COUNTS_PAUSE)));
    assert_eq!(world.requests, ["POST pods", "POST pods", "POST pods"], "the counts follow when the pods are seen");
    let created = |name: &str| told(false, "SuccessfulCreate", &format!("Created pod: {name}"));
    assert_eq!(world.announcements, [created("web-00000"), created("web-00001"), created("web-00002")]);
    assert_eq!(world.recorded, [5_001, 5_002, 5_003].map(ResourceVersion));
    assert_eq!(world.expected, Some((3, vec![])));
    assert!(world.outcome.is_accounted_for());
}

/// The batch with the failure is the last; creations never tried are not expected; the status has the failure.
///
/// Contract: RS-09, RS-11, RS-16, EX-05, B-09
#[test]
fn a_failed_batch_ends_the_round() {
    let mut world = World { creations: [Ok(()), Ok(()), Err(quota())].into(), ..World::default() };
    let verdict = run(&mut world, snapshot(replica_set(10), []));
    assert_eq!(world.requests.iter().filter(|request| *request == "POST pods").count(), 3, "1, 2, and no 4");
    assert_eq!((world.outcome.created, world.outcome.failed, world.outcome.not_tried), (2, 1, 7));
    assert_eq!(world.expected, Some((2, vec![])));
    let warning = told(true, "FailedCreate", &format!("Error creating: {}", quota().message));
    assert_eq!(world.announcements.last(), Some(&warning));
    let condition = &world.status().expect("written")["conditions"][0];
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("FailedCreate"), &json!(quota().message)));
    assert_eq!(verdict.error, Some(quota()));
    assert_eq!(verdict.requeue, Requeue::RateLimited { at_most: Some(Duration::from_secs(60)) });
}

/// Refusals that end are tried again within the minute, a server that is away within half of one, others with the
/// queue's own backoff.
///
/// Contract: B-09
#[test]
fn table_of_refusals() {
    let (minute, half) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(30)));
    let cases = [
        (quota(), minute),
        (failure(429, "TooManyRequests", "too many requests"), minute),
        (failure(400, "BadRequest", "admission webhook \"x.example.com\" denied the request: no"), minute),
        (failure(500, "InternalError", "Internal error occurred: failed calling webhook \"x\": timeout"), minute),
        (failure(403, "Forbidden", "pods is forbidden: User \"u\" cannot create resource \"pods\""), None),
        (failure(422, "Invalid", "Pod \"web-x\" is invalid: spec.containers: Required value"), None),
        (failure(500, "InternalError", "etcdserver: no leader"), half),
        (failure(503, "ServiceUnavailable", "the server is currently unable to handle the request"), half),
        (Failure::unanswered("connection refused"), half),
        (Failure::local("the Deployment's template cannot be read"), None),
    ];
    for (refusal, at_most) in cases {
        let mut world = World { creations: [Err(refusal.clone())].into(), ..World::default() };
        let verdict = run(&mut world, snapshot(replica_set(1), []));
        assert_eq!(verdict, Verdict { requeue: Requeue::RateLimited { at_most }, error: Some(refusal) });
    }
}

/// No error, no event, no condition, nothing expected, and not one request more.
///
/// Contract: RS-12, EX-05
#[test]
fn a_terminating_namespace_ends_the_round_quietly() {
    let mut world = World { creations: [Err(terminating_namespace())].into(), ..World::default() };
    assert_eq!(run(&mut world, snapshot(replica_set(8), [])), Verdict::done(Requeue::None));
    assert_eq!(world.requests, ["POST pods", "PATCH web/status"]);
    assert_eq!((&world.announcements, &world.expected), (&vec![], &Some((0, vec![]))));
    assert_eq!(world.status().expect("written").get("conditions"), None);
}

/// Upstream's `TestSyncReplicaSetCreateFailures`: the next sync starts again with one creation.
///
/// Contract: RS-16
#[test]
fn the_condition_is_removed_by_the_next_sync_that_succeeds() {
    let mut owner = replica_set(1);
    owner.status.conditions = serde_json::from_value(
        json!([{"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(9), "reason": "FailedCreate", "message": "x"}]),
    )
    .expect("conditions");
    let mut world = World::default();
    assert_eq!(run(&mut world, snapshot(owner, [])), Verdict::done(Requeue::None));
    assert_eq!(world.status().expect("written")["conditions"], json!([{"$patch": "delete", "type": "ReplicaFailure"}]),);
}

/// Contract: RS-11, RS-13, EX-05
#[test]
fn deletions_are_all_tried_and_the_first_error_fails_the_sync() {
    let boom = |name: &str| failure(500, "InternalError", &format!("{name} is stuck"));
    let mut world = World::default();
    world.writes.insert("web-1".into(), [Err(boom("web-1"))].into());
    world.writes.insert("web-2".into(), [Err(not_found("web-2"))].into());
    world.writes.insert("web-3".into(), [Err(boom("web-3"))].into());
    let verdict = run(&mut world, snapshot(replica_set(0), pods(5)));
    assert_eq!(world.deleted(), ["web-0", "web-1", "web-2", "web-3", "web-4"]);
    assert_eq!(
        world.announcements,
        [
            told(false, "SuccessfulDelete", "Deleted pod: web-0"),
            told(true, "FailedDelete", "Error deleting: web-1 is stuck"),
            told(true, "FailedDelete", "Error deleting: web-3 is stuck"),
            told(false, "SuccessfulDelete", "Deleted pod: web-4"),
        ],
    );
    // What failed, and what was gone, is not waited for.
    assert_eq!(world.expected, Some((0, vec!["web-0".into(), "web-4".into()])));
    assert_eq!(verdict.error.expect("failed").message, "unable to delete pods: web-1 is stuck");
    let condition = &world.status().expect("written")["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("FailedDelete"), &json!("unable to delete pods: web-1 is stuck")),
    );
}

/// The pod changed between the decision and the deletion, and is still ours: again, with what was read.
///
/// Contract: B-02
#[test]
fn a_conflict_is_looked_into_and_tried_again() {
    let mut world = World::default();
    world.writes.insert("web-0".into(), [Err(conflict("web-0"))].into());
    world.reads.insert("web-0".into(), Ok(fresh_pod(10, |_| {})));
    assert_eq!(run(&mut world, snapshot(replica_set(0), pods(1))), Verdict::done(Requeue::After(COUNTS_PAUSE)));
    assert_eq!(world.requests, ["DELETE web-0", "GET web-0", "DELETE web-0"]);
    assert_eq!(world.bodies[0]["preconditions"], json!({"uid": uid(10), "resourceVersion": "1010"}));
    assert_eq!(world.bodies[2]["preconditions"], json!({"uid": uid(10), "resourceVersion": "4444"}));
    assert_eq!(world.expected, Some((0, vec!["web-0".into()])));
}

/// Another pod of the name, one that was released, adopted by another, relabelled, or is being deleted already: it is
/// not deleted, no event is expected, there is no error, and the owner is synced again once the cache shows the change.
///
/// Contract: B-02, EX-05
#[test]
fn a_pod_that_is_no_longer_ours_is_left_alone() {
    let cases: [(&str, Value); 6] = [
        ("recreated", fresh_pod(99, |_| {})),
        ("orphaned", fresh_pod(10, |pod| pod["metadata"]["ownerReferences"] = json!(null))),
        ("adopted by another", fresh_pod(10, |pod| pod["metadata"]["ownerReferences"][0]["uid"] = json!(uid(7)))),
        (
            "no longer controlled",
            fresh_pod(10, |pod| pod["metadata"]["ownerReferences"][0]["controller"] = json!(false)),
        ),
        ("relabelled", fresh_pod(10, |pod| pod["metadata"]["labels"]["app"] = json!("db"))),
        ("dying", fresh_pod(10, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T15:04:05Z"))),
    ];
    for (name, fresh) in cases {
        let mut world = World::default();
        world.writes.insert("web-0".into(), [Err(conflict("web-0"))].into());
        world.reads.insert("web-0".into(), Ok(fresh));
        assert_eq!(run(&mut world, snapshot(replica_set(0), pods(1))), Verdict::done(Requeue::AGAIN), "{name}");
        assert_eq!(world.deleted(), ["web-0"], "{name}");
        assert_eq!((&world.announcements, &world.expected), (&vec![], &Some((0, vec![]))), "{name}");
        assert!(world.recorded.contains(&ResourceVersion(4_444)), "{name}: the next sync waits for what was read");
    }
}

/// A pod that was chosen because it was not ready, and is by now, is left, and it is decided again; but where all pods go, none
/// can go in its place, and a cache that does not show it for many rounds is wrong.
///
/// Contract: B-02, DEP-11
#[test]
fn a_pod_that_turned_ready_is_no_longer_taken_before_others() {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let starting = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    for (replicas, status, spares, left) in
        [(1, &ready, true, true), (1, &starting, true, false), (0, &ready, true, false), (1, &ready, false, false)]
    {
        let mut world = World::default();
        world.writes.insert("web-0".into(), [Err(conflict("web-0"))].into());
        world.reads.insert("web-0".into(), Ok(fresh_pod(10, |pod| pod["status"] = status.clone())));
        let mut found = snapshot(replica_set(replicas), [pending("web-0", 10), pod("web-1", 11)]);
        found.memory.spares = spares;
        let verdict = run(&mut world, found);
        let of_it = world.deleted().iter().filter(|name| **name == "web-0").count();
        assert_eq!((of_it, verdict.requeue == Requeue::AGAIN), (if left { 1 } else { 2 }, left), "{replicas} {status}");
        assert!(!left || world.recorded.contains(&ResourceVersion(4_444)), "the next sync waits for what was read");
    }
}

/// Contract: B-02, RS-13
#[test]
fn a_conflict_about_a_pod_that_is_gone_is_no_error() {
    let mut world = World::default();
    world.writes.insert("web-0".into(), [Err(conflict("web-0"))].into());
    assert_eq!(run(&mut world, snapshot(replica_set(0), pods(1))), Verdict::done(Requeue::None));
    assert_eq!((&world.announcements, &world.expected), (&vec![], &Some((0, vec![]))));
}

/// A pod that changes each time it is looked at is left to the next sync.
///
/// Contract: B-02
#[test]
fn conflicts_end() {
    let mut world = World::default();
    world.writes.insert("web-0".into(), std::iter::repeat_n(Err(conflict("web-0")), 100).collect());
    world.reads.insert("web-0".into(), Ok(fresh_pod(10, |_| {})));
    let verdict = run(&mut world, snapshot(replica_set(0), pods(1)));
    assert_eq!(world.deleted().len(), 8);
    assert!(verdict.error.is_some_and(|error| error.is_conflict()));
    let mut world = World::default();
    world.writes.insert("web-0".into(), [Err(conflict("web-0"))].into());
    world.reads.insert("web-0".into(), Err(failure(500, "InternalError", "no")));
    let verdict = run(&mut world, snapshot(replica_set(0), pods(1)));
    assert_eq!(verdict.error.expect("failed").message, "unable to delete pods: no");
}

/// Contract: RS-06, RS-07, RS-08
#[test]
fn the_owner_is_read_once_and_adopted_pods_count() {
    let mut world = World::default();
    world.reads.insert("web".into(), Ok(fresh_owner("100")));
    let verdict = run(&mut world, snapshot(replica_set(3), [orphan("a", 11), orphan("b", 12), pod("c", 13)]));
    assert_eq!(verdict, Verdict::done(Requeue::None));
    assert_eq!(world.requests, ["GET web", "PATCH a", "PATCH b", "PATCH web/status"]);
    assert_eq!(world.recorded, [5_001, 5_002].map(ResourceVersion));
    assert_eq!(world.status().expect("written")["replicas"], 3);
}

/// Upstream's `TestDoNotAdoptOrCreateIfBeingDeletedRace`: the cache had not heard of the deletion.
///
/// Contract: RS-07
#[test]
fn a_dying_owner_adopts_nothing_though_its_cache_does_not_know() {
    let mut world = World::default();
    let dying = json!({"metadata": {"uid": uid(1), "deletionTimestamp": "2026-01-02T15:04:05Z"}});
    world.reads.insert("web".into(), Ok(dying));
    let stray = {
        let mut pod = pod("stray", 13);
        pod.meta.labels = labels(&[("app", "db")]);
        pod
    };
    let verdict = run(&mut world, snapshot(replica_set(5), [orphan("a", 11), orphan("b", 12), stray]));
    // The release is done; neither pods nor status are written after the failed claims.
    assert_eq!(world.requests, ["GET web", "PATCH stray"]);
    let why = "default/web has just been deleted at 2026-01-02 15:04:05 +0000 UTC";
    let error = verdict.error.expect("failed").message;
    assert_eq!(
        error,
        format!("[can't adopt Pod default/a ({}): {why}, can't adopt Pod default/b ({}): {why}]", uid(11), uid(12)),
    );
}

/// Upstream's `TestPatchPodFails`: every pod is tried, and nothing is managed.
///
/// Contract: RS-08
#[test]
fn a_failed_claim_fails_the_sync_after_every_pod_was_tried() {
    let mut world = World::default();
    world.reads.insert("web".into(), Ok(fresh_owner("100")));
    world.writes.insert("a".into(), [Err(invalid("a"))].into());
    world.writes.insert("b".into(), [Err(not_found("b"))].into());
    let verdict = run(&mut world, snapshot(replica_set(5), [orphan("a", 11), orphan("b", 12), orphan("c", 13)]));
    assert_eq!(world.requests, ["GET web", "PATCH a", "PATCH b", "PATCH c"]);
    assert_eq!(verdict, Verdict::failed(invalid("a")));
}

/// An orphan that is gone is skipped, and its place filled.
///
/// Contract: RS-08
#[test]
fn a_vanished_orphan_is_replaced() {
    let mut world = World::default();
    world.reads.insert("web".into(), Ok(fresh_owner("100")));
    world.writes.insert("a".into(), [Err(not_found("a"))].into());
    let verdict = run(&mut world, snapshot(replica_set(1), [orphan("a", 11)]));
    assert_eq!(verdict, Verdict::done(Requeue::After(COUNTS_PAUSE)));
    assert_eq!(world.requests, ["GET web", "PATCH a", "POST pods"]);
}

/// Upstream's `TestControllerUpdateStatusWithFailure`: once more with a fresh version, and what was computed.
///
/// Contract: RS-17
#[test]
fn a_failed_status_is_tried_once_more() {
    let conflict = || failure(409, "Conflict", "Operation cannot be fulfilled on replicasets.apps \"web\"");
    let mut world = World { statuses: [Err(conflict())].into(), ..World::default() };
    world.reads.insert("web".into(), Ok(fresh_owner("150")));
    assert_eq!(run(&mut world, snapshot(replica_set(2), pods(2))), Verdict::done(Requeue::None));
    assert_eq!(world.requests, ["PATCH web/status", "GET web", "PATCH web/status"]);
    assert_eq!(world.bodies[0]["metadata"]["resourceVersion"], Value::Null);
    assert_eq!(world.bodies[2]["metadata"]["resourceVersion"], "150");
    assert_eq!(world.bodies[2]["status"]["observedGeneration"], 1, "the generation 9 was not acted on");
    assert_eq!(world.bodies[0]["status"], world.bodies[2]["status"]);
}

/// Contract: RS-17
#[test]
fn a_status_that_fails_twice_fails_the_sync() {
    let boom = || failure(500, "InternalError", "no");
    // second answer, fresh read, the failure reported
    let cases = [
        (vec![Err(boom()), Err(conflict("web"))], Ok(fresh_owner("150")), conflict("web").message),
        (vec![Err(boom())], Err(not_found("web")), not_found("web").message),
        (
            vec![Err(boom())],
            Ok(json!({"metadata": {"uid": uid(2), "resourceVersion": "150"}})),
            format!("original ReplicaSet default/web is gone: got uid {}, wanted {}", uid(2), uid(1)),
        ),
    ];
    for (statuses, read, expected) in cases {
        // The creation fails as well: the status error takes precedence.
        let mut world = World { statuses: statuses.into(), creations: [Err(quota())].into(), ..World::default() };
        world.reads.insert("web".into(), read);
        let verdict = run(&mut world, snapshot(replica_set(2), pods(1)));
        assert_eq!(verdict.error.expect("failed").message, expected);
    }
}

/// Contract: RS-18
#[test]
fn a_sync_ends_with_a_note_for_the_next_available_pod() {
    let owner = ReplicaSet { min_ready_seconds: 5, ..replica_set(1) };
    let young = Pod { ready: ready_since(Some(ago(1))), ..pod("a", 11) };
    let mut world = World::default();
    assert_eq!(run(&mut world, snapshot(owner, [young])), Verdict::done(Requeue::After(Duration::from_secs(4))));
}

/// Upstream's `TestSyncReplicaSetDormancy`: while events are expected, only the status is written.
///
/// Contract: EX-07
#[test]
fn a_sync_that_waits_for_expectations_only_writes_the_status() {
    let expires_in = Duration::from_secs(299);
    let waiting = Snapshot {
        memory: remembered(|memory| memory.expected = Expected::Pending { expires_in }),
        ..snapshot(replica_set(3), [pending("a", 11)])
    };
    let mut world = World::default();
    assert_eq!(run(&mut world, waiting), Verdict::done(Requeue::After(expires_in)));
    assert_eq!(world.requests, ["PATCH web/status"]);
}

/// The write behind a lost answer may have created a pod: versions prove nothing for this round.
///
/// Contract: B-01
#[test]
fn a_lost_answer_leaves_the_round_unaccounted() {
    let mut world =
        World { creations: [Ok(()), Err(Failure::unanswered("connection reset"))].into(), ..World::default() };
    run(&mut world, snapshot(replica_set(2), []));
    assert!(!world.outcome.is_accounted_for());
    let mut world = World { creations: [Ok(()), Err(quota())].into(), ..World::default() };
    run(&mut world, snapshot(replica_set(2), []));
    assert!(world.outcome.is_accounted_for());
}
