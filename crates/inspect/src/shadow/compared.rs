//! Compared: what the comparison needs of a snapshot, whatever the kind of its owner.

use muster_objects::Timestamp;
use muster_objects::meta::{Meta, Uid};

use super::action::Action;
use super::intent::{IntendedWrite, Intent};
use super::recorder::Recorded;
use super::views::View;
use crate::explain::Reason;

/// A snapshot of an owner whose intents can be compared with actions.
pub trait Compared: Clone {
    /// The kind of the owner, such as `ReplicaSet`.
    const KIND: &'static str;

    /// The owner's metadata.
    fn meta(&self) -> &Meta;

    /// What a sync of it would do.
    fn record(&self, now: Timestamp) -> Recorded;

    /// By which rules a sync of it would do that.
    fn why(&self, now: Timestamp) -> Vec<Reason>;

    /// Whether the action was planned in one of the views (newest first), or would be with the owner of one view and
    /// the objects of another. `created` counts the pods seen created for the owner, including the action's own.
    fn explain(action: &Action, views: &[&View<Self>], created: u64) -> Explained;

    /// The row of the contract by which upstream leaves this write undone, if one applies to this state.
    fn left_undone_by(&self, write: &IntendedWrite, intents: &[Intent]) -> Option<&'static str>;

    /// Why the server refuses this write to every controller, if the owner's status says so.
    fn refused(&self, write: &IntendedWrite) -> Option<String>;

    /// The snapshot without finished pods, which explain nothing and can be thousands where a node rejects each.
    #[must_use]
    fn kept(self) -> Self;

    /// The values by which an object is ranked for deletion, as text; `None` if it is not in the snapshot.
    fn ranked(&self, uid: &Uid) -> Option<String>;

    /// Whether an object with that uid exists and is not being deleted.
    fn holds(&self, uid: &Uid) -> bool;
}

/// Whether an action was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explained {
    /// It was planned.
    Agreed,
    /// It was not planned here, but follows from upstream's rule, from which this row departs on purpose.
    Departs(&'static str),
    /// It was not planned.
    No,
}
