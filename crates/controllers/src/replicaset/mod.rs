//! The ReplicaSet controller: keeps the number of pods that its owner specifies.
//!
//! The whole of a sync, as described in `docs/replicaset.md`:
//!
//! ```text
//!   pod or owner changed ── handlers ──► key queued, expectation met
//!                                            │
//!                 caches, by index ── snapshot (owner, its pods, matching orphans)
//!                                            │
//!                           claiming: adopt what matches, release what no longer does
//!                                            │
//!                           counting: too few, too many, enough?
//!                               │                     │
//!                    backoff: may it create?     ranking: which go first?
//!                               └──────── plan ───────┘
//!                                            │
//!                           status: what is there, and what went wrong
//!                                            │
//!                           requeue: when does the next pod turn available?
//! ```
//!
//! Each word before a colon is a file. [`mod@decide`] combines them as three pure functions, and [`mod@sync`] runs them
//! in the rounds that an executor performs.
//!
//! ReplicationController is the same controller for an older kind (RC-01): everything here is generic over
//! [`ReplicaOwner`], which holds the few differences.

pub mod backoff;
pub mod books;
pub mod claiming;
pub mod counting;
pub mod decide;
pub mod handlers;
pub mod identity;
pub mod metrics;
pub mod ranking;
pub mod requeue;
pub mod snapshot;
pub mod status;
pub mod sync;

pub use books::{Begin, Books, Enqueue};
pub use decide::{decide, decide_claims, preview, status_after};
pub use handlers::{Effect, Owners, owner_changed, pod_changed};
pub use identity::{Identity, ReplicaOwner};
pub use snapshot::{Expected, Remembered, Snapshot};
pub use sync::ReplicaSync;
