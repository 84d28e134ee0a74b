//! The recorder: what wakes keys, what their syncs do, and a ring of those that have ended.

mod overview;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_controllers::plan::Failure;
use muster_objects::meta::{ObjectKey, ResourceVersion};
use muster_objects::{Moment, Timestamp};

use super::account::Account;
use super::flight::{Answered, Flight};
use super::ring::{Head, Ring};
use super::{Cause, FORMAT, Happened, History, Named, On, Saw, Sync, Wait, Waiting};
use crate::explain::{Again, Source, seconds};

pub use overview::{Last, Waits};

/// How many causes of one sync are told.
const MOST_CAUSES: usize = 3;

/// The object that a sync is for: its kind, and where it is.
pub type Subject<'k> = (&'static str, &'k ObjectKey);

/// What wakes a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken {
    /// An event of a watch, or of a list that was read anew.
    Event {
        /// What happened.
        change: Happened,
        /// Such as `Pod`.
        kind: &'static str,
        /// The name.
        name: Arc<str>,
        /// The version after that.
        version: ResourceVersion,
    },
    /// A cache has reached a version that was waited for.
    Cache {
        /// The kind.
        kind: &'static str,
        /// The version that it is at.
        version: ResourceVersion,
    },
    /// It was to be looked at again now.
    Timer,
    /// The pause after a failure is over.
    Retry,
    /// It has waited too long for a cache.
    Expired,
    /// The manager begins to work, and everything is looked at.
    Start,
}

/// How a sync ended.
#[derive(Debug, Clone, Copy)]
pub enum Ended<'a> {
    /// It is synced again when something changes.
    Done,
    /// It is synced again after this time, or when something changes.
    Again(Duration),
    /// It is synced again after this pause; it failed if there is an error.
    Backoff(Duration, Option<&'a Failure>),
    /// It panicked, and is synced again after this pause.
    Panicked(Duration),
    /// It was deferred, and will be woken.
    PutOff,
}

/// What is kept of syncs, in a bounded number of bytes.
#[derive(Debug)]
pub struct Recorder {
    ring: Ring,
    keys: BTreeMap<(&'static str, ObjectKey), Key>,
    /// The most keys that something is kept of between and before their syncs. Those that only wait for a time make room
    /// for others.
    most_keys: usize,
    /// How many syncs have to end before it is worth to look for room again: none was found.
    crowded: usize,
    /// About how many bytes the runs of quiet syncs take that are not in the ring yet, and may.
    runs: (usize, usize),
    scratch: Vec<u8>,
}

/// What is known of one key besides its syncs in the ring.
#[derive(Debug, Default)]
struct Key {
    /// What woke it since its last sync began.
    woken: Vec<Woken>,
    more: u32,
    /// When the first of that came.
    first: Option<Moment>,
    /// Since when a worker could have taken it.
    ready: Moment,
    /// When it is due by time, and whether for a retry.
    due: Option<(Moment, Woken)>,
    /// When its last sync ended, if that failed.
    failed: Option<Moment>,
    /// What its last syncs were blocked by, and since when.
    blocked: Option<(On<'static>, Moment)>,
    flight: Option<Box<Flight>>,
    /// Quiet syncs, the last of which may be followed by more of the same.
    run: Option<Box<Sync<'static>>>,
}

impl Recorder {
    /// One that keeps at most about so many bytes: three quarters of them for what has ended.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let rest = bytes / 4;
        Self {
            ring: Ring::new(bytes - rest),
            keys: BTreeMap::new(),
            most_keys: rest / 2 / size_of::<((&str, ObjectKey), Key)>(),
            crowded: 0,
            runs: (0, rest / 2),
            scratch: Vec::new(),
        }
    }

    /// A key is queued at once.
    pub fn woken(&mut self, subject: Subject<'_>, woken: Woken, now: Moment) {
        let Some(key) = self.key(subject) else { return };
        if key.first.is_none() {
            (key.first, key.ready) = (Some(now), now);
        }
        if key.woken.len() < MOST_CAUSES { key.woken.push(woken) } else { key.more += 1 }
    }

    /// A key is queued after a time. Of several the earliest counts.
    pub fn due(&mut self, subject: Subject<'_>, woken: Woken, at: Moment) {
        let Some(key) = self.key(subject) else { return };
        if key.due.as_ref().is_none_or(|(due, _)| at < *due) {
            key.due = Some((at, woken));
        }
    }

    /// A sync begins, and sees the caches of these kinds at these versions.
    pub fn began(
        &mut self,
        subject: Subject<'_>,
        caches: &[(&'static str, ResourceVersion)],
        now: Moment,
        wall: Timestamp,
    ) {
        let name = (subject.0, subject.1.clone());
        // Those that run are few, so that each is told of: where there is no room for it, it is forgotten when it ends.
        self.has_room(&name);
        let key = self.keys.entry(name).or_default();
        let saw = |(kind, ResourceVersion(version)): &(&'static str, ResourceVersion)| Saw {
            kind: (*kind).into(),
            object: false,
            version: *version,
        };
        let mut flight = Flight::new(wall, now, caches.iter().map(saw).collect());
        let (waits, woken, more) = key.start(now);
        flight.woken_by(woken, more, waits);
        key.flight = Some(Box::new(flight));
    }

    /// A sync that runs has found something, or does something.
    pub fn found(&mut self, subject: Subject<'_>, own: Option<ResourceVersion>, account: Account) {
        let Some(key) = self.running(subject) else { return };
        let Some(flight) = &mut key.flight else { return };
        if let Some(ResourceVersion(version)) = own {
            flight.sync.saw.insert(0, Saw { kind: subject.0.into(), object: true, version });
        }
        match (&account.blocked, &key.blocked) {
            (Some(on), Some((before, _))) if std::mem::discriminant(on) == std::mem::discriminant(before) => {}
            (on, _) => {
                if let Some((before, since)) = key.blocked.take() {
                    let time = flight.began.saturating_since(since);
                    flight.sync.waits.push(Wait { on: before, time });
                }
                key.blocked = on.clone().map(|on| (on, flight.began));
            }
        }
        flight.found(account);
    }

    /// A request of a sync that runs was answered.
    pub fn answered(&mut self, subject: Subject<'_>, answered: Answered<'_>, now: Moment) {
        if let Some(flight) = self.running(subject).and_then(|key| key.flight.as_mut()) {
            flight.answered(answered, now);
        }
    }

    /// The status that a sync has written, as JSON.
    pub fn status(&mut self, subject: Subject<'_>, status: String) {
        if let Some(flight) = self.running(subject).and_then(|key| key.flight.as_mut()) {
            flight.sync.status = Some(status.into());
        }
    }

    /// A sync has ended.
    pub fn ended(&mut self, subject: Subject<'_>, ended: Ended<'_>, now: Moment) {
        let Some(key) = self.running(subject) else { return };
        let Some(mut flight) = key.flight.take() else { return };
        flight.sync.took = now.saturating_since(flight.began);
        flight.sync.until = flight.sync.at + flight.sync.took;
        // What came while it ran can be taken from now on.
        key.ready = key.ready.max(now);
        (key.failed, flight.sync.again) = match ended {
            Ended::Done | Ended::PutOff => (None, Again::OnChange),
            Ended::Again(delay) => (None, Again::AfterSeconds(seconds(delay))),
            Ended::Backoff(..) | Ended::Panicked(_) => (Some(now), Again::Backoff),
        };
        match ended {
            Ended::Done | Ended::PutOff => {}
            Ended::Again(delay) => self.due(subject, Woken::Timer, now + delay),
            Ended::Backoff(pause, error) => {
                flight.sync.error = error.map(|error| error.to_string().into());
                self.due(subject, Woken::Retry, now + pause);
            }
            Ended::Panicked(pause) => {
                flight.sync.error = Some("it panicked".into());
                self.due(subject, Woken::Retry, now + pause);
            }
        }
        self.keep(subject, *flight);
        self.crowded = self.crowded.saturating_sub(1);
        if self.keys.len() > self.most_keys {
            self.make_room();
        }
        if self.keys.len() > self.most_keys {
            self.forget(subject);
        }
    }

    /// What is known of one object, to be told once nobody waits for the recorder any more.
    #[must_use]
    pub fn look(&self, (kind, key): Subject<'_>, now: Moment) -> Look {
        let known = self.keys.get(&(kind, key.clone()));
        let runs = self.keys.values().filter_map(|key| key.run.as_deref());
        Look {
            kind,
            key: key.clone(),
            ring: self.ring.copy(),
            run: known.and_then(|key| key.run.as_deref()).cloned(),
            oldest_run: runs.map(|run| run.at).min(),
            waiting: known.and_then(|key| key.waiting(now)),
        }
    }

    /// About how many bytes are in use.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.ring.size() + self.runs.0 + self.keys.len() * size_of::<((&str, ObjectKey), Key)>()
    }

    /// What is known of a key; none where too many are known of already.
    fn key(&mut self, (kind, key): Subject<'_>) -> Option<&mut Key> {
        let name = (kind, key.clone());
        if !self.has_room(&name) {
            return None;
        }
        Some(self.keys.entry(name).or_default())
    }

    /// Whether a key is known, or may be; makes room for it if there is none.
    fn has_room(&mut self, name: &(&'static str, ObjectKey)) -> bool {
        if self.keys.len() < self.most_keys || self.keys.contains_key(name) {
            return true;
        }
        self.make_room();
        self.keys.len() < self.most_keys
    }

    /// Puts all runs into the ring, and forgets keys that only wait for a time until a quarter is free, those first that
    /// are due last. What woke a key, or blocks it, is not forgotten for another.
    fn make_room(&mut self) {
        if self.crowded > 0 {
            return;
        }
        self.keep_runs();
        let most = self.most_keys - self.most_keys.div_ceil(4);
        let timed = self.keys.iter().filter_map(|(name, key)| Some((key.only_due()?, name.clone())));
        let mut timed: Vec<_> = timed.collect();
        timed.sort_by_key(|(at, _)| Reverse(*at));
        for (_, name) in timed.iter().take(self.keys.len().saturating_sub(most)) {
            self.keys.remove(name);
        }
        // To look at all keys costs as much as many syncs do: not for each of the many that come to a full house.
        if self.keys.len() >= self.most_keys {
            self.crowded = (self.most_keys / 16).max(1);
        }
    }

    fn running(&mut self, (kind, key): Subject<'_>) -> Option<&mut Key> {
        self.keys.get_mut(&(kind, key.clone()))
    }

    /// The keys of these namespaces are another manager's from now on: here nothing waits for anything any more. What has ended is kept.
    pub fn left(&mut self, is_left: impl Fn(&str) -> bool) {
        for (_, known) in self.keys.iter_mut().filter(|((_, key), _)| is_left(&key.namespace)) {
            *known = Key { run: known.run.take(), ..Key::default() };
        }
        self.keys.retain(|_, key| !key.is_idle());
    }

    /// Keeps a sync that has ended: a quiet one with those before it that were the same.
    fn keep(&mut self, subject: Subject<'_>, flight: Flight) {
        let quiet = flight.is_quiet();
        let Some(key) = self.running(subject) else { return };
        let before = key.run.take();
        let mut sync = flight.sync;
        let mut ended = None;
        if let Some(before) = before {
            self.runs.0 = self.runs.0.saturating_sub(size_of_run(&before));
            if quiet && is_same(&before, &sync) {
                (sync.at, sync.count) = (before.at, before.count.saturating_add(1));
            } else {
                ended = Some(before);
            }
        }
        if let Some(ended) = ended {
            self.push(subject, &ended);
        }
        if !quiet {
            self.push(subject, &sync);
            self.forget_if_idle(subject);
            return;
        }
        self.runs.0 += size_of_run(&sync);
        if let Some(key) = self.running(subject) {
            key.run = Some(Box::new(sync));
        }
        // To look at all keys costs as much as many syncs do, so that it has to be worth it.
        let (bytes, most) = self.runs;
        if bytes > most {
            self.keep_runs();
        }
    }

    /// Puts all runs into the ring, and forgets the keys of which nothing else is known.
    fn keep_runs(&mut self) {
        self.runs.0 = 0;
        let mut keys = std::mem::take(&mut self.keys);
        let mut runs: Vec<_> =
            keys.iter_mut().filter_map(|(name, key)| Some((name.clone(), key.run.take()?))).collect();
        runs.sort_by_key(|(_, run)| run.until);
        for ((kind, key), run) in &runs {
            self.push((kind, key), run);
        }
        keys.retain(|_, key| !key.is_idle());
        self.keys = keys;
    }

    fn push(&mut self, (kind, key): Subject<'_>, sync: &Sync<'_>) {
        self.scratch.clear();
        let head = Head::of(kind, &key.namespace, &key.name);
        let scratch = std::mem::take(&mut self.scratch);
        // Writing into memory does not fail, and what could not be written is not kept.
        if let Ok(record) = postcard::to_extend(&(head, sync), scratch) {
            self.ring.push(&record);
            self.scratch = record;
        }
    }

    /// Forgets a key that there is no room for. Its syncs are kept.
    fn forget(&mut self, subject: Subject<'_>) {
        let known = self.keys.remove(&(subject.0, subject.1.clone()));
        if let Some(run) = known.and_then(|key| key.run) {
            self.runs.0 = self.runs.0.saturating_sub(size_of_run(&run));
            self.push(subject, &run);
        }
    }

    fn forget_if_idle(&mut self, (kind, key): Subject<'_>) {
        let name = (kind, key.clone());
        if self.keys.get(&name).is_some_and(Key::is_idle) {
            self.keys.remove(&name);
        }
    }
}

/// A copy of what a recorder knows, with what it knows of one object.
#[derive(Debug)]
pub struct Look {
    kind: &'static str,
    key: ObjectKey,
    ring: Ring,
    run: Option<Sync<'static>>,
    oldest_run: Option<Timestamp>,
    waiting: Option<Waiting>,
}

impl Look {
    /// The syncs of the object that ended within `since`, and what it waits for.
    #[must_use]
    pub fn told(self, since: Option<Duration>, source: Source, wall: Timestamp) -> History {
        let Self { kind, key, mut ring, run, oldest_run, waiting } = self;
        let from = since.map_or(Timestamp::from_nanos(i64::MIN), |since| wall - since);
        let (mut oldest, mut earlier, mut syncs) = (None, None, Vec::new());
        let mut put = |sync: Sync<'static>| {
            if sync.until >= from { syncs.push(sync) } else { earlier = earlier.max(Some(sync.until)) }
        };
        for record in ring.records() {
            let Ok((head, rest)) = postcard::take_from_bytes::<Head<'_>>(record) else { continue };
            let is_it = head.is_of(kind, &key);
            if !is_it && oldest.is_some() {
                continue;
            }
            let Ok(sync) = postcard::from_bytes::<Sync<'static>>(rest) else { continue };
            oldest = Some(oldest.map_or(sync.at, |oldest: Timestamp| oldest.min(sync.at)));
            if is_it {
                put(sync);
            }
        }
        run.into_iter().for_each(put);
        History {
            kind: "History".to_owned(),
            format: FORMAT,
            at: wall,
            source,
            object: Named { kind: kind.to_owned(), namespace: key.namespace.to_string(), name: key.name.to_string() },
            oldest: oldest.into_iter().chain(oldest_run).min(),
            earlier,
            syncs,
            waiting,
        }
    }
}

impl Key {
    /// Takes what woke the sync that begins, and what it waited for.
    fn start(&mut self, now: Moment) -> (Vec<Wait<'static>>, Vec<Cause<'static>>, u32) {
        let mut waits = Vec::new();
        let mut wait = |on, time: Duration| {
            if !time.is_zero() {
                waits.push(Wait { on, time });
            }
        };
        let mut woken: Vec<Cause<'static>> = self.woken.drain(..).map(Cause::from).collect();
        let due = self.due.take_if(|(at, _)| *at <= now);
        if let Some((at, by)) = due {
            if let (Woken::Retry, Some(failed)) = (&by, self.failed) {
                wait(On::Backoff, at.saturating_since(failed));
            }
            if self.first.is_none_or(|first| at < first) {
                (self.first, self.ready) = (Some(at), self.ready.max(at));
            }
            woken.push(by.into());
        }
        if let Some(first) = self.first.take() {
            wait(On::Work, self.ready.saturating_since(first));
            wait(On::Queue, now.saturating_since(self.ready));
        }
        (waits, woken, std::mem::take(&mut self.more))
    }

    fn waiting(&self, now: Moment) -> Option<Waiting> {
        let (on, since) = self.waiting_on()?;
        let woken = self.woken.iter().cloned().map(Cause::from).collect();
        Some(Waiting { on, time: now.saturating_since(since), woken, more: self.more })
    }

    /// What it waits for, and since when.
    fn waiting_on(&self) -> Option<(On<'static>, Moment)> {
        if let Some(first) = self.first {
            return Some((if self.flight.is_some() { On::Work } else { On::Queue }, first));
        }
        if let Some((on, since)) = &self.blocked {
            return Some((on.clone(), *since));
        }
        self.failed.filter(|_| self.due.is_some()).map(|failed| (On::Backoff, failed))
    }

    /// When it is due, if it waits for that and nothing else is known of it.
    fn only_due(&self) -> Option<Moment> {
        let Self { woken, more: _, first, ready: _, due, failed: _, blocked, flight, run } = self;
        let waits = woken.is_empty() && first.is_none() && blocked.is_none() && flight.is_none() && run.is_none();
        due.as_ref().filter(|_| waits).map(|(at, _)| *at)
    }

    fn is_idle(&self) -> bool {
        let Self { woken, more: _, first, ready: _, due, failed, blocked, flight, run } = self;
        woken.is_empty()
            && first.is_none()
            && due.is_none()
            && failed.is_none()
            && blocked.is_none()
            && flight.is_none()
            && run.is_none()
    }
}

impl From<Woken> for Cause<'static> {
    fn from(woken: Woken) -> Self {
        match woken {
            Woken::Event { change, kind, name, version: ResourceVersion(version) } => {
                Self::Event { change, kind: kind.into(), name: name.to_string().into(), version }
            }
            Woken::Cache { kind, version: ResourceVersion(version) } => Self::Cache { kind: kind.into(), version },
            Woken::Timer => Self::Timer,
            Woken::Retry => Self::Retry,
            Woken::Expired => Self::Expired,
            Woken::Start => Self::Start,
        }
    }
}

/// Whether two quiet syncs found the same, in the words of the rules: numbers may differ. One with which a wait ended is
/// told apart, and so is one of another object of the name.
fn is_same(one: &Sync<'_>, other: &Sync<'_>) -> bool {
    let begins = |sync: &Sync<'_>| sync.waits.iter().any(|wait| !matches!(wait.on, On::Queue | On::Work));
    if one.uid != other.uid || begins(one) || begins(other) {
        return false;
    }
    let rules = one.why.iter().map(|reason| &reason.rule);
    one.summary == other.summary && rules.eq(other.why.iter().map(|reason| &reason.rule))
}

/// About how many bytes a run takes.
fn size_of_run(run: &Sync<'_>) -> usize {
    let why: usize = run.why.iter().map(|reason| size_of_val(reason) + reason.rule.len() + reason.text.len()).sum();
    let uid = run.uid.as_deref().map_or(0, str::len);
    size_of_val(run) + why + uid + size_of_val(&*run.woken) + size_of_val(&*run.waits) + size_of_val(&*run.saw)
}
