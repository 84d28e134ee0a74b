//! Each fault by itself, at its worst.

use std::time::Duration;

use muster_simulation::Faults;
use muster_simulation::weather::{ALL, SILENCE};

use crate::common::{Random, each, in_virtual_time, pass};
use crate::story::{Plot, tell};

use crate::{judge, seeds};

/// How soon the desired state is reached after a fault's end: a request that hangs is given up after 75 s, a refused
/// watch is tried again within 30 s, a failed sync within 30 s, and then pods start and Deployments roll.
const PLOT: Plot = Plot { rounds: 1, within: Duration::from_secs(150), classic: true };
/// A watch that says nothing is believed until the time for which it was asked is over, and half a minute more.
const SILENT: Plot = Plot { rounds: 1, within: Duration::from_secs(600 + 30 + 20), classic: false };

/// While one fault strikes every other request, no pod is created or deleted that should not be, and soon after its
/// end all is as it was asked.
///
/// Contract: B-01, B-02, CM-03, EV-04, INF-05, EX-05, WQ-04
#[test]
fn each_fault_by_itself_does_no_harm() {
    let cases: Vec<(usize, u64)> =
        seeds(1).into_iter().flat_map(|seed| (0..ALL.len()).map(move |at| (at, seed))).collect();
    let told = each(&cases, |(at, seed)| {
        let weather = |faults: &Faults, random: &mut Random| {
            let per_mille = *random.pick(&[100, 500, 1_000]);
            ALL[*at].begin(faults, per_mille);
        };
        let told = in_virtual_time(tell(*seed, PLOT, weather));
        println!("{} (seed {seed}): {} strikes, as asked after {:?}", ALL[*at].name, told.strikes, told.longest);
        assert!(told.strikes > 0, "{} (seed {seed}) struck nothing", ALL[*at].name);
        told
    });
    let broken: Vec<Vec<String>> = cases
        .iter()
        .zip(told)
        .map(|((at, _), told)| told.broken.into_iter().map(|law| format!("{}: {law}", ALL[*at].name)).collect())
        .collect();
    let seeds: Vec<u64> = cases.iter().map(|(_, seed)| *seed).collect();
    judge(&seeds, &broken);
}

/// The server is away for up to 35 s, so that no node is given up, and everything that was connected to it is not any more.
///
/// Contract: INF-05, WQ-04
#[test]
fn a_server_that_was_away_finds_everything_taken_up_again() {
    let seeds = seeds(2);
    let told = each(&seeds, |seed| {
        let weather = |faults: &Faults, random: &mut Random| {
            let faults = faults.clone();
            let begins = Duration::from_millis(random.below(4_000));
            let lasts = Duration::from_millis(5_000 + random.below(55_000));
            tokio::spawn(async move {
                pass(begins).await;
                faults.go_away();
                // People wait for the collector, which needs the server.
                pass(lasts).await;
                faults.come_back();
            });
        };
        in_virtual_time(tell(*seed, PLOT, weather))
    });
    println!("as asked after {:?}", told.iter().map(|told| told.longest).max());
    assert!(told.iter().all(|told| told.strikes > 0));
    judge(&seeds, &told.into_iter().map(|told| told.broken).collect::<Vec<_>>());
}

/// Watches fall silent without an end. Nothing is done on what they do not show, and all is as asked once they are given
/// up.
///
/// Contract: INF-05, RS-19, EX-07
#[test]
fn watches_that_fall_silent_do_no_harm() {
    let seeds = seeds(2);
    let told = each(&seeds, |seed| {
        let weather = |faults: &Faults, random: &mut Random| {
            let per_mille = *random.pick(&[20, 200, 1_000]);
            SILENCE.begin(faults, per_mille);
        };
        in_virtual_time(tell(*seed, SILENT, weather))
    });
    println!("as asked after {:?}", told.iter().map(|told| told.longest).max());
    assert!(told.iter().all(|told| told.strikes > 0));
    judge(&seeds, &told.into_iter().map(|told| told.broken).collect::<Vec<_>>());
}
