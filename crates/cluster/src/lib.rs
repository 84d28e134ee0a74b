//! What makes an API server a cluster: nodes, scheduling, garbage collection, namespaces.
//!
//! ```text
//!                        one watch of pods, one of nodes, metadata of everything else
//!                              |               |               |              |
//!                          scheduler        kubelet          nodes         garbage      namespaces
//!                          binds pods    runs and ends     Leases, health,  collects     empties and
//!                                           them           evictions       dependents    furnishes
//!                              |               |               |              |              |
//!                              +---------------+--- writes ----+--------------+--------------+
//! ```
//!
//! Each is a state machine that is told what happens and what time it is, and says what to do; a thin
//! loop around it (`run`) does the requests side by side. The machines draw every random number from a
//! seed and keep everything in order, so that the same seed gives the same history in virtual time.
//!
//! | Folder | What it stands in for | Rows |
//! |---|---|---|
//! | [`nodes`] | kubelet's node status and Leases, node lifecycle, taint eviction, pod GC | SIM-01, SIM-06 |
//! | [`scheduler`] | kube-scheduler | SIM-02 |
//! | [`kubelet`], [`fate`] | kubelet's pods | SIM-03 to SIM-05 |
//! | [`garbage`] | the garbage collector | API-19 |
//! | [`namespaces`] | namespace, service account and root CA controllers | API-20 |
//! | `services` | endpoints and endpointslice controllers | API-27 |
//!
//! Those of the last kind, which look at caches and write what they decide, run in the frame of `control`.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

mod api;
pub mod certificates;
mod cluster;
mod control;
pub mod controllers;
mod disruption;
pub mod duration;
pub mod embedded;
pub mod events;
mod everything;
pub mod fate;
mod feed;
pub mod garbage;
mod json;
pub mod kinds;
pub mod kubelet;
pub mod managers;
pub mod metadata;
pub mod namespaces;
pub mod node;
pub mod nodes;
pub mod pod;
mod quota;
pub mod resources;
mod roles;
pub mod scheduler;
mod services;
pub mod taints;
#[cfg(test)]
mod testing;
pub mod tokens;
mod volumes;

pub use cluster::{Cluster, Options};
pub use duration::DelayRange;
pub use nodes::Capacity;
