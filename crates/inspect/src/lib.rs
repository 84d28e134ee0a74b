//! What the controllers would do, for a reader: explanations, and the comparison with other controllers.
//!
//! ```text
//!   caches ──► snapshot ──► the ordinary controllers ──┬──► explain: what is seen, planned, and by which rule
//!                                                      └──► shadow: held against what other controllers did
//! ```
//!
//! [`explain`] says of one object what its controller sees and would do. [`shadow`] holds what the controllers of a
//! cluster did against what these would have done. Both ask the ordinary controllers of `muster-controllers`, and like
//! these do no I/O and read no clock.

pub mod explain;
pub mod shadow;
