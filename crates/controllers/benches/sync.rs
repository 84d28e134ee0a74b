//! One sync of a ReplicaSet with 10 pods, in a namespace of 20 pods and in one of 100,000.
//!
//! The cost is to be that of the ReplicaSet's own pods: the same in both, within twice. What is measured is
//! everything between a key and its plan: the snapshot from the caches by their indexes, and the decision. The
//! scale-down is the costliest one, since it ranks the pods among those of a sibling ReplicaSet.

#[path = "namespaces/replicasets.rs"]
mod namespace;
mod ratio;

use std::hint::black_box;

use criterion::{Criterion, criterion_group};
use muster_objects::meta::ObjectKey;

use namespace::Namespace;

fn sync(criterion: &mut Criterion) {
    // `cargo test --benches` only wants to know that it runs.
    let measure = std::env::args().any(|argument| argument == "--bench");
    let key = ObjectKey::new("default", "rs-0");
    for (what, replicas, writes) in [("steady", 10, 0), ("scale down by 3", 7, 3)] {
        let mut medians = Vec::new();
        for pods in [20, 100_000] {
            let mut namespace = Namespace::of(pods, replicas);
            assert_eq!(namespace.sync(&key), writes);
            criterion.bench_function(&format!("sync of 10 pods, {what}, among {pods}"), |bencher| {
                bencher.iter(|| black_box(namespace.sync(black_box(&key))));
            });
            if measure {
                medians.push(ratio::median(100, || namespace.sync(&key)));
            }
        }
        let [small, large] = medians[..] else { continue };
        ratio::print(&format!("sync of 10 pods, {what}"), (small, "20 pods"), (large, "100,000"));
    }
}

criterion_group!(benches, sync);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
}
