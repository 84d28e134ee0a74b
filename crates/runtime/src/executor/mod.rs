//! Performs what a sync intends: sends the writes of its plans and reports the results.
//!
//! Nothing about Kubernetes is decided here. This file determines in which order and groups writes are sent (slow-start
//! batches, concurrent deletions, the second read after a conflict); the plan says what a result means. A [`Ledger`]
//! gets every effect of a write at once: the expectation before the round's first write, its lowering, the version
//! written, the Event.

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream, stream::FuturesUnordered};
use muster_controllers::plan::{
    AfterConflict, ClaimAction, ClaimOutcome, ClaimPatch, ClaimPlan, Creation, Deletion, Expectation, Failure, Next,
    Outcome, Owner, Patch, Plan, Remark, Report, Resource, Settled, StatusWrite, Step, SyncSteps, Verdict, Written,
};
use muster_controllers::plan::{Announcement, PatchType};
use muster_machinery::SlowStart;
use muster_objects::{
    meta::{ObjectKey, ResourceVersion},
    time::{Moment, Timestamp},
};

use crate::writer::{Write, Writer};

#[cfg(test)]
mod tests;

/// How many claims of one sync are sent at once.
const CLAIMS_AT_ONCE: usize = 100;
/// How many objects are deleted at once: the pods of a burst, and not a history of thousands.
const DELETIONS_AT_ONCE: usize = 500;

/// Records a sync's effects as they happen.
pub trait Ledger: Send + Sync {
    /// What the caches are to show of the round that begins; replaces the owner's earlier expectation (EX-01).
    fn expect(&self, owner: &Owner, expectation: &Expectation);

    /// This many creations will not be seen (EX-05).
    fn lower_creations(&self, owner: &Owner, count: u32);

    /// This deletion will not be seen after all (EX-05).
    fn lower_deletion(&self, owner: &Owner, key: &ObjectKey);

    /// A write for this owner left an object of `resource` at this version (RS-19).
    fn wrote(&self, owner: &Owner, resource: &Resource, version: ResourceVersion);

    /// A round of writes is over; its outcome says whether all its versions are known (B-01).
    fn round_ended(&self, owner: &Owner, outcome: &Outcome);

    /// An Event on the owner (RS-11). Does not block.
    fn announce(&self, owner: &Owner, announcement: Announcement);

    /// Something that was noticed while deciding.
    fn remark(&self, owner: &Owner, remark: &Remark);

    /// The time, for how long an answer takes.
    fn moment(&self) -> Moment {
        Moment::ORIGIN
    }

    /// A request that was sent at `began` was answered; a read tells of no write.
    fn answered(
        &self,
        _owner: &Owner,
        _request: Request<'_>,
        _began: Moment,
        _answer: Result<Option<&Written>, &Failure>,
    ) {
    }

    /// The owner's status was written.
    fn wrote_status(&self, _owner: &Owner, _write: &StatusWrite) {}
}

/// A request that is sent for an owner.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `create`, `delete`, `patch`, `adopt`, `release`, `status`; `read` for a second look.
    pub action: &'static str,
    /// The kind.
    pub resource: &'a Resource,
    /// The name; empty where the server chooses it.
    pub name: &'a str,
}

/// Performs one sync to its end.
///
/// `now` is wall time by the server's clock (B-11).
pub async fn perform(
    sync: &mut (impl SyncSteps + ?Sized),
    writer: &dyn Writer,
    ledger: &dyn Ledger,
    now: impl Fn() -> Timestamp,
) -> Verdict {
    let mut report = Report::Begin;
    loop {
        let next = sync.next(report, now());
        let run = Run { owner: sync.owner(), writer, ledger };
        report = match next {
            Next::Claim(plan) => Report::Claimed(run.claim(&plan).await),
            Next::Perform(plan) => Report::Performed(run.round(&plan).await),
            Next::WriteStatus(write) => Report::StatusWritten(run.status(&write).await),
            Next::Done(verdict) => return verdict,
        };
    }
}

/// One sync's means.
#[derive(Clone, Copy)]
struct Run<'a> {
    owner: &'a Owner,
    writer: &'a dyn Writer,
    ledger: &'a dyn Ledger,
}

impl Run<'_> {
    /// Adopts and releases, with one look at the owner before the first adoption (RS-07, RS-08).
    async fn claim(self, plan: &ClaimPlan) -> ClaimOutcome {
        let permission = if plan.needs_permission() {
            plan.permission(self.read(&self.owner.resource, &self.owner.key).await.as_deref())
        } else {
            Ok(())
        };
        let mut outcome = ClaimOutcome::default();
        // Side by side, but settled in the plan's order: the errors read the same on every run.
        let claims: Vec<_> =
            plan.patches.iter().map(|patch| self.claim_one(patch, permission.as_ref().err()).boxed()).collect();
        let mut results = stream::iter(claims).buffered(CLAIMS_AT_ONCE);
        let mut patches = plan.patches.iter();
        while let (Some(result), Some(patch)) = (results.next().await, patches.next()) {
            if let Some(version) = outcome.settle(patch, result) {
                self.ledger.wrote(self.owner, &patch.resource, version);
            }
        }
        outcome
    }

    async fn claim_one(self, patch: &ClaimPatch, refused: Option<&Failure>) -> Result<Written, Failure> {
        if let (ClaimAction::Adopt, Some(why)) = (patch.action, refused) {
            return Err(patch.refused(why));
        }
        let action = match patch.action {
            ClaimAction::Adopt => "adopt",
            ClaimAction::Release => "release",
        };
        self.patch(action, &patch.resource, &patch.key, None, ClaimPatch::PATCH_TYPE, &patch.body).await
    }

    /// The writes of a plan, up to the step that fails.
    async fn round(self, plan: &Plan) -> Outcome {
        for remark in &plan.remarks {
            self.ledger.remark(self.owner, remark);
        }
        let mut outcome = Outcome::default();
        if plan.confirm_owner {
            self.confirm(plan, &mut outcome).await;
        }
        let steps = if outcome.unconfirmed { &[] } else { &plan.steps[..] };
        // Before the first write leaves: the watch may be faster than the answer.
        if let (Some(expectation), false) = (&plan.expectation, outcome.unconfirmed) {
            self.ledger.expect(self.owner, expectation);
        }
        for step in steps {
            match step {
                Step::Create(creation) => self.create(creation, &mut outcome).await,
                Step::Delete(deletions) => self.delete(deletions, &mut outcome).await,
                Step::Patch(patches) => self.patch_each(patches, &mut outcome).await,
                Step::Tell(announcement) => self.ledger.announce(self.owner, announcement.clone()),
                Step::Fail(failure) => outcome.fail(failure.clone()),
            }
            if outcome.ends_round() {
                break;
            }
        }
        self.ledger.round_ended(self.owner, &outcome);
        outcome
    }

    /// Reads the owner, which the cache may still show as it was before its deletion (B-23).
    async fn confirm(self, plan: &Plan, outcome: &mut Outcome) {
        let read = self.read(&self.owner.resource, &self.owner.key).await;
        match self.owner.is_wanted(read.as_deref()) {
            Ok(true) => {}
            Ok(false) => outcome.unconfirmed(plan.creations(), None),
            Err(failure) => outcome.unconfirmed(0, Some(failure)),
        }
    }

    /// Creates in batches of 1, 2, 4, ..., each side by side, until one has a failure (RS-09).
    async fn create(self, creation: &Creation, outcome: &mut Outcome) {
        let mut round = SlowStart::new(usize::try_from(creation.count).unwrap_or(usize::MAX));
        while let Some(size) = round.next_batch() {
            let write =
                Write::Create { resource: &creation.resource, namespace: &creation.namespace, body: &creation.body };
            let name = creation.name.as_deref().unwrap_or_default();
            let request = Request { action: "create", resource: &creation.resource, name };
            let mut writes: FuturesUnordered<_> = (0..size).map(|_| self.send(request, write)).collect();
            let mut ending = 0;
            while let Some(result) = writes.next().await {
                let settled = creation.settle(&result);
                if settled.lowers {
                    self.ledger.lower_creations(self.owner, 1);
                }
                ending += usize::from(settled.ends_round);
                self.note(&creation.resource, settled, outcome);
            }
            round.finish_batch(ending);
        }
        let skipped = u32::try_from(round.skipped()).unwrap_or(u32::MAX);
        if skipped > 0 {
            outcome.not_tried(skipped);
            self.ledger.lower_creations(self.owner, skipped);
        }
        if outcome.name_taken.is_some() {
            self.look_at_holder(creation, outcome).await;
        }
    }

    /// Reads the object that holds the name of the one to create (DEP-05).
    async fn look_at_holder(self, creation: &Creation, outcome: &mut Outcome) {
        let Creation { resource, namespace, name: Some(name), .. } = creation else { return };
        let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
        let read = self.read(resource, &key).await;
        match creation.holder(read.as_deref()) {
            Ok(holder) => {
                if let Some(holder) = &holder {
                    self.ledger.wrote(self.owner, resource, holder.resource_version);
                }
                outcome.holder = holder;
            }
            Err(failure) => outcome.fail(failure),
        }
    }

    /// Deletes side by side (RS-13).
    async fn delete(self, deletions: &[Deletion], outcome: &mut Outcome) {
        let deleted: Vec<_> =
            deletions.iter().map(|deletion| async move { (deletion, self.delete_one(deletion).await) }).collect();
        let mut deleted = stream::iter(deleted).buffer_unordered(DELETIONS_AT_ONCE);
        while let Some((deletion, settled)) = deleted.next().await {
            if settled.lowers {
                self.ledger.lower_deletion(self.owner, &deletion.key);
            }
            self.note(&deletion.resource, settled, outcome);
        }
    }

    /// Deletes what was looked at and nothing else: a conflict takes a second look (B-02).
    async fn delete_one(self, deletion: &Deletion) -> Settled {
        let mut current = std::borrow::Cow::Borrowed(deletion);
        for _ in 1..Deletion::MOST_ATTEMPTS {
            let result = self.delete_as(&current).await;
            let conflict = result.as_ref().is_err_and(Failure::is_conflict);
            if !conflict {
                return current.settle(&result);
            }
            let read = self.read(&current.resource, &current.key).await;
            match current.after_conflict(read.as_deref()) {
                AfterConflict::Again(again) => current = std::borrow::Cow::Owned(again),
                AfterConflict::Leave { seen } => return current.settle_no_longer_owned(seen),
                AfterConflict::Fail(failure) => return current.settle(&Err(failure)),
            }
        }
        let last = self.delete_as(&current).await;
        current.settle(&last)
    }

    async fn delete_as(self, deletion: &Deletion) -> Result<Written, Failure> {
        let options = deletion.options();
        let write = Write::Delete { resource: &deletion.resource, key: &deletion.key, options: &options };
        self.send(Request { action: "delete", resource: &deletion.resource, name: &deletion.key.name }, write).await
    }

    async fn patch_each(self, patches: &[Patch], outcome: &mut Outcome) {
        for patch in patches {
            let Patch { resource, key, subresource, patch_type, body, .. } = patch;
            let result = self.patch("patch", resource, key, *subresource, *patch_type, body).await;
            let settled = patch.settle(&result);
            let ended = settled.ends_round;
            self.note(&patch.resource, settled, outcome);
            if ended {
                break;
            }
        }
    }

    /// Writes the status, once more after a fresh read where the first try failed (RS-17).
    async fn status(self, write: &StatusWrite) -> Result<Written, Failure> {
        let mut result = self.status_as(write).await;
        if result.is_err() {
            let read = self.read(&write.resource, &write.key).await;
            result = match write.again(read.as_deref()) {
                Ok(again) => self.status_as(&again).await,
                Err(failure) => Err(failure),
            };
        }
        if let Ok(Written { resource_version: Some(version), .. }) = &result {
            self.ledger.wrote(self.owner, &write.resource, *version);
        }
        result
    }

    async fn status_as(self, write: &StatusWrite) -> Result<Written, Failure> {
        let (resource, key) = (&write.resource, &write.key);
        let result = self.patch("status", resource, key, Some("status"), PatchType::Strategic, &write.body()).await;
        if result.is_ok() {
            self.ledger.wrote_status(self.owner, write);
        }
        result
    }

    async fn patch(
        self,
        action: &'static str,
        resource: &Resource,
        key: &ObjectKey,
        subresource: Option<&str>,
        kind: PatchType,
        body: &Bytes,
    ) -> Result<Written, Failure> {
        let write = Write::Patch { resource, key, subresource, kind, body };
        self.send(Request { action, resource, name: &key.name }, write).await
    }

    /// Sends a write, and tells how it was answered.
    async fn send(self, request: Request<'_>, write: Write<'_>) -> Result<Written, Failure> {
        let began = self.ledger.moment();
        let result = self.writer.write(write).await;
        self.ledger.answered(self.owner, request, began, result.as_ref().map(Some));
        result
    }

    async fn read(self, resource: &Resource, key: &ObjectKey) -> Result<Bytes, Failure> {
        let began = self.ledger.moment();
        let result = self.writer.read(resource, key).await;
        let request = Request { action: "read", resource, name: &key.name };
        self.ledger.answered(self.owner, request, began, result.as_ref().map(|_| None));
        result
    }

    /// Writes down one result, apart from its expectation.
    fn note(self, resource: &Resource, mut settled: Settled, outcome: &mut Outcome) {
        if let Some(announcement) = settled.announcement.take() {
            self.ledger.announce(self.owner, announcement);
        }
        if let Some(version) = settled.wrote {
            self.ledger.wrote(self.owner, resource, version);
        }
        outcome.add(&settled);
    }
}
