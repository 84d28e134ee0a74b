//! The Deployment controller: moves pods from one template to the next by scaling ReplicaSets.
//!
//! The whole of a sync, as described in `docs/deployment.md`:
//!
//! ```text
//!   Deployment, ReplicaSet or pod changed ── handlers ──► key queued
//!                                                │
//!                     caches, by index ── snapshot (Deployment, its ReplicaSets, matching orphans)
//!                                                │
//!                               claiming: adopt what matches, release what no longer does
//!                                                │
//!                               sets: which one is new, which are old?
//!                                                │
//!                               decide: what kind of sync is this?
//!          ┌───────────────────┬─────────────────┼─────────────────────┬──────────────────┐
//!     being deleted      paused, or a       rollback: the        rolling: within      recreate: old
//!          │             new size:          template comes       bounds, up, then     pods go first
//!          │             scaling            back                 down                      │
//!          │                   │                 │                     └──── creation ────┘
//!          │                   │                 │                     │ revision, history │
//!          └───────────────────┴──── plan of creations, updates and deletions ─────────────┘
//!                                                │
//!                               status: counts, availability, progress, failures
//!                                                │
//!                               requeue: when does the deadline pass?
//! ```
//!
//! Each word before a colon, or alone in a corner, is a file. [`mod@decide`] combines them as pure functions, and
//! [`mod@sync`] runs them in the rounds that an executor performs.
//!
//! Three things differ from upstream, with the same end state. Everything that a sync reports is in one status write. A
//! ReplicaSet is written once in a sync, by a patch of just what changes. And a sync waits until the caches show what
//! the last one wrote ([`Books`]), so that it never conflicts with itself.

pub mod books;
pub mod bounds;
pub mod conditions;
pub mod creation;
pub mod decide;
pub mod handlers;
pub mod history;
pub mod identity;
pub mod progress;
pub mod recreate;
pub mod reporting;
pub mod requeue;
pub mod revision;
pub mod rollback;
pub mod rolling;
pub mod scaling;
pub mod sets;
pub mod snapshot;
mod stages;
pub mod status;
pub mod sync;
pub mod update;

pub use books::{Begin, Books};
pub use decide::{Decision, Stage, decide, decide_claims, preview};
pub use handlers::{Effect, deployment_changed, pod_changed, replica_set_changed};
pub use identity::{COMPONENT, QUEUE, as_planned};
pub use reporting::Reporting;
pub use snapshot::Snapshot;
pub use sync::DeploymentSync;
