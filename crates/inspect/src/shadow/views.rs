//! Views: what an owner's sync saw, and would have done, in the states of the last seconds.

use std::collections::VecDeque;
use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::ResourceVersion;

use super::intent::Intent;
use super::recorder::Recorded;

/// One state, and what would have been done in it.
#[derive(Debug, Clone)]
pub struct View<S> {
    /// The version of the change that made it.
    pub version: ResourceVersion,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What the sync saw.
    pub snapshot: S,
    /// What it would have done.
    pub recorded: Recorded,
    /// How many pods had been seen created for the owner by then.
    pub created: u64,
}

impl<S> View<S> {
    /// What it would have done.
    #[must_use]
    pub fn intents(&self) -> &[Intent] {
        &self.recorded.intents
    }
}

/// The views of one owner, oldest first.
#[derive(Debug, Clone)]
pub struct Views<S>(VecDeque<View<S>>);

/// Each view holds the pods that it saw. Past so many, every second of the older ones goes: those that are left
/// differ from it by a pod or two.
const MOST: usize = 256;

impl<S> Default for Views<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<S> Views<S> {
    /// Takes a view in by its version. Views that ended longer than `keep` before it are dropped: a view lasts until
    /// the next one, however long ago it began.
    pub fn push(&mut self, view: View<S>, keep: Duration) {
        let at = view.at;
        let place = self.0.partition_point(|known| known.version <= view.version);
        self.0.insert(place, view);
        while self.0.get(1).is_some_and(|next| next.at + keep < at) {
            self.0.pop_front();
        }
        if self.0.len() > MOST {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 0 || number > MOST / 2
            });
        }
    }

    /// The newest view.
    #[must_use]
    pub fn last(&self) -> Option<&View<S>> {
        self.0.back()
    }

    /// The views on which something could have been decided that was seen at `version` and `at`, newest first: those
    /// that are older, and had not ended longer than `lookback` before.
    pub fn before(
        &self,
        version: ResourceVersion,
        at: Timestamp,
        lookback: Duration,
    ) -> impl Iterator<Item = &View<S>> + Clone {
        let end = self.0.partition_point(|view| view.version < version);
        let ended = self.0.iter().take(end).skip(1).filter(|next| next.at + lookback < at).count();
        self.0.range(ended.min(end)..end).rev()
    }
}
