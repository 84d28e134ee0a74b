//! Inside: what a running manager is doing at this moment, of all its objects together.
//!
//! ```text
//!   stores ------------------> Informer --+
//!   queues, Recorder::waits --> Queue ----+--> Inside --> JSON, text
//!   books -------------------> Expected --+
//!   Recorder::last ----------> LastSync --+
//!   answers --> Tally -------> Writes ----+
//! ```
//!
//! An explanation and a history are of one object; this is of none. It is bounded however many objects there are, and
//! names those that are in work, queued or waited for.
//!
//! # The JSON
//!
//! An [`Inside`] is one JSON object, by the rules of an [explanation](crate::explain).

mod tally;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_machinery::expectations::Unmet;
use muster_machinery::queue::Place;
use muster_objects::meta::ObjectKey;
use muster_objects::{Moment, Timestamp};
use serde::{Deserialize, Serialize};

use crate::explain::Source;
use crate::history::{On, Sync, Waits, form};

pub use tally::Tally;

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// So many keys of a queue are named at most.
pub const MOST_KEYS: usize = 50;
/// So many owners with unmet expectations are named at most.
pub const MOST_EXPECTED: usize = 50;
/// So many of the last syncs are told at most.
pub const MOST_SYNCS: usize = 20;

/// What a manager is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inside {
    /// Always `Inside`.
    pub kind: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// When it was told, by the API server's clock.
    #[serde(with = "form::time")]
    pub at: Timestamp,
    /// Who told it.
    pub source: Source,
    /// Its informers, by the names of their kinds.
    #[serde(default)]
    pub informers: Vec<Informer>,
    /// The queues of its controllers.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// Owners whose last round is not seen yet, the oldest rounds first: [`MOST_EXPECTED`] at most.
    #[serde(default)]
    pub expectations: Vec<Expected>,
    /// How many such owners there are.
    #[serde(default)]
    pub unmet: u64,
    /// Its last syncs of any object, the newest first: [`MOST_SYNCS`] at most. None where nothing is recorded.
    #[serde(default)]
    pub syncs: Vec<LastSync>,
    /// What it has written since it started.
    #[serde(default)]
    pub writes: Writes,
}

/// An informer and its cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Informer {
    /// Such as `Pod`.
    pub kind: String,
    /// Whether its first list has been read.
    pub synced: bool,
    /// How many objects are in the cache.
    pub objects: u64,
    /// The resourceVersion that it has reached.
    #[serde(with = "form::version")]
    pub version: u64,
    /// How long ago the cache took in the last events: a list, events of the watch, or bookmarks. Where nothing changes in
    /// the cluster that is about a minute at most. `None` before the first list.
    #[serde(
        default,
        with = "form::maybe_seconds",
        rename = "changedSecondsAgo",
        skip_serializing_if = "Option::is_none"
    )]
    pub changed_ago: Option<Duration>,
    /// How long it took the cache to show a write of this manager's own, counted from the answer: the last one that was
    /// timed or, if that is longer, the one that is being timed. One at a time is. `None` where no write of this kind was
    /// answered with a version yet.
    #[serde(default, with = "form::maybe_seconds", rename = "lagSeconds", skip_serializing_if = "Option::is_none")]
    pub lag: Option<Duration>,
}

/// The work queue of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Such as `replicaset-controller`.
    pub controller: String,
    /// The kind of its keys, such as `ReplicaSet`.
    pub kind: String,
    /// How many keys wait for a worker.
    pub ready: u64,
    /// How many keys are being synced.
    pub working: u64,
    /// How many keys wait for a time, or for an event without which nothing more is done. Where nothing is recorded only
    /// the first are counted.
    pub waiting: u64,
    /// The keys, [`MOST_KEYS`] at most: those in work, then those that are ready in their order, then those that wait for
    /// an event, the longest first, then those that wait for a time, the next first.
    #[serde(default)]
    pub keys: Vec<Key>,
}

/// A key of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Where in the queue it is.
    pub state: State,
    /// What it waits for, as its history says; `None` where that is only the time at which it is due, where it is in work
    /// and nothing has come since, and where nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On<'static>>,
    /// For how long it has been in work, or waited; `None` where it only waits for its time.
    #[serde(default, with = "form::maybe_seconds", rename = "forSeconds", skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// In what time it is queued by itself; `None` if only an event will queue it.
    #[serde(default, with = "form::maybe_seconds", rename = "dueSeconds", skip_serializing_if = "Option::is_none")]
    pub due: Option<Duration>,
    /// How many of its syncs have failed in a row.
    pub retries: u32,
}

/// Where in a queue a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// A worker is syncing it.
    Working,
    /// It waits for a worker.
    Ready,
    /// It waits for an event or a time.
    Waiting,
}

/// An owner whose last round of creations or deletions is not seen yet (EX-01).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expected {
    /// The owner's kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many creations are still to be seen.
    pub creations: u64,
    /// How many deletions are still to be seen.
    pub deletions: u64,
    /// How long ago they were expected; after 300 seconds they are no more (EX-02).
    #[serde(with = "form::seconds", rename = "ageSeconds")]
    pub age: Duration,
}

/// A sync that has ended, or several of one object in a row that found the same and did nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastSync {
    /// The object's kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When the first of them began, by the API server's clock.
    #[serde(with = "form::time")]
    pub at: Timestamp,
    /// When the last of them ended.
    #[serde(with = "form::time")]
    pub until: Timestamp,
    /// How many they were. What follows is the last one's.
    pub count: u32,
    /// How long it took.
    #[serde(with = "form::seconds", rename = "tookSeconds")]
    pub took: Duration,
    /// What it did, in a few words.
    pub summary: String,
    /// By which rows of the contract, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// How many requests it sent.
    pub writes: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How the server has answered the writes of all syncs since the start. Events are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// How many were answered with yes, by what they did: `create`, `delete`, `patch`, `adopt`, `release`, `status`.
    #[serde(default)]
    pub done: BTreeMap<String, u64>,
    /// How many were refused because the object had changed (409).
    pub conflicts: u64,
    /// How many were refused for another reason, or not answered.
    pub failed: u64,
}

impl Inside {
    /// With nothing in it yet.
    #[must_use]
    pub fn new(source: Source, at: Timestamp) -> Self {
        Self {
            kind: "Inside".to_owned(),
            format: FORMAT,
            at,
            source,
            informers: Vec::new(),
            queues: Vec::new(),
            expectations: Vec::new(),
            unmet: 0,
            syncs: Vec::new(),
            writes: Writes::default(),
        }
    }

    /// Adds owners of a kind whose expectations are not met, and how many there are.
    pub fn expect(&mut self, kind: &str, (unmet, count): (Vec<Unmet>, usize), now: Moment) {
        self.unmet += count as u64;
        self.expectations.extend(unmet.into_iter().map(|unmet| Expected {
            kind: kind.to_owned(),
            namespace: unmet.owner.namespace.to_string(),
            name: unmet.owner.name.to_string(),
            creations: unmet.creations as u64,
            deletions: unmet.deletions as u64,
            age: now.saturating_since(unmet.since),
        }));
        self.oldest_expectations();
    }

    fn oldest_expectations(&mut self) {
        self.expectations.sort_by_key(|expected| std::cmp::Reverse(expected.age));
        self.expectations.truncate(MOST_EXPECTED);
    }

    /// Adds what another manager of the same process does, which has a part of the objects of each kind. What all managers
    /// of a process record together is in here already.
    pub fn absorb(&mut self, other: Self) {
        for informer in other.informers {
            match self.informers.iter_mut().find(|known| known.kind == informer.kind) {
                None => self.informers.push(informer),
                Some(known) => known.absorb(&informer),
            }
        }
        for queue in other.queues {
            match self.queues.iter_mut().find(|known| known.controller == queue.controller) {
                None => self.queues.push(queue),
                Some(known) => known.absorb(queue),
            }
        }
        self.unmet += other.unmet;
        self.expectations.extend(other.expectations);
        self.oldest_expectations();
    }
}

impl Informer {
    /// Adds another part of the objects of the kind. The whole is as current as the part that is most behind.
    fn absorb(&mut self, other: &Self) {
        self.synced &= other.synced;
        self.objects += other.objects;
        self.version = self.version.min(other.version);
        self.changed_ago = self.changed_ago.zip(other.changed_ago).map(|(one, another)| one.max(another));
        self.lag = self.lag.max(other.lag);
    }
}

/// What was found in a work queue.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// How many keys are ready.
    pub ready: usize,
    /// How many keys are in work.
    pub working: usize,
    /// How many keys have a delay.
    pub delayed: usize,
    /// The first keys: see [`muster_machinery::WorkQueue::first`].
    pub first: Vec<(ObjectKey, Place)>,
}

impl Queue {
    /// Of a controller's queue, and what the recorder says of the keys that were found in it.
    #[must_use]
    pub fn of(controller: &str, kind: &str, looked: Looked, waits: Waits) -> Self {
        let Waits { of, blocked, count } = waits;
        let mut of = of.into_iter();
        let mut keys: Vec<Key> =
            looked.first.into_iter().map(|(key, place)| Key::of(&key, place, of.next().flatten())).collect();
        let others = blocked.into_iter().map(|(key, on, time)| Key::of(&key, Place::default(), Some((on, time))));
        let waiting = keys.iter().position(|key| key.state == State::Waiting).unwrap_or(keys.len());
        keys.splice(waiting..waiting, others);
        keys.truncate(MOST_KEYS);
        Self {
            controller: controller.to_owned(),
            kind: kind.to_owned(),
            ready: looked.ready as u64,
            working: looked.working as u64,
            waiting: (looked.delayed + count) as u64,
            keys,
        }
    }
}

impl Queue {
    /// Adds another queue of the controller. Of keys in one state those that have waited longest are first, then those that
    /// are due first.
    fn absorb(&mut self, other: Self) {
        self.ready += other.ready;
        self.working += other.working;
        self.waiting += other.waiting;
        self.keys.extend(other.keys);
        let soonest = |key: &Key| key.due.filter(|_| key.on.is_none());
        self.keys.sort_by_key(|key| (key.state, soonest(key).is_some(), std::cmp::Reverse(key.time), soonest(key)));
        self.keys.truncate(MOST_KEYS);
    }
}

impl Key {
    fn of(key: &ObjectKey, place: Place, waits: Option<(On<'static>, Duration)>) -> Self {
        let Place { ready_for, in_work_for, due_in, requeues } = place;
        let (on, waited) = waits.unzip();
        let (state, time) = match (in_work_for, ready_for) {
            (Some(time), _) => (State::Working, Some(time)),
            (None, Some(time)) => (State::Ready, Some(time)),
            (None, None) => (State::Waiting, waited),
        };
        // What its last sync was blocked by is settled by the one that runs or is about to.
        let on = on.filter(|on| match state {
            State::Working => *on == On::Work,
            State::Ready => *on == On::Queue,
            State::Waiting => true,
        });
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        Self { namespace, name, state, on, time, due: due_in, retries: requeues }
    }
}

impl LastSync {
    /// Of what was recorded of an object.
    pub(crate) fn of((kind, namespace, name): (&str, &str, &str), sync: Sync<'_>) -> Self {
        let mut rows: Vec<String> = Vec::new();
        for reason in sync.why {
            if !rows.contains(&reason.rule) {
                rows.push(reason.rule);
            }
        }
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            at: sync.at,
            until: sync.until,
            count: sync.count,
            took: sync.took,
            summary: sync.summary.into_owned(),
            rows,
            writes: sync.writes.len() as u64 + u64::from(sync.more_writes),
            error: sync.error.map(std::borrow::Cow::into_owned),
        }
    }
}
