//! What a member knows of its group: the Leases as last listed, and since when each has not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_objects::{Lease, Moment};

use super::record::{self, ENDED, LEAVING, NEW, Names, Subject};

/// All Leases of a group, with when they were seen to change.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) group: Option<Seen>,
    /// Whether somebody held the group's Lease when it was last there.
    pub(super) was_held: bool,
    /// By the names of their Leases, also of those that hold a shard and whose Lease is missing.
    pub(super) members: BTreeMap<String, Seen>,
    /// Also of those that are missing.
    pub(super) shards: BTreeMap<u32, Seen>,
}

/// A Lease, or that there is none.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) lease: Option<Lease>,
    /// When its record was first seen as it is: never earlier than it was written.
    pub(super) since: Moment,
}

impl Seen {
    /// Who holds it; nobody where it is missing.
    pub(super) fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", Lease::holder)
    }

    pub(super) fn generation(&self) -> u64 {
        self.lease.as_ref().map_or(0, record::generation)
    }

    pub(super) fn is_missing(&self) -> bool {
        self.lease.is_none()
    }

    /// Until when a Lease that somebody holds is respected if it does not change.
    pub(super) fn runs_out(&self, least: Duration) -> Moment {
        self.since + self.lease.as_ref().map_or(least, Lease::duration).max(least)
    }
}

impl View {
    /// Takes what was listed. What is not in `leases` is missing, the first `shards` shards too; and it counts as missing from now on
    /// where the list before was not a `recent` one: it may have been there in between, and in somebody's hands.
    pub(super) fn take(&mut self, names: &Names, leases: Vec<Lease>, shards: u32, recent: bool, now: Moment) {
        let mut listed = Self::default();
        for lease in leases {
            let Some(subject) = names.subject(lease.name()) else { continue };
            let name = lease.name().to_owned();
            let seen = Seen { lease: Some(lease), since: now };
            match subject {
                Subject::Group => listed.group = Some(seen),
                // One that has another's name is nobody's: no member made it.
                Subject::Member if !seen.holder().is_empty() && names.member(seen.holder()) != name => {}
                Subject::Member => _ = listed.members.insert(name, seen),
                Subject::Shard(number) => _ = listed.shards.insert(number, seen),
            }
        }
        let missing = || Seen { lease: None, since: now };
        for number in (0..shards).chain(self.held_shards()) {
            listed.shards.entry(number).or_insert_with(missing);
        }
        let holders: BTreeSet<String> = listed
            .shards
            .values()
            .filter(|seen| !seen.holder().is_empty())
            .map(|seen| names.member(seen.holder()))
            .collect();
        for holder in holders {
            listed.members.entry(holder).or_insert_with(missing);
        }
        listed.was_held = listed.group.as_ref().map_or(self.was_held, |seen| !seen.holder().is_empty());
        listed.group.get_or_insert_with(missing);

        let known = |seen: &&Seen| recent || !seen.is_missing();
        keep_since(listed.group.as_mut(), self.group.as_ref().filter(known));
        for (name, seen) in &mut listed.members {
            keep_since(Some(seen), self.members.get(name).filter(known));
        }
        for (number, seen) in &mut listed.shards {
            keep_since(Some(seen), self.shards.get(number).filter(known));
        }
        *self = listed;
    }

    /// Takes one Lease that was read or written.
    pub(super) fn put(&mut self, names: &Names, lease: Lease, now: Moment) {
        let mut seen = Seen { lease: Some(lease), since: now };
        let name = seen.lease.as_ref().map_or("", Lease::name).to_owned();
        let place = match names.subject(&name) {
            Some(Subject::Group) => self.group.get_or_insert_with(|| seen.clone()),
            Some(Subject::Member) => self.members.entry(name).or_insert_with(|| seen.clone()),
            Some(Subject::Shard(number)) => self.shards.entry(number).or_insert_with(|| seen.clone()),
            None => return,
        };
        keep_since(Some(&mut seen), Some(place));
        *place = seen;
    }

    /// Takes the news that a Lease was deleted.
    pub(super) fn remove(&mut self, names: &Names, name: &str) {
        match names.subject(name) {
            Some(Subject::Group) => self.group = None,
            Some(Subject::Member) => _ = self.members.remove(name),
            Some(Subject::Shard(number)) => _ = self.shards.remove(&number),
            None => {}
        }
    }

    /// Whether a Lease that a watch tells of changes anything that others act on: not a renewal.
    pub(super) fn is_news(&self, names: &Names, lease: &Lease) -> bool {
        let (known, marks): (Option<&Seen>, &[&str]) = match names.subject(lease.name()) {
            Some(Subject::Group) => (self.group.as_ref(), &[record::GENERATION]),
            Some(Subject::Member) => (self.members.get(lease.name()), &[LEAVING, ENDED, NEW]),
            Some(Subject::Shard(number)) => (self.shards.get(&number), &[record::GENERATION]),
            None => return false,
        };
        let Some(known) = known.and_then(|seen| seen.lease.as_ref()) else { return true };
        known.holder() != lease.holder() || marks.iter().any(|mark| known.annotation(mark) != lease.annotation(mark))
    }

    /// Shards that were there, and may be in somebody's hands if they are not any more.
    fn held_shards(&self) -> Vec<u32> {
        let may_be_held = |seen: &Seen| seen.is_missing() || !seen.holder().is_empty();
        self.shards.iter().filter(|(_, seen)| may_be_held(seen)).map(|(number, _)| *number).collect()
    }
}

/// What has not changed keeps the moment at which it was first seen.
fn keep_since(new: Option<&mut Seen>, old: Option<&Seen>) {
    if let (Some(new), Some(old)) = (new, old)
        && new.lease.as_ref().map(|lease| &lease.spec) == old.lease.as_ref().map(|lease| &lease.spec)
    {
        new.since = old.since;
    }
}
