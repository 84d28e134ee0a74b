//! The shadow beside controllers in virtual time: it agrees with ours through hundreds of random operations, and finds
//! every one that errs.
//!
//! `MUSTER_CASES` says how many worlds; the seeds are counted from `MUSTER_SEED`, or from 1.

#[path = "../common/mod.rs"]
mod common;
mod operations;
mod watch;
mod wrong;

use muster_simulation::World;
use muster_simulation::world::CONTROLLERS;

use common::{each, in_virtual_time, seeds};
use operations::Operations;
use watch::{SHADOW, Watch};

/// How many operations there are in each world.
const OPERATIONS: u64 = 60;

/// Beside our own controllers the shadow records only agreement, whatever is done to the cluster, and writes nothing.
#[test]
fn through_random_operations_it_agrees_with_ours() {
    let seeds = seeds(6);
    let told = each(&seeds, |seed| in_virtual_time(beside_ours(*seed)));
    let mut agreed = 0;
    for (seed, told) in seeds.iter().zip(&told) {
        let differences: Vec<String> = told.differences().map(|difference| format!("{difference:#?}")).collect();
        assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
        agreed += told.totals.total().agreed;
        for action in ["create-pod", "delete-pod", "status"] {
            assert!(told.agreed("ReplicaSet", action) > 0, "seed {seed}: {action}");
        }
        for action in ["create-replicaset", "scale-replicaset", "status"] {
            assert!(told.agreed("Deployment", action) > 0, "seed {seed}: {action}");
        }
    }
    println!("{agreed} agreements in {} worlds of {OPERATIONS} operations", seeds.len());
}

async fn beside_ours(seed: u64) -> watch::Told {
    let mut operations = Operations::of(seed);
    let world = World::start(operations.settings()).await.unwrap();
    let watch = Watch::start(&world, CONTROLLERS).await;
    operations.run(&world, OPERATIONS).await;
    let told = watch.end().await;
    let written = |who: &str| world.history().since(0).iter().filter(|write| write.who == who).count();
    assert!(written(CONTROLLERS) > 100, "what is counted can be counted");
    assert_eq!(written(SHADOW), 0, "seed {seed}: the shadow writes nothing");
    world.stop().await;
    told
}
