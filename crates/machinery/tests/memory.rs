//! What a cached pod costs, counted at the allocator.

use std::alloc::System;

use muster_machinery::Cache;
use muster_objects::{Interner, Object, Pod, ResourceVersion};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 100_000;
const REPLICA_SETS: usize = 1_000;

/// The fixture of one pod of a ReplicaSet, as it would be for the given numbers.
fn pod(number: usize) -> Vec<u8> {
    let set = number % REPLICA_SETS;
    include_str!("fixtures/pod.json")
        .replace("frontend-7d4b9c6f5d-x2v8k", &format!("frontend-{set:04}-7d4b9c6f5d-{number:05x}"))
        .replace("\"frontend-7d4b9c6f5d\"", &format!("\"frontend-{set:04}-7d4b9c6f5d\""))
        .replace("\"frontend\"", &format!("\"frontend-{set:04}\""))
        .replace("3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11", &format!("3f2c9c1e-6a54-4d0b-9a3e-{number:012x}"))
        .replace("b7a3c0de-8f2a-4a54-8c1c-2f0e6b1f7d21", &format!("b7a3c0de-8f2a-4a54-8c1c-{set:012x}"))
        .replace("node-0042", &format!("node-{:04}", number % 500))
        .replace("1843211", &(1_000_000 + number).to_string())
        .into_bytes()
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let stats = region.change();
    // A reallocation counts as both, so that the difference is what is held now.
    stats.bytes_allocated - stats.bytes_deallocated
}

/// 100,000 pods of 1,000 ReplicaSets on 500 nodes, with names, labels, owners and every index; and
/// as many updates and a relist later the same holds.
///
/// Contract: INF-10
#[test]
fn a_cached_pod_costs_at_most_512_bytes() {
    let region = Region::new(ALLOCATOR);
    let mut interner = Interner::new();
    let mut cache = Cache::<Pod>::new();
    for number in 0..PODS {
        let pod = Pod::decode(&pod(number), &mut interner).expect("the fixture is a pod");
        cache.apply(pod);
    }
    let each = live_bytes(&region) / PODS;
    assert_eq!(cache.len(), PODS);
    println!("{each} bytes a pod");
    assert!(each <= 512, "{each} bytes a pod");

    let list = (0..PODS).map(|number| {
        let mut pod = Pod::decode(&pod(number), &mut interner).expect("the fixture is a pod");
        pod.meta.resource_version.0 += 1_000_000;
        pod
    });
    let list = list.collect();
    let changes = cache.replace(list, ResourceVersion(3_000_000));
    assert_eq!(changes.len(), PODS);
    drop(changes);
    let each = live_bytes(&region) / PODS;
    println!("{each} bytes a pod after a relist");
    assert!(each <= 512, "{each} bytes a pod after a relist");

    drop(cache);
    interner.sweep();
    assert!(interner.is_empty(), "nothing is held for pods that are gone");
}
