//! A sync as a conversation: the controller says what it wants done, the executor says what came of it.

use muster_objects::time::Timestamp;

use super::{ClaimOutcome, ClaimPlan, Failure, Outcome, Owner, Plan, Requeue, StatusWrite, Written};

/// One sync of one owner, from a snapshot to its verdict.
///
/// Plain state, without I/O or a clock: the caller performs what [`Sync::next`] returns and hands the
/// result back. `next` is called with [`Report::Begin`] first and never again after [`Next::Done`].
pub trait Sync {
    /// Whose sync this is.
    fn owner(&self) -> &Owner;

    /// What is to be done now, given what came of the last round.
    ///
    /// `now` is the wall clock of the API server: the local clock moved by the measured offset between
    /// the two (B-11), since the times it is compared with were written by servers and nodes.
    fn next(&mut self, report: Report, now: Timestamp) -> Next;

    /// Whether the status is put off for a moment at the sync's end, though counts in it have changed.
    fn puts_counts_off(&self) -> bool;
}

/// What came of the last round.
#[derive(Debug, Clone)]
pub enum Report {
    /// There was none: the sync begins.
    Begin,
    /// Of [`Next::Claim`].
    Claimed(ClaimOutcome),
    /// Of [`Next::Perform`].
    Performed(Outcome),
    /// Of [`Next::WriteStatus`]: of the last attempt.
    StatusWritten(Result<Written, Failure>),
}

/// What is to be done now.
#[derive(Debug, Clone)]
pub enum Next {
    /// Take and give up objects by their owner references.
    Claim(ClaimPlan),
    /// Expect, and write.
    Perform(Box<Plan>),
    /// Write the owner's status.
    WriteStatus(StatusWrite),
    /// Nothing more.
    Done(Verdict),
}

/// How a sync ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// When the owner is looked at again. [`Requeue::RateLimited`] if and only if `error` is there.
    pub requeue: Requeue,
    /// Why the sync failed.
    pub error: Option<Failure>,
}

impl Verdict {
    /// The sync did what it had to.
    #[must_use]
    pub const fn done(requeue: Requeue) -> Self {
        Self { requeue, error: None }
    }

    /// The sync failed and is tried again with backoff, a capped one where the cause can end (B-09).
    #[must_use]
    pub fn failed(error: Failure) -> Self {
        Self { requeue: Requeue::RateLimited { at_most: error.refusal().longest_backoff() }, error: Some(error) }
    }
}
