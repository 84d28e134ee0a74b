//! Expectations: the writes of a controller that its cache does not show yet.
//!
//! Between a write and its watch event the cache is behind. A controller that counted then would create or delete
//! twice. So it records the expected events before it writes, the handlers lower them, and until all are seen (or five
//! minutes have passed) a sync neither creates nor deletes (EX-01 to EX-07).
//!
//! The handlers of a change must run before the cache reports that change's version as its newest. Otherwise an
//! observation of the previous round could follow [`Expectations::settle`] and lower the next round's expectations.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_objects::{Moment, ObjectKey};

use crate::hash::FixedMap;
use crate::least;

/// After this time an expectation counts as met (EX-02).
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The expectations of every owner of one kind.
#[derive(Debug, Default)]
pub struct Expectations {
    owners: FixedMap<ObjectKey, Expectation>,
}

/// An owner that waits for what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The owner.
    pub owner: ObjectKey,
    /// How many creations have not been seen.
    pub creations: usize,
    /// How many deletions have not been seen.
    pub deletions: usize,
    /// When they were expected.
    pub since: Moment,
}

/// The expectations of one owner.
#[derive(Debug, Clone)]
struct Expectation {
    /// Creations not yet seen; negative if more were seen than expected.
    creations: i64,
    /// The objects whose deletion was not yet seen.
    deletions: BTreeSet<ObjectKey>,
    /// When it was set.
    since: Moment,
}

impl Expectations {
    /// Nothing is expected.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects this many creations, in place of all earlier expectations (EX-01).
    pub fn expect_creations(&mut self, owner: &ObjectKey, count: usize, now: Moment) {
        let creations = i64::try_from(count).unwrap_or(i64::MAX);
        self.set(owner, Expectation { creations, deletions: BTreeSet::new(), since: now });
    }

    /// Expects the deletion of exactly these objects, in place of all earlier expectations (EX-01).
    pub fn expect_deletions(&mut self, owner: &ObjectKey, objects: impl IntoIterator<Item = ObjectKey>, now: Moment) {
        self.set(owner, Expectation { creations: 0, deletions: objects.into_iter().collect(), since: now });
    }

    /// A creation was seen; or it failed, or was not tried after all, and will not be seen (EX-03,
    /// EX-05).
    pub fn creation_observed(&mut self, owner: &ObjectKey) {
        self.lower_creations(owner, 1);
    }

    /// This many creations failed or were not tried, and will not be seen (EX-05).
    pub fn lower_creations(&mut self, owner: &ObjectKey, count: usize) {
        if let Some(expectation) = self.owners.get_mut(owner) {
            expectation.creations = expectation.creations.saturating_sub_unsigned(count as u64);
        }
    }

    /// A deletion was seen, by timestamp or by removal; or it failed, and will not be seen (EX-03, EX-05). Counts once
    /// for each object whose deletion is expected (EX-04). Returns whether it was.
    pub fn deletion_observed(&mut self, owner: &ObjectKey, object: &ObjectKey) -> bool {
        self.owners.get_mut(owner).is_some_and(|expectation| expectation.deletions.remove(object))
    }

    /// Whether the owner may create and delete: there are no expectations, all are met, or they are older than five
    /// minutes (EX-02).
    #[must_use]
    pub fn satisfied(&self, owner: &ObjectKey, now: Moment) -> bool {
        self.owners.get(owner).is_none_or(|expectation| expectation.satisfied(now))
    }

    /// The owners that are not satisfied, `most` at most and the oldest expectations first, and how many there are. Looks
    /// at all owners.
    #[must_use]
    pub fn unmet(&self, most: usize, now: Moment) -> (Vec<Unmet>, usize) {
        let unmet = self.owners.iter().filter(|(_, expectation)| !expectation.satisfied(now));
        let (oldest, count) = least(unmet.map(|(owner, expectation)| (expectation.since, owner)), most);
        let told = oldest.into_iter().map(|(since, owner)| {
            let (creations, deletions) = self.pending(owner);
            Unmet { owner: owner.clone(), creations: usize::try_from(creations).unwrap_or(0), deletions, since }
        });
        (told.collect(), count)
    }

    /// The expectations expire just after this moment. `None` if there are none.
    #[must_use]
    pub fn expires_at(&self, owner: &ObjectKey) -> Option<Moment> {
        let expectation = self.owners.get(owner).filter(|expectation| !expectation.fulfilled())?;
        Some(expectation.since + EXPECTATIONS_TIMEOUT)
    }

    /// Creations and deletions not seen yet.
    #[must_use]
    pub fn pending(&self, owner: &ObjectKey) -> (i64, usize) {
        self.owners.get(owner).map_or((0, 0), |expectation| (expectation.creations, expectation.deletions.len()))
    }

    /// The objects whose deletion is not seen yet, in the order of their keys.
    pub fn deletions(&self, owner: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.owners.get(owner).into_iter().flat_map(|expectation| &expectation.deletions)
    }

    /// A copy of the expectations of one owner. Its use has no effect on these.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        let mut copy = Self::new();
        if let Some(expectation) = self.owners.get(owner) {
            copy.set(owner, expectation.clone());
        }
        copy
    }

    /// The cache has reached every write of the owner's last round: an event not seen by now will not come, and the
    /// cache shows the whole round (B-01). Returns whether unmet expectations were dropped.
    pub fn settle(&mut self, owner: &ObjectKey) -> bool {
        self.owners.remove(owner).is_some_and(|expectation| !expectation.fulfilled())
    }

    /// The owner is gone (EX-06).
    pub fn delete(&mut self, owner: &ObjectKey) {
        self.owners.remove(owner);
    }

    /// How many owners have had expectations that were not deleted or settled since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn set(&mut self, owner: &ObjectKey, expectation: Expectation) {
        self.owners.insert(owner.clone(), expectation);
    }
}

impl Expectation {
    fn satisfied(&self, now: Moment) -> bool {
        self.fulfilled() || now.saturating_since(self.since) > EXPECTATIONS_TIMEOUT
    }

    fn fulfilled(&self) -> bool {
        self.creations <= 0 && self.deletions.is_empty()
    }
}

#[cfg(test)]
mod tests;
