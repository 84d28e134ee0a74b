//! Which pods are deleted first.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use muster_controllers::plan::{ClaimOutcome, Remark};
use muster_controllers::replicaset::claiming::Claimed;
use muster_controllers::replicaset::decide;
use muster_controllers::replicaset::metrics::deletion_age_ratios;
use muster_controllers::replicaset::ranking::{Age, Circumstances, Colocation, victims};
use muster_objects::pod::Restarts;
use muster_objects::{Pod, PodPhase, Timestamp};
use proptest::prelude::*;

use crate::fixtures::{NOW, ago, any_pod, pending, pod, pods, ready_since, replica_set, snapshot, terminating};

const MONTH: u64 = 30 * 86_400;
const HOUR: u64 = 3_600;

/// Pods of an owner without `minReadySeconds`.
fn among(colocation: &Colocation) -> Circumstances<'_> {
    Circumstances { colocation, min_ready_seconds: 0, now: NOW }
}

/// Compares two pods, each with this many related pods on its node.
fn compare((a, colocated_a): (&Pod, usize), (b, colocated_b): (&Pod, usize)) -> Ordering {
    // Ranks come from the nodes of related pods; here each pod gets a node of its own with the given number.
    let place = |pod: &Pod, node: &str| {
        let mut pod = pod.clone();
        pod.node_name = pod.node_name.map(|_| node.into());
        pod
    };
    let (a, b) = (place(a, "a"), place(b, "b"));
    let related: Vec<Pod> = [("a", colocated_a), ("b", colocated_b)]
        .into_iter()
        .flat_map(|(node, count)| (0..count).map(move |_| place(&pod("related", 99), node)))
        .collect();
    let colocation = Colocation::of(&related);
    among(&colocation).rank(&a).cmp(&among(&colocation).rank(&b))
}

fn ready(name: &str, since: Option<Timestamp>, created: Option<Timestamp>) -> Pod {
    let mut pod = Pod { ready: ready_since(since), ..pod(name, 11) };
    pod.meta.creation_timestamp = created;
    pod
}

fn not_ready(name: &str, phase: PodPhase, node: bool) -> Pod {
    let pod = Pod { ready: None, phase, ..ready(name, None, None) };
    if node { pod } else { Pod { node_name: None, ..pod } }
}

/// The cases of upstream's `TestSortingActivePodsWithRanks`: the first is deleted before the second.
///
/// Contract: DEL-01, DEL-02, DEL-03, DEL-04
#[test]
fn table_of_pairs() {
    let unscheduled = not_ready("unscheduled", PodPhase::Pending, false);
    let scheduled = not_ready("pending", PodPhase::Pending, true);
    let unknown = not_ready("unknown", PodPhase::Unknown, true);
    let running = not_ready("not-ready", PodPhase::Running, true);
    let timeless = ready("ready-no-last-transition-time", None, None);
    let now = ready("ready-now", Some(NOW), Some(NOW));
    let then = ready("ready-then", Some(ago(MONTH)), Some(ago(MONTH)));
    let restarted = |regular, sidecar| Pod { restarts: Restarts { regular, sidecar }, ..now.clone() };
    let now_created_then = ready("ready-now-created-then", Some(NOW), Some(ago(MONTH)));
    let cost = |cost| Pod { deletion_cost: cost, ..now_created_then.clone() };
    let hours = |hours| ready("ready-for-hours", Some(ago(hours * HOUR)), Some(ago(MONTH)));

    let cases = [
        ("unassigned before assigned", (&unscheduled, 1), (&scheduled, 2)),
        ("unassigned before assigned, whatever the ranks", (&unscheduled, 2), (&scheduled, 1)),
        ("pending before unknown", (&scheduled, 1), (&unknown, 2)),
        ("unknown before running", (&unknown, 1), (&running, 2)),
        ("not ready before ready", (&running, 1), (&timeless, 1)),
        ("no time counts as the most recent", (&timeless, 1), (&now, 1)),
        ("more colocated first, before times", (&now, 2), (&timeless, 1)),
        ("ready lately before ready long", (&now, 1), (&then, 1)),
        ("colocated and ready lately", (&now, 2), (&then, 1)),
        ("more restarts first", (&restarted(9_001, 0), 1), (&now, 1)),
        ("more sidecar restarts first", (&restarted(9_001, 9_001), 1), (&restarted(9_001, 0), 1)),
        ("colocated before restarts", (&now, 2), (&restarted(9_001, 0), 1)),
        ("created lately before created long ago", (&now, 1), (&now_created_then, 1)),
        ("colocated before created lately", (&now_created_then, 2), (&now, 1)),
        ("cheap before dear, before colocation", (&cost(10), 1), (&cost(100), 2)),
        ("a negative cost before none", (&cost(-1), 1), (&cost(0), 2)),
        ("ready for 2 hours before ready for 5", (&hours(2), 1), (&hours(5), 1)),
    ];
    for (name, lesser, greater) in cases {
        assert_eq!(compare(lesser, greater), Ordering::Less, "{name}");
        assert_eq!(compare(greater, lesser), Ordering::Greater, "{name}, turned round");
    }
}

/// Ages in one power of two are equal, and the smaller uid decides.
///
/// Contract: DEL-04
#[test]
fn equal_age_buckets_are_ordered_by_uid() {
    let with_uid = |mut pod: Pod, number: u64| {
        pod.meta.uid = crate::fixtures::uid(number);
        pod
    };
    let five = ready("five", Some(ago(5 * HOUR)), Some(ago(MONTH)));
    let eight = ready("eight", Some(ago(8 * HOUR)), Some(ago(MONTH)));
    let unscheduled = |hours: u64| {
        let mut pod = not_ready("unscheduled", PodPhase::Pending, false);
        pod.meta.creation_timestamp = Some(ago(hours * HOUR));
        pod
    };
    for (a, b) in [(five, eight), (unscheduled(5), unscheduled(8))] {
        let (small, large) = (with_uid(a.clone(), 1), with_uid(b.clone(), 2));
        assert_eq!(compare((&small, 1), (&large, 1)), Ordering::Less);
        let (small, large) = (with_uid(b, 1), with_uid(a, 2));
        assert_eq!(compare((&small, 1), (&large, 1)), Ordering::Less);
    }
}

/// Contract: DEL-04
#[test]
fn ages_are_powers_of_two_of_nanoseconds() {
    let age = |nanos: i64| Age::since(Some(NOW.plus_nanos(-nanos)), NOW);
    assert_eq!(Age::since(None, NOW), Age::Unknown);
    let cases = [
        (-5, Age::None),
        (0, Age::None),
        (1, Age::Log2(0)),
        (2, Age::Log2(1)),
        (3, Age::Log2(1)),
        (4, Age::Log2(2)),
        (1 << 40, Age::Log2(40)),
        ((1 << 40) - 1, Age::Log2(39)),
        (i64::MAX, Age::Log2(62)),
    ];
    for (nanos, expected) in cases {
        assert_eq!(age(nanos), expected, "{nanos} ns");
    }
    assert!(Age::Unknown < Age::None && Age::None < Age::Log2(0) && Age::Log2(3) < Age::Log2(4));
}

/// Only the active ones of related pods count, and only on the pod's own node.
///
/// Contract: DEL-03
#[test]
fn colocation_counts_active_pods_by_node() {
    let on = |node: &str, pod: Pod| Pod { node_name: Some(node.into()), ..pod };
    let mut failed = on("x", pod("failed", 3));
    failed.phase = PodPhase::Failed;
    let related = [
        on("x", pod("a", 1)),
        on("x", pending("b", 2)),
        failed,
        on("x", terminating(pod("dying", 4))),
        on("y", pod("c", 5)),
        pending("nowhere", 6),
    ];
    let colocation = Colocation::of(&related);
    let around = |node: &str| colocation.around(&on(node, pod("me", 9)));
    assert_eq!((around("x"), around("y"), around("z")), (2, 1, 0));
    assert_eq!(colocation.around(&pending("nowhere", 7)), 0);
}

fn claim_all(pods: impl IntoIterator<Item = Pod>) -> Vec<Claimed> {
    pods.into_iter().map(|pod| Claimed { version: pod.meta.resource_version, pod: Arc::new(pod) }).collect()
}

fn names(pods: &[&Claimed]) -> Vec<String> {
    pods.iter().map(|claimed| claimed.pod.meta.name.to_string()).collect()
}

/// The cases of upstream's `TestGetPodsToDelete`.
///
/// Contract: DEL-01, DEL-03, DEL-05
#[test]
fn table_of_victims() {
    let unscheduled = pending("unscheduled", 1);
    let scheduled = Pod { node_name: Some("n".into()), ..pending("scheduled", 2) };
    let running = Pod { ready: None, ..pod("running", 3) };
    let (one, two) =
        (Pod { node_name: Some("1".into()), ..pod("one", 4) }, Pod { node_name: Some("2".into()), ..pod("two", 5) });
    let all = [&one, &two, &running, &scheduled, &unscheduled];
    // pods, related pods, how many are deleted, which
    type Case<'a> = (&'a [&'a Pod], &'a [&'a Pod], usize, &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        (&[], &[], 0, &[]),
        (&[&running, &one], &[], 2, &["running", "one"]),
        (&[&one, &running], &[], 1, &["running"]),
        (&all, &[], 5, &["one", "two", "running", "scheduled", "unscheduled"]),
        (&all, &[], 3, &["unscheduled", "scheduled", "running"]),
        (&[&one, &two], &[&one, &two, &two], 1, &["two"]),
        (&[&scheduled, &running], &[], 1, &["scheduled"]),
    ];
    for (pods, related, count, expected) in cases {
        let colocation = Colocation::of(related.iter().copied());
        let pods = claim_all(pods.iter().map(|pod| (*pod).clone()));
        assert_eq!(names(&victims(&pods, among(&colocation), count)), expected);
    }
}

/// A pod that is ready and not available yet goes before all that are available, at the most that it costs: a deletion cost
/// that says the opposite, on a node of its own, and the others on a node that they share. Upstream deletes an available one.
///
/// Contract: B-29, DEL-01, DEL-02, DEL-03
#[test]
fn what_is_not_available_yet_goes_before_what_is() {
    let on = |node: &str, pod: Pod| Pod { node_name: Some(node.into()), ..pod };
    let fresh = Pod { deletion_cost: i32::MAX, ..on("own", ready("fresh", Some(ago(29)), Some(ago(HOUR)))) };
    let just = on("own", ready("just", Some(ago(30)), Some(ago(HOUR))));
    let cheap = Pod { deletion_cost: i32::MIN, ..on("shared", ready("cheap", Some(ago(MONTH)), Some(ago(MONTH)))) };
    let broken = Pod { deletion_cost: i32::MAX, ..on("own", not_ready("broken", PodPhase::Running, true)) };
    let pods = [just, fresh, cheap.clone(), broken];
    let colocation = Colocation::of(pods.iter().chain([&cheap; 3]));
    let pods = claim_all(pods);
    let order = |min_ready_seconds, count| {
        let by = Circumstances { colocation: &colocation, min_ready_seconds, now: NOW };
        names(&victims(&pods, by, count))
    };
    assert_eq!(order(30, 3), ["broken", "fresh", "cheap"]);
    assert_eq!(order(0, 3), ["broken", "cheap", "just"]);
    // Ready for about as long: the uid alone would let the available one go.
    let alike = [("available", 1, 610), ("fresh", 2, 590)];
    let pods =
        claim_all(alike.map(|(name, uid, seconds)| Pod { ready: ready_since(Some(ago(seconds))), ..pod(name, uid) }));
    let none = Colocation::default();
    let first = |min_ready_seconds| names(&victims(&pods, Circumstances { min_ready_seconds, ..among(&none) }, 1));
    assert_eq!([600, 0].map(first), [["fresh"], ["available"]]);
}

/// If all are deleted, none is compared and nothing is observed.
///
/// Contract: DEL-05, DEL-06
#[test]
fn pods_keep_their_order_if_all_are_deleted() {
    let plan = decide(&snapshot(replica_set(0), pods(4)), &ClaimOutcome::default(), NOW);
    let deleted: Vec<_> = plan.deletions().map(|deletion| deletion.key.name.to_string()).collect();
    assert_eq!(deleted, ["web-0", "web-1", "web-2", "web-3"]);
    assert_eq!(plan.remarks, []);
}

/// The issue's own example: 3,000 pods scaled to 7, some dear.
///
/// Contract: DEL-02
#[test]
fn the_dear_ones_are_left() {
    let mut all = pods(3_000);
    for number in [17, 171, 700, 1_717, 2_100, 2_500, 2_999] {
        all[number].deletion_cost = 100;
    }
    let all = claim_all(all);
    let gone = victims(&all, among(&Colocation::default()), 2_993);
    assert_eq!(gone.len(), 2_993);
    assert!(gone.iter().all(|claimed| claimed.pod.deletion_cost == 0));
}

/// A real quotient: 1.5 is not 1, and a youngest of no age divides nothing.
///
/// Contract: DEL-06, B-16
#[test]
fn age_ratio_is_a_quotient() {
    let aged = |seconds: u64| ready("p", Some(NOW), Some(ago(seconds)));
    let ratios = |victims: &[Pod], all: &[Pod]| deletion_age_ratios(victims, all, NOW);
    let all = [aged(10), aged(15), aged(40)];
    assert_eq!(ratios(&all[..2], &all), [1.0, 1.5]);
    let none = Vec::<f64>::new();
    assert_eq!(ratios(&[aged(15)], &[aged(15), aged(0)]), none);
    let not_ready = Pod { ready: None, ..aged(5) };
    assert_eq!(ratios(std::slice::from_ref(&not_ready), &[not_ready.clone(), aged(10)]), none);
    assert_eq!(ratios(&[], &[]), none);
    // A pod without a creation time is left out on both sides.
    let timeless = ready("t", Some(NOW), None);
    assert_eq!(ratios(&[timeless.clone(), aged(20)], &[timeless, aged(20)]), [1.0]);
}

/// Contract: DEL-06
#[test]
fn the_plan_carries_a_ratio_for_each_ready_victim() {
    let mut all = pods(3);
    all[0].meta.creation_timestamp = Some(ago(10));
    all[0].ready = ready_since(Some(ago(5)));
    all[1].ready = None;
    let plan = decide(&snapshot(replica_set(1), all), &ClaimOutcome::default(), NOW);
    assert_eq!(plan.remarks, [Remark::DeletionAgeRatio(1.0)]);
}

/// Upstream's comparison of two pods, step by step; `None` if it leaves them equal.
fn upstream(a: &Pod, b: &Pod, colocation: &Colocation) -> Option<Ordering> {
    let unlike = |ordering: Ordering| (ordering != Ordering::Equal).then_some(ordering);
    // Later times are deleted first, and no time before all others.
    let recency = |a: Option<Timestamp>, b: Option<Timestamp>| match (a, b) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(_), Some(_)) => Age::since(a, NOW).cmp(&Age::since(b, NOW)),
    };
    let by_time = |time_a: Option<Timestamp>, time_b: Option<Timestamp>| {
        (time_a != time_b).then(|| recency(time_a, time_b).then_with(|| a.meta.uid.cmp(&b.meta.uid)))
    };
    unlike(a.node_name.is_some().cmp(&b.node_name.is_some()))
        .or_else(|| unlike(a.phase.ordinal().cmp(&b.phase.ordinal())))
        .or_else(|| unlike(a.is_ready().cmp(&b.is_ready())))
        .or_else(|| unlike(a.deletion_cost.cmp(&b.deletion_cost)))
        .or_else(|| unlike(colocation.around(b).cmp(&colocation.around(a))))
        .or_else(|| if a.is_ready() { by_time(a.ready_since(), b.ready_since()) } else { None })
        .or_else(|| unlike(b.restarts.cmp(&a.restarts)))
        .or_else(|| by_time(a.meta.creation_timestamp, b.meta.creation_timestamp))
}

proptest! {
    /// A total order: antisymmetric, transitive, and only equal for one and the same pod.
    ///
    /// Contract: DEL-01, DEL-02, DEL-03, DEL-04
    #[test]
    fn ranking_is_a_total_order(
        pods in prop::collection::vec(any_pod(), 3),
        min_ready_seconds in 0_i32..6,
    ) {
        let colocation = Colocation::of(&pods);
        let by = Circumstances { min_ready_seconds, ..among(&colocation) };
        let rank = |at: usize| by.rank(&pods[at]);
        let (a, b, c) = (rank(0), rank(1), rank(2));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert!(a > b || b > c || a <= c);
        prop_assert_eq!(a == b, a.cmp(&b).is_eq());
        prop_assert!(!a.cmp(&b).is_eq() || pods[0].meta.uid == pods[1].meta.uid);
    }

    /// Agrees with upstream's comparison of two pods, but where that decides by uid between times of one
    /// bucket before it looks at restarts and creation.
    ///
    /// Contract: DEL-01, DEL-02, DEL-03, DEL-04
    #[test]
    fn ranking_is_upstreams(pods in prop::collection::vec(any_pod(), 2)) {
        let (a, b) = (&pods[0], &pods[1]);
        prop_assume!(a.meta.uid != b.meta.uid);
        let colocation = Colocation::of(&pods);
        let bucketed = a.is_ready() && b.is_ready()
            && a.ready_since() != b.ready_since()
            && Age::since(a.ready_since(), NOW) == Age::since(b.ready_since(), NOW);
        let same_otherwise = a.restarts == b.restarts
            && Age::since(a.meta.creation_timestamp, NOW) == Age::since(b.meta.creation_timestamp, NOW);
        prop_assume!(!bucketed || same_otherwise);
        if let Some(expected) = upstream(a, b, &colocation) {
            let found = among(&colocation).rank(a).cmp(&among(&colocation).rank(b));
            prop_assert_eq!(found, expected);
        }
    }

    /// Between pods of which both are available, or neither, `minReadySeconds` decide nothing; of others the available one
    /// stays.
    ///
    /// Contract: B-29
    #[test]
    fn min_ready_seconds_decide_by_availability_alone(
        mut pods in prop::collection::vec(any_pod(), 2),
        min_ready_seconds in 0_i32..6,
    ) {
        // What decides before.
        for pod in &mut pods {
            pod.phase = PodPhase::Running;
            pod.node_name.get_or_insert("n".into());
        }
        let colocation = Colocation::of(&pods);
        let (a, b) = (&pods[0], &pods[1]);
        let by = Circumstances { min_ready_seconds, ..among(&colocation) };
        let is_available = |pod: &Pod| pod.is_available(min_ready_seconds, NOW);
        let expected = match (is_available(a), is_available(b)) {
            (true, false) if b.is_ready() => Ordering::Greater,
            (false, true) if a.is_ready() => Ordering::Less,
            _ => among(&colocation).rank(a).cmp(&among(&colocation).rank(b)),
        };
        prop_assert_eq!(by.rank(a).cmp(&by.rank(b)), expected);
    }

    /// The chosen are the first of everyone, sorted: selecting instead of sorting changes nothing.
    ///
    /// Contract: DEL-01, DEL-02, DEL-03, DEL-04, DEL-05
    #[test]
    fn victims_are_the_prefix_of_the_sorted(
        pods in prop::collection::vec(any_pod(), 0..40),
        count in 0_usize..45,
        min_ready_seconds in 0_i32..6,
    ) {
        let colocation = Colocation::of(&pods);
        let by = Circumstances { colocation: &colocation, min_ready_seconds, now: NOW };
        let pods = claim_all(pods);
        let found = victims(&pods, by, count);
        let mut sorted: Vec<&Claimed> = pods.iter().collect();
        if count < pods.len() {
            sorted.sort_by_key(|claimed| by.rank(&claimed.pod));
            sorted.truncate(count);
        }
        prop_assert_eq!(names(&found), names(&sorted));
    }
}

/// A time long before the epoch of the clock does not overflow.
///
/// Contract: DEL-04
#[test]
fn ages_do_not_overflow() {
    assert_eq!(Age::since(Some(Timestamp::from_nanos(i64::MIN)), NOW), Age::Log2(62));
    assert_eq!(Age::since(Some(NOW + Duration::from_secs(u64::MAX)), NOW), Age::None);
}
