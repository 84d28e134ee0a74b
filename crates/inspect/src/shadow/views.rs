//! Views: the states of an owner in the last seconds, with what its sync would have done.

use std::collections::VecDeque;
use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::ResourceVersion;

use super::intent::Intent;
use super::recorder::Recorded;

/// One state, with what a sync would have done.
#[derive(Debug, Clone)]
pub struct View<S> {
    /// The version of the change that led to it.
    pub version: ResourceVersion,
    /// When it began, by the server's clock.
    pub at: Timestamp,
    /// What the sync saw.
    pub snapshot: S,
    /// What it would have done.
    pub recorded: Recorded,
    /// How many pods had been seen created for the owner before.
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

/// Each view holds the pods that it saw. Above this many, every second view of the older half is dropped: its
/// neighbours differ from it by a pod or two.
const MOST: usize = 256;

impl<S> Default for Views<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<S> Views<S> {
    /// Inserts a view by its version. A view lasts until the next one begins; those that ended more than `keep` before
    /// this one are dropped.
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

    /// The views on which an action seen at `version` and `at` may have been decided, newest first: the older ones that
    /// had not ended more than `lookback` before.
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
