//! Each fault by itself, and all kinds at once, on workloads of each kind.

use muster_simulation::case::{Case, End, Played, Profile, play_alone};
use muster_simulation::faults::Fault;
use muster_simulation::weather::{ALL, OTHERS, SILENCE, Weather};

use crate::common::each;
use crate::{judge, seeds};

/// While one fault strikes requests, no pod is created or deleted that should not be, and soon after its end all is as it was
/// asked, and stays without a write. Watches that fall silent without an end, and a server that is away, are among them.
///
/// Contract: B-01, B-02, CM-03, EV-04, INF-05, EX-05, EX-07, WQ-04, RS-19, SI-02
#[test]
fn each_fault_by_itself_does_no_harm() {
    // Of so many histories each is struck by each fault.
    const EACH: u64 = 2;
    let all = ALL.iter().chain([&SILENCE]).chain(OTHERS).copied();
    let weather: Vec<Weather> = all.filter(|one| is_judged(*one)).collect();
    let cases: Vec<(Weather, u64)> =
        seeds(EACH).into_iter().flat_map(|seed| weather.iter().map(move |one| (*one, seed))).collect();
    let told = each(&cases, |(one, seed)| played(&[*one], *seed));
    for one in &weather {
        let of_it = cases.iter().zip(&told).filter(|((each, _), _)| each.name == one.name);
        let strikes: u64 = of_it.map(|(_, told)| told.strikes).sum();
        println!("{strikes:8} strikes: {}", one.name);
        assert!(strikes > 0, "{} struck nothing", one.name);
    }
    let broken: Vec<Vec<String>> = cases.iter().zip(&told).map(|((one, _), told)| broken(one.name, told)).collect();
    judge(&cases.iter().map(|(_, seed)| *seed).collect::<Vec<_>>(), &broken);
}

/// Workloads that are deleted, and made again while that goes on, are in the end as they were last asked, what was theirs is gone or
/// is somebody's again, and none of it was replaced meanwhile. Without faults no write is refused for having been overtaken.
///
/// Contract: B-23, DEP-05, DEP-12, RS-05 to RS-07, EX-06
#[test]
fn workloads_that_are_deleted_and_made_again_are_as_asked() {
    let mut cases: Vec<Case> = seeds(10).into_iter().map(|seed| Profile::Deletions.case(seed, None)).collect();
    let all = ALL.iter().chain([&SILENCE]).chain(OTHERS).copied();
    let weather: Vec<Weather> = all.filter(|one| is_judged(*one)).collect();
    cases.extend(seeds(60).into_iter().map(|seed| Profile::Deletions.case(seed, Some(&weather))));
    let told = each(&cases, |case| play_alone(case).expect("a world"));
    let ended = told.iter().filter(|told| told.end == Some(End::Complete)).count();
    assert_eq!(ended, cases.len());
    let deletions = told.iter().flat_map(|told| &told.writes).filter(|write| write.method == "DELETE");
    assert!(deletions.count() > cases.len() * 10);
    judge(
        &cases.iter().map(|case| case.seed).collect::<Vec<_>>(),
        &told.iter().map(|told| broken("deletions", told)).collect::<Vec<_>>(),
    );
}

/// Under any combination of faults, no pod is created or deleted that should not be, and soon after their end the
/// desired state is reached, and stays without a write.
///
/// Contract: B-01, B-02, CM-03, EV-04, INF-05, EX-05, WQ-04, RS-07, RS-08
#[test]
fn any_mixture_of_faults_does_no_harm() {
    // Each fourth has a mixture.
    let seeds: Vec<u64> = seeds(6).into_iter().map(|seed| seed * 4).collect();
    let told = each(&seeds, |seed| played(ALL, *seed));
    let strikes: u64 = told.iter().map(|told| told.strikes).sum();
    assert!(strikes > 0);
    println!("{strikes} strikes");
    judge(&seeds, &told.iter().map(|told| broken("a mixture", told)).collect::<Vec<_>>());
}

/// Histories of workloads have no restore and nobody else who sets sizes: those are of the rollouts.
fn is_judged(weather: Weather) -> bool {
    !["restore", "second-writer"].contains(&weather.name)
}

fn played(weather: &[Weather], seed: u64) -> Played {
    play_alone(&Profile::Scaling.case(seed, Some(weather))).expect("a world")
}

/// What was broken, and a list that permitted an old answer.
fn broken(weather: &str, told: &Played) -> Vec<String> {
    let laws = told.broken.iter().map(|broken| format!("{weather}: {broken}"));
    let stale = told.struck.iter().filter(|struck| struck.fault == Fault::Stale);
    laws.chain(stale.map(|struck| format!("{weather}: asked for an old list: {:?}", struck.target))).collect()
}
