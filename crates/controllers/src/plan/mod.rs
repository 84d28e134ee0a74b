//! A plan: what one sync intends, in order, and how an executor performs it.
//!
//! A controller here never writes. It decides on a snapshot what is to be done; an executor does it and reports the
//! result. The two alternate in rounds:
//!
//! ```text
//!                 Report::Begin                 Report::Claimed              Report::Performed
//!   snapshot ───► SyncSteps::next ──► Next::Claim ──► SyncSteps::next ──► Next::Perform ──► SyncSteps::next ──► ...
//!                                                                            Next::WriteStatus, Next::Done
//! ```
//!
//! Every round is plain data. The executor decides nothing about Kubernetes: the plan's own methods say what a result
//! means ([`Creation::settle`], [`Deletion::settle`], [`Deletion::after_conflict`], [`ClaimPlan::permission`],
//! [`StatusWrite::again`]). One executor therefore serves every controller, and every back end (a cluster, the embedded
//! server, a simulator with faults, a dry run that prints) gets the same plan.
//!
//! # How to perform a plan
//!
//! [`Next::Claim`]: where [`ClaimPlan::needs_permission`], read the owner once, uncached (GET with no
//! `resourceVersion`), and give the answer to [`ClaimPlan::permission`]. Then send every patch (they
//! may run at once; a refused permission fails the adoptions without sending them) and give each result
//! to [`ClaimOutcome::settle`]. Record every version written in the consistency record.
//!
//! [`Next::Perform`]: where [`Plan::confirm_owner`], read the owner as above, and ask [`Owner::is_wanted`]; where it is
//! not, the round is over ([`Outcome::unconfirmed`]). Set [`Plan::expectation`] before the first write leaves. Then
//! the [`Plan::steps`] in order:
//! - [`Step::Create`]: `count` identical POSTs in slow-start batches (1, 2, 4, ...), each batch at once.
//!   A batch in which a write [ended the round](Settled::ends_round) is the last; the writes never
//!   tried are counted by [`Outcome::not_tried`]. Where a [name was taken](Settlement::NameTaken), GET its holder and
//!   ask [`Creation::holder`].
//! - [`Step::Delete`]: every DELETE at once, with both preconditions. On a conflict, GET that object and
//!   ask [`Deletion::after_conflict`].
//! - [`Step::Patch`]: one by one in order, ending at the first that fails.
//! - [`Step::Tell`]: nothing is sent but the Event.
//! - [`Step::Fail`]: nothing is sent; the failure was known beforehand.
//!
//! For each result: `settle` it, send its announcement (an Event on the owner), lower the expectation if it says so,
//! record the version written, and add it to the [`Outcome`]. The round ends with the step after which
//! [`Outcome::ends_round`]. [`Plan::status`] and [`Plan::requeue`] are forecasts for a dry run, and not used here.
//!
//! [`Next::WriteStatus`]: PATCH ([`StatusWrite::PATCH_TYPE`]) to the status subresource. On any failure GET the
//! owner, ask [`StatusWrite::again`], and send that once.
//!
//! [`Next::Done`]: obey the [`Verdict`].
//!
//! A write is sent only while this process may write (it holds the Lease), and the transport never repeats a creation.

mod claim;
mod display;
mod failure;
mod fresh;
mod outcome;
mod resource;
mod sync;
mod write;

use std::time::Duration;

use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};

use fresh::FreshMeta;

pub use claim::{ClaimAction, ClaimOutcome, ClaimPatch, ClaimPlan};
pub use failure::{Failure, Refusal};
pub use outcome::{Holder, Outcome, Settled, Settlement, Written};
pub use resource::Resource;
pub use sync::{Next, Report, SyncSteps, Verdict};
pub use write::{AfterConflict, Creation, Deletion, EventText, EventTexts, Ownership, Patch, PatchType, StatusWrite};

/// What one sync intends: the writes in order, the status after them, and when to sync again.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Whose sync this is.
    pub owner: Owner,
    /// Whether the owner is read once, uncached, before the round: if it is gone or being deleted, no step is taken
    /// ([`Owner::is_wanted`], B-23).
    pub confirm_owner: bool,
    /// The watch events to expect before pods are managed again; set for the owner's key before the first write of the
    /// round. It replaces the earlier one (EX-01).
    pub expectation: Option<Expectation>,
    /// The writes.
    pub steps: Vec<Step>,
    /// The status that will be written if every step succeeds; `None` if nothing would change.
    pub status: Option<StatusWrite>,
    /// Whether the status write is deferred because only counts differ.
    pub counts_wait: bool,
    /// When the owner is synced again if every step succeeds.
    pub requeue: Requeue,
    /// Remarks for metrics, logs and dry runs.
    pub remarks: Vec<Remark>,
}

impl Plan {
    /// A plan that does nothing.
    #[must_use]
    pub fn nothing(owner: Owner) -> Self {
        Self {
            owner,
            confirm_owner: false,
            expectation: None,
            steps: Vec::new(),
            status: None,
            counts_wait: false,
            requeue: Requeue::None,
            remarks: Vec::new(),
        }
    }

    /// Whether performing the plan sends no write (its status apart).
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many objects the plan creates.
    #[must_use]
    pub fn creations(&self) -> u32 {
        self.steps.iter().map(|step| if let Step::Create(creation) = step { creation.count } else { 0 }).sum()
    }

    /// The deletions of the plan, most dispensable first.
    pub fn deletions(&self) -> impl Iterator<Item = &Deletion> {
        self.steps.iter().flat_map(|step| if let Step::Delete(deletions) = step { &deletions[..] } else { &[] })
    }
}

/// The object that a sync is for: what writes, events and owner references name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind and where it is served.
    pub resource: Resource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid that the snapshot saw.
    pub uid: Uid,
    /// The version that the snapshot saw.
    pub resource_version: ResourceVersion,
    /// The generation that the snapshot saw; the status reports it as observed.
    pub generation: i64,
    /// `source.component` and `reportingComponent` of the Events about it, such as `replicaset-controller`.
    pub component: &'static str,
}

impl Owner {
    /// Whether the owner still exists and is not being deleted, from an uncached read of it.
    ///
    /// # Errors
    ///
    /// If it could not be read.
    pub fn is_wanted(&self, read: Result<&[u8], &Failure>) -> Result<bool, Failure> {
        let json = match read {
            Ok(json) => json,
            Err(failure) if failure.is_not_found() => return Ok(false),
            Err(failure) => return Err(failure.clone()),
        };
        let fresh = FreshMeta::decode(json)
            .map_err(|error| Failure::local(format!("reading {} {}: {error}", self.resource, self.key)))?;
        Ok(fresh.uid == self.uid && fresh.deletion_timestamp.is_none())
    }
}

/// Writes that belong together.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Identical objects, in slow-start batches.
    Create(Creation),
    /// Deletions, all at once.
    Delete(Vec<Deletion>),
    /// Patches, one by one; the first failure ends the step.
    Patch(Vec<Patch>),
    /// An Event on the owner that no write causes.
    Tell(Announcement),
    /// A failure that was known before any write: the round fails with it.
    Fail(Failure),
}

/// The watch events that a round will cause (EX-01).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// How many creations.
    Creations(u32),
    /// The deletions of exactly these objects.
    Deletions(Vec<ObjectKey>),
}

/// When a key is synced again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Only when something changes. The key's backoff is reset.
    None,
    /// After a delay. The key's backoff is reset.
    After(Duration),
    /// After the key's backoff: the sync failed, or decided on what was no longer true.
    RateLimited {
        /// The longest backoff, if the cause can end by itself or by an action elsewhere (B-09); `None` for the queue's
        /// own limit.
        at_most: Option<Duration>,
    },
}

impl Requeue {
    /// An object was found changed since it was looked at: decide again, with a pause that grows each time. A cache that
    /// never shows the change (the server was put back to an earlier version) must not cost requests without end.
    pub const AGAIN: Self = Self::RateLimited { at_most: None };
}

/// Something noticed during the decision that is neither a write nor an error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remark {
    /// A ready victim's age over the age of the youngest ready pod: one observation for
    /// `replicaset_controller_sorting_deletion_age_ratio` (DEL-06, B-16).
    DeletionAgeRatio(f64),
    /// Expectations of an earlier round are not met, so pods are not managed (EX-07).
    ExpectationsPending,
    /// The owner is being deleted, so pods are not managed (RS-14).
    BeingDeleted,
    /// Creations are delayed because pods of this owner failed as soon as they were created (B-08), or because its
    /// namespace is being deleted (RS-12).
    BackingOff(Duration),
    /// The name of the ReplicaSet to create may differ from the one that kube-controller-manager would choose: its
    /// template has something whose effect on the hash is not known.
    InexactHash,
    /// The round is limited to this many writes, the burst; the rest follows in the next syncs.
    CutAtBurst(u32),
}

/// An Event on the owner, still without a name and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Such as `SuccessfulCreate`.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}
