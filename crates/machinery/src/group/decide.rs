//! What a member does with the shards: takes, opens, closes and releases them.

use std::collections::{BTreeMap, BTreeSet};

use muster_objects::{Moment, Timestamp};

use super::cut::Cut;
use super::record::{self, ENDED, LEAVING, NEW};
use super::share::share;
use super::view::Seen;
use super::{Group, Mine, State, Step};
use crate::election::Request;

/// The group as it is at one moment, for one decision.
pub(super) struct Scene {
    pub(super) now: Moment,
    pub(super) wall: Timestamp,
    /// Whether this member is one of those that shards are given to.
    pub(super) takes_part: bool,
    /// How many members come before this one where one is to do something.
    pub(super) rank: u32,
    /// The cut in force with its number, while the group holds its Lease.
    pub(super) force: Option<(u64, Cut)>,
    /// Who is due to have each shard.
    due: Vec<String>,
    /// Whether somebody may still work for a shard under another cut.
    pub(super) obstructed: bool,
}

impl Group {
    /// What is to be done now. To be asked after each list, each answer and each closing.
    pub fn decide(&mut self, now: Moment, wall: Timestamp) -> Vec<Step> {
        let scene = self.scene(now, wall);
        let mut steps = Vec::new();
        if self.fresh {
            steps.extend(self.keep_group(&scene));
            steps.extend(self.end_silent(&scene));
            steps.extend(self.clean_up(&scene));
        }
        for number in self.view.shards.keys().copied().collect::<Vec<_>>() {
            steps.extend(self.decide_shard(number, &scene));
        }
        steps
    }

    /// When something is to be decided without a change, at the latest: a Lease runs out. `None` for never.
    #[must_use]
    pub fn due(&self, now: Moment) -> Option<Moment> {
        let least = self.config.election.lease_duration;
        let members = self.view.members.values().filter(|seen| !seen.holder().is_empty() || seen.is_missing());
        let shards = self.view.shards.values().filter(|seen| seen.is_missing());
        let group = self.view.group.iter().filter(|seen| !self.is_ours() && !seen.holder().is_empty());
        let deleted = self.view.group.iter().filter(|seen| seen.is_missing() && self.view.was_held);
        let ends = members.chain(shards).chain(deleted).map(|seen| seen.runs_out(least));
        ends.chain(group.map(|seen| seen.runs_out(std::time::Duration::ZERO))).filter(|end| *end > now).min()
    }

    /// The identities of the members that are alive as far as is known, also of those that are about to leave.
    pub(super) fn alive(&self, now: Moment) -> impl Iterator<Item = (&str, &Seen)> {
        let least = self.config.election.lease_duration;
        let holders: BTreeMap<String, &str> = (self.view.shards.values().map(Seen::holder))
            .filter(|holder| !holder.is_empty())
            .map(|holder| (self.names.member(holder), holder))
            .collect();
        self.view.members.iter().filter_map(move |(name, seen)| {
            // One whose Lease was deleted makes it again.
            let identity = if seen.is_missing() { holders.get(name).copied()? } else { seen.holder() };
            (!identity.is_empty() && now < seen.runs_out(least)).then_some((identity, seen))
        })
    }

    /// Whether the group holds its Lease.
    pub(super) fn is_ours(&self) -> bool {
        self.view.group.as_ref().is_some_and(|seen| seen.holder() == self.names.holder)
    }

    /// Whether the group's Lease has no holder, by somebody's hand, and this member may still write by it: it holds it
    /// again.
    pub(super) fn has_lapsed(&self, now: Moment, wall: Timestamp) -> bool {
        let free = self.view.group.as_ref().is_some_and(|seen| seen.holder().is_empty());
        free && self.cut.is_some() && self.term.is_some_and(|term| term.allows(now, wall))
    }

    /// Whether nobody can work for a shard of this Lease any more, so that it can be taken.
    pub(super) fn is_free(&self, seen: &Seen, now: Moment) -> bool {
        let least = self.config.election.lease_duration;
        if seen.is_missing() {
            return now >= seen.runs_out(least);
        }
        let holder = seen.holder();
        if holder.is_empty() {
            return true;
        }
        let Some(member) = self.view.members.get(&self.names.member(holder)) else { return false };
        let Some(lease) = member.lease.as_ref().filter(|lease| lease.holder() != holder) else { return false };
        // Where nobody says that it was silent before it was ended, it may not know yet.
        record::says(lease, ENDED) || now >= member.runs_out(least)
    }

    fn scene(&self, now: Moment, wall: Timestamp) -> Scene {
        let me = self.config.election.identity.as_str();
        let says = |seen: &Seen, what: &str| seen.lease.as_ref().is_some_and(|lease| record::says(lease, what));
        let stays = |identity: &str, seen: &Seen| if identity == me { !self.leaving } else { !says(seen, LEAVING) };
        let staying: BTreeMap<&str, &Seen> = self.alive(now).filter(|(identity, seen)| stays(identity, seen)).collect();
        // Who is new gets no shards where there are others, and keeps those that it has.
        let holders: BTreeSet<&str> = self.view.shards.values().map(Seen::holder).collect();
        let has_part = |(identity, seen): &(&&str, &&Seen)| !says(seen, NEW) || holders.contains(*identity);
        let mut having: Vec<&str> = staying.iter().filter(has_part).map(|(identity, _)| *identity).collect();
        let staying: Vec<&str> = staying.into_keys().collect();
        if having.is_empty() {
            having.clone_from(&staying);
        }
        let place = staying.binary_search(&me);
        let known = self.cut.as_ref().map(|(generation, cut, _)| (*generation, cut.clone()));
        let force = known.filter(|_| self.is_ours() || self.has_lapsed(now, wall));
        let due = match &force {
            None => Vec::new(),
            Some((_, cut)) => {
                let holder = |number: u32| having.binary_search(&self.view.shards.get(&number)?.holder()).ok();
                let holders: Vec<_> = (0..cut.shards()).map(holder).collect();
                let due = share(&having, &holders).unwrap_or_default();
                due.into_iter().map(|member| having[member].to_owned()).collect()
            }
        };
        let obstructed = force.as_ref().is_none_or(|(generation, _)| {
            let other = |seen: &Seen| seen.is_missing() || seen.generation() != *generation;
            self.view.shards.values().any(|seen| other(seen) && !self.is_free(seen, now))
        });
        let rank = u32::try_from(place.unwrap_or(staying.len())).unwrap_or(u32::MAX);
        Scene { now, wall, takes_part: place.is_ok(), rank, force, due, obstructed }
    }

    fn decide_shard(&mut self, number: u32, scene: &Scene) -> Option<Step> {
        let seen = self.view.shards.get(&number)?;
        let me = self.config.election.identity.as_str();
        let due = usize::try_from(number).ok().and_then(|number| scene.due.get(number)).map(String::as_str);
        let force = scene.force.as_ref().map(|(generation, _)| *generation);
        let wanted = due == Some(me) && scene.takes_part;
        let held = seen.holder() == me;
        let is_open_elsewhere = !held && !seen.is_missing();
        match self.mine.get(&number).map(|mine| (mine.state, mine.generation)) {
            Some((State::Open, generation)) => {
                // Its Lease was deleted, and others may have had it since this member last saw it.
                let term = self.mine.get(&number)?.term;
                let is_lost = seen.is_missing() && !term.is_some_and(|term| term.allows(scene.now, scene.wall));
                if !wanted || force != Some(generation) || is_open_elsewhere || is_lost {
                    let mine = self.mine.get_mut(&number)?;
                    mine.state = State::Closing;
                    mine.term = mine.term.filter(|_| !is_open_elsewhere);
                    return Some(Step::Close(number));
                }
                // Others do not take it before the Lease's time is over.
                (seen.is_missing() && self.fresh).then(|| self.make_shard(number, me, generation, scene.wall))
            }
            Some((State::Closing, _)) => {
                if is_open_elsewhere {
                    self.mine.get_mut(&number)?.term = None;
                }
                None
            }
            Some((State::Taken(answered, looks), generation)) => {
                if is_open_elsewhere || seen.is_missing() {
                    self.mine.remove(&number);
                    return None;
                }
                if !wanted || force != Some(generation) {
                    self.mine.get_mut(&number)?.state = State::Closed;
                    return self.decide_shard(number, scene);
                }
                // Two things can happen at one moment of a clock.
                let after = self.looks > looks && self.looked.is_some_and(|(sent, _)| sent >= answered);
                let looked = self.fresh && self.group_shown && after;
                let allowed = self.term.is_some_and(|term| term.allows(scene.now, scene.wall));
                if !looked || !allowed || scene.obstructed {
                    return None;
                }
                let range = scene.force.as_ref()?.1.range(number)?;
                self.mine.get_mut(&number)?.state = State::Open;
                Some(Step::Open { shard: number, range })
            }
            Some((State::Closed, _)) | None if held => {
                if !self.fresh {
                    return None;
                }
                let lease = seen.lease.as_ref()?;
                let (holder, generation) = match force.filter(|_| wanted) {
                    Some(generation) => (me, generation),
                    None => ("", seen.generation()),
                };
                let written = record::shard_of(lease, holder, generation, self.seconds, scene.wall);
                Some(Step::Write(Request::Replace(written)))
            }
            Some((State::Closed, generation)) => {
                let mine = self.mine.remove(&number)?;
                // It was deleted while it was being closed, and nobody can have made it since.
                let is_mine = mine.term.is_some_and(|term| term.allows(scene.now, scene.wall));
                let make = seen.is_missing() && is_mine && self.fresh;
                make.then(|| self.make_shard(number, "", generation, scene.wall))
            }
            None => self.take(number, wanted, force?, scene),
        }
    }

    fn take(&self, number: u32, wanted: bool, generation: u64, scene: &Scene) -> Option<Step> {
        let seen = self.view.shards.get(&number)?;
        if !self.fresh || !scene.takes_part {
            return None;
        }
        let me = self.config.election.identity.as_str();
        let Some(lease) = seen.lease.as_ref() else {
            let in_force = scene.force.as_ref().is_some_and(|(_, cut)| number < cut.shards());
            let begun = self.unmade.as_ref().is_some_and(|(of, unmade)| *of == generation && unmade.contains(&number));
            // Who has begun a generation makes the Leases that there never were, also for others.
            let makes = in_force && (begun || wanted && self.is_free(seen, scene.now));
            return makes.then(|| self.make_shard(number, if wanted { me } else { "" }, generation, scene.wall));
        };
        // A shard of an earlier cut only gets rid of the holder that has ended.
        let surplus = scene.force.as_ref().is_some_and(|(_, cut)| number >= cut.shards());
        let (takes, holder) = match surplus {
            true => (scene.rank == 0 && !seen.holder().is_empty(), ""),
            false => (wanted, me),
        };
        let generation = if surplus { seen.generation() } else { generation };
        let written = || record::shard_of(lease, holder, generation, self.seconds, scene.wall);
        (takes && self.is_free(seen, scene.now)).then(|| Step::Write(Request::Replace(written())))
    }

    fn make_shard(&self, number: u32, holder: &str, generation: u64, wall: Timestamp) -> Step {
        let lease = self.names.make(&self.names.shard(number));
        Step::Write(Request::Create(record::shard_of(&lease, holder, generation, self.seconds, wall)))
    }

    /// Whether this member is leaving and needs neither a shard nor the group any more.
    pub(super) fn is_through(&self) -> bool {
        self.leaving && self.silent && self.holds_nothing()
    }

    /// Whether this member holds no shard, as far as is known.
    fn holds_nothing(&self) -> bool {
        let me = &self.config.election.identity;
        self.mine.is_empty() && self.view.shards.values().all(|seen| seen.holder() != me)
    }
}

impl Mine {
    /// Whether writes for it may still be on their way.
    pub(super) fn works(&self) -> bool {
        matches!(self.state, State::Open | State::Closing)
    }
}
