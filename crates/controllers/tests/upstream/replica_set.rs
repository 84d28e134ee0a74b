//! `replica_set_test.go` and `replica_set_utils_test.go`: rounds, expectations, victims and statuses.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::plan::{ClaimOutcome, Expectation, Failure, Requeue, Verdict};
use muster_controllers::replicaset::claiming::Claimed;
use muster_controllers::replicaset::ranking::{Circumstances, Colocation, victims};
use muster_controllers::replicaset::status::{Counts, calculate};
use muster_controllers::replicaset::{
    Begin, Books, Effect, Expected, Identity, ReplicaOwner, ReplicaSync, Snapshot, decide, pod_changed,
};
use muster_machinery::{Cache, Change};
use muster_objects::meta::{ControllerRef, ObjectKey, ResourceVersion};
use muster_objects::{Labels, Moment, Pod, PodPhase, ReplicaSet};
use serde_json::json;

use crate::pods::{
    NOW, ago, labels, orphan, pending, pod, pods, ready_since, reference_to, replica_set, replica_set_named, snapshot,
    terminating,
};
use crate::replica_world::World;

fn run(world: &mut World, snapshot: Snapshot<ReplicaSet>) -> Verdict {
    world.run(&mut ReplicaSync::new(snapshot))
}

/// The requests that have to do with pods.
fn about_pods(world: &World) -> Vec<&str> {
    world.requests.iter().map(String::as_str).filter(|request| !request.ends_with("/status")).collect()
}

/// `TestSyncReplicaSetCreateFailures`: a hundred are wanted, and a quota allows ten.
///
/// Contract: RS-09
#[test]
fn a_quota_is_not_run_against_a_hundred_times() {
    let quota = || Failure { code: 403, reason: "Forbidden".into(), ..Failure::local("exceeded quota") };
    let answers = (0..100).map(|at| if at < 10 { Ok(()) } else { Err(quota()) });
    let mut world = World { creations: answers.collect(), ..World::default() };
    assert!(run(&mut world, snapshot(replica_set(100), [])).error.is_some());
    let tried = world.requests.iter().filter(|request| *request == "POST pods").count();
    assert_eq!((tried, world.outcome.created), (1 + 2 + 4 + 8, 10));
}

/// `TestDoNotPatchPodWithOtherControlRef`: a pod with another controller matches, and two are created all the same.
///
/// Contract: RS-06
#[test]
fn anothers_pod_is_neither_adopted_nor_counted() {
    let mut anothers = pod("a", 11);
    anothers.meta.controller = Some(Arc::new(reference_to("another", 9)));
    let mut world = World::default();
    assert_eq!(run(&mut world, snapshot(replica_set(2), [anothers])).error, None);
    assert_eq!(about_pods(&world), ["POST pods", "POST pods"]);
}

/// `TestDoNotAdoptOrCreateIfBeingDeleted`.
///
/// Contract: RS-06, RS-14
#[test]
fn a_dying_owner_neither_adopts_nor_creates() {
    let mut owner = replica_set(2);
    owner.meta.deletion_timestamp = Some(ago(1));
    let mut world = World::default();
    assert_eq!(run(&mut world, snapshot(owner, [orphan("a", 11)])).error, None);
    assert_eq!(about_pods(&world), [""; 0]);
}

/// `TestReplicaSetAvailabilityCheck`: ready for 0, 2 and 4.3 of 5 seconds, and one that is not ready.
///
/// Contract: RS-15, RS-18
#[test]
fn the_next_pod_to_be_available_is_waited_for() {
    let since = |name: &str, number: u64, nanos: i64| Pod {
        ready: ready_since(Some(NOW.plus_nanos(-nanos))),
        ..pod(name, number)
    };
    let all = [pending("a", 11), since("b", 12, 0), since("c", 13, 2_000_000_000), since("d", 14, 4_300_000_000)];
    let owner = ReplicaSet { min_ready_seconds: 5, ..replica_set(4) };
    let mut world = World::default();
    let verdict = run(&mut world, snapshot(owner, all));
    assert_eq!(verdict, Verdict::done(Requeue::After(Duration::from_millis(700))));
    let status = world.status().expect("written");
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(3), &json!(null)));
}

/// One controller with its caches, to which the watch shows what a test lets it.
struct Controller {
    books: Books,
    owners: Cache<ReplicaSet>,
    pods: Cache<Pod>,
}

impl Controller {
    fn new(owner: ReplicaSet) -> Self {
        let mut owners = Cache::new();
        owners.apply(owner);
        Self { books: Books::new(Identity::REPLICA_SET), owners, pods: Cache::new() }
    }

    fn snapshot(&mut self, burst: u32) -> Snapshot<ReplicaSet> {
        match self.books.begin(&key("web"), &self.owners, &self.pods, burst, Moment::ORIGIN) {
            Begin::Ready(snapshot) => snapshot,
            other => panic!("the sync may begin, but: {other:?}"),
        }
    }

    /// Passes a change to the books, and returns the owners to queue.
    fn show(&mut self, change: &Change<Pod>) -> Vec<ObjectKey> {
        let mut effects = Vec::new();
        pod_changed(change, &self.owners, |effect| effects.push(effect));
        let queued = effects.iter().filter_map(|effect| match effect {
            Effect::Enqueue(key) => Some(key.clone()),
            _ => None,
        });
        let queued = queued.collect();
        for effect in effects {
            self.books.note(effect, Moment::ORIGIN);
        }
        queued
    }

    fn see(&mut self, pod: Pod) {
        let change = self.pods.apply(pod).expect("it is new");
        self.show(&change);
    }

    fn see_gone(&mut self, pod: &ObjectKey) {
        let change = self.pods.delete_key(pod).expect("it was there");
        self.show(&change);
    }

    fn expect_deletion(&mut self, pod: &str) {
        let owner = replica_set(1).as_planned();
        self.books.expect(&owner, &Expectation::Deletions(vec![key(pod)]), Moment::ORIGIN);
    }

    fn is_settled(&mut self) -> bool {
        self.snapshot(500).memory.expected == Expected::Settled
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// `TestControllerBurstReplicas`: up to a size and down to none, in rounds of one burst each. A round ends only when
/// the last of its pods has been seen.
///
/// Contract: RS-09, RS-13, EX-01, EX-03, EX-04
#[test]
fn rounds_are_as_large_as_the_burst_and_wait_for_their_last_pod() {
    for (burst, replicas) in [(5, 30), (5, 12), (3, 2)] {
        let mut controller = Controller::new(replica_set(replicas));
        let rounds = u32::try_from(replicas).expect("few").div_ceil(burst);
        let count = |controller: &Controller| u32::try_from(controller.pods.len()).expect("few");
        let mut named = 0;
        for wanted in [replicas, 0] {
            let version = ResourceVersion(101 + u64::from(wanted == 0));
            let mut owner = replica_set(wanted);
            owner.meta.resource_version = version;
            controller.owners.apply(owner);
            for round in 0..rounds {
                let before = count(&controller);
                let snapshot = controller.snapshot(burst);
                let plan = decide(&snapshot, &ClaimOutcome::default(), NOW);
                let expectation = plan.expectation.clone().expect("a round");
                let planned = u32::try_from(wanted).expect("few").abs_diff(before).min(burst);
                let deletions: Vec<_> = plan.deletions().map(|deletion| deletion.key.clone()).collect();
                let found = if wanted == 0 { u32::try_from(deletions.len()).expect("few") } else { plan.creations() };
                assert_eq!(found, planned, "{replicas} by {burst}, round {round}");
                controller.books.expect(&snapshot.owner.as_planned(), &expectation, Moment::ORIGIN);
                for at in 0..planned {
                    assert!(!controller.is_settled(), "{replicas} by {burst}, {at} of {planned} seen");
                    let quiet = decide(&controller.snapshot(burst), &ClaimOutcome::default(), NOW);
                    assert!(quiet.is_quiet());
                    if wanted == 0 {
                        controller.see_gone(&deletions[usize::try_from(at).expect("few")]);
                    } else {
                        controller.see(pending(&format!("web-{named}"), 100 + named));
                        named += 1;
                    }
                }
                assert!(controller.is_settled());
            }
            assert_eq!(count(&controller), u32::try_from(wanted).expect("few"), "{replicas} by {burst}");
        }
    }
}

/// `TestOverlappingRSs`: nine of one selector and age; only the one that the pod's reference names is queued.
///
/// Contract: RS-02
#[test]
fn the_reference_decides_among_overlapping_owners() {
    let mut controller = Controller::new(replica_set(1));
    for number in (2..=10).rev() {
        controller.owners.apply(replica_set_named(&format!("rs{number}"), number, 1, &json!({"app": "web"})));
    }
    let mut pod = pending("p", 11);
    pod.meta.controller = Some(Arc::new(reference_to("rs5", 5)));
    assert_eq!(controller.show(&Change::Added(Arc::new(pod))), [key("rs5")]);
}

/// `TestDeletionTimestamp`: a pod that is dying is a deletion, once.
///
/// Contract: RS-02, RS-03, RS-04, EX-03, EX-04
#[test]
fn a_dying_pod_is_one_deletion() {
    let mut controller = Controller::new(replica_set(1));
    let at = |version: u64, pod: Pod| {
        let mut pod = pod;
        pod.meta.resource_version = ResourceVersion(version);
        Arc::new(pod)
    };
    let dying = at(1_001, terminating(pending("a", 11)));
    controller.expect_deletion("a");
    assert_eq!(controller.show(&Change::Added(Arc::clone(&dying))), [key("web")], "dying when first seen");
    assert!(controller.is_settled());

    controller.expect_deletion("a");
    let alive = at(1_002, pending("a", 11));
    assert_eq!(controller.show(&Change::Updated { old: alive, new: Arc::clone(&dying) }), [key("web")]);
    assert!(controller.is_settled());

    controller.expect_deletion("b");
    let again = at(1_003, terminating(pending("a", 11)));
    controller.show(&Change::Updated { old: again, new: Arc::clone(&dying) });
    assert!(!controller.is_settled(), "an update of a dying pod is no further deletion");
    controller.show(&Change::Deleted { last: dying, tombstone: false });
    assert!(!controller.is_settled(), "nor is its end");
    let gone = Change::Deleted { last: at(1_004, pending("b", 12)), tombstone: false };
    assert_eq!(controller.show(&gone), [key("web")]);
    assert!(controller.is_settled());
}

/// ReplicaSets of a Deployment of that number.
fn of_deployment(number: u64, mut set: ReplicaSet) -> ReplicaSet {
    let owner = ControllerRef { kind: "Deployment".into(), ..reference_to("d", 70 + number) };
    set.meta.controller = Some(Arc::new(owner));
    set
}

/// `TestGetReplicaSetsWithSameController`.
///
/// Contract: DEL-03
#[test]
fn table_of_siblings() {
    let some = || of_deployment(1, replica_set_named("some", 1, 1, &json!({"app": "a"})));
    let related = || of_deployment(1, replica_set_named("related", 2, 1, &json!({"app": "b"})));
    let unrelated = || of_deployment(2, replica_set_named("unrelated", 3, 1, &json!({"app": "c"})));
    let dying = || {
        let mut set = of_deployment(3, replica_set_named("dying", 4, 1, &json!({"app": "d"})));
        set.meta.deletion_timestamp = Some(ago(1));
        set
    };
    let cases: [(&str, Vec<ReplicaSet>, ReplicaSet, &[&str]); 3] = [
        ("one that is dying", vec![dying(), unrelated()], dying(), &["dying"]),
        ("no sibling", vec![some(), unrelated()], some(), &["some"]),
        ("a sibling", vec![some(), related(), unrelated()], some(), &["related", "some"]),
    ];
    for (name, all, of, expected) in cases {
        let mut cache = Cache::new();
        all.into_iter().for_each(|set| drop(cache.apply(set)));
        let owner = of.meta.controller.expect("owned").uid.clone();
        let mut found: Vec<_> = cache.controlled_by(&owner).map(|set| set.meta.name.to_string()).collect();
        found.sort();
        assert_eq!(found, expected, "{name}");
    }
}

/// `TestRelatedPodsLookup`: the pods that a node's colocation is counted among.
///
/// Contract: DEL-03, DEL-05
#[test]
fn table_of_related_pods() {
    let on_node = |name: &str, number: u64, owner: u64, app: &str| {
        let mut pod = Pod { node_name: Some("n".into()), ..pod(name, number) };
        pod.meta.labels = labels(&[("app", app)]);
        pod.meta.controller = Some(Arc::new(reference_to(app, owner)));
        pod
    };
    let some = || of_deployment(1, replica_set_named("a", 1, 1, &json!({"app": "a"})));
    let related = || of_deployment(1, replica_set_named("b", 2, 1, &json!({"app": "b"})));
    let unrelated = || of_deployment(2, replica_set_named("c", 3, 1, &json!({"app": "c"})));
    let (one, two) = (|| on_node("pod1", 11, 1, "a"), || on_node("pod2", 12, 1, "a"));
    let (three, four) = (|| on_node("pod3", 13, 2, "b"), || on_node("pod4", 14, 3, "c"));
    let cases = [
        ("its own", vec![some(), unrelated()], vec![one(), two(), four()], 2),
        ("those of a sibling too", vec![some(), related(), unrelated()], vec![one(), two(), three(), four()], 3),
    ];
    for (name, sets, all, expected) in cases {
        let (mut owners, mut cache) = (Cache::new(), Cache::new());
        sets.into_iter().for_each(|set| drop(owners.apply(set)));
        all.into_iter().for_each(|pod| drop(cache.apply(pod)));
        let mut books = Books::new(Identity::REPLICA_SET);
        let Begin::Ready(snapshot) = books.begin(&key("a"), &owners, &cache, 500, Moment::ORIGIN) else {
            panic!("the sync may begin")
        };
        assert_eq!(snapshot.colocation.around(&one()), expected, "{name}");
    }
}

/// `TestPodControllerLookup`.
///
/// Contract: RS-02
#[test]
fn table_of_selecting_owners() {
    let mut owners = Cache::new();
    owners.apply(replica_set_named("basic", 1, 1, &json!({})));
    owners.apply(replica_set_named("web", 2, 1, &json!({"app": "web"})));
    let found = |namespace: &str, labels: &Labels| -> Vec<String> {
        owners.selecting(namespace, labels).map(|owner: &Arc<ReplicaSet>| owner.meta.name.to_string()).collect()
    };
    assert_eq!(found("default", &labels(&[])), [""; 0], "no labels");
    assert_eq!(found("other", &labels(&[("app", "web")])), [""; 0], "another namespace");
    assert_eq!(found("default", &labels(&[("app", "web")])), ["web"]);
}

/// `TestGetPodsToDelete`.
///
/// Contract: DEL-01, DEL-03, DEL-05
#[test]
fn table_of_victims() {
    let unscheduled = pending("unscheduled", 1);
    let scheduled = Pod { node_name: Some("n".into()), ..pending("scheduled", 2) };
    let not_ready = Pod { node_name: Some("n".into()), ready: None, ..pod("not-ready", 3) };
    let one = Pod { node_name: Some("1".into()), ready: ready_since(None), ..pod("one", 4) };
    let two = Pod { node_name: Some("2".into()), ready: ready_since(None), ..pod("two", 5) };
    let six = [&one, &one, &two, &not_ready, &scheduled, &unscheduled];
    let six_names = ["one", "one", "two", "not-ready", "scheduled", "unscheduled"];
    // The pods, the related ones if they differ, how many are deleted, and which.
    type Case<'a> = (&'static str, &'a [&'a Pod], Option<&'a [&'a Pod]>, usize, &'a [&'a str]);
    let cases: [Case<'_>; 10] = [
        ("none", &[], None, 0, &[]),
        ("all", &[&not_ready, &one], None, 2, &["not-ready", "one"]),
        ("one", &[&one, &not_ready], None, 1, &["not-ready"]),
        ("all of six", &six, None, 6, &six_names),
        ("all of six, none related", &six, Some(&[]), 6, &six_names),
        ("nowhere before somewhere", &[&scheduled, &unscheduled], None, 1, &["unscheduled"]),
        ("not ready before ready", &[&one, &not_ready, &not_ready], None, 2, &["not-ready", "not-ready"]),
        ("colocated before alone", &[&one, &two], Some(&[&one, &two, &two]), 1, &["two"]),
        ("pending before running", &[&scheduled, &not_ready], None, 1, &["scheduled"]),
        (
            "three of five",
            &[&one, &two, &not_ready, &scheduled, &unscheduled],
            None,
            3,
            &["unscheduled", "scheduled", "not-ready"],
        ),
    ];
    for (name, all, related, count, expected) in cases {
        let colocation = Colocation::of(related.unwrap_or(all).iter().copied());
        let claimed = |pod: &&Pod| Claimed { version: pod.meta.resource_version, pod: Arc::new((*pod).clone()) };
        let claimed: Vec<Claimed> = all.iter().map(claimed).collect();
        let by = Circumstances { colocation: &colocation, min_ready_seconds: 0, now: NOW };
        let found: Vec<_> =
            victims(&claimed, by, count).iter().map(|claimed| claimed.pod.meta.name.to_string()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// `TestCalculateStatus`. Terminating pods are always counted, for a ReplicaSet.
///
/// Contract: RS-15
#[test]
fn table_of_statuses() {
    let owner = |template: serde_json::Value, min_ready_seconds| ReplicaSet {
        template: replica_set_named("t", 9, 1, &template).template,
        min_ready_seconds,
        ..replica_set(2)
    };
    let full = || owner(json!({"app": "web"}), 0);
    let partly = || owner(json!({"app": "web", "tier": "front"}), 0);
    let slow = || owner(json!({"app": "web"}), 3_600);
    let more = || {
        let mut pod = pod("more", 12);
        pod.meta.labels = labels(&[("app", "web"), ("tier", "front")]);
        pod
    };
    let since = |seconds| vec![Pod { ready: ready_since(Some(ago(seconds))), ..pod("a", 11) }];
    // All, fully labelled, ready and available.
    let cases = [
        ("one", full(), pods(1), (1, 1, 1, 1)),
        ("one that lacks a label", partly(), pods(1), (1, 0, 1, 1)),
        ("two", full(), pods(2), (2, 2, 2, 2)),
        ("two that lack a label", partly(), pods(2), (2, 0, 2, 2)),
        ("one of two lacks a label", partly(), vec![pod("a", 11), more()], (2, 1, 2, 2)),
        ("not ready", full(), vec![pending("a", 11)], (1, 1, 0, 0)),
        ("ready and not available", slow(), since(0), (1, 1, 1, 0)),
        ("available to the second", slow(), since(3_600), (1, 1, 1, 1)),
        ("available for long", slow(), since(7_200), (1, 1, 1, 1)),
    ];
    for (name, owner, pods, (replicas, fully_labeled, ready, available)) in cases {
        let expected = Counts { replicas, fully_labeled, ready, available };
        assert_eq!(Counts::of(&owner, &pods, NOW), expected, "{name}");
    }
    for (dying, expected) in [(0, 0), (1, 1), (2, 2)] {
        let leaving = (0..dying).map(|at| terminating(pod(&format!("d-{at}"), 20 + at)));
        let snapshot = snapshot(full(), pods(1).into_iter().chain(leaving));
        let counts = Counts::of(&*snapshot.owner, snapshot.active().map(AsRef::as_ref), NOW);
        let status = calculate(&*snapshot.owner, counts, Some(snapshot.terminating()), None, NOW);
        assert_eq!((status.replicas, status.terminating_replicas), (1, Some(expected)), "{dying} dying");
    }
    let ended = Pod { phase: PodPhase::Failed, ..terminating(pod("ended", 30)) };
    assert_eq!(snapshot(full(), [ended]).terminating(), 0);
}
