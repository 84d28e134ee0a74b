//! Faults of all kinds at once.

use std::time::Duration;

use muster_simulation::Faults;
use muster_simulation::weather;

use crate::common::{Random, each, in_virtual_time};
use crate::story::{Plot, tell};
use crate::{judge, seeds};

/// As for one fault alone: a mixture makes none of the waits longer, for each of them is bounded by itself.
const PLOT: Plot = Plot { rounds: 2, within: Duration::from_secs(150), classic: true };

/// Under any combination of faults, no pod is created or deleted that should not be, and soon after their end the
/// desired state is reached, and stays without a write.
///
/// Contract: B-01, B-02, CM-03, EV-04, INF-05, EX-05, WQ-04, RS-07, RS-08
#[test]
fn any_mixture_of_faults_does_no_harm() {
    let seeds = seeds(6);
    let mixture = |faults: &Faults, random: &mut Random| {
        weather::mixed(weather::ALL, random).into_iter().for_each(|rule| faults.add(rule));
    };
    let told = each(&seeds, |seed| in_virtual_time(tell(*seed, PLOT, mixture)));
    let strikes: u64 = told.iter().map(|told| told.strikes).sum();
    assert!(strikes > 0);
    println!("{strikes} strikes, as asked after {:?}", told.iter().map(|told| told.longest).max());
    judge(&seeds, &told.into_iter().map(|told| told.broken).collect::<Vec<_>>());
}
