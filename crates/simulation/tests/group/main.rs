//! Groups of managers that share a cluster, on good days and on bad ones, in virtual time.
//!
//! `MUSTER_CASES` says how many cases of each kind; the seeds are counted from `MUSTER_SEED`, or from 1.

#[path = "../common/mod.rs"]
mod common;
mod handover;
mod judge;
mod killed;
mod mixed;
mod recut;
mod town;

/// Fails with what each of the seeds broke, if any did.
fn judge(seeds: &[u64], broken: &[Vec<String>]) {
    let mut all = String::new();
    for (seed, broken) in seeds.iter().zip(broken).filter(|(_, broken)| !broken.is_empty()) {
        let some = broken.iter().take(6).map(|law| format!("\n  {law}"));
        all += &format!("\nseed {seed}, {} in all:{}", broken.len(), some.collect::<String>());
    }
    assert!(all.is_empty(), "{all}");
}
