//! Shadow: what the controllers here would do, held against what a cluster's own controllers did.
//!
//! ```text
//!   changes, in the order of their versions
//!        │
//!        ├──► actions: what of this did a controller do?  ───────────────┐
//!        │                                                               ▼
//!        └──► caches ──► snapshot ──► sync ──► recorder ──► views ──► explain ──► agreed, by a row, or a difference
//!                                                            │
//!                                                            └──► standing: what is wanted and not done in time
//! ```
//!
//! The controllers are the ordinary ones, asked after every change what they would do now. They are answered that it
//! was done, and nothing is: a [`recorder`] is all that stands behind them, and nothing here can write. What they
//! wanted in each state is kept for a while as [views](views::Views).
//!
//! An **action** of the other controllers (a pod created, deleted, adopted, released; a ReplicaSet created, scaled,
//! deleted) is *explained* if one of the states of the last seconds had a plan with it. The other side's caches are
//! fed by a watch for each kind, and may combine an owner and objects of different moments; so may an explanation.
//! Where no state explains an action, but the reference's own rule does at a place where a row of the contract
//! departs from it on purpose, the difference carries the [row](deviation). Every other is a difference without.
//!
//! A **write** is the other direction: what every state has wanted for longer than the patience that the other side is
//! granted, and nobody did. The status is judged by this alone: at rest there must be nothing left to write.
//!
//! What users, nodes and the garbage collector do looks like what controllers do. A pod that is deleted while no
//! plan wants any to go is theirs, and so is a ReplicaSet scaled by somebody whose name is not the controller's.
//!
//! Whoever drives this hands in the changes in the order of their versions and says what time it is.

pub mod action;
pub mod claims;
pub mod compared;
pub mod deviation;
pub mod fields;
pub mod intent;
pub mod observed_kind;
pub mod observed_owner;
pub mod order;
mod owners;
pub mod record;
pub mod recorder;
pub mod replicas;
pub mod rollout;
pub mod totals;
pub mod unmet;
pub mod views;
pub mod watcher;

pub use action::{Action, ActionKind};
pub use compared::{Compared, Explained};
pub use observed_kind::Options;
pub use record::{Line, Record};
pub use totals::Totals;
pub use watcher::{Seen, Watched, Watcher};
