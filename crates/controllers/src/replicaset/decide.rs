//! The decision: three pure functions from a snapshot to everything that a sync does.
//!
//! Adoptions and releases are writes that may fail, and managing counts only what was really claimed. The decision is
//! therefore made in steps, each with the outcome of the one before: [`decide_claims`], then [`decide`], then
//! [`status_after`]. Most syncs have nothing to claim or to manage, and then the three are one pass.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_objects::{ReplicaSetStatus, Timestamp};

use super::claiming::{Claimed, claimed, claims};
use super::counting::Need;
use super::identity::ReplicaOwner;
use super::metrics::deletion_age_ratios;
use super::ranking::victims;
use super::requeue::until_available;
use super::snapshot::{Expected, Snapshot};
use super::status::{self, Counts};
use crate::pause::put_off;
use crate::plan::{
    ClaimOutcome, ClaimPlan, Creation, Deletion, EventText, EventTexts, Expectation, Failure, Outcome, Ownership, Plan,
    Remark, Requeue, Resource, StatusWrite, Step,
};

/// The pods to adopt and release before anything is counted (RS-06).
///
/// Only active pods are claimed: one that is finished or being deleted is not counted for any owner.
#[must_use]
pub fn decide_claims<O: ReplicaOwner>(snapshot: &Snapshot<O>) -> ClaimPlan {
    let Snapshot { owner, selector, .. } = snapshot;
    claims(owner.as_planned(), owner.meta(), selector, snapshot.active())
}

/// The writes for the pods, after the claims.
///
/// The plan's status and requeue apply if every step succeeds. `now` is the server's wall clock (B-11).
#[must_use]
pub fn decide<O: ReplicaOwner>(snapshot: &Snapshot<O>, claims: &ClaimOutcome, now: Timestamp) -> Plan {
    let pods = claimed_pods(snapshot, claims);
    let mut plan = Plan::nothing(snapshot.owner.as_planned());
    manage(snapshot, &pods, now, &mut plan);
    let known = plan.steps.iter().find_map(|step| if let Step::Fail(failure) = step { Some(failure) } else { None });
    let after = calculate(snapshot, &pods, known, now);
    let requeue = requeue(snapshot, &pods, &after, &Outcome::default(), now);
    let wait = snapshot.memory.counts_wait.left.filter(|_| plan.is_quiet());
    (plan.status, plan.requeue, plan.counts_wait) =
        put_off(status::write(&*snapshot.owner, &after, snapshot.memory.stores_terminating), requeue, wait);
    plan
}

/// The status after the round, when to sync again, and whether the write is deferred because only counts differ.
/// `outcome` is that of the plan's steps, which took `took`.
///
/// Pods that the round created or deleted are not counted yet: they are when the watch shows them.
#[must_use]
pub fn status_after<O: ReplicaOwner>(
    snapshot: &Snapshot<O>,
    claims: &ClaimOutcome,
    outcome: &Outcome,
    took: Duration,
    now: Timestamp,
) -> (Option<StatusWrite>, Requeue, bool) {
    let pods = claimed_pods(snapshot, claims);
    let after = calculate(snapshot, &pods, outcome.error.as_ref(), now);
    let requeue = requeue(snapshot, &pods, &after, outcome, now);
    // Nothing was tried of which the status could tell.
    if outcome.unconfirmed {
        return (None, requeue, false);
    }
    // The watch will show in a moment what the round has done, and then the counts are worth writing.
    let managed = outcome.error.is_none() && outcome.created + outcome.deleted > 0;
    let wait = snapshot.memory.counts_wait.after_a_round(took).filter(|_| managed);
    put_off(status::write(&*snapshot.owner, &after, snapshot.memory.stores_terminating), requeue, wait)
}

/// A whole sync for a dry run: the claims, and the plan if all of them succeed.
#[must_use]
pub fn preview<O: ReplicaOwner>(snapshot: &Snapshot<O>, now: Timestamp) -> (ClaimPlan, Plan) {
    let claims = decide_claims(snapshot);
    let plan = decide(snapshot, &claims.if_all_succeed(), now);
    (claims, plan)
}

/// The pods that count: the active ones that the owner controls after the claims.
#[must_use]
pub fn claimed_pods<O: ReplicaOwner>(snapshot: &Snapshot<O>, claims: &ClaimOutcome) -> Vec<Claimed> {
    claimed(snapshot.owner.meta(), &snapshot.selector, snapshot.active(), claims)
}

/// Creates the missing pods, or deletes the surplus (RS-09, RS-13).
fn manage<O: ReplicaOwner>(snapshot: &Snapshot<O>, pods: &[Claimed], now: Timestamp, plan: &mut Plan) {
    if let Expected::Pending { .. } = snapshot.memory.expected {
        plan.remarks.push(Remark::ExpectationsPending);
        return;
    }
    if snapshot.owner.meta().is_being_deleted() {
        plan.remarks.push(Remark::BeingDeleted);
        return;
    }
    let (need, cut) = Need::of(pods.len(), snapshot.owner.replicas(), snapshot.burst);
    if let (Need::Create(_), Some(wait)) = (need, snapshot.memory.creations_wait) {
        plan.remarks.push(Remark::BackingOff(wait));
        return;
    }
    if cut {
        plan.remarks.push(Remark::CutAtBurst(snapshot.burst));
    }
    match need {
        Need::Create(count) => create(snapshot, pods, count, plan),
        Need::Delete(count) => delete(snapshot, pods, count, now, plan),
        Need::Nothing => {}
    }
}

fn create<O: ReplicaOwner>(snapshot: &Snapshot<O>, pods: &[Claimed], count: u32, plan: &mut Plan) {
    let owner = &snapshot.owner;
    match owner.template().pod_body(&owner.as_controller()) {
        Ok(body) => {
            // Those that are gone since the last status may have gone with their owner.
            let had = usize::try_from(owner.status().replicas).unwrap_or(0);
            plan.confirm_owner = snapshot.memory.confirm || had > pods.len();
            plan.expectation = Some(Expectation::Creations(count));
            plan.steps.push(Step::Create(Creation {
                resource: Resource::PODS,
                namespace: Arc::clone(&owner.meta().namespace),
                count,
                body: Bytes::from(body),
                name: None,
                events: creation_events(),
            }));
        }
        // No creation was sent, so none is expected, and there is no Event.
        Err(error) => plan.steps.push(Step::Fail(Failure::local(error.to_string()))),
    }
}

fn delete<O: ReplicaOwner>(snapshot: &Snapshot<O>, pods: &[Claimed], count: u32, now: Timestamp, plan: &mut Plan) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let chosen = victims(pods, snapshot.circumstances(now), count);
    if chosen.len() < pods.len() {
        let victims = chosen.iter().map(|victim| &*victim.pod);
        let ratios = deletion_age_ratios(victims, pods.iter().map(|claimed| &*claimed.pod), now);
        plan.remarks.extend(ratios.into_iter().map(Remark::DeletionAgeRatio));
    }
    let ownership = Arc::new(Ownership {
        owner: snapshot.owner.meta().uid.clone(),
        selector: snapshot.selector.clone(),
        generation: None,
    });
    // Where all are to go, however many at once, none goes in the place of another.
    let others = snapshot.owner.replicas() > 0 && snapshot.memory.spares;
    let deletions: Vec<Deletion> = chosen
        .into_iter()
        .map(|victim| Deletion {
            resource: Resource::PODS,
            key: victim.pod.meta.key(),
            uid: victim.uid().clone(),
            resource_version: victim.version,
            ownership: Arc::clone(&ownership),
            unready: others && !victim.pod.is_ready(),
            events: deletion_events(),
        })
        .collect();
    plan.expectation = Some(Expectation::Deletions(deletions.iter().map(|deletion| deletion.key.clone()).collect()));
    plan.steps.push(Step::Delete(deletions));
}

/// The Events about created pods (RS-11).
fn creation_events() -> EventTexts {
    EventTexts {
        success: Some(("SuccessfulCreate", EventText::Before("Created pod: "))),
        failure: Some(("FailedCreate", EventText::Before("Error creating: "))),
        error_context: None,
    }
}

/// The Events about deleted pods (RS-11).
fn deletion_events() -> EventTexts {
    EventTexts {
        success: Some(("SuccessfulDelete", EventText::Before("Deleted pod: "))),
        failure: Some(("FailedDelete", EventText::Before("Error deleting: "))),
        error_context: Some("unable to delete pods"),
    }
}

fn calculate<O: ReplicaOwner>(
    snapshot: &Snapshot<O>,
    pods: &[Claimed],
    error: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let counts = Counts::of(&*snapshot.owner, pods.iter().map(|claimed| &*claimed.pod), now);
    let terminating = O::IDENTITY.counts_terminating.then(|| snapshot.terminating());
    status::calculate(&*snapshot.owner, counts, terminating, error, now)
}

/// The earliest time at which a successful sync needs another although nothing changes.
fn requeue<O: ReplicaOwner>(
    snapshot: &Snapshot<O>,
    pods: &[Claimed],
    after: &ReplicaSetStatus,
    outcome: &Outcome,
    now: Timestamp,
) -> Requeue {
    // A pod that was left alone has changed since the snapshot: sync again. If written versions are recorded, that sync
    // waits for a cache that shows the change; otherwise an event of the pod will come.
    if outcome.no_longer_owned > 0 && O::IDENTITY.keeps_record {
        return Requeue::AGAIN;
    }
    let available = until_available(
        pods.iter().map(|claimed| &*claimed.pod),
        snapshot.owner.min_ready_seconds(),
        (after.ready_replicas, after.available_replicas),
        now,
    );
    let expired = match snapshot.memory.expected {
        Expected::Pending { expires_in } => Some(expires_in),
        Expected::Settled => None,
    };
    let wanting = after.replicas < snapshot.owner.replicas() && !snapshot.owner.meta().is_being_deleted();
    let braked = snapshot.memory.creations_wait.filter(|_| wanting);
    [available, expired, braked].into_iter().flatten().min().map_or(Requeue::None, Requeue::After)
}
