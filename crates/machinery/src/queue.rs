//! The work queue: keys to be worked on, each once, and by one worker at a time.
//!
//! ```text
//!                 add_after, add_rate_limited
//!                          |
//!                          v due
//!   add ----------------> ready --get--> in work --done--> (gone)
//!                          ^                |
//!                          +-- added again while in work --+
//! ```
//!
//! It behaves as client-go's rate-limiting queue (WQ-01 to WQ-05), but without locks and timers: the caller passes the
//! time, and asks when to come back ([`WorkQueue::next_wakeup`]).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use muster_objects::Moment;

use crate::hash::FixedMap;
use crate::rate::TokenBucket;

/// The first retry of a key waits this long; each further one twice as long (WQ-03).
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// The longest backoff of one key (WQ-03).
pub const MAX_DELAY: Duration = Duration::from_secs(1_000);

/// Gets what happens to the keys, for metrics (CM-08). `()` does nothing.
pub trait QueueObserver {
    /// A key was added that was not already waiting.
    fn added(&mut self) {}

    /// A worker took a key after it had been ready for this long.
    fn started(&mut self, _queued: Duration) {}

    /// A worker finished a key after this long.
    fn finished(&mut self, _worked: Duration) {}

    /// A key was added with a delay.
    fn retried(&mut self) {}
}

impl QueueObserver for () {}

/// The state of a key in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// For how long it has been dirty: it waits for a worker, or for the one that has it to finish; `None` if it is not.
    pub ready_for: Option<Duration>,
    /// For how long a worker has been working on it; `None` if none is.
    pub in_work_for: Option<Duration>,
    /// How long until a delayed addition; `None` if there is none.
    pub due_in: Option<Duration>,
    /// How often it was added with a rate limit since `forget`.
    pub requeues: u32,
}

/// A queue of keys.
#[derive(Debug)]
pub struct WorkQueue<K, O = ()> {
    /// Keys to be handed out, first in, first out. Each is dirty and not in work.
    ready: VecDeque<K>,
    /// Keys to be added at a moment. The number orders keys of the same moment.
    waiting: BTreeMap<(Moment, u64), K>,
    next_number: u64,
    /// The state of each key that is in the queue or has failed.
    keys: FixedMap<K, KeyState>,
    /// Those that are in work, since the longest first. They are no more than there are workers.
    in_work: Vec<K>,
    bucket: TokenBucket,
    shutting_down: bool,
    observer: O,
}

#[derive(Debug, Clone, Copy, Default)]
struct KeyState {
    /// Dirty since when; set while ready, and if added again while in work.
    dirty: Option<Moment>,
    /// In work since when.
    in_work: Option<Moment>,
    /// Its place in `waiting`.
    waiting: Option<(Moment, u64)>,
    /// How often it was added with a rate limit since `forget`.
    requeues: u32,
}

impl KeyState {
    fn is_only_delayed(&self) -> bool {
        self.dirty.is_none() && self.in_work.is_none()
    }

    fn is_blank(&self) -> bool {
        self.dirty.is_none() && self.in_work.is_none() && self.waiting.is_none() && self.requeues == 0
    }
}

impl<K: Hash + Eq + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Clone> WorkQueue<K> {
    /// An empty queue without an observer.
    #[must_use]
    pub fn new() -> Self {
        Self::observed(())
    }
}

impl<K: Hash + Eq + Clone, O: QueueObserver> WorkQueue<K, O> {
    /// An empty queue.
    #[must_use]
    pub fn observed(observer: O) -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            next_number: 0,
            keys: FixedMap::default(),
            in_work: Vec::new(),
            bucket: TokenBucket::new(Duration::from_millis(100), 100),
            shutting_down: false,
            observer,
        }
    }

    /// Marks a key as dirty. Nothing happens if it already is; if it is in work, it is handed out again when that is
    /// done (WQ-01).
    pub fn add(&mut self, key: K, now: Moment) {
        if self.shutting_down {
            return;
        }
        let state = self.keys.entry(key.clone()).or_default();
        if state.dirty.is_some() {
            return;
        }
        state.dirty = Some(now);
        self.observer.added();
        if state.in_work.is_none() {
            self.ready.push_back(key);
        }
    }

    /// Adds a key once `delay` has passed. Of several pending delays the earliest counts (WQ-02).
    pub fn add_after(&mut self, key: K, delay: Duration, now: Moment) {
        if self.shutting_down {
            return;
        }
        self.observer.retried();
        if delay.is_zero() {
            self.add(key, now);
            return;
        }
        let at = now + delay;
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(place) = state.waiting {
            if place.0 <= at {
                return;
            }
            self.waiting.remove(&place);
        }
        let place = (at, self.next_number);
        self.next_number += 1;
        state.waiting = Some(place);
        self.waiting.insert(place, key);
    }

    /// Adds a key after the longer of its own backoff (5 ms, doubling to 1000 s) and of the wait for the token bucket
    /// of all keys (10 a second, burst 100); returns that delay (WQ-03).
    pub fn add_rate_limited(&mut self, key: K, now: Moment) -> Duration {
        self.add_rate_limited_at_most(key, MAX_DELAY, now)
    }

    /// The same with the key's own backoff at most `cap`: for failures whose cause can end by itself (B-09).
    pub fn add_rate_limited_at_most(&mut self, key: K, cap: Duration, now: Moment) -> Duration {
        self.add_rate_limited_between(key, Duration::ZERO, cap, now)
    }

    /// The same with the key's own backoff at least `floor`, whatever the cap: for failures with a `Retry-After`.
    pub fn add_rate_limited_between(&mut self, key: K, floor: Duration, cap: Duration, now: Moment) -> Duration {
        let state = self.keys.entry(key.clone()).or_default();
        let own = own_backoff(state.requeues).min(cap).max(floor);
        state.requeues = state.requeues.saturating_add(1);
        let delay = own.max(self.bucket.reserve(now));
        self.add_after(key, delay, now);
        delay
    }

    /// Resets the failures of a key: its backoff starts from the beginning. Pending delays are kept.
    pub fn forget(&mut self, key: &K) {
        if let Some(state) = self.keys.get_mut(key) {
            state.requeues = 0;
            self.drop_if_blank(key);
        }
    }

    /// How often a key was added with a rate limit since `forget`.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.keys.get(key).map_or(0, |state| state.requeues)
    }

    /// The state of a key.
    #[must_use]
    pub fn place(&self, key: &K, now: Moment) -> Place {
        let Some(state) = self.keys.get(key) else { return Place::default() };
        Place {
            ready_for: state.dirty.map(|since| now.saturating_since(since)),
            in_work_for: state.in_work.map(|since| now.saturating_since(since)),
            due_in: state.waiting.map(|(at, _)| at.saturating_since(now)),
            requeues: state.requeues,
        }
    }

    /// The first keys, `most` at most, with their states: those in work, those that are ready in the order in which they
    /// will be handed out, and those with a delay by when it ends. Costs what so many keys cost, however many there are.
    #[must_use]
    pub fn first(&self, most: usize, now: Moment) -> Vec<(K, Place)> {
        // A key in work can have a delay as well.
        let delayed = self.waiting.values().filter(|key| self.keys.get(*key).is_none_or(KeyState::is_only_delayed));
        let keys = self.in_work.iter().chain(&self.ready).chain(delayed);
        keys.take(most).map(|key| (key.clone(), self.place(key, now))).collect()
    }

    /// Hands out the next key; [`WorkQueue::done`] must follow. `None` if no key is ready: then
    /// [`WorkQueue::next_wakeup`] says when one will be.
    pub fn get(&mut self, now: Moment) -> Option<K> {
        self.advance(now);
        let key = self.ready.pop_front()?;
        let state = self.keys.entry(key.clone()).or_default();
        let queued = state.dirty.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
        state.in_work = Some(now);
        self.in_work.push(key.clone());
        self.observer.started(queued);
        Some(key)
    }

    /// Ends the work on a key. If it was added meanwhile, it is ready again.
    pub fn done(&mut self, key: &K, now: Moment) {
        let Some(state) = self.keys.get_mut(key) else { return };
        let Some(since) = state.in_work.take() else { return };
        self.in_work.retain(|other| other != key);
        self.observer.finished(now.saturating_since(since));
        if state.dirty.is_some() {
            self.ready.push_back(key.clone());
        } else {
            self.drop_if_blank(key);
        }
    }

    /// Makes every key ready whose delay has passed. [`WorkQueue::get`] does this itself; a caller that reports the
    /// queue's length does it first.
    pub fn advance(&mut self, now: Moment) {
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            if let Some(state) = self.keys.get_mut(&key) {
                state.waiting = None;
            }
            self.add(key, now);
        }
    }

    /// When to ask again: at once (the present moment or earlier) if a key is ready, else when the first delay ends;
    /// `None` if there is no delay.
    #[must_use]
    pub fn next_wakeup(&self, now: Moment) -> Option<Moment> {
        if self.ready.is_empty() { self.waiting.first_key_value().map(|((at, _), _)| *at) } else { Some(now) }
    }

    /// Refuses every further key, and drops those whose delay has not passed. Ready keys can still be taken, and keys
    /// in work finish (WQ-05).
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        for key in std::mem::take(&mut self.waiting).into_values() {
            if let Some(state) = self.keys.get_mut(&key) {
                state.waiting = None;
                self.drop_if_blank(&key);
            }
        }
    }

    /// Whether the queue was shut down.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether no key is ready or in work, which ends a shutdown.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.in_work.is_empty()
    }

    /// How many keys are ready to be taken: the metric `workqueue_depth`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no key is ready to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// How many keys are in work.
    #[must_use]
    pub fn in_work(&self) -> usize {
        self.in_work.len()
    }

    /// How many keys have a delay that has not ended.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.waiting.len()
    }

    /// The sum of how long the keys in work have been so, and the longest of them: the metrics
    /// `workqueue_unfinished_work_seconds` and `workqueue_longest_running_processor_seconds`.
    #[must_use]
    pub fn unfinished_work(&self, now: Moment) -> (Duration, Duration) {
        let ages = self.in_work.iter().filter_map(|key| self.place(key, now).in_work_for);
        ages.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), age| (sum.saturating_add(age), longest.max(age)))
    }

    /// The observer.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    fn drop_if_blank(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(KeyState::is_blank) {
            self.keys.remove(key);
        }
    }
}

/// 5 ms times 2 to the number of requeues so far, at most 1000 s.
fn own_backoff(requeues: u32) -> Duration {
    1_u32.checked_shl(requeues).map_or(MAX_DELAY, |factor| BASE_DELAY.saturating_mul(factor).min(MAX_DELAY))
}
