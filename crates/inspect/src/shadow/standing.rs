//! Standing: wishes that every state has, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Timestamp;

use super::intent::{Intent, Wish};

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
    /// What a field of the status is to be; empty for other wishes.
    value: String,
}

impl Standing {
    /// The newest state has the wishes of these intents; others are granted, or given up. A field of the status that is
    /// to have another value than before is another wish.
    pub fn are(&mut self, intents: &[Intent], at: Timestamp) {
        let mut before = std::mem::take(&mut self.0);
        for intent in intents {
            for wish in intent.wishes() {
                let value = value_of(intent, &wish);
                let known = before.remove(&wish).filter(|since| since.value == value);
                self.0.insert(wish, known.unwrap_or(Since { at, told: false, value }));
            }
        }
    }

    /// Something was done about a wish, if not all of it.
    pub fn progressed(&mut self, wish: &Wish, at: Timestamp) {
        if let Some(since) = self.0.get_mut(wish) {
            since.at = since.at.max(at);
        }
    }

    /// Whether a wish is due to be told of as not granted in time (see [`Standing::overdue`]).
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> bool {
        let granted = granted(now, patience, busy);
        self.0.values().any(|since| !since.told && now.saturating_since(since.at) >= granted)
    }

    /// The wishes that were not granted within `patience`, each once, with how long they have stood. `busy` is when
    /// the other side was last seen to do anything.
    pub fn overdue(&mut self, now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> Vec<(Wish, Duration)> {
        let granted = granted(now, patience, busy);
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

/// How long a wish may stand.
fn granted(now: Timestamp, patience: Duration, busy: Option<Timestamp>) -> Duration {
    let idle = busy.is_none_or(|busy| now.saturating_since(busy) >= patience);
    if idle { patience } else { patience * UNDER_LOAD }
}

fn value_of(intent: &Intent, wish: &Wish) -> String {
    let (Intent::WriteStatus(fields), Wish::Status(name)) = (intent, wish) else { return String::new() };
    fields.iter().find(|field| field.name == *name).map(|field| field.would.clone()).unwrap_or_default()
}
