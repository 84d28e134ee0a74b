//! The controller manager as a program: what `muster controller-manager`, `muster explain` and `muster shadow` do.
//!
//! The program `muster-manager` has these commands and no others. It is what runs on a cluster: without an API server, nodes and
//! simulations it is less than half as large, and holds a third less at rest. `muster` has the same commands out of this library.

pub mod arguments;
pub mod commands;
mod controller_manager;
pub mod explain;
pub mod program;
mod shadow;
pub mod signals;
