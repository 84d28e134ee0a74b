//! What must hold of a group: each namespace has one writer, and no workload a pod too many or too few.

use muster_simulation::laws::{Evidence, Watcher, workloads, writers};
use muster_simulation::{Faults, World, Write};

/// What is to be said of a whole story.
pub(crate) struct Verdict {
    /// All writes, in their order.
    pub(crate) writes: Vec<Write>,
    /// How often another member wrote for a namespace than before.
    pub(crate) changes: usize,
    pub(crate) broken: Vec<String>,
}

/// Judges the writes of these members, and what became of the workloads.
pub(crate) fn verdict(world: &World, watcher: &Watcher, faults: &Faults, members: &[&'static str]) -> Verdict {
    let is_member = |who: &str| members.contains(&who);
    let writes = world.history().since(0);
    // What was lost is never put right here as far as this knows: that is for the cases.
    let evidence = Evidence { told_from: i64::MAX, ..Evidence::of(&writes, faults, &is_member) };
    let writers::Verdict { changes, broken } = writers::check(&writes, is_member);
    let broken = workloads::check(&watcher.end(), &evidence).into_iter().chain(broken);
    let broken = broken.map(|broken| broken.to_string()).collect();
    Verdict { writes, changes, broken }
}
