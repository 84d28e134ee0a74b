//! A sync or a handler visits only what concerns it, whatever else the namespace holds (ARCHITECTURE.md, invariant 7).
//! Visits to the caches are counted; time is not measured.

#[path = "../benches/namespaces/deployments.rs"]
mod deployments;
#[path = "../benches/namespaces/replicasets.rs"]
mod replicasets;

use std::sync::Arc;

use muster_controllers::{deployment, replicaset};
use muster_machinery::cache::{Cache, Change};
use muster_machinery::work::looks_of;
use muster_objects::meta::{ControllerRef, ObjectKey, Uid};
use muster_objects::{Labels, Pod, ReplicaSet, Strategy};

/// Fails where what was looked at among few others and among many is not about the same. A hash table looks at another
/// object now and then, where hashes share their first bits.
fn assert_same(what: &str, few: usize, many: usize) {
    assert!(few > 0, "{what}: nothing was counted");
    assert!(many <= few + few / 2 + 2, "{what}: {few} looks among few others, {many} among many");
}

fn labels(app: &str) -> Labels {
    [("app", app)].into_iter().collect()
}

/// Adds pods without a controller, each with labels of its own.
fn add_orphans(pods: &mut Cache<Pod>, count: usize) {
    let nobody = Arc::new(ControllerRef::to("apps/v1", "ReplicaSet", &muster_objects::Meta::default()));
    for number in 0..count {
        let mut pod = replicasets::pod(1_000_000 + number, &labels(&format!("stray-{number}")), &nobody);
        pod.meta.controller = None;
        pods.apply(pod);
    }
}

/// Contract: B-15
#[test]
fn a_sync_of_a_replicaset_looks_at_its_own_pods() {
    let key = ObjectKey::new("default", "rs-0");
    for (what, replicas, writes) in [("at rest", 10, 0), ("scaled down by 3", 7, 3), ("scaled up by 3", 13, 3)] {
        let [few, many] = [20, 20_000].map(|pods| {
            let mut namespace = replicasets::Namespace::of(pods, replicas);
            add_orphans(&mut namespace.pods, pods / 10);
            let (looks, found) = looks_of(|| namespace.sync(&key));
            assert_eq!(found, writes, "{what}");
            looks
        });
        assert_same(what, few, many);
    }
}

/// Contract: B-15
#[test]
fn an_orphaned_pod_leads_to_the_replicasets_that_select_it() {
    let [few, many] = [20, 20_000].map(|pods| {
        let namespace = replicasets::Namespace::of(pods, 10);
        let mut orphan = Pod::clone(namespace.pods.get(&ObjectKey::new("default", "pod-0")).expect("a pod"));
        orphan.meta.controller = None;
        let (looks, found) = looks_of(|| {
            let mut found = 0;
            replicaset::pod_changed(&Change::Added(Arc::new(orphan)), &namespace.owners, |_| found += 1);
            found
        });
        assert_eq!(found, 1);
        looks
    });
    assert_same("an orphaned pod", few, many);
}

/// By the rarest of the labels that a selector asks for, wherever it stands.
///
/// Contract: B-15
#[test]
fn pods_are_found_by_the_rarest_label_of_their_selector() {
    for selector in ["a=rare,env=prod", "env=prod,z=rare"] {
        let selector = muster_objects::Selector::parse(selector).expect("a selector");
        let [few, many] = [20, 2_000].map(|others| {
            let mut pods = Cache::<Pod>::default();
            let owner = Arc::new(ControllerRef::to("apps/v1", "ReplicaSet", &muster_objects::Meta::default()));
            for number in 0..others {
                let own = format!("other-{number}");
                let labels: Labels = [("app", &*own), ("env", "prod")].into_iter().collect();
                pods.apply(replicasets::pod(number, &labels, &owner));
            }
            let labels: Labels = [("a", "rare"), ("env", "prod"), ("z", "rare")].into_iter().collect();
            pods.apply(replicasets::pod(others, &labels, &owner));
            let (looks, found) = looks_of(|| pods.matching("default", &selector).count());
            assert_eq!(found, 1);
            looks
        });
        assert_same("a selector of two labels", few, many);
    }
}

/// A namespace of Deployments, `old` of ten replicas not updated, each ReplicaSet with one pod, and one orphaned
/// ReplicaSet for every ten.
fn namespace(sets: usize, old: i32, strategy: Option<Strategy>) -> deployments::Namespace {
    let mut namespace = deployments::Namespace::of(sets, old);
    if let Some(strategy) = strategy {
        let deployment = namespace.deployments.get(&ObjectKey::new("default", "app-0")).expect("a Deployment");
        let mut deployment = muster_objects::Deployment::clone(deployment);
        (deployment.strategy, deployment.meta.resource_version.0) = (strategy, 9);
        namespace.deployments.apply(deployment);
    }
    let all: Vec<Arc<ReplicaSet>> = namespace.sets.iter().cloned().collect();
    for (number, set) in all.iter().enumerate() {
        let controller = Arc::new(ControllerRef::to("apps/v1", "ReplicaSet", &set.meta));
        namespace.pods.apply(replicasets::pod(number, &set.meta.labels, &controller));
        if number % 10 == 0 {
            let mut orphan = ReplicaSet::clone(set);
            orphan.meta.name = format!("stray-{number}").into();
            orphan.meta.uid = Uid::new(&format!("00000009-0000-4000-8000-{number:012x}"));
            (orphan.meta.labels, orphan.meta.controller) = (labels(&format!("stray-{number}")), None);
            namespace.sets.apply(orphan);
        }
    }
    namespace
}

/// Contract: B-15
#[test]
fn a_sync_of_a_deployment_looks_at_its_own_replicasets() {
    let key = ObjectKey::new("default", "app-0");
    let cases = [("at rest", 0, None, 0), ("rolling", 5, None, 1), ("recreating", 5, Some(Strategy::Recreate), 1)];
    for (what, old, strategy, writes) in cases {
        let [few, many] = [10, 2_000].map(|sets| {
            let mut namespace = namespace(sets, old, strategy.clone());
            let (looks, found) = looks_of(|| namespace.sync(&key));
            assert_eq!(found, writes, "{what}");
            looks
        });
        assert_same(what, few, many);
    }
}

/// Contract: B-15
#[test]
fn an_orphaned_replicaset_leads_to_the_deployments_that_select_it() {
    let [few, many] = [10, 2_000].map(|sets| {
        let namespace = namespace(sets, 5, None);
        let mut orphan = ReplicaSet::clone(namespace.sets.get(&ObjectKey::new("default", "app-0-1")).expect("one"));
        orphan.meta.controller = None;
        let (looks, found) = looks_of(|| {
            let mut found = 0;
            deployment::replica_set_changed(&Change::Added(Arc::new(orphan)), &namespace.deployments, |_| found += 1);
            found
        });
        assert_eq!(found, 1);
        looks
    });
    assert_same("an orphaned ReplicaSet", few, many);
}

/// The last pod of a Recreate Deployment is found by its own ReplicaSets.
///
/// Contract: B-15
#[test]
fn a_pod_that_went_leads_to_its_deployment() {
    let [few, many] = [10, 2_000].map(|sets| {
        let mut namespace = namespace(sets, 5, Some(Strategy::Recreate));
        namespace.pods.delete_key(&ObjectKey::new("default", "pod-1"));
        let gone = namespace.pods.delete_key(&ObjectKey::new("default", "pod-0")).expect("a pod");
        let (looks, found) = looks_of(|| {
            let mut found = 0;
            let deployments::Namespace { deployments, sets, pods, .. } = &namespace;
            deployment::pod_changed(&gone, pods, sets, deployments, |_| found += 1);
            found
        });
        assert_eq!(found, 1);
        looks
    });
    assert_same("a pod that went", few, many);
}
