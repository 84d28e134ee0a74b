//! The consistency record: what was written for each owner, and whether the caches have seen it.
//!
//! A sync whose caches are older than its controller's last write would decide on a past state. Every write is recorded
//! here with its resourceVersion; a sync first checks whether the caches have reached those versions (RS-19). If not,
//! the owner is queued when they have (B-17), and only if that takes too long is it retried at a rate limit, as
//! upstream does.
//!
//! ```text
//!   write --wrote_at--> record         sync --check--> CaughtUp, Unrecorded: go on
//!                         |                     +----> Behind: wait (Remedy::Woken), or retry
//!   cache --caught_up-----+--> owners to be queued at once
//! ```
//!
//! Versions rise during a server's life. A server restored from a backup continues from an earlier version, and writes
//! after the backup are lost: its caches may never reach the versions recorded. So a newest version that falls clears
//! the record of that kind.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_objects::{Moment, ObjectKey, ResourceVersion, Uid};

/// How long an owner waits for a cache before it is retried with the rate limit.
pub const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The record of one controller. `R` names the kinds that it writes, such as pods and ReplicaSets.
#[derive(Debug)]
pub struct Consistency<R> {
    owners: BTreeMap<ObjectKey, Record<R>>,
    /// The owners that wait for a kind's cache, in the order of the versions that they wait for.
    waiting: BTreeSet<(R, ResourceVersion, ObjectKey)>,
    /// When each of them stops waiting.
    deadlines: BTreeSet<(Moment, ObjectKey)>,
    /// The newest version last reported by the cache of each kind.
    newest: BTreeMap<R, ResourceVersion>,
    limit: Duration,
}

#[derive(Debug, Clone)]
struct Record<R> {
    uid: Uid,
    /// The highest version written of each kind; a controller writes two or three.
    versions: Vec<(R, ResourceVersion)>,
    /// A write of unknown version happened.
    unversioned: bool,
    wait: Wait<R>,
}

#[derive(Debug, Clone, Copy)]
enum Wait<R> {
    /// The owner was not deferred.
    None,
    /// Deferred until the cache of a kind has reached a version, or until the deadline.
    Until { resource: R, version: ResourceVersion, deadline: Moment },
    /// Woken, and not checked again yet; the deadline is that of the first wait.
    Woken { deadline: Moment },
}

/// Whether the caches are fresh enough for a sync that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness<R> {
    /// There is no record that the caches could be behind of, nor a proof that they show every write.
    Unrecorded,
    /// The caches have seen every write of the last round: the sync may go on, and what is still
    /// expected can be settled from the cache (B-01). The record is cleared.
    CaughtUp,
    /// The sync must be deferred (RS-19).
    Behind {
        /// The kind whose cache is behind.
        resource: R,
        /// The version written.
        wrote: ResourceVersion,
        /// The version that the cache has reached.
        read: ResourceVersion,
        /// How the owner is queued again.
        remedy: Remedy,
    },
}

/// How an owner that was deferred is queued again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// [`Consistency::caught_up`] or [`Consistency::expired`] will return it; nothing is to be queued, and no retry is
    /// counted (B-17).
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

    /// Records that an object of a kind was written for an owner at a version. The highest counts. A record of another
    /// owner of the same name is replaced.
    ///
    /// An unknown version is recorded as [`Consistency::wrote_unversioned`].
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

    /// Records a write without a known version (a deletion answered by a bare `Status`, an answer that was lost). The
    /// caches can then not prove that they show the whole round, so expectations have to be met or to expire.
    pub fn wrote_unversioned(&mut self, owner: &ObjectKey, uid: &Uid) {
        self.record(owner, uid).unversioned = true;
    }

    /// Whether a sync of the owner may begin, given the newest version that each kind's cache has reached (INF-09). A
    /// cache that has no version is not waited for.
    pub fn check(&mut self, owner: &ObjectKey, newest: impl Fn(R) -> ResourceVersion, now: Moment) -> Freshness<R> {
        let Some(record) = self.owners.get(owner) else { return Freshness::Unrecorded };
        let behind = record.versions.iter().copied().find_map(|(resource, wrote)| {
            let read = newest(resource);
            (read.is_known() && wrote > read).then_some((resource, wrote, read))
        });
        let Some((resource, wrote, read)) = behind else {
            let seen = |(resource, _): &(R, _)| newest(*resource).is_known();
            let proved = !record.unversioned && !record.versions.is_empty() && record.versions.iter().all(seen);
            self.clear(owner, None);
            return if proved { Freshness::CaughtUp } else { Freshness::Unrecorded };
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
        Freshness::Behind { resource, wrote, read, remedy }
    }

    /// The cache of a kind has reached `newest`: returns the owners that waited for this, to be queued at once. Each is
    /// returned once; its next check may defer it again for another kind, without a new time limit.
    ///
    /// If `newest` is older than before, no owner waits for the kind any longer: every owner with a recorded write of
    /// it is returned, and that write proves nothing.
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

    /// The newest version last told of the cache of a kind.
    #[must_use]
    pub fn newest(&self, resource: R) -> Option<ResourceVersion> {
        self.newest.get(&resource).copied()
    }

    /// The owners that have waited too long, to be queued at a rate limit.
    pub fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        let mut expired = Vec::new();
        while let Some((deadline, owner)) = self.deadlines.first().cloned() {
            if deadline > now {
                break;
            }
            self.wake(&owner);
            // Removes a deadline that no record refers to, so that it does not come again.
            self.deadlines.remove(&(deadline, owner.clone()));
            expired.push(owner);
        }
        expired
    }

    /// When to call [`Consistency::expired`] next; `None` if no owner waits.
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

    /// The highest version written of each kind for an owner that the last check did not find in the caches, in the
    /// order in which the kinds were first written.
    pub fn written(&self, owner: &ObjectKey) -> impl Iterator<Item = (R, ResourceVersion)> {
        self.owners.get(owner).into_iter().flat_map(|record| record.versions.iter().copied())
    }

    /// A copy of the record of one owner. Its use has no effect on this record.
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

    /// Forgets the versions written of a kind; returns the owners that had one.
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

    /// Removes the owner from the sets of those that wait; returns the deadline it had.
    fn stop_waiting(&mut self, owner: &ObjectKey) -> Option<Moment> {
        let Wait::Until { resource, version, deadline } = self.owners.get(owner)?.wait else { return None };
        self.waiting.remove(&(resource, version, owner.clone()));
        self.deadlines.remove(&(deadline, owner.clone()));
        Some(deadline)
    }
}

/// The smallest key.
fn no_key() -> ObjectKey {
    ObjectKey::new("", "")
}
