//! Upstream's integration tests of Deployments, ReplicaSets and ReplicationControllers, as whole clusters in virtual
//! time. `docs/contract/upstream-cases.md` says which test has which case.

#[path = "../common/mod.rs"]
mod common;
mod deployments;
mod replacement;
mod replicas;
mod scene;
