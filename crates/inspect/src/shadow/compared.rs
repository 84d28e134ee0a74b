//! Consider: what is asked of a snapshot, whatever it is a snapshot of.

use muster_objects::Timestamp;
use muster_objects::meta::{Meta, Uid};

use super::action::Action;
use super::intent::{IntendedWrite, Intent};
use super::recorder::Recorded;
use super::views::View;

/// A snapshot of an owner that can be held against what was done.
pub trait Compared: Clone {
    /// The kind of the owner, such as `ReplicaSet`.
    const KIND: &'static str;

    /// The owner's metadata.
    fn meta(&self) -> &Meta;

    /// What a sync of it would do.
    fn record(&self, now: Timestamp) -> Recorded;

    /// Whether one of the views, newest first, or an owner and objects of two of them, had a plan with the action.
    /// `created` is how many pods the owner had been seen to get, the action's own among them.
    fn explain(action: &Action, views: &[&View<Self>], created: u64) -> Explained;

    /// The row of the contract by which the reference does not do what is intended_before for, where that is seen to be why.
    fn left_undone_by(&self, write: &IntendedWrite, intents: &[Intent]) -> Option<&'static str>;

    /// Why the server keeps everybody from doing what is intended_before for, where the owner's status tells of it.
    fn refused(&self, write: &IntendedWrite) -> Option<String>;

    /// The snapshot without what explains nothing: pods that have finished may be thousands where a node rejects each.
    #[must_use]
    fn kept(self) -> Self;

    /// What decides the place of an object in the order of deletion, for people; none where it is not there.
    fn ranked(&self, uid: &Uid) -> Option<String>;

    /// Whether an object of that uid is there and stays, as far as anybody has asked for.
    fn holds(&self, uid: &Uid) -> bool;
}

/// Whether there was a plan for an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explained {
    /// There was.
    Agreed,
    /// Not here, but by the reference's own rule, from which this row departs on purpose.
    Departs(&'static str),
    /// There was none.
    No,
}
