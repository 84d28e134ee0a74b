//! A plan: what one sync intends, in order, and how an executor performs it.
//!
//! A controller here never writes. It looks at a snapshot and says what it would do; an executor does
//! it and says what came of it. The two talk in rounds:
//!
//! ```text
//!                 Report::Begin                 Report::Claimed              Report::Performed
//!   snapshot ───► Sync::next ──► Next::Claim ──► Sync::next ──► Next::Perform ──► Sync::next ──► ...
//!                                                                            Next::WriteStatus, Next::Done
//! ```
//!
//! Every round is data. The executor decides nothing about Kubernetes: where a result has a meaning,
//! the plan's own methods say which ([`Creation::settle`], [`Deletion::settle`], [`Deletion::after_conflict`],
//! [`ClaimPlan::permission`], [`StatusWrite::again`]). One executor therefore serves every controller,
//! and whatever stands behind it (a cluster, the embedded server, a simulator that lies, a dry run that
//! prints) sees the same plan.
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
//! For each result: `settle` it, send its announcement (an Event on the owner), lower the expectation
//! where it says so, record the version written, and add it to the [`Outcome`]. The round ends with the step
//! after which [`Outcome::ends_round`]. [`Plan::status`] and [`Plan::requeue`] are, in this round, only what would follow if
//! everything succeeded: they are for the reader of a dry run.
//!
//! [`Next::WriteStatus`]: PATCH ([`StatusWrite::PATCH_TYPE`]) to the status subresource. On any failure GET the
//! owner, ask [`StatusWrite::again`], and send that once.
//!
//! [`Next::Done`]: obey the [`Verdict`].
//!
//! Every write is sent only while this process may still write (the leader's lease holds), and no
//! write that creates is ever repeated by the transport.

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
pub use sync::{Next, Report, Sync, Verdict};
pub use write::{AfterConflict, Creation, Deletion, Ownership, Patch, PatchType, StatusWrite, Telling, Words};

/// What one sync intends: the writes in order, the status that follows, and when to look again.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Whose sync this is.
    pub owner: Owner,
    /// Whether the owner is read once, uncached, before the round: where it is gone or being deleted by now, no step is
    /// taken ([`Owner::is_wanted`], B-23).
    pub confirm_owner: bool,
    /// What the caches are expected to show before pods are managed again; to be set on the owner's
    /// key before the first write of the round. It replaces the earlier one (EX-01).
    pub expectation: Option<Expectation>,
    /// The writes.
    pub steps: Vec<Step>,
    /// The status that will be written if every step succeeds; none where nothing would differ.
    pub status: Option<StatusWrite>,
    /// Whether there is none because counts alone differ, and may wait for others.
    pub counts_wait: bool,
    /// When the owner is looked at again if every step succeeds.
    pub requeue: Requeue,
    /// What was noticed on the way: for metrics, logs and the reader of a dry run.
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
    /// The generation that the snapshot saw: what the status claims as observed.
    pub generation: i64,
    /// `source.component` and `reportingComponent` of the Events about it, such as `replicaset-controller`.
    pub component: &'static str,
}

impl Owner {
    /// Whether the owner is still there and is to stay, from an uncached read of it.
    ///
    /// # Errors
    ///
    /// Where it could not be read.
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
    /// An Event on the owner that no write stands behind.
    Tell(Announcement),
    /// A failure that was known before any write: the round fails with it.
    Fail(Failure),
}

/// What the watch events of a round will show (EX-01).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// So many creations.
    Creations(u32),
    /// The deletions of exactly these objects.
    Deletions(Vec<ObjectKey>),
}

/// When a key is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Only when something changes. The key's backoff is forgotten.
    None,
    /// At once, behind the keys that wait already. The key's backoff is forgotten.
    Now,
    /// After a time. The key's backoff is forgotten.
    After(Duration),
    /// After the key's backoff, since the sync failed.
    RateLimited {
        /// The longest that the backoff may be, where the cause is one that ends by itself or by
        /// someone's hand (B-09); none for the queue's own limit.
        at_most: Option<Duration>,
    },
}

/// Something noticed while deciding that is neither a write nor an error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Remark {
    /// A ready victim's age over the age of the youngest ready pod: one observation for
    /// `replicaset_controller_sorting_deletion_age_ratio` (DEL-06, B-16).
    DeletionAgeRatio(f64),
    /// The events of an earlier round are still to come, so pods are not managed (EX-07).
    ExpectationsPending,
    /// The owner is being deleted, so pods are not managed (RS-14).
    BeingDeleted,
    /// Creations wait, because pods of this owner failed as soon as they were created (B-08), or because
    /// its namespace is being deleted (RS-12).
    BackingOff(Duration),
    /// The name of the ReplicaSet to create is not the one that another controller of this API would choose: its
    /// template has something whose effect on the hash is not known.
    InexactHash,
    /// The round is cut at this many writes, the burst; the rest follows in the next syncs.
    CutAtBurst(u32),
}

/// An Event on the owner, before it is given a name and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Such as `SuccessfulCreate`.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}
