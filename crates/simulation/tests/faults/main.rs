//! Whole clusters on bad days, in virtual time: requests are lost, delayed and refused, watches break, leaders die.
//!
//! `MUSTER_CASES` says how many cases of each kind; the seeds are counted from `MUSTER_SEED`, or from 1.

mod alone;
mod bounded;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod failover;
mod lease;

use common::seeds;

/// Fails with what each of the seeds broke, if any did.
fn judge(seeds: &[u64], broken: &[Vec<String>]) {
    let mut all = String::new();
    for (seed, broken) in seeds.iter().zip(broken).filter(|(_, broken)| !broken.is_empty()) {
        let some = broken.iter().take(4).map(|law| format!("\n  {law}"));
        all += &format!("\nseed {seed}, {} in all:{}", broken.len(), some.collect::<String>());
    }
    assert!(all.is_empty(), "{all}");
}
