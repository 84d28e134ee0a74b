//! Managers that are killed, frozen, cut off, stopped and added while Deployments roll, with one leader and with shards.

use muster_simulation::case::{Profile, play_alone};

use crate::common::{each, seeds, weather};
use crate::judge;

/// However managers end, each namespace has one writer, what is written is as if there were only one, and what one held
/// that is gone has another holder within the Lease's time and five seconds.
///
/// Contract: SH-02, SH-03, SI-02
#[test]
fn managers_that_come_and_go_leave_each_namespace_with_one_writer() {
    let (seeds, weather) = (seeds(24), weather());
    let told = each(&seeds, |seed| play_alone(&Profile::Failover.case(*seed, Some(&weather))).expect("a world"));
    let changes: usize = told.iter().map(|told| told.changes).sum();
    println!("{changes} times a namespace went to another manager");
    assert!(changes > seeds.len(), "namespaces went to other managers {changes} times");
    let broken: Vec<Vec<String>> =
        told.into_iter().map(|told| told.broken.iter().map(ToString::to_string).collect()).collect();
    judge(&seeds, &broken);
}

/// Invariant 8 of ARCHITECTURE.md.
#[test]
fn the_same_seed_gives_the_same_history_of_several_managers() {
    let case = Profile::Failover.case(seeds(1)[0], Some(&weather()));
    let told = each(&[&case, &case], |case| play_alone(case).expect("a world").writes);
    let differs = told[0].iter().zip(&told[1]).find(|(one, other)| one != other);
    assert_eq!((differs, told[0].len()), (None, told[1].len()));
}
