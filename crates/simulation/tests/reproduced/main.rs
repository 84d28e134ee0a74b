//! Faults of the controllers that were found in whole clusters, each as it was found.
//!
//! The laws and the stories of other tests are drawn; these are written down. Each test fails on the code as it was
//! before.

#[path = "../common/mod.rs"]
mod common;

mod deletion;
mod restored;
mod rollouts;
