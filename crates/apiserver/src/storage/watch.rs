//! Events, and cursors that follow them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::entry::{Entry, Pieces};
use super::wakers::{Common, Waker};
use super::{ResourceId, Storage};

/// What a commit did to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

impl EventKind {
    /// The `type` of a watch event.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One commit, as watchers and older lists need it.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The version of the commit.
    pub version: u64,
    /// The state that the commit made; for a deletion the last state, at the deletion's version.
    pub entry: Arc<Entry>,
    /// The state before.
    pub previous: Option<Arc<Entry>>,
}

impl Event {
    pub(super) fn added(entry: Arc<Entry>) -> Self {
        Self { kind: EventKind::Added, version: entry.version, entry, previous: None }
    }

    pub(super) fn modified(entry: Arc<Entry>, previous: Arc<Entry>) -> Self {
        Self { kind: EventKind::Modified, version: entry.version, entry, previous: Some(previous) }
    }

    pub(super) fn deleted(entry: Arc<Entry>, previous: Arc<Entry>) -> Self {
        Self { kind: EventKind::Deleted, version: entry.version, entry, previous: Some(previous) }
    }

    /// The JSON line of this event, for watchers to whom the object neither enters nor leaves. All share it.
    #[must_use]
    pub fn line(&self) -> Pieces {
        self.entry.line()
    }

    /// About how many bytes history takes for this event. The state before is counted with its own.
    pub(super) fn size(&self) -> usize {
        150 + self.entry.size()
    }
}

/// A watcher fell behind the history: the version up to which events are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallen(pub u64);

/// A place in a resource's history. It holds no events: what it has not read stays in the history, which
/// is bounded.
#[derive(Debug)]
pub struct Cursor {
    storage: Arc<Storage>,
    resource: ResourceId,
    /// The table's, when the watch began.
    era: u64,
    /// What its objects have in common.
    common: Common,
    /// Everything up to this version has been read.
    after: u64,
    /// Whether it sees only what is on disk.
    for_others: bool,
    waker: Arc<Waker>,
}

/// How many events are taken under one lock.
const BATCH: usize = 512;

impl Cursor {
    pub(super) fn new(
        storage: Arc<Storage>,
        (resource, era): (ResourceId, u64),
        common: Common,
        after: u64,
        waker: Arc<Waker>,
    ) -> Self {
        Self { storage, resource, era, common, after, for_others: false, waker }
    }

    /// The same for somebody outside the process: it sees an event only when nothing can undo it any more.
    #[must_use]
    pub fn for_others(self) -> Self {
        Self { for_others: true, ..self }
    }

    /// The version up to which everything has been read.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.after
    }

    /// Waits for events of these objects, and reads a batch of them into `out`.
    ///
    /// # Errors
    /// [`Fallen`] when events that it has not read are gone.
    pub async fn next(&mut self, out: &mut Vec<Arc<Event>>) -> Result<(), Fallen> {
        loop {
            let waker = Arc::clone(&self.waker);
            // Registered before looking, so that a commit in between wakes it.
            let woken = waker.notify.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            self.read(out)?;
            if !out.is_empty() {
                return Ok(());
            }
            woken.await;
        }
    }

    /// Reads what there is now, without waiting.
    ///
    /// # Errors
    /// [`Fallen`] when events that it has not read are gone.
    pub fn read(&mut self, out: &mut Vec<Arc<Event>>) -> Result<(), Fallen> {
        loop {
            let inner = self.storage.lock();
            // A resource that is no more has only what happened before.
            let present = inner.table(self.resource);
            let ended = present.is_none();
            let Some(table) = present.or_else(|| inner.ended.get(&self.resource)) else {
                return Err(Fallen(inner.version));
            };
            // What it has read may never have been: everything was put back to an earlier version. And only what concerned
            // this watch, which nothing else wakes, can be missed.
            if self.after < self.waker.dropped() || self.after > inner.version || self.era != table.era {
                return Err(Fallen(table.dropped()));
            }
            let durable = if self.for_others { self.storage.durable.load(Ordering::Acquire) } else { u64::MAX };
            match table.events_after(self.after, durable, &self.common, BATCH, out) {
                Some(seen) => self.after = seen,
                None if ended && table.newest() <= durable => return Err(Fallen(inner.version)),
                None => {
                    self.after = self.after.max(inner.version.min(durable));
                    return Ok(());
                }
            }
            if !out.is_empty() {
                return Ok(());
            }
        }
    }
}
