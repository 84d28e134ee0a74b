//! Affinity, anti-affinity and spread among pods.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, merge, node, pod, uid};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Nodes `a` to `c` in the zones east, east and west, and `d` in none.
fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::new();
    for (name, zone) in [("a", json!("east")), ("b", json!("east")), ("c", json!("west")), ("d", Value::Null)] {
        let labels = json!({"metadata": {"labels": {HOST: name, ZONE: zone}}});
        scheduler.node_changed(at(0), node(name, &labels));
    }
    scheduler
}

/// The node a pod goes to, or why it goes nowhere.
fn place(scheduler: &mut Scheduler, now: Moment) -> Result<String, String> {
    match scheduler.next(now).expect("there is a pod to place") {
        Decision::Bind { uid, node, .. } => {
            scheduler.bound(&uid);
            Ok(node.to_string())
        }
        Decision::Unschedulable { message, .. } => Err(message.to_string()),
        Decision::BindVolumes { .. } => panic!("there are none"),
    }
}

fn labelled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

fn on(node: &str, app: &str) -> Value {
    with(labelled(app), &json!({"spec": {"nodeName": node}}))
}

fn with(mut pod: Value, change: &Value) -> Value {
    merge(&mut pod, change);
    pod
}

fn term(key: &str, app: &str, more: &Value) -> Value {
    with(json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}), more)
}

/// What is wanted (`podAffinity`, `podAntiAffinity`) of these.
fn wants(kind: &str, terms: &[Value]) -> Value {
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}})
}

fn spread(key: &str, app: &str, more: &Value) -> Value {
    let constraint = term(key, app, &json!({"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}));
    json!({"spec": {"topologySpreadConstraints": [with(constraint, more)]}})
}

/// Contract: SIM-02
#[test]
fn pods_that_keep_apart_are_one_for_each_domain() {
    let mut scheduler = scheduler();
    let apart = with(labelled("web"), &wants("podAntiAffinity", &[term(HOST, "web", &json!({}))]));
    for n in 0..5 {
        scheduler.pod_changed(at(0), &pod(n, &apart));
    }
    let placed: Vec<_> = (0..5).map(|_| place(&mut scheduler, at(0))).collect();
    assert_eq!(placed[..4], ["a", "b", "c", "d"].map(|node| Ok(node.to_owned())));
    let message = "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, \
                   preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.";
    assert_eq!(placed[4], Err(message.to_owned()));
    // One that asks for nothing is kept away as well, and others are not.
    scheduler.pod_changed(at(0), &pod(5, &labelled("web")));
    let refused = place(&mut scheduler, at(0)).unwrap_err();
    assert!(refused.contains("4 node(s) didn't satisfy existing pods anti-affinity rules"), "{refused}");
    scheduler.pod_changed(at(0), &pod(6, &labelled("other")));
    assert_eq!(place(&mut scheduler, at(0)), Ok("a".to_owned()));
    scheduler.pod_deleted(at(0), &uid(5));
    // A pod that is being deleted keeps others away until it is gone.
    let leaving = with(apart.clone(), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    scheduler.pod_changed(at(2_000), &pod(2, &with(leaving, &json!({"spec": {"nodeName": "c"}}))));
    assert_eq!(scheduler.next(at(2_000)), None);
    scheduler.pod_deleted(at(2_000), &uid(2));
    assert_eq!(place(&mut scheduler, at(2_000)), Ok("c".to_owned()));
    // Where one of them is gone, nobody keeps others away.
    scheduler.pod_deleted(at(4_000), &uid(0));
    scheduler.pod_changed(at(4_000), &pod(7, &labelled("web")));
    assert_eq!(place(&mut scheduler, at(4_000)), Ok("a".to_owned()));
}

/// Contract: SIM-02
#[test]
fn pods_that_want_to_be_together_follow_the_first() {
    let follow = |key: &str, app: &str| wants("podAffinity", &[term(key, app, &json!({}))]);
    let mut scheduler = scheduler();
    scheduler.pod_changed(at(0), &pod(0, &follow(ZONE, "leader")));
    let message = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules. no new claims to deallocate, \
                   preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.";
    assert_eq!(place(&mut scheduler, at(0)), Err(message.to_owned()));
    // It is looked at again when the leader has a node, and after its back-off.
    scheduler.pod_changed(at(5_000), &pod(1, &on("c", "leader")));
    assert_eq!(place(&mut scheduler, at(5_000)), Ok("c".to_owned()));
    scheduler.pod_deleted(at(5_000), &uid(1));
    // Also when what has one is a leader from now on.
    scheduler.pod_changed(at(5_000), &pod(2, &on("a", "nobody")));
    scheduler.pod_changed(at(5_000), &pod(3, &follow(ZONE, "leader")));
    place(&mut scheduler, at(5_000)).unwrap_err();
    scheduler.pod_changed(at(9_000), &pod(2, &on("a", "leader")));
    assert_eq!(place(&mut scheduler, at(9_000)), Ok("b".to_owned()), "the zone's node with the fewest pods");
    // Who wants to be with its own begins anywhere that is a domain at all.
    for (n, want) in [(4, "b"), (5, "a"), (6, "b")] {
        scheduler.pod_changed(at(9_000), &pod(n, &with(labelled("own"), &follow(ZONE, "own"))));
        if n == 4 {
            // Where a and b have one pod each, c has one, and d none.
            scheduler.pod_deleted(at(9_000), &uid(3));
        }
        assert_eq!(place(&mut scheduler, at(9_000)), Ok(want.to_owned()), "{n}");
    }
    // What is none of those that are wanted wakes nobody.
    scheduler.pod_changed(at(9_000), &pod(9, &follow(ZONE, "nobody")));
    place(&mut scheduler, at(9_000)).unwrap_err();
    scheduler.pod_changed(at(12_000), &pod(10, &on("c", "other")));
    assert_eq!(scheduler.next(at(12_000)), None);
    scheduler.pod_deleted(at(12_000), &uid(9));
    scheduler.pod_deleted(at(12_000), &uid(10));
    // All terms must be met by the same pods.
    scheduler.pod_changed(at(9_000), &pod(7, &on("c", "leader")));
    let both = [term(ZONE, "leader", &json!({})), term(HOST, "own", &json!({}))];
    scheduler.pod_changed(at(9_000), &pod(8, &wants("podAffinity", &both)));
    place(&mut scheduler, at(9_000)).unwrap_err();
}

/// Contract: SIM-02
#[test]
fn a_term_is_about_the_namespaces_that_it_names() {
    for (more, namespace, labels, is_kept_away) in [
        (json!({}), "ns", json!({}), true),
        (json!({}), "other", json!({}), false),
        (json!({"namespaces": ["other"]}), "other", json!({}), true),
        (json!({"namespaces": ["other"]}), "ns", json!({}), false),
        (json!({"namespaceSelector": {}}), "other", json!({}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}), "other", json!({"team": "x"}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}), "other", json!({"team": "y"}), false),
        (json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}), "ns", json!({}), false),
        (json!({"labelSelector": null}), "ns", json!({}), false),
    ] {
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let apart = wants("podAntiAffinity", &[term(HOST, "web", &more)]);
        // Of the pod that comes, and of one that is there: of the namespaces `ns` and `namespace`.
        let there = with(on("a", "web"), &json!({"metadata": {"namespace": namespace}}));
        let mut scheduler = Scheduler::new();
        scheduler.node_changed(at(0), node("a", &json!({"metadata": {"labels": {HOST: "a"}}})));
        scheduler.namespace_changed(at(0), &"other".into(), &labels);
        scheduler.pod_changed(at(0), &pod(1, &there));
        scheduler.pod_changed(at(0), &pod(2, &apart));
        assert_eq!(place(&mut scheduler, at(0)).is_err(), is_kept_away, "{more} {namespace} {labels}");
        // When nothing of it is left, the other way round.
        scheduler.pod_deleted(at(0), &uid(1));
        scheduler.pod_deleted(at(0), &uid(2));
        scheduler.pod_changed(at(0), &pod(3, &with(apart, &json!({"spec": {"nodeName": "a"}}))));
        let comes = with(labelled("web"), &json!({"metadata": {"namespace": namespace}}));
        scheduler.pod_changed(at(0), &pod(4, &comes));
        assert_eq!(place(&mut scheduler, at(0)).is_err(), is_kept_away, "{more} {namespace} {labels}");
    }
}

/// Contract: SIM-02
#[test]
fn pods_are_spread_over_domains_as_evenly_as_they_ask() {
    let mut scheduler = scheduler();
    let web = |more: &Value| with(labelled("web"), &spread(ZONE, "web", more));
    for n in 0..5 {
        scheduler.pod_changed(at(0), &pod(n, &web(&json!({}))));
        let zone = match &*place(&mut scheduler, at(0)).unwrap() {
            "a" | "b" => "east",
            "c" => "west",
            other => panic!("{other} is in no zone"),
        };
        assert_eq!(zone, if n % 2 == 0 { "east" } else { "west" }, "{n}");
    }
    // Three in the east, two in the west, which is full now.
    let full = json!({"metadata": {"labels": {HOST: "c", ZONE: "west"}}, "spec": {"unschedulable": true}});
    scheduler.node_changed(at(0), node("c", &full));
    scheduler.pod_changed(at(0), &pod(6, &web(&json!({}))));
    let message = "0/4 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required \
                   label), 1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints. no new \
                   claims to deallocate, preemption: 0/4 nodes are available: 2 No preemption victims found for incoming \
                   pod, 2 Preemption is not helpful for scheduling.";
    assert_eq!(place(&mut scheduler, at(0)), Err(message.to_owned()));
    // Those that are being deleted count no more.
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "a"}});
    scheduler.pod_changed(at(2_000), &pod(0, &with(web(&json!({})), &leaving)));
    assert_eq!(place(&mut scheduler, at(2_000)), Ok("b".to_owned()));
    for (name, more, fits) in [
        ("a preference", json!({"whenUnsatisfiable": "ScheduleAnyway"}), true),
        ("a larger skew", json!({"maxSkew": 2}), true),
        ("the skew of the others", json!({}), false),
        ("others' pods, of which there are none", json!({"labelSelector": {"matchLabels": {"app": "api"}}}), true),
        ("every pod: none is counted but itself", json!({"labelSelector": {"matchLabels": null}}), true),
        ("no selector", json!({"labelSelector": null}), true),
        ("a zone too few: none is a zone with none", json!({"maxSkew": 2, "minDomains": 3}), false),
        ("as many zones as that", json!({"maxSkew": 2, "minDomains": 2}), true),
    ] {
        scheduler.pod_changed(at(2_000), &pod(7, &web(&more)));
        assert_eq!(place(&mut scheduler, at(2_000)).is_ok(), fits, "{name}");
        scheduler.pod_deleted(at(2_000), &uid(7));
    }
}

/// Contract: SIM-02
#[test]
fn which_nodes_count_for_a_spread_is_said_by_its_policies() {
    for (name, more, fits) in [
        ("by affinity unless it is said, not by taints", json!({}), [true, false]),
        ("not by affinity", json!({"nodeAffinityPolicy": "Ignore"}), [false, false]),
        ("by taints", json!({"nodeTaintsPolicy": "Honor"}), [true, true]),
    ] {
        let east = json!({"metadata": {"labels": {ZONE: "east"}}});
        let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let other = json!({"metadata": {"labels": {ZONE: "west", "old": "yes"}}});
        let elsewhere = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}]}}}});
        for (at_all, (west, spec)) in
            [(other.clone(), elsewhere), (with(other, &tainted), json!({}))].into_iter().enumerate()
        {
            let mut scheduler = Scheduler::new();
            scheduler.node_changed(at(0), node("a", &east));
            scheduler.node_changed(at(0), node("b", &west));
            scheduler.pod_changed(at(0), &pod(1, &on("a", "web")));
            let web = with(labelled("web"), &spread(ZONE, "web", &more));
            scheduler.pod_changed(at(0), &pod(2, &with(web, &json!({ "spec": spec }))));
            let placed = place(&mut scheduler, at(0));
            assert_eq!(placed.is_ok(), fits[at_all], "{name}, {at_all}: {placed:?}");
        }
    }
}

/// Whether a pod may be on a node, by looking at every pod that is placed.
fn may_be_on(pod: &Pod, to: &Node, placed: &BTreeMap<Uid, (String, Arc<Pod>)>, nodes: &[Arc<Node>]) -> bool {
    let label = |node: &str, key: &str| {
        let node = nodes.iter().find(|known| *known.meta.name == *node)?;
        node.meta.labels.get(key).map(str::to_owned)
    };
    let here = |key: &str| to.meta.labels.get(key).map(str::to_owned);
    let no_labels = Labels::default();
    let matches = |term: &crate::pod::PodTerm, of: &Pod, which: &Pod| {
        term.matches(&of.meta.namespace, (&which.meta.namespace, &which.meta.labels), &no_labels)
    };
    let is_near = |key: &str, node: &str| here(key).is_some() && label(node, key) == here(key);
    let terms = pod.extras().terms.as_deref().cloned().unwrap_or_default();
    let is_apart = placed.values().all(|(node, other)| {
        let theirs = other.extras().terms.as_deref().cloned().unwrap_or_default();
        terms.anti_affinity.iter().all(|term| !(matches(term, pod, other) && is_near(&term.topology_key, node)))
            && theirs.anti_affinity.iter().all(|term| !(matches(term, other, pod) && is_near(&term.topology_key, node)))
    });
    let is_meant = |other: &Pod| terms.affinity.iter().all(|term| matches(term, pod, other));
    let is_first = !placed.values().any(|(node, other)| {
        is_meant(other) && terms.affinity.iter().any(|term| label(node, &term.topology_key).is_some())
    }) && is_meant(pod);
    let follows = terms.affinity.iter().all(|term| {
        let followed =
            placed.values().any(|(node, other)| is_meant(other) && is_near(&term.topology_key, node)) || is_first;
        here(&term.topology_key).is_some() && followed
    });
    let is_even = terms.spread.iter().all(|spread| {
        let Some(domain) = here(&spread.topology_key) else { return false };
        let count = |domain: &str| {
            let counts = |(node, other): &&(String, Arc<Pod>)| {
                label(node, &spread.topology_key).as_deref() == Some(domain)
                    && spread.selector.matches(&other.meta.labels)
                    && !other.meta.is_being_deleted()
            };
            i64::try_from(placed.values().filter(counts).count()).unwrap()
        };
        let least = nodes.iter().filter_map(|node| node.meta.labels.get(&spread.topology_key)).map(count).min();
        let itself = i64::from(spread.selector.matches(&pod.meta.labels));
        count(&domain) + itself - least.unwrap() <= spread.max_skew
    });
    is_apart && follows && is_even
}

proptest! {
    /// What comes, goes, is being deleted and changes its labels leaves the same counts as looking at every pod.
    ///
    /// Contract: SIM-02
    #[test]
    fn what_is_counted_is_what_is_there(steps in prop::collection::vec((0..6_u8, 0..12_u32, 0..3_usize, 0..5_usize), 1..80)) {
        let mut scheduler = scheduler();
        let nodes: Vec<Arc<Node>> = scheduler.nodes.values().map(|info| Arc::clone(&info.node)).collect();
        let mut placed: BTreeMap<Uid, (String, Arc<Pod>)> = BTreeMap::new();
        let mut waiting: BTreeMap<Uid, Arc<Pod>> = BTreeMap::new();
        for (step, (what, n, app, wish)) in steps.into_iter().enumerate() {
            let now = at(400_000 * step as u64);
            let app = ["web", "api", "db"][app];
            let wishes = [
                json!({}),
                wants("podAntiAffinity", &[term(HOST, "web", &json!({}))]),
                wants("podAffinity", &[term(ZONE, app, &json!({}))]),
                spread(ZONE, app, &json!({})),
                with(spread(HOST, "web", &json!({})), &wants("podAntiAffinity", &[term(ZONE, "db", &json!({}))])),
            ];
            match (what, placed.get_mut(&uid(n))) {
                // It goes, is being deleted, or has another label.
                (0, _) => {
                    scheduler.pod_deleted(now, &uid(n));
                    placed.remove(&uid(n));
                    waiting.remove(&uid(n));
                }
                (1 | 2, Some((node, there))) => {
                    let mut changed = Pod::clone(there);
                    changed.node = Some(Arc::from(&**node));
                    if what == 1 {
                        changed.meta.deletion_timestamp = Some(muster_objects::Timestamp::UNIX_EPOCH);
                    } else {
                        changed.meta.labels = [("app", app)].into_iter().collect();
                    }
                    *there = Arc::new(changed);
                    scheduler.pod_changed(now, there);
                }
                (_, None) if !waiting.contains_key(&uid(n)) => {
                    let new = pod(n, &with(labelled(app), &wishes[wish]));
                    scheduler.pod_changed(now, &new);
                    waiting.insert(uid(n), new);
                }
                _ => {}
            }
            while let Some(decision) = scheduler.next(now) {
                match decision {
                    Decision::Bind { uid, node, .. } => {
                        let pod = waiting.remove(&uid).expect("it waits");
                        let to = nodes.iter().find(|known| known.meta.name == node).expect("it is one of them");
                        prop_assert!(may_be_on(&pod, to, &placed, &nodes), "{uid} on {node}");
                        placed.insert(uid.clone(), (node.to_string(), pod));
                        scheduler.bound(&uid);
                    }
                    Decision::Unschedulable { uid, message, .. } => {
                        let free = |to: &&Arc<Node>| {
                            may_be_on(&waiting[&uid], to, &placed, &nodes)
                                && placed.values().filter(|(node, _)| **node == *to.meta.name).count() < 10
                        };
                        prop_assert!(!nodes.iter().any(|to| free(&to)), "{uid}: {message}");
                    }
                    Decision::BindVolumes { .. } => {}
                }
            }
        }
    }
}

/// Contract: SIM-02
#[test]
fn a_domain_that_is_gone_does_not_have_the_fewest() {
    let mut scheduler = scheduler();
    for n in 0..2 {
        scheduler.pod_changed(at(0), &pod(n, &on("a", "web")));
    }
    let full = json!({"metadata": {"labels": {HOST: "c", ZONE: "west"}}, "status": {"allocatable": {"pods": "0"}}});
    scheduler.node_changed(at(0), node("c", &full));
    scheduler.pod_changed(at(0), &pod(2, &with(labelled("web"), &spread(ZONE, "web", &json!({})))));
    place(&mut scheduler, at(0)).unwrap_err();
    scheduler.node_deleted(at(5_000), "c");
    assert_eq!(place(&mut scheduler, at(5_000)), Ok("b".to_owned()));
}

/// Contract: SIM-02
#[test]
fn a_pod_that_gets_other_labels_keeps_nobody_away() {
    let mut scheduler = Scheduler::new();
    scheduler.node_changed(at(0), node("a", &json!({"metadata": {"labels": {HOST: "a"}}})));
    scheduler.pod_changed(at(0), &pod(1, &on("a", "web")));
    scheduler.pod_changed(at(0), &pod(2, &wants("podAntiAffinity", &[term(HOST, "web", &json!({}))])));
    place(&mut scheduler, at(0)).unwrap_err();
    scheduler.pod_changed(at(5_000), &pod(1, &on("a", "other")));
    assert_eq!(place(&mut scheduler, at(5_000)), Ok("a".to_owned()));
}

/// Contract: SIM-02
#[test]
fn a_pod_that_is_deleted_before_it_is_bound_keeps_nobody_away() {
    let mut scheduler = Scheduler::new();
    scheduler.node_changed(at(0), node("a", &json!({"metadata": {"labels": {HOST: "a"}}})));
    let apart = with(labelled("web"), &wants("podAntiAffinity", &[term(HOST, "web", &json!({}))]));
    scheduler.pod_changed(at(0), &pod(1, &apart));
    assert!(matches!(scheduler.next(at(0)), Some(Decision::Bind { .. })));
    let leaving =
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/held"]}});
    scheduler.pod_changed(at(0), &pod(1, &with(apart.clone(), &leaving)));
    scheduler.bind_failed(at(0), &uid(1), false);
    scheduler.pod_changed(at(0), &pod(2, &apart));
    assert_eq!(place(&mut scheduler, at(0)), Ok("a".to_owned()));
}
