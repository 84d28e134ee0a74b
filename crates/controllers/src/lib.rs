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
//! Nothing here does I/O, reads a clock, waits or draws a random number. Whatever a controller of
//! Kubernetes decides can be read, and tested, as ordinary functions. [`plan`] is the language that
//! decisions are written in; [`replicaset`] the controller behind ReplicaSet and ReplicationController,
//! [`deployment`] the one behind Deployment. [`mod@claiming`] is what both do first.

pub mod begin;
pub mod claiming;
pub mod deployment;
pub mod pause;
pub mod plan;
pub mod replicaset;
pub mod replicationcontroller;
