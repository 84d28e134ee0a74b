//! Which of several managers may write, judged by all that reached the server, in its order.
//!
//! Where one of them leads, a write must come from the holder of the Lease. In a group a write for a namespace must come from
//! the member that holds the Lease of the namespace's shard at that moment, in a cut under which nobody else holds the
//! namespace by an older one, and while the group's Lease is the group's.

use std::collections::BTreeMap;

use http::Method;
use muster_objects::{HashRange, Lease};

use super::{Broken, Law};
use crate::history::Write;

/// The name of the Lease by which one leads, or the group does.
pub const LEASE: &str = "muster";
/// The name of the group.
pub const GROUP: &str = "blue";
/// What the names of the Leases of its shards begin with.
const SHARDS: &str = "muster-blue-shard-";

/// What is to be said of all writes.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How often another manager wrote for a namespace than before.
    pub changes: usize,
    /// Each write that its sender had no Lease for.
    pub broken: Vec<Broken>,
}

/// Judges all writes of the managers, in their order; `is_manager` says who is one.
pub fn check(writes: &[Write], is_manager: impl Fn(&str) -> bool) -> Verdict {
    let mut judge = Judge::default();
    for write in writes {
        judge.take(write, &is_manager);
    }
    judge.verdict
}

/// The Leases as of one write.
#[derive(Default)]
struct Judge {
    /// Also those that were deleted, as they were.
    leases: BTreeMap<String, Lease>,
    /// The cuts by their numbers.
    cuts: BTreeMap<u64, Vec<HashRange>>,
    /// Who wrote for a namespace last.
    writers: BTreeMap<String, &'static str>,
    verdict: Verdict,
}

impl Judge {
    fn take(&mut self, write: &Write, is_manager: impl Fn(&str) -> bool) {
        if write.resource() == "leases" {
            if let Some(lease) = write.lease.as_ref().filter(|_| write.method != Method::DELETE) {
                let generation = generation(lease);
                if let Some(cut) = lease.annotation("muster.dev/cut") {
                    self.cuts.entry(generation).or_insert_with(|| ranges(cut));
                }
                self.leases.insert(lease.name().to_owned(), lease.clone());
            }
            return;
        }
        let Some(namespace) = namespace(&write.path) else { return };
        if !is_manager(write.who) || write.resource() == "events" {
            return;
        }
        if self.writers.insert(namespace.to_owned(), write.who).is_some_and(|before| before != write.who) {
            self.verdict.changes += 1;
        }
        let leads = self.leases.get(LEASE).map_or("", Lease::holder).to_owned();
        if leads == write.who {
            return;
        }
        let held = self.holders(namespace);
        let mine = held.iter().filter(|(_, holder)| holder == write.who).map(|(generation, _)| *generation).max();
        match mine {
            None => self.break_law(write, &format!("held by {held:?}, led by {leads:?}")),
            Some(_) if leads.strip_prefix("group/") != Some(GROUP) => {
                self.break_law(write, &format!("while {leads:?} leads"));
            }
            Some(mine) => {
                let older = held.iter().find(|(generation, holder)| *generation < mine && holder != write.who);
                if let Some(older) = older {
                    self.break_law(write, &format!("held by {older:?} under an older cut"));
                }
            }
        }
    }

    /// Who holds the shards of a namespace, by the numbers of their cuts.
    fn holders(&self, namespace: &str) -> Vec<(u64, String)> {
        let holds = |(name, lease): (&String, &Lease)| {
            let number: usize = name.strip_prefix(SHARDS)?.parse().ok()?;
            let generation = generation(lease);
            let has = self.cuts.get(&generation)?.get(number)?.has_namespace(namespace);
            (has && !lease.holder().is_empty()).then(|| (generation, lease.holder().to_owned()))
        };
        self.leases.iter().filter_map(holds).collect()
    }

    fn break_law(&mut self, write: &Write, how: &str) {
        self.verdict.broken.push(Broken::by_request(Law::Writer, write, &format!(": {how}")));
    }
}

/// How long it took until other managers had what one held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When the last of it was taken, in virtual milliseconds since the Unix epoch.
    pub last: i64,
    /// How many Leases.
    pub leases: usize,
}

/// When others have taken the Leases that `who` held at a moment, its shards' and the leader's, or it has itself from `back` on; none
/// where some were not taken.
#[must_use]
pub fn taken_from(writes: &[Write], who: &str, millis: i64, back: i64) -> Option<Taken> {
    let mut held: BTreeMap<&str, Option<i64>> = BTreeMap::new();
    let leases = writes.iter().filter_map(|write| Some((write.millis, write.lease.as_ref()?)));
    for (at, lease) in leases.filter(|(_, lease)| lease.name() == LEASE || lease.name().starts_with(SHARDS)) {
        if at < millis {
            if lease.holder() == who {
                held.insert(lease.name(), None);
            } else {
                held.remove(lease.name());
            }
        } else if let Some(taken) = held.get_mut(lease.name())
            && taken.is_none()
            && (lease.holder() != who || at >= back)
            && !lease.holder().is_empty()
        {
            *taken = Some(at);
        }
    }
    let times: Option<Vec<i64>> = held.values().copied().collect();
    let times = times?;
    Some(Taken { last: times.iter().copied().max().unwrap_or(millis), leases: times.len() })
}

/// The number of its cut in the upper half, and the hash of that in the lower one.
fn generation(lease: &Lease) -> u64 {
    let mark = lease.annotation("muster.dev/cut-generation").and_then(|text| text.split_once('-'));
    let parsed =
        mark.and_then(|(number, hash)| Some((number.parse::<u32>().ok()?, u32::from_str_radix(hash, 16).ok()?)));
    parsed.map_or(0, |(number, hash)| u64::from(number) << 32 | u64::from(hash))
}

fn ranges(cut: &str) -> Vec<HashRange> {
    let starts = cut.split(',').filter(|start| !start.is_empty()).map(|start| u64::from_str_radix(start, 16));
    let starts: Result<Vec<u64>, _> = starts.collect();
    starts.ok().and_then(|starts| HashRange::cut(&starts)).unwrap_or_default()
}

/// The namespace of an object that is written.
#[must_use]
pub fn namespace(path: &str) -> Option<&str> {
    path.split_once("/namespaces/")?.1.split(['/', '?']).next()
}
