//! The results of the writes of a round.

use std::sync::Arc;

use muster_objects::meta::{ResourceVersion, Uid};

use super::{Announcement, Failure};

/// The server's answer to a successful write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The object's name, chosen by the server if `generateName` was sent.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The resourceVersion of the write; `None` if the answer does not have it (a DELETE may be answered with a
    /// `Status`).
    pub resource_version: Option<ResourceVersion>,
}

/// What one result means, as the write itself judges it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The kind of end.
    pub settlement: Settlement,
    /// The Event to send about the owner.
    pub announcement: Option<Announcement>,
    /// No watch event will come of this write: lower the expectation at once (EX-05).
    pub lowers: bool,
    /// The version to record as written for the owner (RS-19).
    pub wrote: Option<ResourceVersion>,
    /// No further batch or patch of this round is sent.
    pub ends_round: bool,
}

impl Settled {
    pub(super) const fn of(settlement: Settlement) -> Self {
        Self { settlement, announcement: None, lowers: false, wrote: None, ends_round: false }
    }
}

/// How one write ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// The object exists now.
    Created,
    /// The deletion was accepted.
    Deleted,
    /// The object was patched.
    Patched,
    /// The creation was refused and nothing is needed any more: the namespace is terminating.
    NotNeeded,
    /// The creation was refused because the name is taken (DEP-05).
    NameTaken(Failure),
    /// The object to delete did not exist.
    AlreadyGone,
    /// The object to delete was no longer the owner's.
    NoLongerOwned,
    /// It failed.
    Failed(Failure),
}

/// The sum of a round: add every [`Settled`] with [`Outcome::add`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Objects created.
    pub created: u32,
    /// Deletions accepted.
    pub deleted: u32,
    /// Objects patched.
    pub patched: u32,
    /// Objects to delete that no longer existed.
    pub already_gone: u32,
    /// Objects to delete that were no longer the owner's: the owner is synced again.
    pub no_longer_owned: u32,
    /// Creations that were refused because the namespace is terminating, or not sent because the owner is gone or being
    /// deleted.
    pub not_needed: u32,
    /// No step was taken: the read that was to [confirm the owner](super::Plan::confirm_owner) failed, or found it gone
    /// or being deleted.
    pub unconfirmed: bool,
    /// The refusal of a creation by name because the name is taken: whether this is a failure depends on the holder
    /// (DEP-05).
    pub name_taken: Option<Failure>,
    /// The object that has the name, from a read after the refusal ([`Creation::holder`](super::Creation::holder)).
    pub holder: Option<Holder>,
    /// Creations that were never tried, because an earlier batch ended the round (RS-09).
    pub not_tried: u32,
    /// Writes that failed.
    pub failed: u32,
    /// The first failure, which becomes the sync's error. The others are likely to be the same.
    pub error: Option<Failure>,
    /// How many writes the server did, or may have done, without a known version. The caches can be said to show the
    /// whole round only if there are none (B-01).
    pub unaccounted: u32,
}

/// The object that has the name of one to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its uid.
    pub uid: Uid,
    /// The uid of its controller; `None` for an orphan.
    pub controller: Option<Uid>,
    /// The version at which it was read.
    pub resource_version: ResourceVersion,
}

impl Outcome {
    /// Adds one result.
    pub fn add(&mut self, settled: &Settled) {
        let counter = match &settled.settlement {
            Settlement::Created => &mut self.created,
            Settlement::Deleted => &mut self.deleted,
            Settlement::Patched => &mut self.patched,
            Settlement::NotNeeded => &mut self.not_needed,
            Settlement::NameTaken(failure) => {
                self.name_taken.get_or_insert_with(|| failure.clone());
                return;
            }
            Settlement::AlreadyGone => &mut self.already_gone,
            Settlement::NoLongerOwned => &mut self.no_longer_owned,
            Settlement::Failed(failure) => {
                if failure.is_uncertain() {
                    self.unaccounted += 1;
                }
                self.error.get_or_insert_with(|| failure.clone());
                &mut self.failed
            }
        };
        *counter += 1;
        let done = matches!(settled.settlement, Settlement::Created | Settlement::Deleted | Settlement::Patched);
        if done && settled.wrote.is_none() {
            self.unaccounted += 1;
        }
    }

    /// Records that the owner was not confirmed: why it could not be read, or that its `creations` are not needed.
    pub fn unconfirmed(&mut self, creations: u32, failure: Option<Failure>) {
        self.unconfirmed = true;
        match failure {
            Some(failure) => self.fail(failure),
            None => self.not_needed += creations,
        }
    }

    /// Counts creations that were never tried. The expectation is to be lowered by this count.
    pub fn not_tried(&mut self, count: u32) {
        self.not_tried += count;
    }

    /// Adds a failure that was known before any write.
    pub fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.error.get_or_insert(failure);
    }

    /// Whether no further step of the round is performed: a write failed, a name is taken, or nothing is needed any
    /// more.
    #[must_use]
    pub const fn ends_round(&self) -> bool {
        self.error.is_some() || self.name_taken.is_some() || self.not_needed > 0
    }

    /// Whether the caches show the whole round once they have reached the highest version recorded for it (B-01).
    #[must_use]
    pub const fn is_accounted_for(&self) -> bool {
        self.unaccounted == 0
    }
}
