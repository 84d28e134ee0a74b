//! Standing: wishes that every state has, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_objects::Timestamp;

use super::intent::Wish;

/// While the other side is seen to do other things it may be late by so many times its patience.
const UNDER_LOAD: u32 = 6;

/// The wishes of one owner that are not granted yet.
#[derive(Debug, Clone, Default)]
pub struct Standing(BTreeMap<Wish, Since>);

#[derive(Debug, Clone)]
struct Since {
    /// Since when nothing was done about it.
    at: Timestamp,
    /// Whether it was told that it is overdue.
    told: bool,
}

impl Standing {
    /// The newest state has these wishes; others are granted, or given up.
    pub fn are(&mut self, wishes: BTreeSet<Wish>, at: Timestamp) {
        self.0.retain(|wish, _| wishes.contains(wish));
        for wish in wishes {
            self.0.entry(wish).or_insert(Since { at, told: false });
        }
    }

    /// Something was done about a wish, if not all of it.
    pub fn progressed(&mut self, wish: &Wish, at: Timestamp) {
        if let Some(since) = self.0.get_mut(wish) {
            since.at = since.at.max(at);
        }
    }

    /// The status was written: what is still missing in it begins anew.
    pub fn status_written(&mut self, at: Timestamp) {
        for (_, since) in self.0.iter_mut().filter(|(wish, _)| matches!(wish, Wish::Status(_))) {
            since.at = since.at.max(at);
        }
    }

    /// The wishes that were not granted within `patience`, each once, with how long they have stood. `busy` is when
    /// the other side was last seen to do anything.
    pub fn overdue(&mut self, now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> Vec<(Wish, Duration)> {
        let idle = busy.is_none_or(|busy| now.saturating_since(busy) >= patience);
        let granted = if idle { patience } else { patience * UNDER_LOAD };
        let mut overdue = Vec::new();
        for (wish, since) in &mut self.0 {
            let stood = now.saturating_since(since.at);
            if !since.told && stood >= granted {
                since.told = true;
                overdue.push((wish.clone(), stood));
            }
        }
        overdue
    }
}
