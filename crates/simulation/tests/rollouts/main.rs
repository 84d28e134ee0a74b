//! Random rollouts in virtual time, and what must hold after every single write of them.
//!
//! `MUSTER_CASES` says how many; the seeds are counted from `MUSTER_SEED`, or from 1. `MUSTER_FAULT` has all of them under one
//! kind of weather, and `MUSTER_TIMELINE=1` prints every write.

#[path = "../common/mod.rs"]
mod common;
mod data;

use std::collections::BTreeMap;

use muster_simulation::case::{Case, End, Played, Profile, play_alone};
use muster_simulation::laws::timeline;

use common::{each, seeds, weather};

/// However a rollout is disturbed: there are never more pods than replicas and surge allow, nor do the controllers
/// leave fewer available than must be; a Recreate never has old and new pods running together; revisions only rise;
/// the rollout ends complete or at its deadline; once it is complete nothing is written; and the controllers never
/// conflict with each other.
///
/// Contract: DEP-07, DEP-09 to DEP-12, DEP-17, DEP-18, DEP-24, RS-19, B-03, B-04, B-05
#[test]
fn random_rollouts_keep_their_bounds_and_end() {
    let seeds = seeds(30);
    judge(&seeds, &each(&seeds, |seed| told(&Profile::Rollouts.case(*seed, None))));
}

#[test]
fn the_same_seed_gives_the_same_rollout_byte_for_byte() {
    let told = each(&[3, 3, 4, 4], |seed| lines(&told(&Profile::Rollouts.case(*seed, None))));
    for pair in told.chunks(2) {
        assert!(pair[0].len() > 20, "only {} writes", pair[0].len());
        assert_eq!(pair[0], pair[1]);
    }
    assert_ne!(told[0], told[2]);
}

/// Whatever strikes while a rollout is disturbed, it keeps its bounds; and when the weather is over, it ends. Every fault by
/// itself in turn, and every fourth time a mixture.
///
/// Contract: DEP-09 to DEP-12, B-01, B-18 to B-20, RS-19, SI-02
#[test]
fn random_rollouts_keep_their_bounds_in_bad_weather() {
    let seeds = seeds(600);
    let weather = weather();
    let told = each(&seeds, |seed| told(&Profile::Rollouts.case(*seed, Some(&weather))));
    judge(&seeds, &told);
    let mut strikes = BTreeMap::new();
    for (seed, told) in seeds.iter().zip(&told) {
        let (stories, all) = strikes.entry(Profile::Rollouts.weather_of(*seed, &weather)).or_insert((0, 0));
        (*stories, *all) = (*stories + 1, *all + told.strikes);
    }
    for (name, (stories, strikes)) in strikes {
        println!("{strikes:8} strikes in {stories:4} stories: {name}");
        assert!(strikes > 0 || stories < ENOUGH, "{name} has struck nothing in {stories} stories");
    }
}

/// In so many stories a fault strikes at least once.
const ENOUGH: u64 = 12;

/// Plays a case.
pub(crate) fn told(case: &Case) -> Played {
    let played = play_alone(case).expect("a world");
    if std::env::var_os("MUSTER_TIMELINE").is_some() {
        println!("{}\n{}", case.written(), timeline(&played.seen));
        for write in played.writes.iter().filter(|write| write.who == "controllers" && write.resource() != "events") {
            println!("{write}");
        }
        played.struck.iter().for_each(|struck| println!("{struck:?}"));
    }
    played
}

pub(crate) fn lines(played: &Played) -> Vec<String> {
    played.writes.iter().map(ToString::to_string).collect()
}

/// Fails with what each of the seeds broke, if any did.
fn judge(seeds: &[u64], told: &[Played]) {
    let ends = |end| told.iter().filter(|told| told.end == Some(end)).count();
    let (complete, late) = (ends(End::Complete), ends(End::DeadlineExceeded));
    let strikes: u64 = told.iter().map(|told| told.strikes).sum();
    println!("{complete} complete, {late} at their deadline, {strikes} strikes");
    let mut broken = String::new();
    for (seed, told) in seeds.iter().zip(told).filter(|(_, told)| !told.broken.is_empty()) {
        let some = told.broken.iter().take(4).map(|law| format!("\n  {law}"));
        broken += &format!("\nseed {seed}, {} in all:{}", told.broken.len(), some.collect::<String>());
    }
    assert!(broken.is_empty(), "{broken}");
    assert!(seeds.len() < BOTH_ENDS || (complete > 0 && late > 0), "one of the two ends never came");
}

/// Among so many stories some end complete, and some at their deadline.
const BOTH_ENDS: usize = 30;
