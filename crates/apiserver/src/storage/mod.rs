//! Storage: a versioned ordered map of objects with a watch history.
//!
//! ```text
//!   commit (one lock) --> version + 1 --> table[namespace][name]      what is
//!                                     \-> history (per resource)      what happened
//!                                             ^          ^
//!                                     cursor of a watch  a list at an older version:
//!                                     (pulls, in order)  what is, with later events undone
//! ```
//!
//! Every write takes one lock, gets the next version of one global counter (API-07), and appends one
//! event to its resource's history. A watch is a cursor into that history, so the order in which every
//! watcher sees events is the order of commits by construction (API-09), and nothing is ever buffered for a
//! watcher that does not read (API-22): it falls behind until the history has moved on, and is ended.
//! A list at an older version is the present with the later events undone.
//!
//! Objects are immutable JSON bytes; see [`Entry`]. Where they are kept on a disk too, [`disk`] says what that changes.

pub mod disk;
mod entry;
mod stencil;
mod table;
mod tables;
mod text;
mod wakers;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use muster_tree::Map;
use tokio::sync::Notify;
use tokio::time::Instant;

use disk::{Change, Queue, Refusal, WriteError};
pub use entry::{Draft, Entry, LabelSet, Pieces, line};
pub use stencil::Stencil;
pub use table::Range;
use table::Table;
use tables::Waiting;
use text::Dictionaries;
use wakers::Wakers;
pub use wakers::{Common, Of};
pub use watch::{Cursor, Event, EventKind, Fallen};

/// A kind of stored object: the name of its table, which is never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

/// How much history is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Events are kept at least this long, while `bytes` allows it (API-09).
    pub window: Duration,
    /// Events are dropped, oldest first, when the objects that only history holds exceed this many bytes.
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { window: Duration::from_secs(5 * 60 + 30), bytes: 512 << 20 }
    }
}

/// Why a commit did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// A create found an object of that name.
    Exists(Arc<Entry>),
    /// An update or delete found nothing.
    Missing,
    /// An update or delete found another version than it was made from.
    Changed,
    /// The disk refused what was committed before, and has to be written to again before it gets more.
    Unwritten(WriteError),
}

/// The versioned map. All methods take one short lock.
#[derive(Debug)]
pub struct Storage {
    inner: Mutex<Inner>,
    /// The version of the last commit, to be read without the lock.
    version: AtomicU64,
    /// How often it was put back to an earlier version.
    restores: AtomicU64,
    /// Commits up to this version may be told to others: they are on disk, or there is none.
    durable: AtomicU64,
    /// How often commits were undone because the disk refused them.
    undone: AtomicU64,
    /// What was undone last.
    refusal: Mutex<Option<Refusal>>,
    /// Told when `durable` has risen, or commits were undone.
    risen: Notify,
    /// Told when there is something to write.
    filled: Condvar,
    retention: Retention,
    /// What old versions are compressed with.
    dictionaries: Dictionaries,
}

#[derive(Debug)]
struct Inner {
    version: u64,
    tables: BTreeMap<ResourceId, Table>,
    /// What happened last in tables that are no more, for the watches that end with them.
    ended: BTreeMap<ResourceId, Table>,
    /// Objects of tables whose kinds are still to come.
    waiting: BTreeMap<Arc<str>, Waiting>,
    /// The keys of what was kept and is no object.
    unreadable: Vec<String>,
    /// What is still to be written to a disk; `None` where there is none.
    queue: Option<Queue>,
    /// The name of the next table.
    next: u32,
    /// All events that the tables' histories hold, oldest first: when, whose, and its size.
    timeline: VecDeque<Moment>,
    /// The sum of the sizes in `timeline`.
    bytes: usize,
    /// The version of the newest event that was dropped; versions below it cannot be seen any more.
    compacted: u64,
    /// Versions that are no longer new, to be compressed without the lock.
    aged: Vec<(ResourceId, Arc<Entry>)>,
    /// The versions that were written last, those of which a tree is held among them.
    lately: VecDeque<Weak<Entry>>,
}

/// Of so many versions at most a tree is held.
const TREES: usize = 128;

#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    version: u64,
    resource: ResourceId,
    bytes: usize,
}

/// The objects of a table, with its name.
pub type Named = (Arc<str>, Vec<Arc<Entry>>);

impl Storage {
    /// A storage without tables. The first commit gets version `first`.
    #[must_use]
    pub fn new(first: u64, retention: Retention) -> Self {
        let version = first.saturating_sub(1);
        Self {
            inner: Mutex::new(Inner {
                version,
                tables: BTreeMap::new(),
                ended: BTreeMap::new(),
                waiting: BTreeMap::new(),
                unreadable: Vec::new(),
                queue: None,
                next: 0,
                timeline: VecDeque::new(),
                bytes: 0,
                compacted: 0,
                aged: Vec::new(),
                lately: VecDeque::new(),
            }),
            dictionaries: Dictionaries::default(),
            version: AtomicU64::new(version),
            restores: AtomicU64::new(0),
            durable: AtomicU64::new(u64::MAX),
            undone: AtomicU64::new(0),
            refusal: Mutex::default(),
            risen: Notify::new(),
            filled: Condvar::new(),
            retention,
        }
    }

    /// Ends the watches of a table: what they show is not what it shows from now on.
    pub fn end_watches(&self, resource: ResourceId) {
        let mut inner = self.lock();
        let Some(table) = inner.table_mut(resource) else { return };
        table.era += 1;
        let wakers = table.wakers.clone();
        drop(inner);
        wakers.wake_all();
    }

    /// The version of the last commit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// How often it was put back to an earlier version: what was read before is true no more, whatever the version.
    #[must_use]
    pub fn restores(&self) -> u64 {
        self.restores.load(Ordering::Acquire)
    }

    /// The present state of one object.
    #[must_use]
    pub fn get(&self, resource: ResourceId, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.lock().table(resource)?.get(namespace, name).cloned()
    }

    /// What counts the changes of a resource, to be read without the lock.
    #[must_use]
    pub fn changes(&self, resource: ResourceId) -> Arc<AtomicU64> {
        self.lock().table(resource).map(|table| Arc::clone(&table.changes)).unwrap_or_default()
    }

    /// How many objects a resource has.
    #[must_use]
    pub fn count(&self, resource: ResourceId) -> usize {
        self.lock().table(resource).map_or(0, Table::len)
    }

    /// Stores a new object.
    ///
    /// # Errors
    /// [`Refused::Exists`] when the name is taken; [`Refused::Unwritten`].
    pub fn create(&self, resource: ResourceId, draft: Draft) -> Result<Arc<Entry>, Refused> {
        let mut inner = self.lock();
        let version = inner.version + 1;
        let table = inner.table(resource).ok_or(Refused::Missing)?;
        if let Some(found) = table.get(&draft.namespace, &draft.name) {
            return Err(Refused::Exists(Arc::clone(found)));
        }
        inner.check_disk()?;
        let tree = draft.tree.clone();
        let entry = Arc::new(draft.at(version, EventKind::Added));
        inner.table_mut(resource).ok_or(Refused::Missing)?.insert(Arc::clone(&entry));
        self.record(inner, resource, Event::added(Arc::clone(&entry)), tree);
        Ok(entry)
    }

    /// Replaces an object that is still at version `expected`.
    ///
    /// # Errors
    /// [`Refused::Missing`], [`Refused::Changed`] or [`Refused::Unwritten`].
    pub fn update(&self, resource: ResourceId, draft: Draft, expected: u64) -> Result<Arc<Entry>, Refused> {
        let mut inner = self.lock();
        let (version, disk) = (inner.version + 1, inner.check_disk());
        let (namespace, name, tree) = (Arc::clone(&draft.namespace), Arc::clone(&draft.name), draft.tree.clone());
        let table = inner.table_mut(resource).ok_or(Refused::Missing)?;
        let (previous, entry) = table.replace(&namespace, &name, |present| {
            if present.version != expected {
                return Err(Refused::Changed);
            }
            disk.map(|()| Arc::new(draft.at(version, EventKind::Modified)))
        })?;
        self.record(inner, resource, Event::modified(Arc::clone(&entry), previous), tree);
        Ok(entry)
    }

    /// Removes an object that is still at version `expected`. Answers its last state, at the version
    /// of the removal.
    ///
    /// # Errors
    /// [`Refused::Missing`], [`Refused::Changed`] or [`Refused::Unwritten`].
    pub fn delete(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
        expected: u64,
    ) -> Result<Arc<Entry>, Refused> {
        let mut inner = self.lock();
        let previous = inner.expect(resource, namespace, name, expected)?;
        let version = inner.version + 1;
        let last = Arc::new(previous.deleted_at(version));
        inner.table_mut(resource).ok_or(Refused::Missing)?.remove(namespace, name);
        self.record(inner, resource, Event::deleted(Arc::clone(&last), previous), None);
        Ok(last)
    }

    /// A consistent view of a range of a resource: at `version`, or the present for `None`. With `limit`
    /// entries at most; the second part of the answer counts those beyond.
    ///
    /// # Errors
    /// The newest version that can no longer be seen, when `version` is not after it.
    pub fn list(&self, resource: ResourceId, range: &Range<'_>, version: Option<u64>) -> Result<Listed, u64> {
        let mut inner = self.lock();
        if version.is_some() {
            self.forget(&mut inner, Instant::now());
        }
        let Some(table) = inner.table(resource) else {
            return Ok(Listed { version: version.unwrap_or(inner.version), entries: Vec::new(), remaining: 0 });
        };
        let (entries, remaining) = match version {
            Some(version) if version < inner.version => {
                if version < inner.compacted {
                    return Err(inner.compacted);
                }
                table.range_at(range, version)
            }
            _ => table.range(range),
        };
        Ok(Listed { version: version.unwrap_or(inner.version), entries, remaining })
    }

    /// A cursor that sees every event after version `after` of the objects of a resource that have something in common, be it
    /// on disk or not: see [`Cursor::for_others`].
    ///
    /// # Errors
    /// The newest version that can no longer be seen, when `after` is before it.
    pub fn watch(self: &Arc<Self>, resource: ResourceId, common: impl Into<Common>, after: u64) -> Result<Cursor, u64> {
        let common = common.into();
        let mut inner = self.lock();
        self.forget(&mut inner, Instant::now());
        let present = inner.version;
        let table = inner.table_mut(resource).ok_or(present)?;
        let dropped = table.dropped();
        if after < dropped {
            return Err(dropped);
        }
        let waker = table.wakers.of(&common, dropped);
        let era = table.era;
        drop(inner);
        Ok(Cursor::new(Arc::clone(self), (resource, era), common, after, waker))
    }

    /// Forgets all history: what has not been read by now can be read no more, as after a compaction.
    pub fn compact(&self) {
        let mut inner = self.lock();
        let durable = self.durable.load(Ordering::Acquire);
        while inner.timeline.front().is_some_and(|oldest| oldest.version <= durable) && inner.forget_oldest() {}
    }

    /// Puts everything back to what it was at `version`, as from a backup: later versions are given again, to other
    /// writes, and watches end.
    ///
    /// # Errors
    /// The newest version that can no longer be seen, when `version` is before it, or the present one when it is after it.
    pub fn restore(&self, version: u64) -> Result<(), u64> {
        let mut inner = self.lock();
        if version < inner.compacted {
            return Err(inner.compacted);
        }
        // What is on a disk does not go back.
        if version > inner.version || inner.queue.is_some() {
            return Err(inner.version);
        }
        for table in inner.tables.values_mut() {
            *table = table.as_it_was(version);
        }
        let wakers: Vec<_> = inner.tables.values().map(|table| table.wakers.clone()).collect();
        (inner.version, inner.compacted, inner.bytes) = (version, version, 0);
        inner.timeline.clear();
        self.restores.fetch_add(1, Ordering::AcqRel);
        inner.ended.clear();
        self.version.store(version, Ordering::Release);
        drop(inner);
        wakers.iter().for_each(Wakers::wake_all);
        Ok(())
    }

    /// Appends to the history what has just been done to a table, and tells the watchers. Of what was written last a tree is held:
    /// most objects are written several times in a row.
    fn record(&self, mut inner: MutexGuard<'_, Inner>, resource: ResourceId, event: Event, tree: Option<Map>) {
        let now = Instant::now();
        let bytes = event.size();
        inner.version = event.version;
        let mut woken = Vec::new();
        let Inner { tables, queue, timeline, aged, lately, .. } = &mut *inner;
        let mut cold = event.previous.clone().map_or_else(Vec::new, |previous| vec![previous]);
        if tree.is_some() {
            event.entry.hold(tree);
            lately.push_back(Arc::downgrade(&event.entry));
            let oldest = if lately.len() > TREES { lately.pop_front() } else { None };
            cold.extend(oldest.and_then(|oldest| oldest.upgrade()));
        }
        timeline.push_back(Moment { at: now, version: event.version, resource, bytes });
        if let Some(table) = tables.get_mut(&resource) {
            woken = table.wakers.watching(&event);
            table.changes.fetch_add(1, Ordering::Release);
            if let Some(queue) = queue {
                let change = Change::of(&table.name, &event);
                if queue.push(change, std::mem::take(&mut woken)) {
                    self.filled.notify_one();
                }
            }
            aged.extend(table.append(Arc::new(event)).map(|entry| (resource, entry)));
        }
        inner.bytes += bytes;
        self.forget(&mut inner, now);
        self.version.store(inner.version, Ordering::Release);
        let aged = std::mem::take(&mut inner.aged);
        drop(inner);
        cold.iter().for_each(|entry| entry.hold(None));
        aged.iter().for_each(|(resource, entry)| entry.pack(*resource, &self.dictionaries));
        woken.iter().for_each(|waker| waker.notify.notify_waiters());
    }

    /// Drops what is older than the window, or too much.
    fn forget(&self, inner: &mut Inner, now: Instant) {
        while let Some(oldest) = inner.timeline.front().copied() {
            let expired = now.duration_since(oldest.at) > self.retention.window;
            // What is not on disk may have to be undone.
            let needed = oldest.version > self.durable.load(Ordering::Acquire);
            if needed || (!expired && inner.bytes <= self.retention.bytes) {
                break;
            }
            inner.forget_oldest();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under this lock cannot leave a half-made commit that matters more than refusing
        // every later request would.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a list.
#[derive(Debug)]
pub struct Listed {
    /// The version at which the list is true.
    pub version: u64,
    /// The objects, in the order of their keys.
    pub entries: Vec<Arc<Entry>>,
    /// How many more the range has beyond the limit.
    pub remaining: usize,
}

impl Inner {
    fn table(&self, resource: ResourceId) -> Option<&Table> {
        self.tables.get(&resource)
    }

    fn table_mut(&mut self, resource: ResourceId) -> Option<&mut Table> {
        self.tables.get_mut(&resource)
    }

    /// Drops the oldest event of all; says whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let Some(oldest) = self.timeline.pop_front() else { return false };
        self.bytes -= oldest.bytes;
        let table = self.tables.get_mut(&oldest.resource).or_else(|| self.ended.get_mut(&oldest.resource));
        if let Some((version, made)) = table.and_then(Table::drop_oldest) {
            self.compacted = version;
            self.aged.extend(made.map(|entry| (oldest.resource, entry)));
        }
        if self.ended.get(&oldest.resource).is_some_and(Table::is_forgotten) {
            self.ended.remove(&oldest.resource);
        }
        true
    }

    fn expect(&self, resource: ResourceId, namespace: &str, name: &str, version: u64) -> Result<Arc<Entry>, Refused> {
        match self.table(resource).and_then(|table| table.get(namespace, name)) {
            None => Err(Refused::Missing),
            Some(entry) if entry.version != version => Err(Refused::Changed),
            Some(entry) => self.check_disk().map(|()| Arc::clone(entry)),
        }
    }

    /// Refuses a commit that the disk would.
    fn check_disk(&self) -> Result<(), Refused> {
        let failing = self.queue.as_ref().and_then(Queue::failing);
        failing.map_or(Ok(()), |error| Err(Refused::Unwritten(error.clone())))
    }
}

#[cfg(test)]
mod tests;
