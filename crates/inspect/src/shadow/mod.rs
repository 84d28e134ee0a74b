//! Shadow: compares what the controllers here would do with what a cluster's own controllers did.
//!
//! ```text
//!   changes, in the order of their versions
//!        │
//!        ├──► actions: which writes of controllers it shows  ────────────┐
//!        │                                                               ▼
//!        └──► caches ──► snapshot ──► sync ──► recorder ──► views ──► explain ──► agreed, by a row, or a difference
//!                                                            │
//!                                                            └──► unmet: what is intended and not done in time
//! ```
//!
//! After every change the ordinary controllers are run to see what they would do now. They are told that each write
//! succeeded, but nothing is written: a [`recorder`] takes the executor's place, and this crate cannot do I/O. The
//! intents of each state are kept for a while as [views](views::Views).
//!
//! An **action** of the observed controllers (a pod created, deleted, adopted, released; a ReplicaSet created, scaled,
//! deleted) is *explained* if one of the states of the last seconds intended it. Each kind has a watch of its own, so
//! the observed controllers may have combined an owner and objects of different moments; an explanation may do the
//! same. If no state explains an action, but upstream's rule does where a row of the contract departs from it on
//! purpose, the difference carries that [row](deviation). Any other difference is unexplained.
//!
//! In the other direction, a **write** that every state has intended for longer than the patience, and that did not
//! happen, is a difference. The status is compared only in this way: at rest there must be nothing left to write.
//!
//! Users, nodes and the garbage collector cause the same changes as controllers. A pod that is deleted while no plan
//! intends a deletion is attributed to them, and so is a ReplicaSet scaled by a field manager that is not the
//! controller's.
//!
//! All of this goes into a log of [lines](record). A [`Keeper`] keeps the last of them by owner, to tell both sides of one
//! object as a [`ShadowHistory`].
//!
//! The caller passes the changes in the order of their resourceVersions, and the time.

pub mod action;
pub mod claims;
pub mod compared;
pub mod deviation;
pub mod fields;
pub mod history;
pub mod intent;
pub mod observed_kind;
pub mod observed_owner;
pub mod order;
mod owners;
pub mod record;
pub mod recorder;
pub mod replicas;
pub mod rollout;
mod story;
pub mod totals;
pub mod unmet;
pub mod views;
pub mod watcher;

pub use action::{Action, ActionKind};
pub use compared::{Compared, Explained};
pub use history::{Keeper, ShadowHistory};
pub use observed_kind::Options;
pub use record::{Line, Record};
pub use totals::Totals;
pub use watcher::{Seen, Watched, Watcher};
