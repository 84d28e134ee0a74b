//! One watch of a kind for all ranges that a process reads at the moment (SH-04).
//!
//! ```text
//!   server --frames--> SharedWatch --those within range a--> Line --> informer of range a
//!                        |    |-----those within range b--> Line --> informer of range b
//!                        +-- other frames are dropped undecoded
//! ```
//!
//! Each shard that a process holds has informers of its own, which come and go. They share the watches: where the server
//! shards, a watch asks for the ranges of its subscribers, and is opened again from its position when one comes that is not
//! within; elsewhere it is a watch of everything. A subscriber is told the position from which on every event will come to
//! it, and lists its range after that, so that nothing is lost between the two.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use muster_objects::{HashRange, ResourceVersion};
use rand::{SeedableRng, rngs::SmallRng};
use tokio::{sync::Notify, task::AbortHandle};

use super::{
    WatchedResource,
    shared_reader::Reader,
    store::Failing,
    subscription::{Item, Line, Over},
};
use crate::{
    client::{Client, Encoding},
    process::of_the_same,
};

/// The shared watches of a process.
#[derive(Debug, Default)]
pub(crate) struct SharedWatches {
    known: Mutex<BTreeMap<(WatchedResource, bool), Weak<SharedWatch>>>,
}

/// The watch of one kind. It ends when nobody has it any more.
#[derive(Debug)]
pub(super) struct SharedWatch {
    pub(super) state: Arc<Shared>,
    task: AbortHandle,
}

/// A range's place in a shared watch, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) line: Arc<Line>,
    watch: Arc<SharedWatch>,
    number: u64,
}

/// What the watch's task and its subscribers share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    lines: Mutex<BTreeMap<u64, Subscriber>>,
    numbers: AtomicU64,
    /// A subscriber has come.
    pub(super) came: Notify,
    pub(super) failing: Arc<Failing>,
    /// Whether the server shards lists and watches, as far as is known.
    shards: AtomicBool,
}

#[derive(Debug)]
struct Subscriber {
    line: Arc<Line>,
    /// Whether it needs a watch that is opened after it has come.
    fresh: bool,
}

impl SharedWatches {
    /// The watch of a resource, of whatever range, in `encoding`; made where there is none, drawing from `random`.
    pub(super) fn of(
        &self,
        client: &Client,
        resource: &WatchedResource,
        encoding: Encoding,
        random: &mut SmallRng,
    ) -> Arc<SharedWatch> {
        let resource = WatchedResource { range: None, ..resource.clone() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (resource.clone(), encoding == Encoding::Protobuf);
        if let Some(watch) = known.get(&key).and_then(Weak::upgrade) {
            return watch;
        }
        known.retain(|_, watch| watch.strong_count() > 0);
        let state = Arc::<Shared>::default();
        let reader = Reader::new(client.clone(), resource, encoding, SmallRng::from_rng(random), Arc::clone(&state));
        let task = tokio::spawn(of_the_same(reader.run())).abort_handle();
        let watch = Arc::new(SharedWatch { state, task });
        known.insert(key, Arc::downgrade(&watch));
        watch
    }
}

impl SharedWatch {
    /// Subscribes to a range. `fresh` asks for a watch that is opened after this call: the present one may be dead.
    pub(super) fn subscribe(self: &Arc<Self>, range: HashRange, fresh: bool) -> Subscription {
        let line = Arc::new(Line::new(range));
        let number = self.state.numbers.fetch_add(1, Ordering::Relaxed);
        self.state.lock().insert(number, Subscriber { line: Arc::clone(&line), fresh });
        self.state.came.notify_one();
        Subscription { line, watch: Arc::clone(self), number }
    }
}

impl Drop for SharedWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.watch.state.lock().remove(&self.number);
    }
}

impl Shared {
    /// The ranges of all who are there, also of those who are about to subscribe again; at most so many.
    pub(super) fn ranges(&self, at_most: usize) -> Vec<HashRange> {
        HashRange::union(self.lock().values().map(|subscriber| subscriber.line.range), at_most)
    }

    /// The number that the next subscriber gets.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// Admits those whom a watch includes that was opened when `next` was the next subscriber's number: each gets
    /// every event after `position` from here on. Says whether others are waiting.
    pub(super) fn admit(&self, within: &[HashRange], next: u64, position: ResourceVersion) -> bool {
        let mut waiting = false;
        for (number, Subscriber { line, fresh }) in self.lock().iter().filter(|(_, other)| other.line.is_waiting()) {
            let included = within.iter().any(|range| range.has_range(line.range));
            if included && (!fresh || *number < next) {
                line.open(position);
            } else {
                waiting = true;
            }
        }
        waiting
    }

    /// Gives an item to those whose range has `hash`; to all where it is not known.
    pub(super) fn give(&self, hash: Option<u64>, item: impl Fn() -> Item) {
        for Subscriber { line, .. } in self.lock().values() {
            if hash.is_none_or(|hash| line.range.has(hash)) && line.is_open() {
                line.push(item());
            }
        }
    }

    /// Tells everyone who has begun to list again.
    pub(super) fn begin_anew(&self) {
        self.lock().values().filter(|other| other.line.is_open()).for_each(|other| other.line.end(Over::Anew));
    }

    pub(super) fn break_off(&self) {
        self.lock().values().for_each(|subscriber| subscriber.line.break_off());
    }

    /// Whether the server shards lists and watches, as far as is known.
    pub(super) fn shards(&self) -> bool {
        self.shards.load(Ordering::Relaxed)
    }

    pub(super) fn set_shards(&self, shards: bool) {
        self.shards.store(shards, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Subscriber>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
