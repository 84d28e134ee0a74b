//! UnmetIntents: writes that every state has, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Timestamp;

use super::intent::{IntendedWrite, Intent};

/// While the other side is seen to do other things it may be late by so many times its patience.
const UNDER_LOAD: u32 = 6;

/// The writes of one owner that are not granted yet.
#[derive(Debug, Clone, Default)]
pub struct UnmetIntents(BTreeMap<IntendedWrite, Since>);

#[derive(Debug, Clone)]
struct Since {
    /// Since when nothing was done about it.
    at: Timestamp,
    /// Whether it was told that it is overdue.
    reported: bool,
    /// What a field of the status is to be; empty for other writes.
    value: String,
}

impl UnmetIntents {
    /// The newest state has the writes of these intents; others are granted, or given up. A field of the status that is
    /// to have another value than before is another write.
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

    /// Something was done about a write, if not all of it.
    pub fn progressed(&mut self, write: &IntendedWrite, at: Timestamp) {
        if let Some(since) = self.0.get_mut(write) {
            since.at = since.at.max(at);
        }
    }

    /// Whether a write is due to be told of as not granted in time (see [`UnmetIntents::overdue`]).
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> bool {
        let granted = allowed(now, patience, busy);
        self.0.values().any(|since| !since.reported && now.saturating_since(since.at) >= granted)
    }

    /// The writes that were not granted within `patience`, each once, with how long they have stood. `busy` is when
    /// the other side was last seen to do anything.
    pub fn overdue(
        &mut self,
        now: Timestamp,
        patience: Duration,
        busy: Option<Timestamp>,
    ) -> Vec<(IntendedWrite, Duration)> {
        let granted = allowed(now, patience, busy);
        let mut overdue = Vec::new();
        for (write, since) in &mut self.0 {
            let stood = now.saturating_since(since.at);
            if !since.reported && stood >= granted {
                since.reported = true;
                overdue.push((write.clone(), stood));
            }
        }
        overdue
    }
}

/// How long a write may stand.
fn allowed(now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> Duration {
    let idle = busy.is_none_or(|busy| now.saturating_since(busy) >= patience);
    if idle { patience } else { patience * UNDER_LOAD }
}

fn value_of(intent: &Intent, write: &IntendedWrite) -> String {
    let (Intent::WriteStatus(fields), IntendedWrite::Status(name)) = (intent, write) else { return String::new() };
    fields.iter().find(|field| field.name == *name).map(|field| field.would.clone()).unwrap_or_default()
}
