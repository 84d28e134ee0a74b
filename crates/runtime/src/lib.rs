//! The shell around the controllers: informers, workers, executor, events, metrics.
//!
//! ```text
//!   client ==watch==> informer --apply--> store --handler--> queue --> worker
//!      ^                                    |                            |
//!      |                                    +--------- snapshot -------->+ decide -> plan
//!      +<======= writes ======== executor <==============================+
//! ```
//!
//! The decisions are in `muster-controllers`, the state machines in `muster-machinery`. What is here reads
//! clocks, waits and does I/O, and decides nothing.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod candidate;
pub mod client;
pub mod clock;
pub mod deployment;
pub mod duration;
pub mod election;
pub mod events;
pub mod executor;
pub mod explain;
pub mod group;
pub mod history;
pub mod informer;
mod inside;
pub mod manager;
pub mod metrics;
pub mod process;
pub mod replicaset;
#[cfg(test)]
mod script;
pub mod shadow;
pub mod shell;
pub mod shutdown;
pub mod workers;
pub mod writer;
pub mod yaml;
