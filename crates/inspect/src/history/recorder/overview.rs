//! What a recorder knows of all objects together: what keys wait for, and the last syncs.

use std::cmp::Reverse;
use std::time::Duration;

use muster_machinery::least;
use muster_objects::Moment;
use muster_objects::meta::ObjectKey;

use super::{Key, Recorder};
use crate::history::ring::Head;
use crate::history::{On, Sync};
use crate::inside::LastSync;

/// What keys of one kind wait for, and for how long they have.
#[derive(Debug, Default)]
pub struct Waits {
    /// Of each key that was asked for, in their order.
    pub of: Vec<Option<(On<'static>, Duration)>>,
    /// Some of those that only an event will queue, the longest waiting first.
    pub blocked: Vec<(ObjectKey, On<'static>, Duration)>,
    /// How many of those there are.
    pub count: usize,
}

impl Recorder {
    /// What these keys of a kind wait for, and at most `most` others that are in no queue. Looks at all keys of the kind
    /// that something is known of.
    #[must_use]
    pub fn waits<'k>(
        &self,
        kind: &'static str,
        keys: impl IntoIterator<Item = &'k ObjectKey>,
        most: usize,
        now: Moment,
    ) -> Waits {
        let waits = |key: &Key| key.waiting_on().map(|(on, since)| (on, now.saturating_since(since)));
        let of = keys.into_iter().map(|key| self.keys.get(&(kind, key.clone())).and_then(waits)).collect();
        let first = (kind, ObjectKey::new("", ""));
        let all = self.keys.range(first..).take_while(|((its, _), _)| *its == kind);
        let (blocked, count) = least(all.filter_map(|((_, name), key)| Some((key.blocked_since()?, name))), most);
        let blocked = blocked.into_iter().filter_map(|(_, name)| {
            let (on, time) = waits(self.keys.get(&(kind, name.clone()))?)?;
            Some((name.clone(), on, time))
        });
        Waits { of, blocked: blocked.collect(), count }
    }

    /// A copy of the last syncs of any object, to be told once nobody waits for the recorder any more.
    #[must_use]
    pub fn last(&self, most: usize) -> Last {
        let runs = self.keys.iter().filter_map(|(name, key)| Some((Reverse(key.run.as_ref()?.until), name)));
        let (newest, _) = least(runs, most);
        let run = |name: &(&'static str, ObjectKey)| Some((name.clone(), self.keys.get(name)?.run.as_deref()?.clone()));
        let runs = newest.into_iter().filter_map(|(_, name)| run(name)).collect();
        Last { most, records: self.ring.last(most), runs }
    }
}

/// A copy of the last syncs that a recorder knows.
#[derive(Debug)]
pub struct Last {
    most: usize,
    records: Vec<Vec<u8>>,
    /// Quiet ones that may be followed by more of the same.
    runs: Vec<((&'static str, ObjectKey), Sync<'static>)>,
}

impl Last {
    /// The syncs, by when they ended and the newest first.
    #[must_use]
    pub fn told(self) -> Vec<LastSync> {
        let Self { most, records, runs } = self;
        let kept = records.iter().filter_map(|record| {
            let (Head(kind, namespace, name), rest) = postcard::take_from_bytes::<Head<'_>>(record).ok()?;
            let sync = postcard::from_bytes::<Sync<'static>>(rest).ok()?;
            Some(LastSync::of((&kind, &namespace, &name), sync))
        });
        let runs = runs.into_iter().map(|((kind, key), run)| LastSync::of((kind, &key.namespace, &key.name), run));
        let mut all: Vec<LastSync> = kept.chain(runs).collect();
        all.sort_by_key(|sync| Reverse(sync.until));
        all.truncate(most);
        all
    }
}

impl Key {
    /// Since when only an event will queue it; `None` if it is in the queue.
    fn blocked_since(&self) -> Option<Moment> {
        let queued = self.first.is_some() || self.flight.is_some() || self.due.is_some();
        self.blocked.as_ref().filter(|_| !queued).map(|(_, since)| *since)
    }
}
