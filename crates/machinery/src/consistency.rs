//! The consistency record: what was written for each owner, and whether the caches have seen it.
//!
//! A sync whose caches are older than what the same controller wrote last would decide on the past.
//! Every write is noted here with its resourceVersion; a sync begins by asking whether the caches
//! have come that far (RS-19). Where they have not, the owner is woken when they have (B-17), and
//! only when that takes too long is it retried as upstream does it, at a rate limit.
//!
//! ```text
//!   write --wrote_at--> record         sync --check--> CaughtUp, Unrecorded: go on
//!                         |                     +----> Behind: wait (Remedy::Woken), or retry
//!   cache --caught_up-----+--> owners to be queued at once
//! ```
//!
//! Versions rise for as long as the server lives. One that was restored from a backup counts on from an earlier version,
//! and what was written after the backup was taken is lost: what a cache then reads never reaches what was recorded. So a
//! newest version that falls clears the record of that kind.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_objects::{Moment, ObjectKey, ResourceVersion, Uid};

/// How long an owner waits to be woken before it is retried in the reference's way.
pub const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The record of one controller. `R` names the kinds that it writes, such as pods and ReplicaSets.
#[derive(Debug)]
pub struct Consistency<R> {
    owners: BTreeMap<ObjectKey, Record<R>>,
    /// Who waits for a kind's cache, in the order of the versions that are waited for.
    waiting: BTreeSet<(R, ResourceVersion, ObjectKey)>,
    /// When each of them has waited long enough.
    deadlines: BTreeSet<(Moment, ObjectKey)>,
    /// How far the cache of each kind had come when it last told.
    newest: BTreeMap<R, ResourceVersion>,
    limit: Duration,
}

#[derive(Debug, Clone)]
struct Record<R> {
    uid: Uid,
    /// The highest version written of each kind; a controller writes two or three.
    versions: Vec<(R, ResourceVersion)>,
    /// Something was written of which the version is not known.
    unversioned: bool,
    wait: Wait<R>,
}

#[derive(Debug, Clone, Copy)]
enum Wait<R> {
    /// Nobody has been put off.
    None,
    /// Put off until the cache of a kind has reached a version, or until the deadline.
    Until { resource: R, version: ResourceVersion, deadline: Moment },
    /// Woken, and not checked again yet; the deadline stays that of the first wait.
    Woken { deadline: Moment },
}

/// What the record says to a sync that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<R> {
    /// Nothing is recorded that the caches could be behind of. Nothing is proved either.
    Unrecorded,
    /// The caches have seen every write of the last round: the sync may go on, and what is still
    /// expected can be settled from the cache (B-01). The record is cleared.
    CaughtUp,
    /// The sync must be put off (RS-19).
    Behind {
        /// The kind whose cache is behind.
        resource: R,
        /// What was written.
        wrote: ResourceVersion,
        /// What the cache has seen.
        read: ResourceVersion,
        /// How the owner comes back.
        remedy: Remedy,
    },
}

/// How an owner that was put off comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// [`Consistency::caught_up`] or [`Consistency::expired`] will name it; nothing is to be queued,
    /// and no retry is spent (B-17).
    Woken,
    /// It has waited too long: queue it again at a rate limit, as upstream does.
    Retry,
}

impl<R: Copy + Ord> Default for Consistency<R> {
    fn default() -> Self {
        Self::new(WAIT_LIMIT)
    }
}

impl<R: Copy + Ord> Consistency<R> {
    /// An empty record whose owners wait at most `limit` to be woken.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            owners: BTreeMap::new(),
            waiting: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            newest: BTreeMap::new(),
            limit,
        }
    }

    /// Notes that an object of a kind was written for an owner at a version. The highest counts. A
    /// record of another owner of the same name is replaced.
    ///
    /// An unknown version is noted as [`Consistency::wrote_unversioned`].
    pub fn wrote_at(&mut self, owner: &ObjectKey, uid: &Uid, resource: R, version: ResourceVersion) {
        if !version.is_known() {
            self.wrote_unversioned(owner, uid);
            return;
        }
        let record = self.record(owner, uid);
        match record.versions.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, highest)) => *highest = version.max(*highest),
            None => record.versions.push((resource, version)),
        }
    }

    /// Notes a write of which the server did not tell the version (a deletion answered by a bare
    /// `Status`, an answer that was lost). The caches can then not prove that they have seen the
    /// whole round, so expectations have to be met or to expire.
    pub fn wrote_unversioned(&mut self, owner: &ObjectKey, uid: &Uid) {
        self.record(owner, uid).unversioned = true;
    }

    /// Asks whether a sync of the owner may begin, given the newest version that each kind's cache
    /// has seen (INF-09). A cache that has seen nothing is not waited for.
    pub fn check(&mut self, owner: &ObjectKey, newest: impl Fn(R) -> ResourceVersion, now: Moment) -> Verdict<R> {
        let Some(record) = self.owners.get(owner) else { return Verdict::Unrecorded };
        let behind = record.versions.iter().copied().find_map(|(resource, wrote)| {
            let read = newest(resource);
            (read.is_known() && wrote > read).then_some((resource, wrote, read))
        });
        let Some((resource, wrote, read)) = behind else {
            let seen = |(resource, _): &(R, _)| newest(*resource).is_known();
            let proved = !record.unversioned && !record.versions.is_empty() && record.versions.iter().all(seen);
            self.clear(owner, None);
            return if proved { Verdict::CaughtUp } else { Verdict::Unrecorded };
        };
        let deadline = match record.wait {
            Wait::None => now + self.limit,
            Wait::Until { deadline, .. } | Wait::Woken { deadline } => deadline,
        };
        self.stop_waiting(owner);
        let remedy = if now < deadline {
            self.waiting.insert((resource, wrote, owner.clone()));
            self.deadlines.insert((deadline, owner.clone()));
            Remedy::Woken
        } else {
            Remedy::Retry
        };
        if let Some(record) = self.owners.get_mut(owner) {
            record.wait = match remedy {
                Remedy::Woken => Wait::Until { resource, version: wrote, deadline },
                Remedy::Retry => Wait::Woken { deadline },
            };
        }
        Verdict::Behind { resource, wrote, read, remedy }
    }

    /// The cache of a kind has seen everything up to `newest`: the owners that waited for no more
    /// than that, to be queued at once. Each is named once; its next check may put it off again for
    /// another kind, without a new time limit.
    ///
    /// Where `newest` is older than what was told before, nobody waits for the kind any longer: every owner of whom a
    /// write of it is recorded is named, and nothing is proved of that write.
    pub fn caught_up(&mut self, resource: R, newest: ResourceVersion) -> Vec<ObjectKey> {
        if self.newest.insert(resource, newest).is_some_and(|before| newest < before) {
            return self.start_over(resource);
        }
        let first = self.waiting.range((resource, ResourceVersion::UNKNOWN, no_key())..);
        let woken: Vec<ObjectKey> = first
            .take_while(|(kind, version, _)| *kind == resource && *version <= newest)
            .map(|(_, _, owner)| owner.clone())
            .collect();
        for owner in &woken {
            self.wake(owner);
        }
        woken
    }

    /// The owners that have waited for too long, to be queued at a rate limit.
    pub fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        let mut expired = Vec::new();
        while let Some((deadline, owner)) = self.deadlines.first().cloned() {
            if deadline > now {
                break;
            }
            self.wake(&owner);
            // Nothing is left in the set twice, even where no record answers to the name.
            self.deadlines.remove(&(deadline, owner.clone()));
            expired.push(owner);
        }
        expired
    }

    /// When to call [`Consistency::expired`] next; `None` where nobody waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Forgets an owner; where a uid is given, only if the record is of that very object.
    pub fn clear(&mut self, owner: &ObjectKey, uid: Option<&Uid>) {
        let matches = |record: &Record<R>| uid.is_none_or(|uid| record.uid == *uid);
        if self.owners.get(owner).is_some_and(matches) {
            self.stop_waiting(owner);
            self.owners.remove(owner);
        }
    }

    /// The highest version written of each kind for an owner, as far as it has not been seen yet when a sync last
    /// asked, in the order in which the kinds were first written.
    pub fn written(&self, owner: &ObjectKey) -> impl Iterator<Item = (R, ResourceVersion)> {
        self.owners.get(owner).into_iter().flat_map(|record| record.versions.iter().copied())
    }

    /// A copy of the record of one owner, and nothing of the others: to be asked without anything being changed.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        let mut copy = Self::new(self.limit);
        if let Some(record) = self.owners.get(owner) {
            copy.owners.insert(owner.clone(), record.clone());
        }
        copy
    }

    /// How many owners have a record.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn record(&mut self, owner: &ObjectKey, uid: &Uid) -> &mut Record<R> {
        if self.owners.get(owner).is_some_and(|record| record.uid != *uid) {
            self.clear(owner, None);
        }
        self.owners.entry(owner.clone()).or_insert_with(|| Record {
            uid: uid.clone(),
            versions: Vec::new(),
            unversioned: false,
            wait: Wait::None,
        })
    }

    /// Forgets the versions written of a kind; answers whose they were.
    fn start_over(&mut self, resource: R) -> Vec<ObjectKey> {
        let mut owners = Vec::new();
        for (owner, record) in &mut self.owners {
            let recorded = record.versions.len();
            record.versions.retain(|(kind, _)| *kind != resource);
            if record.versions.len() < recorded {
                record.unversioned = true;
                owners.push(owner.clone());
            }
        }
        for owner in &owners {
            self.wake(owner);
        }
        owners
    }

    fn wake(&mut self, owner: &ObjectKey) {
        let deadline = self.stop_waiting(owner);
        if let (Some(deadline), Some(record)) = (deadline, self.owners.get_mut(owner)) {
            record.wait = Wait::Woken { deadline };
        }
    }

    /// Takes the owner out of the sets of those who wait; answers the deadline it had.
    fn stop_waiting(&mut self, owner: &ObjectKey) -> Option<Moment> {
        let Wait::Until { resource, version, deadline } = self.owners.get(owner)?.wait else { return None };
        self.waiting.remove(&(resource, version, owner.clone()));
        self.deadlines.remove(&(deadline, owner.clone()));
        Some(deadline)
    }
}

/// The first of all keys.
fn no_key() -> ObjectKey {
    ObjectKey::new("", "")
}
