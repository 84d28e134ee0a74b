//! Small worlds in full: every state that one Deployment with two ReplicaSets can come to, in every order in which caches
//! are told, requests arrive, nodes act, the user edits and the manager crashes; and whether a law is broken in one.
//!
//! ```text
//!   state ── Play::next ──┬── a cache gets its next event ── handlers ── books, queue
//!                         ├── a sync begins ── books, snapshot ── executor ── its next requests
//!                         ├── the server acts on one request ── judge ── executor ── its next requests
//!                         ├── a node acts ── judge
//!                         ├── the user edits ── judge
//!                         └── the manager crashes: nothing is remembered, and everything listed
//! ```
//!
//! Handlers, books, decisions and executor are those of the controllers and of the runtime: the model is the server, the
//! nodes, the user, and which of them is next. A sync is pure, so one in progress is what it looked at and the answers that
//! it has had: it is run again from its beginning for the request after these. States that differ only in the names of pods
//! are one.
//!
//! Where the same comes of two steps in both orders, one of the orders is taken: an event that no sync would begin without,
//! a sync that has nothing to write, and the status that only its own writer reads come first.
//!
//! Time is not in the model. A timer of less than a minute may fire at any time, and a longer one never does: nothing
//! may depend on an expectation that expires. `minReadySeconds` is 0 and there is no
//! `progressDeadlineSeconds`. Every answer arrives, unless the manager crashes; a request that was sent before a crash
//! does not arrive after it.

mod laws;
mod manager;
mod objects;
mod replay;
mod search;
mod server;
mod state;
mod step;
mod story;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use search::{Enumerated, enumerate};

/// A timer of this time or more does not fire.
const MINUTES: Duration = Duration::from_secs(60);

/// What is enumerated.
///
/// It begins with a Deployment that is complete, all caches up to date, and just got another template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// How the Deployment is rolled.
    pub rollout: Rollout,
    /// How many pods it wants.
    pub replicas: u8,
    /// How many events the caches may not have been told of, at most, of all kinds together.
    pub stale: usize,
    /// What the user does at some time, or never.
    pub edit: Option<Edit>,
    /// Whether the manager may crash once.
    pub crash: bool,
    /// What is wrong with the manager.
    pub flaw: Option<Flaw>,
}

/// How a Deployment is rolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Within these bounds.
    Rolling {
        /// `maxSurge`.
        surge: u8,
        /// `maxUnavailable`.
        unavailable: u8,
    },
    /// All old pods go first.
    Recreate,
}

/// What a user does to the Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The first template comes back.
    Rollback,
    /// `replicas` changes.
    Scale(u8),
    /// The bounds of a rolling update change.
    Bounds {
        /// `maxSurge`.
        surge: u8,
        /// `maxUnavailable`.
        unavailable: u8,
    },
}

/// A fault that is put into the manager on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Neither expectations nor written versions are heeded.
    NoBooks,
    /// Expectations are not heeded.
    NoExpectations,
    /// Written versions are not heeded.
    NoVersions,
    /// The Deployment controller takes what a ReplicaSet wants for what its status says it has.
    TrustedStatus,
}

impl World {
    /// The worlds of `muster simulate --small-worlds`, of each kind of rollout: two replicas with a crash, and with each
    /// edit; and one replica with an edit and a crash.
    #[must_use]
    pub fn all(stale: usize) -> Vec<Self> {
        let rolling = [(1, 0), (0, 1), (1, 1)].map(|(surge, unavailable)| Rollout::Rolling { surge, unavailable });
        let of_rollout = |rollout: Rollout| {
            let other_bounds = match rollout {
                Rollout::Rolling { surge: 1, unavailable: 0 } => Some(Edit::Bounds { surge: 0, unavailable: 1 }),
                Rollout::Rolling { .. } => Some(Edit::Bounds { surge: 1, unavailable: 0 }),
                Rollout::Recreate => None,
            };
            let calm = Self { rollout, replicas: 2, stale, edit: None, crash: false, flaw: None };
            let edits = move |scales: &[u8]| -> Vec<Edit> {
                let scales = scales.iter().map(|replicas| Edit::Scale(*replicas));
                [Edit::Rollback].into_iter().chain(scales).chain(other_bounds).collect()
            };
            let edited = edits(&[1, 3]).into_iter().map(|edit| Self { edit: Some(edit), ..calm });
            let both = edits(&[0, 2]).into_iter();
            let both = both.map(|edit| Self { replicas: 1, edit: Some(edit), crash: true, ..calm });
            [Self { crash: true, ..calm }].into_iter().chain(edited).chain(both).collect::<Vec<_>>()
        };
        rolling.into_iter().chain([Rollout::Recreate]).flat_map(of_rollout).collect()
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rollout, replicas, stale: _, edit, crash, flaw } = self;
        match rollout {
            Rollout::Rolling { surge, unavailable } => write!(f, "RollingUpdate {surge}/{unavailable}")?,
            Rollout::Recreate => f.write_str("Recreate")?,
        }
        write!(f, ", replicas {replicas}")?;
        if let Some(edit) = edit {
            write!(f, ", {edit}")?;
        }
        if *crash {
            f.write_str(", crash")?;
        }
        flaw.map_or(Ok(()), |flaw| write!(f, ", {flaw:?}"))
    }
}
