//! One sync as the rounds that an executor performs: claim, perform, write the status, done.

use std::time::Duration;

use muster_objects::{ConditionStatus, Timestamp};

use super::conditions::{REPLICA_FAILURE, condition, set};
use super::decide::{Decision, decide, decide_claims};
use super::identity::as_planned;
use super::reporting::Told;
use super::snapshot::Snapshot;
use super::status::{SYNC_ERROR, write};
use crate::pause::put_off;
use crate::plan::{
    ClaimOutcome, Failure, Holder, Next, Outcome, Owner, Report, Requeue, StatusWrite, SyncSteps, Verdict,
};

/// The longest backoff of a sync that fails again and again (B-06).
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// After this many failures in a row the status reports the next; upstream gives the Deployment up then (B-06).
pub const FAILURES_BEFORE_TOLD: u32 = 15;

/// The sync of one Deployment.
///
/// Rounds without writes are skipped: a sync that finds everything up to date is done at once. The status is written
/// once at most.
#[derive(Debug)]
pub struct DeploymentSync {
    snapshot: Snapshot,
    owner: Owner,
    /// The decision, once the claims are settled.
    decision: Option<Decision>,
    /// How the sync ends once the status is written.
    verdict: Verdict,
    /// Whether the status write is deferred until more counts have changed.
    counts_wait: bool,
    /// When the sync began.
    began: Timestamp,
}

impl DeploymentSync {
    /// A sync of what the snapshot shows.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let owner = as_planned(&snapshot.deployment);
        let (verdict, began) = (Verdict::done(Requeue::None), Timestamp::UNIX_EPOCH);
        Self { snapshot, owner, decision: None, verdict, counts_wait: false, began }
    }

    /// What it looks at, and what it has decided, until that is done.
    #[must_use]
    pub fn seen(&self) -> (&Snapshot, Option<&Decision>) {
        (&self.snapshot, self.decision.as_ref())
    }

    fn manage(&mut self, claims: &ClaimOutcome, now: Timestamp) -> Next {
        let decision = decide(&self.snapshot, claims);
        let mut plan = decision.plan(now);
        if plan.is_quiet() {
            (plan.status, plan.requeue, self.counts_wait) =
                put_off(plan.status, plan.requeue, self.snapshot.counts_wait.left);
        }
        self.decision = Some(decision);
        if plan.is_quiet() { self.end(plan.status, Verdict::done(plan.requeue)) } else { Next::Perform(Box::new(plan)) }
    }

    fn performed(&mut self, mut outcome: Outcome, now: Timestamp) -> Next {
        let Some(decision) = self.decision.take() else { return self.end(None, Verdict::done(Requeue::AGAIN)) };
        // The namespace is being deleted: nothing is needed in it, and nothing is reported (DEP-23).
        if outcome.not_needed > 0 {
            return self.end(None, Verdict::done(Requeue::None));
        }
        if let Some(taken) = outcome.name_taken.take() {
            return match outcome.error.take() {
                None => self.name_taken(taken, outcome.holder.as_ref(), now),
                // Who holds it could not be read.
                Some(error) => self.fail_as_it_was(error, now),
            };
        }
        if let Some(error) = outcome.error.take() {
            let told = decision.told_after_failure(&outcome, &error, now);
            return self.fail(error, told, now);
        }
        // The ReplicaSets will report in a moment what was written to them, and then the counts are worth writing.
        let (status, requeue) = decision.status(now);
        let took = now.saturating_since(self.began);
        let wait = self.snapshot.counts_wait.after_a_round(took);
        let (status, requeue, counts_wait) = put_off(status, requeue, wait);
        self.counts_wait = counts_wait;
        // An object that was left alone has changed since the snapshot.
        self.end(status, Verdict::done(if outcome.no_longer_owned > 0 { Requeue::AGAIN } else { requeue }))
    }

    /// The name of the new ReplicaSet is taken (DEP-05): by a ReplicaSet of this Deployment that the cache did not show
    /// yet, or else by one of another template with the same hash, or of another owner. In the latter cases the next
    /// sync tries another name.
    fn name_taken(&mut self, taken: Failure, holder: Option<&Holder>, now: Timestamp) -> Next {
        let Snapshot { deployment, sets, .. } = &self.snapshot;
        let is_new_to_us = |holder: &Holder| {
            holder.controller.as_ref() == Some(&deployment.meta.uid)
                && !sets.iter().any(|set| set.meta.uid == holder.uid)
        };
        let mut after = deployment.status.clone();
        // Where nobody holds it any more it is free; and the next sync begins when the cache knows what the read knew.
        // Both are failures that back off: a webhook may say that anything exists, and a cache leave out what it cannot
        // decode.
        if !holder.is_none_or(is_new_to_us) {
            after.collision_count = Some(after.collision_count.unwrap_or(0).saturating_add(1));
        }
        self.fail(taken, Told::only(after), now)
    }

    /// Ends the sync with an error, of which only the status may tell.
    fn fail_as_it_was(&mut self, error: Failure, now: Timestamp) -> Next {
        self.fail(error, Told::only(self.snapshot.deployment.status.clone()), now)
    }

    /// Ends the sync with an error, to be tried again no later than the deadline passes that is `told`. From the 15th failure
    /// in a row on the status reports the error, too (B-06).
    fn fail(&mut self, error: Failure, mut told: Told, now: Timestamp) -> Next {
        if error.is_namespace_terminating() {
            return self.end(None, Verdict::done(Requeue::None));
        }
        if self.snapshot.failures >= FAILURES_BEFORE_TOLD {
            let failure = condition(REPLICA_FAILURE, ConditionStatus::True, SYNC_ERROR, &*error.message, now);
            set(&mut told.status.conditions, failure);
        }
        let status = write(&self.snapshot.deployment, &told.status, told.annotations);
        self.end(status, failed(error, told.left))
    }

    fn end(&mut self, status: Option<StatusWrite>, verdict: Verdict) -> Next {
        let Some(status) = status else { return Next::Done(verdict) };
        self.verdict = verdict;
        Next::WriteStatus(status)
    }
}

/// A sync that failed is retried without limit, with a capped backoff (B-06), and when its rollout may have timed out.
fn failed(error: Failure, left: Option<Duration>) -> Verdict {
    let bounds = [error.refusal().longest_backoff(), left];
    let longest = bounds.into_iter().flatten().fold(LONGEST_BACKOFF, Duration::min);
    Verdict { requeue: Requeue::RateLimited { at_most: Some(longest) }, error: Some(error) }
}

impl SyncSteps for DeploymentSync {
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
                if claims.is_empty() { self.manage(&ClaimOutcome::default(), now) } else { Next::Claim(claims) }
            }
            // Ownership is not settled, so nothing is counted (RS-08).
            Report::Claimed(claims) => match claims.error() {
                Some(error) => self.fail_as_it_was(error, now),
                None => self.manage(&claims, now),
            },
            Report::Performed(outcome) => self.performed(outcome, now),
            // An earlier error of the sync says more than a failed status write.
            Report::StatusWritten(Err(failure)) if self.verdict.error.is_none() => Next::Done(failed(failure, None)),
            Report::StatusWritten(_) => Next::Done(self.verdict.clone()),
        }
    }
}
