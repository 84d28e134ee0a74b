//! What a ReplicaSet's explanation says: the order of deletion with its rules, what would be done and why, and its JSON.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::begin::Begin;
use muster_controllers::plan::{Expectation, Outcome, Resource};
use muster_controllers::replicaset::ranking::{Circumstances, Colocation, Rule};
use muster_controllers::replicaset::{Books, Effect, Expected, Identity, ReplicaOwner, Snapshot, preview};
use muster_inspect::explain::{Explanation, Memory, NextSync, Ranking, Replicas, Role, Source, View};
use muster_machinery::queue::Place;
use muster_machinery::{Cache, Remedy};
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::pod::Restarts;
use muster_objects::{Condition, ConditionStatus, Moment, Pod, PodPhase, ReplicaSet};
use proptest::prelude::*;
use serde_json::json;

use crate::replica_sets::{NOW, ago, any_pod, orphan, pending, pod, pods, ready_since, replica_set, snapshot, uid};

fn explained(snapshot: Snapshot<ReplicaSet>, most: usize) -> Explanation {
    let owner = Arc::clone(&snapshot.owner);
    Explanation::of_replicas(&*owner, Begin::Ready(snapshot), (Source::Api, None), most, NOW).expect("it is there")
}

fn replicas(snapshot: Snapshot<ReplicaSet>) -> Replicas {
    match explained(snapshot, usize::MAX).view {
        View::Replicas(replicas) => *replicas,
        other => panic!("{other:?}"),
    }
}

fn ranking(pods: &[Pod]) -> Ranking {
    let mut snapshot = snapshot(replica_set(9), pods.iter().cloned());
    snapshot.colocation = Colocation::of(pods);
    replicas(snapshot).ranking
}

/// What makes a pod different.
type Change = fn(&mut Pod);

/// What the last sync said of it is shown, each condition in a line of its own whatever its message has in it.
///
/// Contract: RS-16
#[test]
fn the_conditions_of_a_status_are_told() {
    let mut owner = replica_set(3);
    let message = "exceeded quota\nNext: nothing";
    owner.status.conditions =
        vec![Condition::new("ReplicaFailure", ConditionStatus::True, "FailedCreate", message, NOW)];
    let explanation = explained(snapshot(owner, []), usize::MAX);
    let text = explanation.to_string();
    let View::Replicas(told) = &explanation.view else { panic!("ready") };
    let said: Vec<_> = told.conditions.iter().map(|told| (&*told.kind, &*told.status, &*told.message)).collect();
    assert_eq!(said, [("ReplicaFailure", "True", message)]);
    assert!(text.contains("Conditions, as the last sync left them:\n"), "{text}");
    assert!(text.lines().any(|line| line.ends_with("FailedCreate  exceeded quota Next: nothing")), "{text}");
    assert!(!text.contains("\nNext: nothing"), "{text}");
}

/// Of two pods that differ by one rule: what it is called, and the two values.
///
/// Contract: DEL-01, DEL-02, DEL-03, DEL-04, B-29
#[test]
fn each_rule_decides_a_place() {
    let with = |change: Change, name: &str, number: u64| {
        let mut pod = Pod { node_name: Some("node".into()), ..pod(name, number) };
        change(&mut pod);
        pod
    };
    let nothing: Change = |_| ();
    // The difference between the two pods, and the rule, criterion and values reported.
    let cases: [(Change, [&str; 4]); 9] = [
        (|pod| pod.node_name = None, ["DEL-01", "assigned", "no node", "on node"]),
        (|pod| pod.phase = PodPhase::Unknown, ["DEL-01", "phase", "Unknown", "Running"]),
        (|pod| pod.ready = None, ["DEL-01", "ready", "not ready", "ready"]),
        (|pod| pod.deletion_cost = -5, ["DEL-02", "deletionCost", "-5", "0"]),
        (
            |pod| pod.ready = ready_since(Some(ago(10))),
            ["DEL-04", "readyFor", "10.0s (as 8.6s to 17.2s)", "1h0m (as 36m39s to 1h13m)"],
        ),
        (|pod| pod.restarts = Restarts { regular: 2, sidecar: 0 }, ["DEL-04", "restarts", "2", "0"]),
        (|pod| pod.restarts = Restarts { regular: 0, sidecar: 3 }, ["DEL-04", "sidecarRestarts", "3", "0"]),
        (|pod| pod.meta.creation_timestamp = None, ["DEL-04", "age", "unknown", "2h0m (as 1h13m to 2h26m)"]),
        (nothing, ["DEL-04", "uid", "00000000-0000-4000-8000-00000000000b", "00000000-0000-4000-8000-00000000000c"]),
    ];
    for (change, [rule, criterion, before, this]) in cases {
        // The uid alone would put the second first, but in the case that is about it.
        let (first, second) = if criterion == "uid" { (11, 12) } else { (12, 11) };
        let told = ranking(&[with(nothing, "second", second), with(change, "first", first)]);
        let [first, second] = &told.order[..] else { panic!("{told:?}") };
        assert_eq!((&*first.pod, first.decided_by.as_ref(), first.place), ("first", None, 1), "{criterion}");
        let by = second.decided_by.as_ref().expect("the second is behind the first for a reason");
        assert_eq!((&*by.rule, &*by.criterion, &*by.before, &*by.this), (rule, criterion, before, this));
    }
    // A pod with another one on its node is deleted before one alone.
    let beside = |name: &str, number: u64, node: &str| Pod { node_name: Some(node.into()), ..pod(name, number) };
    let told = ranking(&[beside("alone", 10, "a"), beside("two", 12, "b"), beside("three", 11, "b")]);
    assert_eq!(told.order.iter().map(|place| &*place.pod).collect::<Vec<_>>(), ["three", "two", "alone"]);
    let by = told.order[2].decided_by.as_ref().expect("a reason");
    assert_eq!((&*by.rule, &*by.criterion, &*by.before, &*by.this), ("DEL-03", "colocated", "2", "1"));
    // One that is ready for less than minReadySeconds goes before one that is cheaper to delete.
    let fresh = with(|pod| pod.ready = ready_since(Some(ago(10))), "fresh", 11);
    let cheap = with(|pod| pod.deletion_cost = -5, "cheap", 12);
    let baking = ReplicaSet { min_ready_seconds: 60, ..replica_set(1) };
    let told = replicas(snapshot(baking, vec![cheap, fresh])).ranking;
    let by = told.order[1].decided_by.as_ref().expect("a reason");
    assert_eq!((&*told.order[0].pod, &*by.first), ("fresh", "not available yet first"));
    assert_eq!(
        (&*by.rule, &*by.criterion, &*by.before, &*by.this),
        ("B-29", "available", "not available yet", "available")
    );
}

/// The rule is the first of all by which two pods differ.
///
/// Contract: DEL-01, DEL-02, DEL-03, DEL-04
#[test]
fn rules_are_asked_in_their_order() {
    assert!(Rule::ALL.is_sorted());
    let by = Circumstances { colocation: &Colocation::default(), min_ready_seconds: 0, now: NOW };
    let (a, b) = (pending("a", 2), pod("b", 1));
    assert_eq!(by.rank(&a).compare(&by.rank(&b)).1, Rule::Assigned);
    let (order, rule) = by.rank(&a).compare(&by.rank(&a));
    assert_eq!((order, rule), (std::cmp::Ordering::Equal, Rule::Name));
}

proptest! {
    /// The order reported is the order of deletion, for any number of replicas.
    ///
    /// Contract: DEL-01, DEL-02, DEL-03, DEL-04, DEL-05
    #[test]
    fn the_ranking_is_the_order_of_deletion(
        pods in prop::collection::btree_map(0_u64..1_000_000, any_pod(), 0..30),
        replicas_wanted in 0_i32..35,
    ) {
        let pods: Vec<Pod> = pods.into_iter().map(|(number, mut pod)| {
            pod.meta.uid = uid(number);
            pod.meta.name = format!("web-{number}").into();
            pod
        }).collect();
        let mut snapshot = snapshot(replica_set(replicas_wanted), pods.clone());
        snapshot.colocation = Colocation::of(&pods);
        let (_, plan) = preview(&snapshot, NOW);
        let deleted: Vec<String> = plan.deletions().map(|deletion| deletion.key.name.to_string()).collect();
        let told = replicas(snapshot).ranking;
        let order: Vec<String> = told.order.iter().map(|place| place.pod.clone()).collect();
        prop_assert_eq!(&order[..deleted.len()], &deleted[..]);
        prop_assert_eq!(order.len(), pods.len());
        prop_assert!(told.order.iter().enumerate().all(|(at, place)| place.goes == (at < deleted.len())));
        let compared = told.order.iter().filter(|place| place.decided_by.is_some()).count();
        prop_assert_eq!(compared, if told.all_go { 0 } else { pods.len().saturating_sub(1) });
    }
}

/// Contract: DEL-05
#[test]
fn pods_are_not_ranked_if_all_are_deleted() {
    let told = replicas(snapshot(replica_set(0), pods(3))).ranking;
    assert!(told.all_go);
    assert!(told.order.iter().all(|place| place.goes && place.decided_by.is_none()));
}

#[test]
fn of_a_long_order_the_beginning_is_told() {
    let View::Replicas(told) = explained(snapshot(replica_set(9), pods(9)), 4).view else { panic!("ready") };
    assert_eq!((told.ranking.order.len(), told.ranking.omitted), (4, 5));
}

/// What would be done in each state, by which rule, and when it would look again.
///
/// Contract: RS-06, RS-09, RS-13, RS-14, EX-07, B-08
#[test]
fn each_state_has_its_reason() {
    let next = |change: fn(&mut Snapshot<ReplicaSet>), replicas_wanted: i32, pods: Vec<Pod>| -> NextSync {
        let mut snapshot = snapshot(replica_set(replicas_wanted), pods);
        change(&mut snapshot);
        replicas(snapshot).next
    };
    let nothing: fn(&mut Snapshot<ReplicaSet>) = |_| ();
    type Case = (fn(&mut Snapshot<ReplicaSet>), i32, Vec<Pod>, &'static str, &'static [(&'static str, &'static str)]);
    let mut stray = pod("stray", 70);
    stray.meta.labels = crate::replica_sets::labels(&[("app", "other")]);
    let cases: [Case; 9] = [
        (nothing, 3, pods(3), "leave the pods as they are", &[("RS-09", "3 of 3 wanted pods are there")]),
        (nothing, 5, pods(3), "create 2 pods", &[("RS-09", "3 of 5 wanted pods are there: 2 are missing")]),
        (nothing, 2, pods(3), "delete 1 pod", &[("RS-13", "3 pods are there and 2 wanted")]),
        (
            |snapshot| snapshot.burst = 2,
            9,
            pods(3),
            "create 2 pods",
            &[
                ("RS-09", "3 of 9 wanted pods are there: 6 are missing"),
                ("CM-02", "one sync creates or deletes at most 2"),
            ],
        ),
        (
            |snapshot| snapshot.memory.expected = Expected::Pending { expires_in: Duration::from_secs(90) },
            5,
            pods(3),
            "leave the pods as they are",
            &[("EX-07", "events of the last round are still to come; given up in 1m30s")],
        ),
        (
            |snapshot| Arc::make_mut(&mut snapshot.owner).meta.deletion_timestamp = Some(NOW),
            5,
            pods(3),
            "leave the pods as they are",
            &[("RS-14", "it is being deleted")],
        ),
        (
            |snapshot| snapshot.memory.creations_wait = Some(Duration::from_secs(4)),
            5,
            pods(3),
            "wait before more pods are created",
            &[("B-08", "3 of 5 wanted pods are there, but the last pods came to nothing at once: creations wait 4.0s")],
        ),
        (
            nothing,
            2,
            vec![orphan("lost", 80), pod("web-0", 10)],
            "settle 1 claim, then leave the pods as they are",
            &[
                ("RS-06", "what the selector matches is adopted, what it matches no more is released"),
                ("RS-09", "2 of 2 wanted pods are there"),
            ],
        ),
        (
            nothing,
            1,
            vec![stray, orphan("lost", 80), pod("web-0", 10)],
            "settle 2 claims, then delete 1 pod",
            &[
                ("RS-06", "what the selector matches is adopted, what it matches no more is released"),
                ("RS-13", "2 pods are there and 1 wanted"),
            ],
        ),
    ];
    for (change, wanted, pods, summary, why) in cases {
        let told = next(change, wanted, pods);
        let found: Vec<(&str, &str)> = told.why.iter().map(|reason| (&*reason.rule, &*reason.text)).collect();
        assert_eq!((&*told.summary, &found[..]), (summary, why));
    }
}

/// The JSON, field by field, as documented.
#[test]
fn the_json_is_as_it_is_documented() {
    let mut all = pods(2);
    all[1].ready = None;
    let mut owner = replica_set(1);
    owner.min_ready_seconds = 7_200;
    let told = explained(snapshot(owner, all), usize::MAX);
    let found = serde_json::to_value(&told).expect("JSON");
    let place = |place: u32, name: &str, number: u64, ready: bool, goes: bool| {
        json!({
            "place": place, "pod": name, "uid": uid(number), "node": format!("node-{number}"), "phase": "Running",
            "ready": ready, "goes": goes, "adopted": false,
        })
    };
    let mut second = place(2, "web-0", 10, true, false);
    second["decidedBy"] = json!({
        "rule": "DEL-01", "criterion": "ready", "first": "not ready first", "before": "not ready", "this": "ready",
    });
    let expected = json!({
        "kind": "Explanation", "format": 1, "at": NOW, "source": "api",
        "object": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": uid(1),
            "resourceVersion": "100", "generation": 1,
        },
        "view": {"replicas": {
            "spec": {"replicas": 1, "minReadySeconds": 7_200, "selector": "app=web", "beingDeleted": false},
            "pods": {"claimed": 2, "ready": 1, "available": 0, "terminating": 0, "adopted": [], "released": []},
            "burst": 500,
            "next": {
                "summary": "delete 1 pod",
                "why": [{"rule": "RS-13", "text": "2 pods are there and 1 wanted"}],
                "writes": [{"action": "delete", "kind": "Pod", "name": "web-1", "count": 1}],
                "expects": {"creations": 0, "deletions": ["web-1"]},
                "status": {"patch": {
                    "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": null,
                    "terminatingReplicas": 0, "observedGeneration": 1,
                }},
                "again": {"afterSeconds": 3_600.0},
            },
            "ranking": {
                "allGo": false, "omitted": 0,
                "order": [place(1, "web-1", 11, false, true), second],
            },
        }},
    });
    assert_eq!(found, expected);
    assert_eq!(serde_json::from_value::<Explanation>(found).expect("it reads back"), told);
    let mut newer = expected;
    newer["aFieldOfALaterVersion"] = json!(1);
    assert_eq!(serde_json::from_value::<Explanation>(newer).expect("what is not known is passed over"), told);
}

/// An explanation has no effect on the books.
///
/// Contract: RS-19, B-01, B-08
#[test]
fn an_explanation_does_not_change_the_books() {
    let key = ObjectKey::new("default", "web");
    let (mut owners, mut cache) = (Cache::<ReplicaSet>::new(), Cache::<Pod>::new());
    owners.apply(replica_set(3));
    cache.apply(pod("web-0", 10));
    let owner = replica_set(3).as_planned();
    let now = Moment::ORIGIN;
    let mut books = Books::new(Identity::REPLICA_SET);
    books.note(Effect::FailedAtOnce(key.clone()), now);
    books.expect(&owner, &Expectation::Creations(2), now);
    books.wrote(&owner, Resource::PODS, ResourceVersion(2_000));
    books.round_ended(&owner, &Outcome { created: 2, ..Outcome::default() });

    let memory =
        |books: &Books| Memory::of_replicas(&books.only(&key), &key, |_| ResourceVersion(1_010), Place::default(), now);
    let told = memory(&books);
    let expectations = told.expectations.as_ref().expect("it counts");
    assert_eq!((expectations.creations, expectations.expires_in_seconds), (2, Some(300.0)));
    assert_eq!(told.creations_wait_seconds, Some(1.0));
    let written = told.written.as_deref().expect("a record is kept");
    assert_eq!(written.len(), 1);
    assert_eq!((&*written[0].kind, &*written[0].version, &*written[0].cache), ("Pod", "2000", "1010"));
    assert_eq!(memory(&Books::new(Identity::REPLICATION_CONTROLLER)).written, None);

    let stale = books.only(&key).begin(&key, &owners, &cache, 500, now);
    assert!(matches!(stale, Begin::Stale { remedy: Remedy::Woken, .. }));
    assert_eq!(books.next_deadline(), None, "no owner waits");
    cache.saw(ResourceVersion(2_000));
    let Begin::Ready(settled) = books.only(&key).begin(&key, &owners, &cache, 500, now) else { panic!("caught up") };
    assert_eq!(
        (settled.memory.expected, settled.memory.creations_wait),
        (Expected::Settled, Some(Duration::from_secs(1)))
    );
    assert_eq!(memory(&books), told, "as it was");
    assert_eq!(memory(&books.only(&ObjectKey::new("default", "other"))).expectations.expect("it counts").creations, 0);

    let role = Source::Manager { role: Role::Leader };
    let begin = Begin::Stale {
        resource: Resource::PODS,
        wrote: ResourceVersion(2_000),
        read: ResourceVersion(1_010),
        remedy: Remedy::Woken,
    };
    let text = Explanation::of_replicas(&replica_set(3), begin, (role, Some(told)), 9, NOW).expect("there").to_string();
    for words in [
        "the manager that leads",
        "expecting 2 creations and 0 deletions, given up in 5m0s",
        "wrote Pod 2000 (cache at 1010)",
        "creations wait 1.0s",
        "Next: wait for the cache\n  RS-19  the cache of Pod is at 1010, 2000 was written\n",
    ] {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}
