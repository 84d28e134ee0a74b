//! The work queue: keys to be worked on, each once, by one worker at a time, and fairly among namespaces.
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
//! time, and asks when to come back ([`WorkQueue::next_wakeup`]). In what order keys are handed out differs:
//!
//! - Namespaces take turns (SH-07, B-27): `turns`.
//! - What changed comes before what a start or a resync added: `lanes`. A key that waits among the latter and changes is
//!   moved. What a delay or a backoff adds counts as a change: somebody waits for it, and retries are ten a second.
//! - Namespaces take turns for retries as well, so that one whose keys all fail holds up no other (B-28): `retries`.

mod keys;
mod lanes;
mod list;
mod retries;
mod slots;
mod turns;

#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Moment;

pub use self::keys::Namespaced;
use self::keys::{Keys, Known};
use self::lanes::Lanes;
pub use self::lanes::{Priority, TURNS_FOR_ONE_OF_LOW_PRIORITY};
use self::retries::Retries;
use self::slots::Slot;

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
pub struct WorkQueue<K: Namespaced, O = ()> {
    /// Keys to be handed out. Each is dirty and not in work.
    ready: Lanes<K::Namespace>,
    /// Keys to be added at a moment. The number orders keys of the same moment.
    timers: BTreeMap<(Moment, u64), Slot>,
    next_number: u64,
    /// Failed keys that wait for a token besides their own backoff.
    retries: Retries<K::Namespace>,
    /// How many keys have a timer, or wait for a token.
    delayed: usize,
    /// Every key that is in the queue or has failed.
    keys: Keys<K>,
    /// Those that are in work and since when, the longest first. They are no more than there are workers.
    in_work: Vec<(Slot, Moment)>,
    shutting_down: bool,
    observer: O,
}

impl<K: Namespaced> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Namespaced> WorkQueue<K> {
    /// An empty queue without an observer.
    #[must_use]
    pub fn new() -> Self {
        Self::observed(())
    }
}

impl<K: Namespaced, O: QueueObserver> WorkQueue<K, O> {
    /// An empty queue.
    #[must_use]
    pub fn observed(observer: O) -> Self {
        Self {
            ready: Lanes::default(),
            timers: BTreeMap::new(),
            next_number: 0,
            retries: Retries::default(),
            delayed: 0,
            keys: Keys::default(),
            in_work: Vec::new(),
            shutting_down: false,
            observer,
        }
    }

    /// Marks a key as dirty, because something changed. Nothing happens if it already is; if it is in work, it is handed
    /// out again when that is done (WQ-01).
    pub fn add(&mut self, key: K, now: Moment) {
        self.add_with(key, Priority::Normal, now);
    }

    /// The same with a priority (SH-07). A key that waits with a low priority is moved when it is added with another.
    pub fn add_with(&mut self, key: K, priority: Priority, now: Moment) {
        if !self.shutting_down {
            let slot = self.keys.enter(key);
            self.make_dirty(slot, priority, now);
        }
    }

    /// Adds a key once `delay` has passed. Of several pending delays the earliest counts (WQ-02).
    pub fn add_after(&mut self, key: K, delay: Duration, now: Moment) {
        if self.shutting_down {
            return;
        }
        self.observer.retried();
        let slot = self.keys.enter(key);
        if delay.is_zero() {
            self.make_dirty(slot, Priority::Normal, now);
        } else {
            self.set_timer(slot, now + delay, now);
        }
    }

    /// Adds a key after the longer of its own backoff (5 ms, doubling to 1000 s) and of the wait for the tokens of all
    /// keys (10 a second, burst 100), for which namespaces take turns; returns that delay (WQ-03, B-28). It takes longer
    /// where other namespaces come to wait as well.
    pub fn add_rate_limited(&mut self, key: K, now: Moment) -> Duration {
        self.add_rate_limited_at_most(key, MAX_DELAY, now)
    }

    /// The same with the key's own backoff at most `cap`: for failures whose cause can end by itself (B-09).
    pub fn add_rate_limited_at_most(&mut self, key: K, cap: Duration, now: Moment) -> Duration {
        self.add_rate_limited_between(key, Duration::ZERO, cap, now)
    }

    /// The same with the key's own backoff at least `floor`, whatever the cap: for failures with a `Retry-After`.
    pub fn add_rate_limited_between(&mut self, key: K, floor: Duration, cap: Duration, now: Moment) -> Duration {
        let requeues = self.num_requeues(&key);
        let own = own_backoff(requeues).min(cap).max(floor);
        if self.shutting_down {
            return own;
        }
        self.observer.retried();
        self.grant(now);
        let slot = self.keys.enter(key);
        let known = &mut self.keys[slot];
        known.requeues = requeues.saturating_add(1);
        let place = match known.retry {
            Some(place) => {
                self.retries.shorten(place, now + own);
                Some(place)
            }
            None => self.retries.ask(known.key.namespace(), slot, now + own, now),
        };
        let Some(place) = place else {
            self.set_timer(slot, now + own, now);
            return own;
        };
        self.delay(slot, |known| known.retry = Some(place));
        self.retries.get(place).expected.saturating_since(now)
    }

    /// Resets the failures of a key: its backoff starts from the beginning. Pending delays are kept.
    pub fn forget(&mut self, key: &K) {
        if let Some(slot) = self.keys.find(key) {
            self.keys[slot].requeues = 0;
            self.keys.drop_if_blank(slot);
        }
    }

    /// How often a key was added with a rate limit since `forget`.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.keys.find(key).map_or(0, |slot| self.keys[slot].requeues)
    }

    /// The state of a key.
    #[must_use]
    pub fn place(&self, key: &K, now: Moment) -> Place {
        self.keys.find(key).map_or_else(Place::default, |slot| self.place_of(slot, now))
    }

    fn place_of(&self, slot: Slot, now: Moment) -> Place {
        let Known { dirty, timer, retry, requeues, .. } = &self.keys[slot];
        let in_work = self.in_work.iter().find(|(other, _)| *other == slot);
        let token = retry.map(|place| self.retries.get(place).expected);
        let due = timer.map(|(at, _)| at).into_iter().chain(token).min();
        Place {
            ready_for: dirty.map(|since| now.saturating_since(since)),
            in_work_for: in_work.map(|(_, since)| now.saturating_since(*since)),
            due_in: due.map(|at| at.saturating_since(now)),
            requeues: *requeues,
        }
    }

    /// The first keys, `most` at most, with their states: those in work, those that are ready in the order in which they
    /// will be handed out, and those with a delay by when it ends. Costs what so many keys cost, however many there are.
    #[must_use]
    pub fn first(&self, most: usize, now: Moment) -> Vec<(K, Place)> {
        let with_place = |slot: &Slot| (self.keys[*slot].key.clone(), self.place_of(*slot, now));
        let in_work = self.in_work.iter().map(|(slot, _)| slot);
        let mut first: Vec<_> = in_work.chain(self.ready.iter()).take(most).map(with_place).collect();
        // A key in work can have a delay as well, and one with a timer can wait for a token.
        let timed = self.timers.values().filter(|slot| self.keys[**slot].is_only_delayed());
        let waits_alone = |slot: &&Slot| self.keys[**slot].is_only_delayed() && self.keys[**slot].timer.is_none();
        let waiting = self.retries.iter().map(|waiting| &waiting.key).filter(waits_alone);
        let left = most - first.len();
        let mut delayed: Vec<_> = timed.take(left).chain(waiting.take(left)).map(with_place).collect();
        delayed.sort_by_key(|(_, place)| place.due_in);
        delayed.truncate(left);
        first.append(&mut delayed);
        first
    }

    /// Hands out the next key; [`WorkQueue::done`] must follow. `None` if no key is ready: then
    /// [`WorkQueue::next_wakeup`] says when one will be.
    pub fn get(&mut self, now: Moment) -> Option<K> {
        self.advance(now);
        let slot = self.ready.pop()?;
        let known = &mut self.keys[slot];
        known.ready = None;
        known.in_work = true;
        let queued = known.dirty.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
        self.in_work.push((slot, now));
        self.observer.started(queued);
        Some(known.key.clone())
    }

    /// Ends the work on a key. If it was added meanwhile, it is ready again.
    pub fn done(&mut self, key: &K, now: Moment) {
        let Some(slot) = self.keys.find(key) else { return };
        let Some(at) = self.in_work.iter().position(|(other, _)| *other == slot) else { return };
        let (_, since) = self.in_work.remove(at);
        self.observer.finished(now.saturating_since(since));
        let known = &mut self.keys[slot];
        known.in_work = false;
        if known.dirty.is_some() {
            known.ready = Some(self.ready.push(known.priority, known.key.namespace(), slot));
        } else {
            self.keys.drop_if_blank(slot);
        }
    }

    /// Makes every key ready whose delay has passed. [`WorkQueue::get`] does this itself; a caller that reports the
    /// queue's length does it first.
    pub fn advance(&mut self, now: Moment) {
        self.grant(now);
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let slot = *entry.get();
            self.come_due(slot, now);
        }
    }

    /// Gives those who wait for tokens what has come of them.
    fn grant(&mut self, now: Moment) {
        while let Some(granted) = self.retries.grant(now) {
            self.delay(granted.key, |known| known.retry = None);
            self.set_timer(granted.key, granted.until, now);
        }
    }

    /// When to ask again: at once (the present moment or earlier) if a key is ready, else when the first delay ends or
    /// the next token comes; `None` if there is no delay.
    #[must_use]
    pub fn next_wakeup(&self, now: Moment) -> Option<Moment> {
        if !self.ready.is_empty() {
            return Some(now);
        }
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        timer.into_iter().chain(self.retries.next()).min()
    }

    /// Gives every key that is ready a low priority, in the order in which they are: all of them were added by a start.
    /// Costs what so many keys cost.
    pub fn lower_all(&mut self) {
        while let Some(slot) = self.ready.pop_of(Priority::Normal) {
            let known = &mut self.keys[slot];
            known.priority = Priority::Low;
            known.ready = Some(self.ready.push(Priority::Low, known.key.namespace(), slot));
        }
    }

    /// Refuses every further key, and drops those whose delay has not passed. Ready keys can still be taken, and keys
    /// in work finish (WQ-05).
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        for slot in std::mem::take(&mut self.timers).into_values() {
            self.delay(slot, |known| known.timer = None);
            self.keys.drop_if_blank(slot);
        }
        while let Some(waiting) = self.retries.pop() {
            self.delay(waiting.key, |known| known.retry = None);
            self.keys.drop_if_blank(waiting.key);
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

    /// How many keys are dirty, those that are in work among them: the metric `workqueue_depth`.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.len() + self.in_work.iter().filter(|(slot, _)| self.keys[*slot].dirty.is_some()).count()
    }

    /// How many keys are ready to be taken.
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
        self.delayed
    }

    /// The sum of how long the keys in work have been so, and the longest of them: the metrics
    /// `workqueue_unfinished_work_seconds` and `workqueue_longest_running_processor_seconds`.
    #[must_use]
    pub fn unfinished_work(&self, now: Moment) -> (Duration, Duration) {
        let ages = self.in_work.iter().map(|(_, since)| now.saturating_since(*since));
        ages.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), age| (sum.saturating_add(age), longest.max(age)))
    }

    /// The observer.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    fn make_dirty(&mut self, slot: Slot, priority: Priority, now: Moment) {
        let known = &mut self.keys[slot];
        match known.dirty {
            Some(_) if known.priority >= priority => return,
            Some(_) => {
                if let Some(place) = known.ready.take() {
                    self.ready.remove(known.priority, place);
                }
            }
            None => {
                known.dirty = Some(now);
                self.observer.added();
            }
        }
        known.priority = priority;
        if !known.in_work {
            known.ready = Some(self.ready.push(priority, known.key.namespace(), slot));
        }
    }

    /// Has the key added at a moment, unless it has an earlier timer.
    fn set_timer(&mut self, slot: Slot, at: Moment, now: Moment) {
        if at <= now {
            return self.come_due(slot, now);
        }
        if let Some(place) = self.keys[slot].timer {
            if place.0 <= at {
                return;
            }
            self.timers.remove(&place);
        }
        let place = (at, self.next_number);
        self.next_number += 1;
        self.timers.insert(place, slot);
        self.delay(slot, |known| known.timer = Some(place));
    }

    /// Adds a key whose delay has passed. Its other delay, if it has one, counts no more (WQ-02).
    fn come_due(&mut self, slot: Slot, now: Moment) {
        let Known { timer, retry, .. } = self.keys[slot];
        if let Some(place) = timer {
            self.timers.remove(&place);
        }
        if let Some(place) = retry {
            self.retries.cancel(place);
        }
        self.delay(slot, |known| (known.timer, known.retry) = (None, None));
        self.make_dirty(slot, Priority::Normal, now);
    }

    /// Changes the delays of a key, and counts.
    fn delay(&mut self, slot: Slot, change: impl FnOnce(&mut Known<K>)) {
        let known = &mut self.keys[slot];
        self.delayed -= usize::from(known.is_delayed());
        change(known);
        self.delayed += usize::from(known.is_delayed());
    }
}

/// 5 ms times 2 to the number of requeues so far, at most 1000 s.
fn own_backoff(requeues: u32) -> Duration {
    1_u32.checked_shl(requeues).map_or(MAX_DELAY, |factor| BASE_DELAY.saturating_mul(factor).min(MAX_DELAY))
}
