//! Recreate: no new pod before the last old one has gone.

use std::sync::Arc;

use muster_controllers::deployment::recreate::{old_pods_running, scale_down_old, scale_up_new};
use muster_objects::{PodPhase, ReplicaSet};
use serde_json::json;

use crate::fixtures::{ago, pod, recreating, set, set_with, sets, template};
use crate::world::World;

/// An old ReplicaSet that reports no pods.
fn emptied(number: u64) -> Arc<ReplicaSet> {
    set_with(number, "a", 0, |json| json["status"] = json!({"observedGeneration": 1}))
}

/// Contract: DEP-12
#[test]
fn old_sets_go_to_zero_and_the_new_one_to_the_full_count() {
    let both = sets(set(2, "b", 1), [set(1, "a", 3), set(3, "c", 0)]);
    let down = scale_down_old(&recreating(4), &both);
    assert_eq!(
        down.iter().map(|update| (&*update.before.meta.name, update.after.replicas)).collect::<Vec<_>>(),
        [("web-1", 0)]
    );
    assert_eq!(scale_up_new(&recreating(4), &both).expect("too few").after.replicas, 4);
    assert_eq!(scale_up_new(&recreating(1), &both), None);
    assert_eq!(scale_up_new(&recreating(1), &sets(None, [])), None);
}

/// One that could not make its pods yet, because of a quota, would make them beside the new ones.
///
/// Contract: DEP-12
#[test]
fn an_old_set_that_wants_pods_and_has_none_goes_to_zero_first() {
    let mut deployment = crate::fixtures::deployment_json(2);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut old = crate::fixtures::set_json(1, "nginx:0", 2);
    old["status"] = json!({"observedGeneration": 1});
    let mut world = World::new(deployment, [old]);
    world.sync();
    assert_eq!((world.set("web-1").replicas, world.sets.len()), (0, 1));
    world.settle(|_| true);
    world.sync();
    assert_eq!(world.sets.len(), 2);
}

/// Contract: DEP-12, B-05
#[test]
fn old_pods_that_may_run_hold_the_new_ones() {
    for (phase, runs) in [
        (PodPhase::Pending, true),
        (PodPhase::Running, true),
        (PodPhase::Unknown, true),
        (PodPhase::Failed, false),
        (PodPhase::Succeeded, false),
    ] {
        let pods = [Arc::new(pod("a", 1, phase))];
        assert_eq!(old_pods_running(&sets(set(2, "b", 0), [emptied(1)]), &pods), runs, "{phase:?}");
        assert_eq!(old_pods_running(&sets(None, [emptied(1)]), &pods), runs, "{phase:?}, no new one yet");
    }
    let of_new = [Arc::new(pod("b", 2, PodPhase::Running))];
    assert!(!old_pods_running(&sets(set(2, "b", 1), [emptied(1)]), &of_new));
    assert!(old_pods_running(&sets(set(2, "b", 1), [set(1, "a", 1)]), &[]), "its status says so");
    // On its way out it runs yet.
    let mut leaving = pod("a", 1, PodPhase::Running);
    leaving.meta.deletion_timestamp = Some(ago(5));
    assert!(old_pods_running(&sets(set(2, "b", 0), [emptied(1)]), &[Arc::new(leaving)]));
}

/// A ReplicaSet that was scaled down before its status showed the pods that it created may have any number, though no
/// cache shows one: the new ReplicaSet waits for its status.
///
/// Contract: DEP-12
#[test]
fn the_new_set_waits_for_an_old_one_whose_status_is_not_observed() {
    let old = |observed: i64| {
        set_with(1, "a", 0, |json| {
            json["metadata"]["generation"] = json!(2);
            json["status"] = json!({"observedGeneration": observed});
        })
    };
    assert!(old_pods_running(&sets(set(2, "b", 0), [old(1)]), &[]));
    assert!(old_pods_running(&sets(None, [old(1)]), &[]));
    assert!(!old_pods_running(&sets(None, [old(2)]), &[]));
}

/// An orphan that is being deleted is never adopted. Its pods are not waited for: no event of theirs would queue the
/// Deployment when they are gone.
///
/// Contract: DEP-12
#[test]
fn pods_of_a_set_that_was_not_claimed_are_not_waited_for() {
    let mut deployment = crate::fixtures::deployment_json(2);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut orphan = crate::fixtures::set_json(1, "nginx:0", 2);
    orphan["metadata"]["ownerReferences"] = json!([]);
    orphan["metadata"]["deletionTimestamp"] = json!(ago(5));
    let mut world = World::new(deployment, [orphan]);
    world.pods = vec![pod("a", 1, PodPhase::Running)];
    world.sync();
    assert_eq!(world.sets.len(), 2, "the new one is made");
}

/// The whole of it: down, wait, then the new ReplicaSet with its full count. A failed pod that is left over holds nothing.
///
/// Contract: DEP-12, B-05
#[test]
fn a_rollout_waits_for_the_last_old_pod() {
    let mut deployment = crate::fixtures::deployment_json(3);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut world = World::new(deployment, []);
    world.sync();
    world.settle(|_| true);
    world.sync();
    world.edit(|spec| spec["template"] = template("nginx:2"));
    let name = world.sets.keys().next().expect("one").clone();
    let uid = world.set(&name).meta.uid;
    let of_old = |name: &str, phase| {
        let mut pod = pod(name, 1, phase);
        let reference = Arc::make_mut(pod.meta.controller.as_mut().expect("owned"));
        (reference.uid, reference.name) = (uid.clone(), world.sets.keys().next().expect("one").as_str().into());
        pod
    };
    let pods = vec![of_old("a", PodPhase::Running), of_old("b", PodPhase::Failed)];
    world.pods = pods;
    world.take_requests();
    world.sync();
    assert_eq!(world.take_requests()[0], format!("PATCH {name}"));
    assert_eq!(world.set(&name).replicas, 0);
    world.settle(|_| true);
    world.sync();
    assert_eq!(world.sets.len(), 1, "a pod is left");
    world.pods.remove(0);
    world.sync();
    assert_eq!(world.sets.len(), 2);
    let new = world.snapshot().sets.into_iter().find(|set| *set.meta.name != *name).expect("created");
    assert_eq!(new.replicas, 3);
}
