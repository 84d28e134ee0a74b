//! What came of the writes of a round.

use std::sync::Arc;

use muster_objects::meta::{ResourceVersion, Uid};

use super::{Announcement, Failure};

/// What the server answered to a write that it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The object's name, which the server chose where `generateName` was sent.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The version at which the write stands in the server's history; none where the answer does not
    /// carry it (a DELETE may be answered with a `Status`).
    pub resource_version: Option<ResourceVersion>,
}

/// What one result means, as the write itself judged it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The kind of end.
    pub settlement: Settlement,
    /// The Event to send about the owner.
    pub announcement: Option<Announcement>,
    /// No watch event will come of this write: lower the expectation by it, at once (EX-05).
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
    /// The creation was refused because nothing is needed any more: the namespace is terminating.
    NotNeeded,
    /// The creation was refused because another object bears the name that was asked for (DEP-05).
    NameTaken(Failure),
    /// The object to delete was not there.
    AlreadyGone,
    /// The object to delete turned out not to be ours any more.
    LeftAlone,
    /// It failed.
    Failed(Failure),
}

/// The sum of a round: fold every [`Settled`] into it with [`Outcome::add`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Objects created.
    pub created: u32,
    /// Deletions accepted.
    pub deleted: u32,
    /// Objects patched.
    pub patched: u32,
    /// Objects that were not there any more when they were to be deleted.
    pub already_gone: u32,
    /// Objects that were not ours any more when they were to be deleted: the owner is decided again.
    pub left_alone: u32,
    /// Creations that were refused because the namespace is terminating, or not sent because the owner is gone or being
    /// deleted.
    pub not_needed: u32,
    /// No step was taken: the read that was to [confirm the owner](super::Plan::confirm_owner) failed, or found that it
    /// is gone or being deleted.
    pub unconfirmed: bool,
    /// Why a creation by name was refused because that name is taken: it depends on the holder whether this is a
    /// failure (DEP-05).
    pub name_taken: Option<Failure>,
    /// Which object holds that name, from a read after the refusal ([`Creation::holder`](super::Creation::holder)).
    pub holder: Option<Holder>,
    /// Creations that were never tried, because an earlier batch ended the round (RS-09).
    pub not_tried: u32,
    /// Writes that failed.
    pub failed: u32,
    /// The first failure: the one that the sync fails with. The others are likely to be the same.
    pub error: Option<Failure>,
    /// Whether every write that the server did, or may have done, has a known version: only then can a
    /// cache be said to have seen them all (B-01).
    pub unaccounted: u32,
}

/// The object that holds a name which another was to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its uid.
    pub uid: Uid,
    /// The uid of its controller; none for an orphan.
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
            Settlement::LeftAlone => &mut self.left_alone,
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

    /// Notes that the owner was not confirmed: why it could not be read, or that its `creations` are not needed.
    pub fn unconfirmed(&mut self, creations: u32, failure: Option<Failure>) {
        self.unconfirmed = true;
        match failure {
            Some(failure) => self.fail(failure),
            None => self.not_needed += creations,
        }
    }

    /// Counts creations that were never tried. The expectation is to be lowered by as many.
    pub fn not_tried(&mut self, count: u32) {
        self.not_tried += count;
    }

    /// Takes over a failure that was known before any write.
    pub fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        self.error.get_or_insert(failure);
    }

    /// Whether no further step of the round is performed: something failed, a name is taken, or nothing is
    /// needed any more.
    #[must_use]
    pub const fn ends_round(&self) -> bool {
        self.error.is_some() || self.name_taken.is_some() || self.not_needed > 0
    }

    /// Whether the caches will have shown the whole round once they have passed the highest version
    /// recorded for it (B-01).
    #[must_use]
    pub const fn is_accounted_for(&self) -> bool {
        self.unaccounted == 0
    }
}
