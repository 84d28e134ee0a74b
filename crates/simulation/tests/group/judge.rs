//! Who may write for which namespace, judged by all that reached the server, in its order.
//!
//! A write for a namespace must come from the member that holds the Lease of the namespace's shard at that moment, in a
//! cut under which nobody else holds the namespace by an older one, and while the group's Lease is the group's.

use std::collections::BTreeMap;

use http::Method;
use muster_objects::{HashRange, Lease};
use muster_simulation::{Faults, World, Write};

use crate::laws::{Asked, Laws, Phase};

/// The Leases as of one write.
#[derive(Default)]
pub(crate) struct Judge {
    /// Also those that were deleted, as they were.
    leases: BTreeMap<String, Lease>,
    /// The cuts by their numbers.
    cuts: BTreeMap<u64, Vec<HashRange>>,
    /// Who wrote for a namespace last.
    writers: BTreeMap<String, &'static str>,
    changes: usize,
    broken: Vec<String>,
}

/// How long it took until other members had the shards of one.
pub(crate) struct Gone {
    /// The first shards' and the last one's taking, in virtual milliseconds since the Unix epoch.
    pub(crate) last: i64,
    pub(crate) shards: usize,
}

/// What is to be said of a whole story.
pub(crate) struct Verdict {
    /// All writes, in their order.
    pub(crate) writes: Vec<Write>,
    /// How often another member wrote for a namespace than before.
    pub(crate) changes: usize,
    pub(crate) broken: Vec<String>,
}

/// Judges the writes of these members so far, and what became of the workloads since a phase began.
pub(crate) fn verdict(world: &World, laws: &Laws, phase: Phase, faults: &Faults, members: &[&'static str]) -> Verdict {
    let asked = Asked { writes: world.history().since(0), unanswered: faults.unanswered() };
    let mut broken = laws.phase_ends(phase, &asked);
    let Judge { changes, broken: by_members, .. } = Judge::of(&asked.writes, members);
    broken.extend(by_members);
    Verdict { writes: asked.writes, changes, broken }
}

impl Judge {
    /// Judges all writes of these members, in their order.
    fn of(writes: &[Write], members: &[&'static str]) -> Self {
        let mut judge = Self::default();
        for write in writes {
            judge.take(write, members);
        }
        judge
    }

    fn take(&mut self, write: &Write, members: &[&'static str]) {
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
        if !members.contains(&write.who) || write.resource() == "events" {
            return;
        }
        if self.writers.insert(namespace.to_owned(), write.who).is_some_and(|before| before != write.who) {
            self.changes += 1;
        }
        let group = self.leases.get("muster").map_or("", Lease::holder);
        if group == write.who {
            return;
        }
        let held = self.holders(namespace);
        let mine = held.iter().filter(|(_, holder)| holder == write.who).map(|(generation, _)| *generation).max();
        match mine {
            None => self.broken.push(format!("held by {held:?}: {write}")),
            Some(_) if group != "group/blue" => self.broken.push(format!("while {group:?} leads: {write}")),
            Some(mine) => {
                let older = held.iter().find(|(generation, holder)| *generation < mine && holder != write.who);
                if let Some(older) = older {
                    self.broken.push(format!("held by {older:?} under an older cut: {write}"));
                }
            }
        }
    }

    /// Who holds the shards of a namespace, by the numbers of their cuts.
    fn holders(&self, namespace: &str) -> Vec<(u64, String)> {
        let holds = |(name, lease): (&String, &Lease)| {
            let number: usize = name.strip_prefix("muster-blue-shard-")?.parse().ok()?;
            let generation = generation(lease);
            let has = self.cuts.get(&generation)?.get(number)?.has_namespace(namespace);
            (has && !lease.holder().is_empty()).then(|| (generation, lease.holder().to_owned()))
        };
        self.leases.iter().filter_map(holds).collect()
    }

    /// When others have taken the shards that `who` held at a moment; `None` where some are not taken.
    pub(crate) fn taken_from(writes: &[Write], who: &str, millis: i64) -> Option<Gone> {
        let mut held: BTreeMap<&str, Option<i64>> = BTreeMap::new();
        for write in writes {
            let Some(lease) = write.lease.as_ref().filter(|lease| lease.name().starts_with("muster-blue-shard-"))
            else {
                continue;
            };
            if write.millis < millis {
                if lease.holder() == who {
                    held.insert(lease.name(), None);
                } else {
                    held.remove(lease.name());
                }
            } else if let Some(taken) = held.get_mut(lease.name())
                && taken.is_none()
                && lease.holder() != who
                && !lease.holder().is_empty()
            {
                *taken = Some(write.millis);
            }
        }
        let times: Option<Vec<i64>> = held.values().copied().collect();
        let times = times?;
        Some(Gone { last: times.iter().copied().max().unwrap_or(millis), shards: times.len() })
    }
}

fn generation(lease: &Lease) -> u64 {
    lease.annotation("muster.dev/cut-generation").and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn ranges(cut: &str) -> Vec<HashRange> {
    let starts = cut.split(',').filter(|start| !start.is_empty()).map(|start| u64::from_str_radix(start, 16).unwrap());
    HashRange::cut(&starts.collect::<Vec<_>>()).unwrap()
}

/// The namespace of an object that is written.
pub(crate) fn namespace(path: &str) -> Option<&str> {
    path.split_once("/namespaces/")?.1.split(['/', '?']).next()
}
