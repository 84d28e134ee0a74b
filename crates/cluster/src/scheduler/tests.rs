use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, node, pod, uid};

fn scheduler(nodes: &[Arc<Node>]) -> Scheduler {
    let mut scheduler = Scheduler::new();
    for node in nodes {
        scheduler.node_changed(at(0), Arc::clone(node));
    }
    scheduler
}

/// The node a pod goes to, or why it goes nowhere.
fn place(scheduler: &mut Scheduler, now: Moment) -> Option<Result<String, String>> {
    match scheduler.next(now)? {
        Decision::Bind { uid, node, .. } => {
            scheduler.bound(&uid);
            Some(Ok(node.to_string()))
        }
        Decision::Unschedulable { message, .. } => Some(Err(message.to_string())),
        Decision::BindVolumes { .. } => panic!("there are none"),
    }
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"spec": {"containers": [{"name": "app", "image": "nginx:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}})
}

/// Contract: SIM-02
#[test]
fn pods_are_spread_by_fewest_pods_and_ties_go_by_name() {
    let mut scheduler = scheduler(&[node("b", &json!({})), node("a", &json!({})), node("c", &json!({}))]);
    for n in 0..7 {
        scheduler.pod_changed(at(0), &pod(n, &json!({})));
    }
    let nodes: Vec<String> =
        std::iter::from_fn(|| place(&mut scheduler, at(0))).map(|placed| placed.expect("there is room")).collect();
    assert_eq!(nodes, ["a", "b", "c", "a", "b", "c", "a"]);
    let load: Vec<_> = scheduler.load().collect();
    assert_eq!(load, [("a", 3), ("b", 2), ("c", 2)]);
    // A node that loses its pods is filled first.
    scheduler.pod_deleted(at(0), &uid(1));
    scheduler.pod_deleted(at(0), &uid(4));
    scheduler.pod_changed(at(0), &pod(8, &json!({})));
    assert_eq!(place(&mut scheduler, at(0)), Some(Ok("b".to_owned())));
}

/// Contract: SIM-02
#[test]
fn what_does_not_fit_says_why_as_a_real_scheduler_does() {
    let available = "no new claims to deallocate, preemption: 0/3 nodes are available:";
    let three = |change: Value| ["a", "b", "c"].map(|name| node(name, &change));
    let cases: [(&str, Vec<Arc<Node>>, Value, String); 9] = [
        (
            "more cpu than any node has",
            three(json!({})).into(),
            requests("5", "1Gi"),
            format!(
                "0/3 nodes are available: 3 Insufficient cpu. {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "cpu and memory",
            three(json!({})).into(),
            requests("5", "9Gi"),
            format!(
                "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory. {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "no pod more",
            three(json!({"status": {"allocatable": {"pods": "0"}}})).into(),
            json!({}),
            format!(
                "0/3 nodes are available: 3 Too many pods. {available} 3 No preemption victims found for incoming pod."
            ),
        ),
        (
            "cordoned",
            three(json!({"spec": {"unschedulable": true}})).into(),
            json!({}),
            format!(
                "0/3 nodes are available: 3 node(s) were unschedulable. {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "tainted",
            three(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}})).into(),
            json!({}),
            format!(
                "0/3 nodes are available: 3 node(s) had untolerated taint(s). {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "a label that none has",
            three(json!({})).into(),
            json!({"spec": {"nodeSelector": {"disk": "ssd"}}}),
            format!(
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "an extended resource",
            three(json!({})).into(),
            json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"example.com/gpu": "1"}}}]}}),
            format!(
                "0/3 nodes are available: 3 Insufficient example.com/gpu. {available} 3 Preemption is not helpful for scheduling."
            ),
        ),
        (
            "each node for a reason of its own",
            vec![
                node("a", &json!({"spec": {"unschedulable": true}})),
                node("b", &json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})),
                node("c", &json!({"status": {"allocatable": {"pods": "0"}}})),
            ],
            json!({}),
            format!(
                "0/3 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. {available} 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
            ),
        ),
        ("no nodes at all", vec![], json!({}), "no nodes available to schedule pods".to_owned()),
    ];
    for (name, nodes, change, message) in cases {
        let mut scheduler = scheduler(&nodes);
        scheduler.pod_changed(at(0), &pod(1, &change));
        assert_eq!(place(&mut scheduler, at(0)), Some(Err(message)), "{name}");
        assert_eq!(place(&mut scheduler, at(0)), None, "{name}: once");
    }
}

/// Contract: SIM-02
#[test]
fn a_pod_says_itself_where_it_may_go() {
    let tainted = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, "metadata": {"labels": {"zone": "east"}}});
    let reluctant = json!({"spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}, "metadata": {"labels": {"zone": "west"}}});
    let affinity = |values: Value| {
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}],
        }}}}})
    };
    let tolerates = json!({"spec": {"nodeSelector": {"zone": "east"}, "tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes"}]}});
    for (name, change, want) in [
        ("without wishes: the willing node", json!({}), Ok("plain")),
        ("by selector, bearing the taint", tolerates, Ok("tainted")),
        ("by affinity, though the node is reluctant", affinity(json!(["west"])), Ok("reluctant")),
        ("by affinity, not bearing the taint", affinity(json!(["east"])), Err(())),
        ("by another scheduler", json!({"spec": {"schedulerName": "mine"}}), Err(())),
        ("gated", json!({"spec": {"schedulingGates": [{"name": "wait"}]}}), Err(())),
        ("being deleted", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), Err(())),
        ("over", json!({"status": {"phase": "Failed"}}), Err(())),
    ] {
        let mut scheduler =
            scheduler(&[node("plain", &json!({})), node("reluctant", &reluctant), node("tainted", &tainted)]);
        scheduler.pod_changed(at(0), &pod(1, &change));
        let got = place(&mut scheduler, at(0)).and_then(Result::ok).ok_or(());
        assert_eq!(got, want.map(str::to_owned), "{name}");
    }
}

/// Contract: SIM-02
#[test]
fn a_parked_pod_is_tried_again_when_room_comes_free_but_not_too_often() {
    let mut scheduler = scheduler(&[node("a", &json!({"status": {"allocatable": {"pods": "1"}}}))]);
    scheduler.pod_changed(at(0), &pod(1, &json!({"spec": {"nodeName": "a"}})));
    scheduler.pod_changed(at(0), &pod(2, &json!({})));
    assert!(matches!(scheduler.next(at(0)), Some(Decision::Unschedulable { known: false, .. })));
    // Room comes free after 200 ms; the pod's first back-off is a second.
    scheduler.pod_changed(at(200), &pod(1, &json!({"spec": {"nodeName": "a"}, "status": {"phase": "Succeeded"}})));
    assert_eq!(scheduler.next(at(200)), None);
    assert_eq!(scheduler.wake(), Some(at(1000)));
    assert!(matches!(scheduler.next(at(1000)), Some(Decision::Bind { .. })));
}

/// Contract: SIM-02
#[test]
fn a_parked_pod_is_tried_again_when_a_node_changes() {
    for (name, change) in [
        ("uncordoned", json!({"spec": {"unschedulable": false}})),
        ("labelled", json!({"spec": {"unschedulable": true}, "metadata": {"labels": {"x": "y"}}})),
    ] {
        let mut scheduler = scheduler(&[node("a", &json!({"spec": {"unschedulable": true}}))]);
        scheduler.pod_changed(at(0), &pod(1, &json!({})));
        assert!(matches!(scheduler.next(at(0)), Some(Decision::Unschedulable { .. })));
        scheduler.node_changed(at(5000), node("a", &change));
        assert!(scheduler.next(at(5000)).is_some(), "{name}");
    }
    // What changes nothing for scheduling wakes nobody.
    let mut scheduler = scheduler(&[node("a", &json!({"spec": {"unschedulable": true}}))]);
    scheduler.pod_changed(at(0), &pod(1, &json!({})));
    scheduler.next(at(0));
    let heartbeat = json!({"spec": {"unschedulable": true}, "metadata": {"resourceVersion": "9"}});
    scheduler.node_changed(at(5000), node("a", &heartbeat));
    assert_eq!(scheduler.next(at(5000)), None);
    // Nor does a pod for which nothing changed say so again.
    assert_eq!(scheduler.wake(), Some(at(300_000)));
    assert!(matches!(scheduler.next(at(300_000)), Some(Decision::Unschedulable { known: true, .. })));
}

/// Contract: SIM-02
#[test]
fn a_refused_binding_gives_the_room_back_and_a_stale_watch_binds_nothing_twice() {
    let mut scheduler = scheduler(&[node("a", &json!({}))]);
    scheduler.pod_changed(at(0), &pod(1, &json!({})));
    assert!(matches!(scheduler.next(at(0)), Some(Decision::Bind { .. })));
    scheduler.bind_failed(at(0), &uid(1), false);
    assert_eq!(scheduler.load().next(), Some(("a", 0)));
    assert_eq!(scheduler.next(at(999)), None);
    assert!(matches!(scheduler.next(at(1000)), Some(Decision::Bind { .. })));
    scheduler.bound(&uid(1));
    // The watch has not seen the binding yet, only a label.
    scheduler.pod_changed(at(1000), &pod(1, &json!({"metadata": {"labels": {"a": "b"}}})));
    assert_eq!(scheduler.next(at(1000)), None);
    scheduler.pod_changed(at(1000), &pod(1, &json!({"spec": {"nodeName": "a"}})));
    assert_eq!(scheduler.load().next(), Some(("a", 1)));
    scheduler.bind_failed(at(1000), &uid(1), true);
    assert_eq!(scheduler.load().next(), Some(("a", 1)), "a late word on a binding that was seen changes nothing");
}

/// Contract: SIM-02
#[test]
fn higher_priority_goes_first() {
    let mut scheduler = scheduler(&[node("a", &json!({"status": {"allocatable": {"pods": "1"}}}))]);
    scheduler.pod_changed(at(0), &pod(1, &json!({})));
    scheduler.pod_changed(at(0), &pod(2, &json!({"spec": {"priority": 10}})));
    assert!(matches!(scheduler.next(at(0)), Some(Decision::Bind { uid: bound, .. }) if bound == uid(2)));
}

/// Contract: SIM-02
#[test]
fn a_host_port_is_taken_once_on_each_node() {
    let mut scheduler = scheduler(&[node("a", &json!({})), node("b", &json!({}))]);
    let port = json!({"spec": {"containers": [{"name": "app", "ports": [{"hostPort": 80, "containerPort": 80}]}]}});
    for n in 1..=3 {
        scheduler.pod_changed(at(0), &pod(n, &port));
    }
    assert_eq!(place(&mut scheduler, at(0)), Some(Ok("a".to_owned())));
    assert_eq!(place(&mut scheduler, at(0)), Some(Ok("b".to_owned())));
    let refusal = place(&mut scheduler, at(0)).expect("a decision").expect_err("no port is left");
    assert!(refusal.contains("2 node(s) didn't have free ports for the requested pod ports"), "{refusal}");
}

/// Contract: SIM-02
#[test]
fn a_host_port_is_taken_on_an_address_and_for_a_protocol() {
    let mut scheduler = scheduler(&[node("a", &json!({}))]);
    let on = |address: &str, protocol: &str| {
        let port = json!({"hostPort": 80, "containerPort": 80, "hostIP": address, "protocol": protocol});
        json!({"spec": {"containers": [{"name": "app", "ports": [port]}]}})
    };
    for (n, (address, protocol, fits)) in [
        ("127.0.0.1", "TCP", true),
        ("10.0.0.1", "TCP", true),
        ("10.0.0.1", "UDP", true),
        ("10.0.0.1", "TCP", false),
        ("0.0.0.0", "TCP", false),
        ("", "UDP", false),
        ("", "SCTP", true),
    ]
    .into_iter()
    .enumerate()
    {
        scheduler.pod_changed(at(0), &pod(u32::try_from(n).expect("few pods"), &on(address, protocol)));
        let placed = place(&mut scheduler, at(0)).expect("a decision");
        assert_eq!(placed.is_ok(), fits, "{address} {protocol}");
    }
}

proptest! {
    /// Whatever comes and goes, no node is promised more than it has, and what is free is found.
    ///
    /// Contract: SIM-02
    #[test]
    fn no_node_is_overbooked_and_the_count_is_kept(steps in prop::collection::vec((0..3_u8, 0..20_u32, 1..5_u32), 1..120)) {
        let mut scheduler = scheduler(&[node("a", &json!({})), node("b", &json!({}))]);
        let mut placed: BTreeMap<Uid, (Arc<str>, u32)> = BTreeMap::new();
        for (step, (what, n, cpu)) in steps.into_iter().enumerate() {
            let now = at(20_000 * step as u64);
            match what {
                0 | 1 => {
                    if !placed.contains_key(&uid(n)) {
                        scheduler.pod_changed(now, &pod(n, &requests(&cpu.to_string(), "1Gi")));
                    }
                }
                _ => {
                    placed.remove(&uid(n));
                    scheduler.pod_deleted(now, &uid(n));
                }
            }
            while let Some(decision) = scheduler.next(now) {
                match decision {
                    Decision::Bind { pod, uid, node } => {
                        let cores = scheduler.placed[&uid].requests.milli_cpu / 1000;
                        prop_assert!(!placed.contains_key(&uid), "{pod} is bound once");
                        placed.insert(uid.clone(), (node, u32::try_from(cores).expect("small")));
                        scheduler.bound(&uid);
                    }
                    Decision::Unschedulable { .. } | Decision::BindVolumes { .. } => {}
                }
            }
            for (name, count) in scheduler.load() {
                let on = || placed.values().filter(|(node, _)| **node == *name);
                prop_assert_eq!(count, on().count());
                prop_assert!(on().map(|(_, cpu)| cpu).sum::<u32>() <= 4);
            }
        }
    }
}
