//! One sync as the rounds that an executor performs: claim, perform, write the status, done.

use muster_objects::Timestamp;

use super::decide::{decide, decide_claims, status_after};
use super::identity::ReplicaOwner;
use super::snapshot::Snapshot;
use crate::plan::{ClaimOutcome, Next, Outcome, Owner, Report, Requeue, SyncSteps, Verdict};

/// The sync of one ReplicaSet or ReplicationController.
///
/// Rounds without writes are skipped: a sync that finds everything up to date is done at once.
#[derive(Debug)]
pub struct ReplicaSync<O> {
    snapshot: Snapshot<O>,
    owner: Owner,
    claims: ClaimOutcome,
    /// The outcome of managing the pods.
    outcome: Outcome,
    /// When to sync again once the status is written.
    requeue: Requeue,
    /// Whether the status write is deferred until more counts have changed.
    counts_wait: bool,
    /// When the sync began.
    began: Timestamp,
}

impl<O: ReplicaOwner> ReplicaSync<O> {
    /// A sync of what the snapshot shows.
    #[must_use]
    pub fn new(snapshot: Snapshot<O>) -> Self {
        let owner = snapshot.owner.as_planned();
        let (claims, outcome) = (ClaimOutcome::default(), Outcome::default());
        let (requeue, began) = (Requeue::None, Timestamp::UNIX_EPOCH);
        Self { snapshot, owner, claims, outcome, requeue, counts_wait: false, began }
    }

    /// What it looks at, and the claims that it has settled.
    #[must_use]
    pub fn seen(&self) -> (&Snapshot<O>, &ClaimOutcome) {
        (&self.snapshot, &self.claims)
    }

    fn manage(&mut self, now: Timestamp) -> Next {
        let plan = decide(&self.snapshot, &self.claims, now);
        if !plan.is_quiet() {
            return Next::Perform(Box::new(plan));
        }
        // Nothing can fail, so the plan's own forecast applies.
        (self.requeue, self.counts_wait) = (plan.requeue, plan.counts_wait);
        plan.status.map_or_else(|| self.finish(), Next::WriteStatus)
    }

    fn write_status(&mut self, now: Timestamp) -> Next {
        let took = now.saturating_since(self.began);
        let (status, requeue, counts_wait) = status_after(&self.snapshot, &self.claims, &self.outcome, took, now);
        (self.requeue, self.counts_wait) = (requeue, counts_wait);
        status.map_or_else(|| self.finish(), Next::WriteStatus)
    }

    fn finish(&mut self) -> Next {
        Next::Done(match self.outcome.error.take() {
            Some(error) => Verdict::failed(error),
            None => Verdict::done(self.requeue),
        })
    }
}

impl<O: ReplicaOwner> SyncSteps for ReplicaSync<O> {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn puts_counts_off(&self) -> bool {
        self.counts_wait
    }

    fn next(&mut self, report: Report, now: Timestamp) -> Next {
        match report {
            Report::Begin => {
                self.began = now;
                let claims = decide_claims(&self.snapshot);
                if claims.is_empty() { self.manage(now) } else { Next::Claim(claims) }
            }
            // Ownership is not settled, so nothing is counted: neither pods nor status (RS-08).
            Report::Claimed(claims) => match claims.error() {
                Some(error) => Next::Done(Verdict::failed(error)),
                None => {
                    self.claims = claims;
                    self.manage(now)
                }
            },
            Report::Performed(outcome) => {
                self.outcome = outcome;
                self.write_status(now)
            }
            // A failed status write takes precedence over an earlier error (RS-17).
            Report::StatusWritten(Err(failure)) => Next::Done(Verdict::failed(failure)),
            Report::StatusWritten(Ok(_)) => self.finish(),
        }
    }
}
