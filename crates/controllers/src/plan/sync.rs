//! A sync as a sequence of rounds: the controller says what to do, the executor reports the result.

use muster_objects::time::Timestamp;

use super::{ClaimOutcome, ClaimPlan, Failure, Outcome, Owner, Plan, Requeue, StatusWrite, Written};

/// One sync of one owner, from a snapshot to its verdict.
///
/// Plain state, without I/O or a clock: the caller performs what [`SyncSteps::next`] returns and hands the
/// result back. `next` is called with [`Report::Begin`] first and never again after [`Next::Done`].
pub trait SyncSteps {
    /// The owner that is synced.
    fn owner(&self) -> &Owner;

    /// The next round, given the result of the last one.
    ///
    /// `now` is the wall clock of the API server: the local clock moved by the measured offset between
    /// the two (B-11), since the times it is compared with were written by servers and nodes.
    fn next(&mut self, report: Report, now: Timestamp) -> Next;

    /// Whether the sync ends with its status write deferred although counts have changed.
    fn puts_counts_off(&self) -> bool;
}

/// The result of the last round.
#[derive(Debug, Clone)]
pub enum Report {
    /// There was none: the sync begins.
    Begin,
    /// The result of [`Next::Claim`].
    Claimed(ClaimOutcome),
    /// The result of [`Next::Perform`].
    Performed(Outcome),
    /// The result of [`Next::WriteStatus`], after its retries.
    StatusWritten(Result<Written, Failure>),
}

/// The next round.
#[derive(Debug, Clone)]
pub enum Next {
    /// Adopt and release objects.
    Claim(ClaimPlan),
    /// Set the expectation, and write.
    Perform(Box<Plan>),
    /// Write the owner's status.
    WriteStatus(StatusWrite),
    /// Nothing more.
    Done(Verdict),
}

/// How a sync ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// When the owner is synced again: [`Requeue::RateLimited`] if there is an `error`.
    pub requeue: Requeue,
    /// Why the sync failed.
    pub error: Option<Failure>,
}

impl Verdict {
    /// The sync succeeded.
    #[must_use]
    pub const fn done(requeue: Requeue) -> Self {
        Self { requeue, error: None }
    }

    /// The sync failed and is retried with backoff, capped where the cause can end by itself (B-09).
    #[must_use]
    pub fn failed(error: Failure) -> Self {
        Self { requeue: Requeue::RateLimited { at_most: error.refusal().longest_backoff() }, error: Some(error) }
    }
}
