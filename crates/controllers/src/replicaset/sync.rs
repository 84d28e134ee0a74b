//! One sync as the conversation that an executor understands: claim, perform, write the status, done.

use muster_objects::Timestamp;

use super::decide::{decide, decide_claims, status_after};
use super::identity::ReplicaOwner;
use super::snapshot::Snapshot;
use crate::plan::{ClaimOutcome, Next, Outcome, Owner, Report, Requeue, Sync, Verdict};

/// The sync of one ReplicaSet or ReplicationController.
///
/// A round in which there is nothing to do is not held: a sync that finds everything as it should be is
/// done at once.
#[derive(Debug)]
pub struct ReplicaSync<O> {
    snapshot: Snapshot<O>,
    owner: Owner,
    claims: ClaimOutcome,
    /// What came of managing the pods.
    outcome: Outcome,
    /// When to look again once the status is written.
    requeue: Requeue,
    /// Whether the status waits for more counts to change.
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

    fn manage(&mut self, now: Timestamp) -> Next {
        let plan = decide(&self.snapshot, &self.claims, now);
        if !plan.is_quiet() {
            return Next::Perform(Box::new(plan));
        }
        // Nothing can fail, so what the plan foresees is what will be.
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

impl<O: ReplicaOwner> Sync for ReplicaSync<O> {
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
            // Who owns what is not settled, so nothing is counted: neither pods nor status (RS-08).
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
            // A status that could not be written is the more telling failure of the two (RS-17).
            Report::StatusWritten(Err(failure)) => Next::Done(Verdict::failed(failure)),
            Report::StatusWritten(Ok(_)) => self.finish(),
        }
    }
}
