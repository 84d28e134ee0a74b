//! How a sync begins, for any kind of owner.

use muster_machinery::Remedy;
use muster_objects::SelectorError;
use muster_objects::meta::ResourceVersion;

use crate::plan::Resource;

/// What the books decide when a sync of a key is to begin. `S` is the snapshot.
#[derive(Debug)]
pub enum Begin<S> {
    /// It begins with this snapshot.
    Ready(S),
    /// It does not: the object is gone, and the books have dropped it (EX-06).
    Gone,
    /// Not yet: a cache is older than what was written for the object (RS-19). Counted in the metric
    /// `replicaset_controller_stale_sync_skips_total`, or in that of the other kinds.
    Stale {
        /// The kind whose cache is behind.
        resource: Resource,
        /// The version that was written.
        wrote: ResourceVersion,
        /// The version that the cache has reached.
        read: ResourceVersion,
        /// How the key is requeued: once the cache has caught up, without a retry (B-17), or by the queue's rate limit
        /// after too long a wait.
        remedy: Remedy,
    },
    /// Not until the object changes: its selector cannot be parsed. To be logged; not retried (RS-20).
    InvalidSelector(SelectorError),
}

impl<S> Begin<S> {
    /// The same with another snapshot.
    #[must_use]
    pub fn map<T>(self, change: impl FnOnce(S) -> T) -> Begin<T> {
        match self {
            Self::Ready(snapshot) => Begin::Ready(change(snapshot)),
            Self::Gone => Begin::Gone,
            Self::Stale { resource, wrote, read, remedy } => Begin::Stale { resource, wrote, read, remedy },
            Self::InvalidSelector(error) => Begin::InvalidSelector(error),
        }
    }
}
