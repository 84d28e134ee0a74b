//! `recreate_test.go`: old ReplicaSets are scaled down first, and the new one follows their last pod.

use std::sync::Arc;

use muster_controllers::deployment::recreate::{old_pods_running, scale_down_old};
use muster_objects::{PodPhase, ReplicaSet};
use serde_json::json;

use crate::fixtures::{pod, recreating, set, set_with, sets};

/// `TestScaleDownOldReplicaSets`.
///
/// Contract: DEP-12
#[test]
fn old_sets_go_to_zero() {
    let updates = scale_down_old(&recreating(3), &sets(None, [set(1, "a", 3)]));
    let sizes: Vec<_> = updates.iter().map(|update| (update.before.replicas, update.after.replicas)).collect();
    assert_eq!(sizes, [(3, 0)]);
}

/// An old ReplicaSet of size zero that reports this many pods.
fn reporting(number: u64, replicas: i32) -> Arc<ReplicaSet> {
    set_with(number, "a", 0, |json| json["status"] = json!({"replicas": replicas, "observedGeneration": 1}))
}

/// `TestOldPodsRunning`.
///
/// Contract: DEP-12, B-05
#[test]
fn table_of_old_pods() {
    use PodPhase::{Failed, Pending, Running, Succeeded, Unknown, Unset};
    // Pods that each old ReplicaSet reports; phases of pods, by the number of their ReplicaSet; whether one runs.
    type Case = (&'static str, &'static [i32], &'static [(u64, PodPhase)], bool);
    let cases: [Case; 9] = [
        ("no old one", &[], &[], false),
        ("two of them with pods", &[0, 0], &[(1, Unset), (1, Unset), (2, Unset), (2, Unset)], true),
        ("pods are reported and not seen", &[1], &[], true),
        ("none is reported nor seen", &[0], &[], false),
        ("pods that have ended", &[0], &[(1, Failed), (1, Succeeded)], false),
        ("a pod of which nothing is known", &[0], &[(1, Unknown)], true),
        ("a pod that is to start", &[0], &[(1, Pending)], true),
        ("a pod that runs", &[0], &[(1, Running)], true),
        ("one to start among ended ones", &[0, 0, 0], &[(1, Failed), (1, Succeeded), (3, Pending)], true),
    ];
    for (name, reported, phases, expected) in cases {
        let old = (1..).zip(reported).map(|(number, count)| reporting(number, *count));
        let pods: Vec<_> = phases.iter().map(|(set, phase)| Arc::new(pod("p", *set, *phase))).collect();
        assert_eq!(old_pods_running(&sets(None, old), &pods), expected, "{name}");
    }
}
