//! What the controllers would do, for a reader: explanations, and a comparison with a cluster's own controllers.
//!
//! ```text
//!   caches ──► snapshot ──► the ordinary controllers ──┬──► explain: what is seen, planned, and by which rule
//!                                                      ├──► shadow: compared with what other controllers did
//!                                                      ├──► history: what the last syncs were
//!                                                      └──► inside: what is being done now
//! ```
//!
//! [`explain`] says what a controller sees of one object and would do. [`shadow`] compares what the controllers of a
//! cluster did with what these would have done. [`history`] keeps what the last syncs of a manager were, and [`inside`] says
//! what it is doing now. All run the ordinary controllers of `muster-controllers`, and like these do no I/O and read no
//! clock.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod explain;
pub mod history;
pub mod inside;
pub mod reason;
pub mod shadow;
