//! Expectations: what a controller has set in motion and still waits to see in its cache.
//!
//! Between a write and the watch event for it the cache lags. A controller that counted again
//! meanwhile would create or delete twice. So before it writes it notes what it expects to see, the
//! handlers tick that off, and until all is seen (or five minutes have passed) a sync neither
//! creates nor deletes (EX-01 to EX-07).
//!
//! The handlers of a change must have run before the cache shows that change's version as its
//! newest; otherwise [`Expectations::settle`] can be followed by an observation that was meant for
//! the round before.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_objects::{Moment, ObjectKey};

use crate::hash::FixedMap;

/// After this time an expectation counts as met (EX-02).
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The expectations of every owner of one kind.
#[derive(Debug, Default)]
pub struct Expectations {
    owners: FixedMap<ObjectKey, Expectation>,
}

/// What one owner expects.
#[derive(Debug, Clone)]
struct Expectation {
    /// Creations not yet seen; below zero where more were seen than expected.
    creations: i64,
    /// Exactly the objects whose deletion was not yet seen.
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

    /// Expects so many creations, instead of whatever was expected before (EX-01).
    pub fn expect_creations(&mut self, owner: &ObjectKey, count: usize, now: Moment) {
        let creations = i64::try_from(count).unwrap_or(i64::MAX);
        self.set(owner, Expectation { creations, deletions: BTreeSet::new(), since: now });
    }

    /// Expects exactly these objects to go, instead of whatever was expected before (EX-01).
    pub fn expect_deletions(&mut self, owner: &ObjectKey, objects: impl IntoIterator<Item = ObjectKey>, now: Moment) {
        self.set(owner, Expectation { creations: 0, deletions: objects.into_iter().collect(), since: now });
    }

    /// A creation was seen; or it failed, or was not tried after all, and will not be seen (EX-03,
    /// EX-05).
    pub fn creation_observed(&mut self, owner: &ObjectKey) {
        self.lower_creations(owner, 1);
    }

    /// So many creations failed or were not tried, and will not be seen (EX-05).
    pub fn lower_creations(&mut self, owner: &ObjectKey, count: usize) {
        if let Some(expectation) = self.owners.get_mut(owner) {
            expectation.creations = expectation.creations.saturating_sub_unsigned(count as u64);
        }
    }

    /// A deletion was seen, by timestamp or by removal; or it failed, and will not be seen (EX-03,
    /// EX-05). Counts once for each object that is expected to go (EX-04). Answers whether it was expected.
    pub fn deletion_observed(&mut self, owner: &ObjectKey, object: &ObjectKey) -> bool {
        self.owners.get_mut(owner).is_some_and(|expectation| expectation.deletions.remove(object))
    }

    /// Whether the owner may create and delete: nothing was ever expected, all of it was seen, or it
    /// is older than five minutes (EX-02).
    #[must_use]
    pub fn satisfied(&self, owner: &ObjectKey, now: Moment) -> bool {
        self.owners.get(owner).is_none_or(|expectation| {
            expectation.fulfilled() || now.saturating_since(expectation.since) > EXPECTATIONS_TIMEOUT
        })
    }

    /// When an unfulfilled expectation will count as met although nothing is seen: just after this
    /// moment. `None` where nothing is being waited for.
    #[must_use]
    pub fn expires_at(&self, owner: &ObjectKey) -> Option<Moment> {
        let expectation = self.owners.get(owner).filter(|expectation| !expectation.fulfilled())?;
        Some(expectation.since + EXPECTATIONS_TIMEOUT)
    }

    /// Creations and deletions that are still waited for.
    #[must_use]
    pub fn pending(&self, owner: &ObjectKey) -> (i64, usize) {
        self.owners.get(owner).map_or((0, 0), |expectation| (expectation.creations, expectation.deletions.len()))
    }

    /// The objects whose deletion is still waited for, in the order of their keys.
    pub fn deletions(&self, owner: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.owners.get(owner).into_iter().flat_map(|expectation| &expectation.deletions)
    }

    /// A copy of what one owner expects, and nothing of the others: to be asked without anything being changed.
    #[must_use]
    pub fn only(&self, owner: &ObjectKey) -> Self {
        let mut copy = Self::new();
        if let Some(expectation) = self.owners.get(owner) {
            copy.set(owner, expectation.clone());
        }
        copy
    }

    /// The cache has passed every write of the owner's last round: what has not been seen by now
    /// will never be, and the cache itself is the answer (B-01). Answers whether a wait was ended
    /// that the reference would have sat out.
    pub fn settle(&mut self, owner: &ObjectKey) -> bool {
        self.owners.remove(owner).is_some_and(|expectation| !expectation.fulfilled())
    }

    /// The owner is gone (EX-06).
    pub fn delete(&mut self, owner: &ObjectKey) {
        self.owners.remove(owner);
    }

    /// How many owners have ever expected something and were not deleted or settled since.
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
    fn fulfilled(&self) -> bool {
        self.creations <= 0 && self.deletions.is_empty()
    }
}

#[cfg(test)]
mod tests;
