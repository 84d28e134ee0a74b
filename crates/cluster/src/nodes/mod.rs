//! Simulated nodes: their objects and Leases, their health, and the pods that must leave them (SIM-01,
//! SIM-06).
//!
//! A node is simulated where it carries the annotation `muster.dev/simulated: "true"`: those that this
//! crate makes do, and a Node made by hand with it gets an agent as well. A second annotation,
//! `muster.dev/unreachable: "true"`, cuts a node's agent off until it is taken away: its Lease is renewed
//! no more, and after 50 s the control plane does what it does to a lost node. Deleting the Node object
//! leaves its pods to be collected after 40 s; making it again brings its agent back.

mod evict;
mod health;
mod objects;
mod run;
#[cfg(test)]
mod tests;

pub use self::evict::{Cause, Eviction, Evictor};
pub use self::health::{Health, Remedy};
pub use self::objects::{
    Capacity, KUBELET_VERSION, LEASE_NAMESPACE, LEASE_SECONDS, node_body, node_name, node_ordinal, node_status_patch,
    place,
};
pub(crate) use self::run::{Input, run};
