//! The cases that upstream's own tests keep for these controllers, file by file, and the page that lists them all.
//!
//! Each module is named after upstream's file. What another test of ours covers already is not repeated here:
//! `docs/contract/upstream-cases.md` says which.

mod controller_utils;
mod deployment_controller;
mod deployment_util;
mod page;
mod progress;
mod recreate;
mod replica_set;
mod rolling;
mod sync;

#[path = "../deployment/fixtures.rs"]
#[allow(dead_code, reason = "the tests of the Deployment controller use the rest")]
mod fixtures;
#[path = "../replicaset/fixtures.rs"]
#[allow(dead_code, reason = "the tests of the ReplicaSet controller use the rest")]
mod pods;
#[path = "../replicaset/world.rs"]
#[allow(dead_code, reason = "the tests of the ReplicaSet controller use the rest")]
mod replica_world;
#[path = "../deployment/world.rs"]
#[allow(dead_code, reason = "the tests of the Deployment controller use the rest")]
mod world;
