//! What a cached pod costs, counted at the allocator.

use std::alloc::System;

use muster_machinery::Cache;
use muster_objects::{Interner, Object, Pod, ResourceVersion};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 100_000;
const REPLICA_SETS: usize = 1_000;

/// A pod of a ReplicaSet with names as long as they are in practice. What is skipped costs nothing in
/// the cache, and is left out here.
fn pod(number: usize, version: usize) -> Vec<u8> {
    let set = number % REPLICA_SETS;
    let node = number % 500;
    format!(
        r#"{{"metadata":{{"name":"frontend-{set:04}-7d4b9c6f5d-{number:05x}","namespace":"production",
        "uid":"3f2c9c1e-6a54-4d0b-9a3e-{number:012x}","resourceVersion":"{version}","generation":1,
        "creationTimestamp":"2026-01-02T15:04:05Z",
        "labels":{{"app":"frontend-{set:04}","pod-template-hash":"7d4b9c6f5d","tier":"web"}},
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"frontend-{set:04}-7d4b9c6f5d",
        "uid":"b7a3c0de-8f2a-4a54-8c1c-{set:012x}","controller":true,"blockOwnerDeletion":true}}]}},
        "spec":{{"nodeName":"node-{node:04}"}},"status":{{"phase":"Running",
        "conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T15:04:09Z"}}]}}}}"#
    )
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
        let pod = Pod::decode(&pod(number, 1_000_000 + number), &mut interner).expect("the fixture is a pod");
        cache.apply(pod);
    }
    let each = live_bytes(&region) / PODS;
    assert_eq!(cache.len(), PODS);
    println!("{each} bytes a pod");
    assert!(each <= 512, "{each} bytes a pod");

    let decode = |number| Pod::decode(&pod(number, 2_000_000 + number), &mut interner).expect("the fixture is a pod");
    let list = (0..PODS).map(decode).collect();
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
