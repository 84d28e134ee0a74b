//! What every controller shares, as plain state machines that are handed the time.
//!
//! ```text
//!   decoded object --> cache --Change--> (a handler) --key--> queue --> (a worker)
//!                        |                    |                            |
//!                        | newest version     | seen added, deleted        | claim, slow_start
//!                        v                    v                            v
//!                   consistency          expectations <--expect-- (what the plan will write)
//! ```
//!
//! | Module | What it is | Contract |
//! |---|---|---|
//! | [`cache`] | the objects of one kind, their indexes, and what changed | INF-03, 04, 07, 09, 10, B-15 |
//! | [`queue`] | keys to be worked on, each once and by one worker, with turns for namespaces | WQ, SH-07, B-27, B-28 |
//! | [`expectations`] | the writes that a controller's cache does not show yet | EX, B-01 |
//! | [`consistency`] | what was written, and whether the caches have seen it | RS-19, B-17 |
//! | [`claim`] | adopt, release, keep or ignore | RS-06 to RS-08 |
//! | [`slow_start`] | batches of 1, 2, 4, ... | RS-09 |
//! | [`correlate`] | events counted, combined and dropped | EV-02, EV-03 |
//! | [`election`] | who leads, by a Lease | CM-04, CM-05 |
//! | [`group`] | who works for which namespaces, by Leases | SH-01 to SH-05 |
//! | `work` | looks into the caches, counted for tests | B-15 |
//! | [`rate`], [`backoff`] | a token bucket; a delay that doubles | WQ-03, B-08, B-09 |
//!
//! None of them locks, waits, reads a clock, does I/O or draws a random number: the caller passes the time, and the
//! same calls give the same results. They do not depend on the controllers of this project.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod backoff;
pub mod cache;
pub mod claim;
pub mod consistency;
pub mod correlate;
pub mod election;
pub mod expectations;
pub mod group;
mod hash;
mod least;
mod lru;
pub mod queue;
pub mod rate;
pub mod slow_start;
#[cfg_attr(not(feature = "work"), doc(hidden))]
pub mod work;

pub use backoff::Backoff;
pub use cache::{Cache, Cached, Change};
pub use claim::Claim;
pub use consistency::{Consistency, Freshness, Remedy};
pub use correlate::{Correlated, EventCorrelator};
pub use election::Election;
pub use expectations::Expectations;
pub use least::least;
pub use queue::{QueueObserver, WorkQueue};
pub use rate::TokenBucket;
pub use slow_start::SlowStart;
