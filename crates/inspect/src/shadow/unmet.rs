//! UnmetIntents: the writes that every recent state intended, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Timestamp;

use super::intent::{IntendedWrite, Intent};

/// While the observed controller is seen to act elsewhere, it is given this many times the patience.
const UNDER_LOAD: u32 = 6;

/// The writes of one owner that have not happened yet.
#[derive(Debug, Clone, Default)]
pub struct UnmetIntents(BTreeMap<IntendedWrite, Since>);

#[derive(Debug, Clone)]
struct Since {
    /// When it was first intended, or when there was last progress.
    at: Timestamp,
    /// Whether it was reported as overdue.
    reported: bool,
    /// The intended value of a status field; empty for other writes.
    value: String,
}

impl UnmetIntents {
    /// Replaces the writes by those of the newest state; others have happened or are void. A status field with another
    /// intended value is a new write.
    pub fn update(&mut self, intents: &[Intent], at: Timestamp) {
        let mut before = std::mem::take(&mut self.0);
        for intent in intents {
            for write in intent.writes() {
                let value = value_of(intent, &write);
                let known = before.remove(&write).filter(|since| since.value == value);
                self.0.insert(write, known.unwrap_or(Since { at, reported: false, value }));
            }
        }
    }

    /// There was progress on a write, such as some of its pods.
    pub fn progressed(&mut self, write: &IntendedWrite, at: Timestamp) {
        if let Some(since) = self.0.get_mut(write) {
            since.at = since.at.max(at);
        }
    }

    /// Whether a write is due to be reported as overdue (see [`UnmetIntents::overdue`]).
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> bool {
        let allowed = allowed(now, patience, busy);
        self.0.values().any(|since| !since.reported && now.saturating_since(since.at) >= allowed)
    }

    /// The writes that did not happen within `patience`, each once, with how long they have been intended. `busy` is
    /// when the observed controller last acted.
    pub fn overdue(
        &mut self,
        now: Timestamp,
        patience: Duration,
        busy: Option<Timestamp>,
    ) -> Vec<(IntendedWrite, Duration)> {
        let allowed = allowed(now, patience, busy);
        let mut overdue = Vec::new();
        for (write, since) in &mut self.0 {
            let stood = now.saturating_since(since.at);
            if !since.reported && stood >= allowed {
                since.reported = true;
                overdue.push((write.clone(), stood));
            }
        }
        overdue
    }
}

/// How long a write may remain undone.
fn allowed(now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> Duration {
    let idle = busy.is_none_or(|busy| now.saturating_since(busy) >= patience);
    if idle { patience } else { patience * UNDER_LOAD }
}

fn value_of(intent: &Intent, write: &IntendedWrite) -> String {
    let (Intent::WriteStatus(fields), IntendedWrite::Status(name)) = (intent, write) else { return String::new() };
    fields.iter().find(|field| field.name == *name).map(|field| field.would.clone()).unwrap_or_default()
}
