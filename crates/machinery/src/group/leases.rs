//! What a member does with the group's Lease and with the Leases of other members.

use std::time::Duration;

use muster_objects::{Lease, Moment};

use super::cut::{Cut, is_uneven};
use super::decide::Scene;
use super::record::{self, ENDED, GROUP, HEAVIEST, LAST, LEAVING, PODS, SHARDS, YES};
use super::view::Seen;
use super::{Group, KEEP, RECUT_EVERY, RESHARD_EVERY, Step};
use crate::election::Request;

impl Group {
    /// Founds the group, renews its Lease, puts another cut in force, or gives the Lease back.
    pub(super) fn keep_group(&mut self, scene: &Scene) -> Vec<Step> {
        if self.is_through() {
            return self.is_to_give_back().then(|| self.give_back(scene)).flatten().into_iter().collect();
        }
        if !scene.takes_part && !self.leaving {
            return Vec::new();
        }
        if scene.force.is_none() {
            return self.found(scene).into_iter().collect();
        }
        let mut steps: Vec<Step> = self.recut(scene).into_iter().collect();
        // While namespaces are counted the group goes on.
        if matches!(steps[..], [] | [Step::Weigh]) && self.is_to_renew(scene) {
            steps.extend(self.renew(scene));
        }
        steps
    }

    /// Another member's turn comes when those before it are late.
    fn is_to_renew(&self, scene: &Scene) -> bool {
        let Some(seen) = self.view.group.as_ref() else { return false };
        // It lasts until the look after the next one, each of which can be a fifth late.
        let soon = self.config.election.retry_period / 5 * 11;
        let wall = scene.wall.plus_nanos(i64::try_from(soon.as_nanos()).unwrap_or(i64::MAX));
        let holds = self.term.is_some_and(|term| term.allows(scene.now + soon, wall));
        let late = scene.now >= seen.since + self.config.election.retry_period + self.turn(scene);
        !self.is_ours() || !holds && !self.leaving || late
    }

    /// How long this member leaves to those before it what all of them would do at once. Short, so that when these are gone
    /// the group's Lease is renewed before a term of 10 s is over, and shards are taken within the Lease's time plus 5 s, although
    /// each look can be a retry period late.
    fn turn(&self, scene: &Scene) -> Duration {
        self.config.election.retry_period / 2 * scene.rank.min(2)
    }

    fn renew(&self, scene: &Scene) -> Option<Step> {
        let (generation, cut, _) = self.cut.as_ref()?;
        Some(self.write_group(&record::with_cut(&self.group_lease(), cut, record::count(*generation)), scene))
    }

    /// The first cut of a group that holds its Lease from here on. Nobody may have a shard in its hands.
    fn found(&mut self, scene: &Scene) -> Option<Step> {
        let seen = self.view.group.as_ref()?;
        let respected = match &seen.lease {
            // Who held it may not know yet that it was deleted.
            None if self.view.was_held => self.config.election.lease_duration,
            Some(lease) if !lease.holder().is_empty() => lease.duration(),
            _ => Duration::ZERO,
        };
        let stands = self.is_ours() || scene.now >= seen.since + respected;
        let free = |seen: &Seen| self.is_free(seen, scene.now);
        if !stands || self.leaving || scene.rank > 0 || !self.view.shards.values().all(free) {
            return None;
        }
        let wished = self.wished(scene.now);
        let lease = self.group_lease();
        let cut = match record::cut(&lease).map(|(_, cut)| cut).filter(|cut| cut.shards() == wished) {
            Some(cut) => cut,
            None => match self.weights.take() {
                Some(weights) => Cut::of(&weights, wished),
                None => return Some(Step::Weigh),
            },
        };
        let known = self.cut.as_ref().map_or(0, |(generation, ..)| *generation);
        let shards = self.view.shards.values().map(Seen::generation).max().unwrap_or_default();
        let last = record::count(known.max(shards).max(record::generation(&lease)));
        Some(self.write_group(&record::with_cut(&lease, &cut, last.wrapping_add(1)), scene))
    }

    /// Another cut, where the one in force is not as members were told, or is clearly worse.
    fn recut(&mut self, scene: &Scene) -> Option<Step> {
        let (generation, cut, since) = self.cut.as_ref()?;
        if self.leaving || scene.rank > 0 || scene.obstructed || scene.force.is_none() {
            return None;
        }
        let wished = self.wished(scene.now);
        let (told, kept) = (wished != cut.shards(), scene.now.saturating_since(*since));
        let asked = told && kept >= RESHARD_EVERY;
        let uneven = kept >= RECUT_EVERY && self.is_uneven(cut.shards(), scene.now);
        if !asked && !uneven {
            self.weights = None;
            return None;
        }
        let Some(weights) = self.weights.take() else { return Some(Step::Weigh) };
        let next = Cut::of(&weights, wished);
        if !told && !cut.yields_to(&next, &weights) {
            // Let be until the next time.
            if let Some((_, _, since)) = &mut self.cut {
                *since = scene.now;
            }
            return None;
        }
        let lease = record::with_cut(&self.group_lease(), &next, record::count(*generation).wrapping_add(1));
        Some(self.write_group(&lease, scene))
    }

    /// How many shards there are to be: as the youngest member was told, for in a rolling change all come to that.
    fn wished(&self, now: Moment) -> u32 {
        let wish = |identity: &str, seen: &Seen| {
            let lease = seen.lease.as_ref()?;
            let told = u32::try_from(record::number(lease, SHARDS)?).ok()?;
            Some((lease.spec.acquire_time.map(|time| time.0.as_nanos()), identity.to_owned(), told))
        };
        let youngest = self.alive(now).filter_map(|(identity, seen)| wish(identity, seen)).max();
        youngest.map_or(self.config.shards, |(_, _, told)| told).clamp(1, super::MOST_SHARDS)
    }

    /// Whether the members' own counts say that a look at another cut is worth its while.
    fn is_uneven(&self, shards: u32, now: Moment) -> bool {
        let says = |annotation: &'static str| {
            self.alive(now).filter_map(move |(_, seen)| record::number(seen.lease.as_ref()?, annotation))
        };
        let total = says(PODS).fold(0, u64::saturating_add);
        is_uneven(says(HEAVIEST).max().unwrap_or_default(), total, shards)
    }

    /// Whether the group's Lease is this member's to give back: all others are leaving too, as far as is known, and
    /// none whose identity comes later says that it waits for the others.
    ///
    /// Nobody leaves before a list has shown its own announcement, so of two that leave at the same time one at least
    /// sees the other's.
    pub(super) fn is_to_give_back(&self) -> bool {
        let me = self.config.election.identity.as_str();
        let waits = |seen: &Seen| leaving(seen) == Some(LAST) && seen.holder() > me;
        self.is_ours() && self.is_last() && !self.others().any(waits)
    }

    /// Whether all other members are leaving too.
    pub(super) fn is_last(&self) -> bool {
        self.leaving && self.others().all(|seen| leaving(seen).is_some())
    }

    /// Whether no other member's Lease is held.
    pub(super) fn is_alone(&self) -> bool {
        self.others().next().is_none()
    }

    /// Whether the last list showed that this member is leaving, or that it is no member any more.
    pub(super) fn is_announced(&self) -> bool {
        let own = self.view.members.get(&self.names.member(&self.config.election.identity));
        own.is_none_or(|seen| seen.holder() != self.config.election.identity || leaving(seen).is_some())
    }

    /// What the Leases of the other members say under this annotation, by their identities.
    pub fn told(&self, annotation: &str) -> impl Iterator<Item = (&str, &str)> {
        self.others().filter_map(move |seen| Some((seen.holder(), seen.lease.as_ref()?.annotation(annotation)?)))
    }

    /// The members whose Leases are held, without this one.
    fn others(&self) -> impl Iterator<Item = &Seen> {
        let me = &self.config.election.identity;
        self.view.members.values().filter(move |seen| !seen.holder().is_empty() && seen.holder() != me)
    }

    fn give_back(&self, scene: &Scene) -> Option<Step> {
        // Who begins meanwhile waits for a renewal that it sees, and that makes this write fail.
        let lease = self.view.group.as_ref()?.lease.as_ref().filter(|_| self.group_listed && self.is_alone())?;
        Some(Step::Write(Request::Replace(lease.released(scene.wall))))
    }

    /// Ends the Leases of members that have been silent for their Leases' time, so that they cannot go on. Members do
    /// so one after the other, so that they do not all write at once.
    pub(super) fn end_silent(&self, scene: &Scene) -> Vec<Step> {
        if !scene.takes_part {
            return Vec::new();
        }
        let election = &self.config.election;
        let turn = self.turn(scene);
        let own = self.names.member(&election.identity);
        let silent = self.view.members.iter().filter(|(name, seen)| {
            let ended = seen.lease.is_some() && seen.holder().is_empty();
            !ended && **name != own && scene.now >= seen.runs_out(election.lease_duration) + turn
        });
        let end = |(name, seen): (&String, &Seen)| {
            let made = self.names.make(name);
            let mut ended = seen.lease.as_ref().unwrap_or(&made).released(scene.wall);
            ended.set_annotation(ENDED, Some(YES));
            Step::Write(if seen.is_missing() { Request::Create(ended) } else { Request::Replace(ended) })
        };
        silent.map(end).collect()
    }

    /// Deletes the Leases of members that ended long ago, and of shards that are not of the cut in force.
    pub(super) fn clean_up(&self, scene: &Scene) -> Vec<Step> {
        let Some((_, cut)) = scene.force.as_ref().filter(|_| scene.takes_part && scene.rank == 0) else {
            return Vec::new();
        };
        let old = |seen: &&Seen| seen.holder().is_empty() && scene.now >= seen.since + KEEP;
        let holds = |name: &str| self.view.shards.values().any(|shard| self.names.member(shard.holder()) == name);
        let members = self.view.members.iter().filter(|(name, _)| !holds(name)).map(|(_, seen)| seen);
        let shards = self.view.shards.range(cut.shards()..).map(|(_, seen)| seen);
        members.chain(shards).filter(old).filter_map(|seen| seen.lease.clone().map(Step::Delete)).collect()
    }

    /// The group's Lease as last seen, or one to be made.
    fn group_lease(&self) -> Lease {
        let seen = self.view.group.as_ref().and_then(|seen| seen.lease.clone());
        seen.unwrap_or_else(|| self.names.make(&self.names.lease))
    }

    fn write_group(&self, lease: &Lease, scene: &Scene) -> Step {
        let mut held = record::held_by(lease, &self.names.holder, self.seconds, scene.wall);
        held.set_label(GROUP, &self.names.group);
        let there = !held.resource_version().is_empty();
        Step::Write(if there { Request::Replace(held) } else { Request::Create(held) })
    }
}

/// What a member says about its end.
fn leaving(seen: &Seen) -> Option<&str> {
    seen.lease.as_ref()?.annotation(LEAVING)
}
