use serde_json::{Value, json};

use super::*;
use crate::testing::{at, merge, node, pod, slim, uid, uid_text};

/// A scheduler with the nodes `a` in the zone east and `b` in west.
fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::with_storage();
    for (name, zone) in [("a", "east"), ("b", "west")] {
        scheduler.node_changed(at(0), node(name, &json!({"metadata": {"labels": {"zone": zone}}})));
    }
    scheduler
}

fn claim(change: &Value) -> Arc<Slim<Claim>> {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "ns", "uid": uid_text(500), "resourceVersion": "5"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "slow",
        },
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, change);
    Arc::new(slim(&claim))
}

fn bound(volume: &str) -> Value {
    json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}, "resourceVersion": "9"},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    })
}

/// A free volume that only the nodes of a zone reach.
fn volume(name: &str, zone: &str, version: u32) -> Arc<Slim<Volume>> {
    Arc::new(slim(&json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
            ]}},
        },
        "status": {"phase": "Available"},
    })))
}

fn class(mode: &str, provisioner: &str) -> Arc<Slim<Class>> {
    Arc::new(slim(&json!({
        "metadata": {"name": "slow", "uid": "slow", "resourceVersion": "1"},
        "provisioner": provisioner, "volumeBindingMode": mode,
    })))
}

fn with_claim(n: u32, change: &Value) -> Arc<Pod> {
    let mut spec = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    merge(&mut spec, change);
    pod(n, &spec)
}

/// Why the pod goes nowhere.
fn refusal(scheduler: &mut Scheduler) -> String {
    match scheduler.next(at(0)) {
        Some(Decision::Unschedulable { message, .. }) => message.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Contract: SIM-02, SIM-07
#[test]
fn a_pod_whose_claims_are_not_bound_goes_nowhere_and_says_why() {
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let lost = json!({"spec": {"volumeName": "gone"}, "status": {"phase": "Lost"}});
    let ephemeral = json!({"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}});
    let ends =
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    for (name, claim_is, pod_change, why) in [
        ("no claim", None, json!({}), "persistentvolumeclaim \"data\" not found"),
        ("not bound", Some(claim(&json!({}))), json!({}), "pod has unbound immediate PersistentVolumeClaims"),
        (
            "asks for a volume by name",
            Some(claim(&json!({"spec": {"volumeName": "x"}}))),
            json!({}),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ("going", Some(claim(&deleting)), json!({}), "persistentvolumeclaim \"data\" is being deleted"),
        (
            "lost",
            Some(claim(&lost)),
            json!({}),
            "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"gone\"",
        ),
        (
            "its own claim is not there yet",
            None,
            ephemeral,
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p1-v\"",
        ),
    ] {
        let mut scheduler = scheduler();
        claim_is.iter().for_each(|claim| scheduler.claim_changed(at(0), claim));
        scheduler.pod_changed(at(0), &with_claim(1, &pod_change));
        assert_eq!(refusal(&mut scheduler), format!("0/2 nodes are available: {why}. {ends}"), "{name}");
    }
}

/// Contract: SIM-02, SIM-07
#[test]
fn a_pod_goes_where_its_volume_is_reached_as_soon_as_it_is_bound() {
    let mut scheduler = scheduler();
    scheduler.class_changed(at(0), &class("Immediate", "example.com/x"));
    scheduler.claim_changed(at(0), &claim(&json!({})));
    scheduler.pod_changed(at(0), &with_claim(1, &json!({})));
    refusal(&mut scheduler);
    scheduler.claim_changed(at(0), &claim(&bound("pv")));
    let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert!(
        matches!(scheduler.next(at(1000)), Some(Decision::Unschedulable { message, .. }) if message.contains(gone))
    );
    scheduler.volume_changed(at(1000), &volume("pv", "west", 3));
    assert!(matches!(scheduler.next(at(3000)), Some(Decision::Bind { node, .. }) if &*node == "b"));
    // Where no node reaches it, it says so.
    scheduler.volume_changed(at(3000), &volume("pv", "north", 4));
    scheduler.pod_changed(at(3000), &with_claim(2, &json!({})));
    let message = refusal(&mut scheduler);
    assert!(message.starts_with("0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."));
}

/// Contract: SIM-02, SIM-07
#[test]
fn claims_that_wait_for_their_pod_are_bound_once_it_has_a_node() {
    // To a volume that is made for the node.
    let mut with = scheduler();
    with.class_changed(at(0), &class("WaitForFirstConsumer", "example.com/x"));
    with.claim_changed(at(0), &claim(&json!({})));
    with.pod_changed(at(0), &with_claim(1, &json!({})));
    let Some(Decision::BindVolumes { writes, .. }) = with.next(at(0)) else { panic!("its claim is bound first") };
    let [Write::Claim(key, patch)] = &writes.0[..] else { panic!("{writes:?}") };
    assert_eq!(key.to_string(), "ns/data");
    assert_eq!(patch["metadata"]["annotations"], json!({"volume.kubernetes.io/selected-node": "a"}));
    assert_eq!(with.next(at(0)), None, "the room is taken, and it waits");
    with.volumes_asked(at(0), &uid(1));
    assert_eq!(with.next(at(0)), None);
    let selected =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}, "resourceVersion": "6"}});
    with.claim_changed(at(0), &claim(&selected));
    assert_eq!(with.next(at(0)), None);
    with.volume_changed(at(0), &volume("made", "east", 3));
    with.claim_changed(at(0), &claim(&bound("made")));
    assert!(matches!(with.next(at(0)), Some(Decision::Bind { node, .. }) if &*node == "a"));
    assert_eq!(with.next(at(0)), None);

    // To one that is there, on the node that reaches it.
    let mut without = scheduler();
    without.class_changed(at(0), &class("WaitForFirstConsumer", "kubernetes.io/no-provisioner"));
    without.claim_changed(at(0), &claim(&json!({})));
    without.pod_changed(at(0), &with_claim(1, &json!({})));
    let message = refusal(&mut without);
    assert!(
        message.starts_with("0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."),
        "{message}"
    );
    without.volume_changed(at(0), &volume("local", "west", 3));
    let Some(Decision::BindVolumes { writes, .. }) = without.next(at(1000)) else { panic!("its claim is bound first") };
    let [Write::Volume(name, patch)] = &writes.0[..] else { panic!("{writes:?}") };
    assert_eq!((&**name, &patch["spec"]["claimRef"]["uid"]), ("local", &json!(uid_text(500))));
    let load: Vec<_> = without.load().collect();
    assert_eq!(load, [("a", 0), ("b", 1)]);
    // A write that failed gives the room back, and it is tried again.
    without.bind_failed(at(1000), &uid(1), false);
    assert_eq!(without.load().map(|(_, count)| count).sum::<usize>(), 0);
    assert!(matches!(without.next(at(5000)), Some(Decision::BindVolumes { .. })));
}

/// Contract: SIM-02, SIM-07
#[test]
fn claims_that_are_not_bound_in_time_are_tried_anew() {
    let mut scheduler = scheduler();
    scheduler.class_changed(at(0), &class("WaitForFirstConsumer", "example.com/x"));
    scheduler.claim_changed(at(0), &claim(&json!({})));
    scheduler.pod_changed(at(0), &with_claim(1, &json!({})));
    assert!(matches!(scheduler.next(at(0)), Some(Decision::BindVolumes { .. })));
    scheduler.volumes_asked(at(0), &uid(1));
    assert_eq!(scheduler.next(at(599_999)), None);
    assert_eq!(scheduler.wake(), Some(at(600_000)));
    assert!(matches!(scheduler.next(at(600_000)), Some(Decision::BindVolumes { .. })));
    // A pod that goes meanwhile leaves nothing behind.
    scheduler.volumes_asked(at(600_000), &uid(1));
    scheduler.pod_deleted(at(600_000), &uid(1));
    assert_eq!((scheduler.next(at(2_000_000)), scheduler.wake()), (None, None));
    assert_eq!(scheduler.load().map(|(_, count)| count).sum::<usize>(), 0);
}
