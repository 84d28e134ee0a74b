//! Whole clusters on bad days, in virtual time: requests are lost, delayed and refused, watches break, leaders die.
//!
//! `MUSTER_CASES` says how many cases of each kind; the seeds are counted from `MUSTER_SEED`, or from 1.

mod alone;
mod bounded;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod failover;
mod laws;
mod lease;
mod mixed;
#[path = "../common/sizes.rs"]
mod sizes;
mod story;
#[path = "../common/weather.rs"]
mod weather;

/// The seeds to be tried: `cases` of them unless `MUSTER_CASES` says otherwise.
fn seeds(cases: u64) -> Vec<u64> {
    let first = from_environment("MUSTER_SEED", 1);
    (first..first + from_environment("MUSTER_CASES", cases)).collect()
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Fails with what each of the seeds broke, if any did.
fn judge(seeds: &[u64], broken: &[Vec<String>]) {
    let mut all = String::new();
    for (seed, broken) in seeds.iter().zip(broken).filter(|(_, broken)| !broken.is_empty()) {
        let some = broken.iter().take(4).map(|law| format!("\n  {law}"));
        all += &format!("\nseed {seed}, {} in all:{}", broken.len(), some.collect::<String>());
    }
    assert!(all.is_empty(), "{all}");
}
