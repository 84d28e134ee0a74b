//! One sync of a Deployment with two ReplicaSets, in a namespace of 10 ReplicaSets and in one of 10,000.
//!
//! The cost is to be that of the Deployment's own ReplicaSets: the same in both, within twice. What is measured is
//! everything between a key and its plan: the snapshot from the caches by their indexes, the comparison of the
//! templates, and the decision, at rest and in the middle of a rollout.

#[path = "namespaces/deployments.rs"]
mod namespace;
mod ratio;

use std::hint::black_box;

use criterion::{Criterion, criterion_group};
use muster_objects::meta::ObjectKey;

use namespace::Namespace;

fn sync(criterion: &mut Criterion) {
    // `cargo test --benches` only wants to know that it runs.
    let measure = std::env::args().any(|argument| argument == "--bench");
    let key = ObjectKey::new("default", "app-0");
    for (what, old, writes) in [("at rest", 0, 0), ("rolling", 5, 1)] {
        let mut medians = Vec::new();
        for sets in [10, 10_000] {
            let mut namespace = Namespace::of(sets, old);
            assert_eq!(namespace.sync(&key), writes);
            criterion.bench_function(&format!("sync of a Deployment, {what}, among {sets} ReplicaSets"), |bencher| {
                bencher.iter(|| black_box(namespace.sync(black_box(&key))));
            });
            if measure {
                medians.push(ratio::median(10, || namespace.sync(&key)));
            }
        }
        let [small, large] = medians[..] else { continue };
        ratio::print(&format!("sync of a Deployment, {what}"), (small, "10 ReplicaSets"), (large, "10,000"));
    }
}

criterion_group!(benches, sync);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
