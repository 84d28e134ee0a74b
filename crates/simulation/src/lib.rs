//! Whole clusters in virtual time from one seed.
//!
//! Server, nodes and controllers run on one thread under tokio's paused time: nothing waits for a wall clock, an hour
//! of a cluster takes only the time of its work, and the same seed gives the same [`history`] of writes, byte for byte.
//! Everything that could differ between two runs comes from the seed or from virtual time: uids, generated names,
//! delays, jitter, timestamps.
//!
//! ```text
//!   World ── one server ──┬── Recorded ── Faulty ── nodes, scheduler, collectors   (muster-cluster)
//!                         ├── Recorded ── Faulty ── controllers                    (muster-runtime)
//!                         ├── Recorded ── Faulty ── Candidate: controllers that may lead, and may be frozen
//!                         └── Recorded ─────────── the test itself: World::client
//!                                │           │
//!                             History      Faults
//! ```
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod api;
pub mod candidate;
pub mod case;
pub mod faults;
pub mod history;
pub mod laws;
pub mod small;
pub mod text;
pub mod weather;
pub mod world;

pub use candidate::Candidate;
pub use case::Case;
pub use faults::{Fault, Faults, Refusal, Rule, Verb};
pub use history::{History, Write};
pub use world::{Settings, World};
