//! The decisions of the controllers: pure functions from a snapshot to a plan.
//!
//! ```text
//!   cache change ──► handlers ──► keys to queue, expectations met
//!
//!   caches ──► snapshot ──► decide_claims ──► decide ──► status_after ──► verdict
//!                               │                │             │
//!                           ClaimPlan          Plan       StatusWrite      (performed elsewhere)
//! ```
//!
//! Nothing here does I/O, reads a clock, waits or draws a random number. The decisions of a Kubernetes controller can
//! be read and tested as ordinary functions. [`plan`] has the types of a decision; [`replicaset`] is the controller
//! behind ReplicaSet and ReplicationController, [`deployment`] the one behind Deployment. [`mod@claiming`] is the first
//! step of both.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod begin;
pub mod claiming;
pub mod deployment;
pub mod pause;
pub mod plan;
pub mod replicaset;
pub mod replicationcontroller;
