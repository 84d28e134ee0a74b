//! How a sync begins, whatever it is a sync of.

use muster_machinery::Remedy;
use muster_objects::SelectorError;
use muster_objects::meta::ResourceVersion;

use crate::plan::Resource;

/// What the books of a controller say when a sync of a key is to begin. `S` is the snapshot to decide on.
#[derive(Debug)]
pub enum Begin<S> {
    /// With everything that it needs to see.
    Ready(S),
    /// Not at all: the object is gone, and the books about it are closed (EX-06).
    Gone,
    /// Not yet: a cache is older than what was written for the object (RS-19). Counts as a skip in the
    /// metric `replicaset_controller_stale_sync_skips_total`, and in those of its kind for the others.
    Stale {
        /// The kind whose cache is behind.
        resource: Resource,
        /// The version that was written.
        wrote: ResourceVersion,
        /// The version that the cache has seen.
        read: ResourceVersion,
        /// How the object comes back: woken once the cache has caught up, with no retry spent (B-17), or by the
        /// queue's rate limit after having waited too long.
        remedy: Remedy,
    },
    /// Never, until the object changes: its selector cannot be parsed. To be logged; not retried (RS-20).
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
