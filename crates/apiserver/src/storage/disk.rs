//! What is kept on disk: the changes that are still to be written, and the thread that writes them in groups.
//!
//! ```text
//!   commit (one lock) --> queue --> thread: one group, one write --> durable rises --> answers go, watchers wake
//!      ^                                            \-> refused: everything after `durable` is undone, answers fail
//!      |                                                     |
//!      \-- refused at once, until the disk takes, after a pause, what brings back what was before
//! ```
//!
//! Nobody outside the process has seen what is undone: answers and watches wait for `durable`. Versions are not given
//! again for it within the process, so that nothing here mistakes one write for another. There are no commits while the
//! disk fails, so that reads wait for nothing: what there is was on disk before.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::table::Table;
use super::wakers::Waker;
use super::watch::{Event, EventKind};
use super::{Entry, Inner, ResourceId, Storage, Waiting};

/// How long a disk that failed is left alone; twice as long after each failure until it takes a commit again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No longer than this, unless a try takes long.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many times longer than a try the pause after it is at least: it may read a long file whole.
const PAUSE_PER_TRY: u32 = 4;

/// No version that is read is higher than this, so that those to come are numbers too: a watch counts in 63 bits.
pub const LAST_VERSION: u64 = u64::MAX / 4;

/// What a storage is kept on.
pub trait Disk: Send + fmt::Debug + 'static {
    /// Writes a group of changes. When it returns they are there, all of them, whatever becomes of the process.
    ///
    /// # Errors
    /// What the disk has against it: of the group there may be all or nothing then, and never a part.
    fn write(&mut self, group: &Group) -> Result<(), WriteError>;

    /// Nothing is written any more.
    fn close(self: Box<Self>) {}
}

/// Changes that are written together, in this order.
#[derive(Debug, Default)]
pub struct Group {
    /// The version that the storage has with them.
    pub version: u64,
    /// What they are.
    pub changes: Vec<Change>,
}

/// A change of what is kept.
#[derive(Debug, Clone)]
pub enum Change {
    /// An object of a table is this.
    Put(Arc<str>, Arc<Entry>),
    /// An object of a table, by namespace and name, is gone.
    Remove(Arc<str>, Arc<str>, Arc<str>),
    /// A table is gone, with all that was in it.
    Drop(Arc<str>),
}

impl Change {
    /// What an event does to a table.
    pub(super) fn of(table: &Arc<str>, event: &Event) -> Self {
        let Entry { namespace, name, .. } = &*event.entry;
        match event.kind {
            EventKind::Deleted => Self::Remove(Arc::clone(table), Arc::clone(namespace), Arc::clone(name)),
            EventKind::Added | EventKind::Modified => Self::Put(Arc::clone(table), Arc::clone(&event.entry)),
        }
    }
}

/// Why a group was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// Names the file.
    pub message: String,
    /// Whether there is no space for it.
    pub full: bool,
}

/// An object as it was read from a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The table.
    pub table: Arc<str>,
    /// The namespace; empty for a cluster's object.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The version of the object.
    pub version: u64,
    /// Its JSON.
    pub json: bytes::Bytes,
}

/// By table, namespace and name.
type Key = (Arc<str>, Arc<str>, Arc<str>);

/// What is still to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    changes: Vec<Change>,
    /// Who watches what is in `changes`.
    woken: Vec<Arc<Waker>>,
    /// The tables whose removal is not on disk.
    removed: Vec<ResourceId>,
    /// Why the disk did not take what it was given last. Until it takes `back` there is nothing else.
    failing: Option<WriteError>,
    /// What there was before what it refused, some of which may be on the disk all the same.
    back: BTreeMap<Key, Change>,
    /// The version on disk, while nothing is written yet.
    held: Option<u64>,
    ending: bool,
}

/// What was undone.
#[derive(Debug)]
pub(super) struct Refusal {
    /// How often anything was, with this.
    undone: u64,
    /// Everything after this version.
    after: u64,
    /// Why.
    error: WriteError,
}

/// What is written at once, and whom it concerns.
#[derive(Debug)]
struct Batch {
    group: Group,
    woken: Vec<Arc<Waker>>,
    removed: Vec<ResourceId>,
}

impl Queue {
    /// Why nothing can be committed now.
    pub(super) fn failing(&self) -> Option<&WriteError> {
        self.failing.as_ref()
    }

    /// Adds a change and who is to hear of it once it is written; says whether it is the first.
    pub(super) fn push(&mut self, change: Change, woken: Vec<Arc<Waker>>) -> bool {
        self.changes.push(change);
        self.woken.extend(woken);
        self.changes.len() == 1
    }

    /// The same for a table that is removed.
    pub(super) fn push_removed(&mut self, id: ResourceId, table: Arc<str>, woken: Vec<Arc<Waker>>) -> bool {
        self.removed.push(id);
        self.push(Change::Drop(table), woken)
    }

    fn bring_back(&mut self, change: Change) {
        let key = match &change {
            Change::Put(table, entry) => (Arc::clone(table), Arc::clone(&entry.namespace), Arc::clone(&entry.name)),
            Change::Remove(table, namespace, name) => (Arc::clone(table), Arc::clone(namespace), Arc::clone(name)),
            // Its objects are put back, each.
            Change::Drop(_) => return,
        };
        self.back.insert(key, change);
    }

    fn take(&mut self, version: u64) -> Batch {
        let mut changes = std::mem::take(&mut self.changes);
        changes.extend(std::mem::take(&mut self.back).into_values());
        let mut woken = std::mem::take(&mut self.woken);
        woken.sort_by_key(Arc::as_ptr);
        woken.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Batch { group: Group { version, changes }, woken, removed: self.removed.clone() }
    }
}

/// The thread that writes. Dropping it writes what is left, and ends it.
#[derive(Debug)]
pub struct Keeper {
    storage: Arc<Storage>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Keeps what is committed from now on; what there is already is on the disk.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(storage: &Arc<Storage>, disk: Box<dyn Disk>) -> std::io::Result<Self> {
        let keeper = Self::hold(storage, disk)?;
        keeper.begin();
        Ok(keeper)
    }

    /// The same, but that nothing is written, and nothing waits for that, before [`Keeper::begin`]. Where that never is,
    /// nothing ever was.
    ///
    /// # Errors
    /// As by [`Keeper::start`].
    pub fn hold(storage: &Arc<Storage>, disk: Box<dyn Disk>) -> std::io::Result<Self> {
        let mut inner = storage.lock();
        inner.queue = Some(Queue { held: Some(inner.version), ..Queue::default() });
        drop(inner);
        let writes = Arc::clone(storage);
        let thread = std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            // What a panic leaves half done is the disk's, which is not used any more.
            let outcome = catch_unwind(AssertUnwindSafe(|| write_all(&writes, disk)));
            writes.is_left(outcome.is_err());
        })?;
        Ok(Self { storage: Arc::clone(storage), thread: Some(thread) })
    }

    /// Writes what was held back, and from now on whatever comes.
    pub fn begin(&self) {
        if let Some(version) = self.storage.lock().queue.as_mut().and_then(|queue| queue.held.take()) {
            self.storage.durable.store(version, Ordering::Release);
        }
        self.storage.filled.notify_all();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(queue) = &mut self.storage.lock().queue {
            queue.ending = true;
        }
        self.storage.filled.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has said what it had to say.
            let _ = thread.join();
        }
    }
}

/// Writes group after group.
fn write_all(storage: &Storage, mut disk: Box<dyn Disk>) {
    let mut pause = FIRST_PAUSE;
    while let Some(batch) = next_batch(storage, pause) {
        let begun = Instant::now();
        let outcome = disk.write(&batch.group);
        match outcome {
            Ok(()) => {
                let commits = storage.written(&batch);
                // What only brings back may fit where nothing else does.
                pause = if commits { FIRST_PAUSE } else { pause };
            }
            Err(error) => {
                if storage.refused(batch.group, error) {
                    break;
                }
                pause = (pause * 2).min(LONGEST_PAUSE).max(begun.elapsed() * PAUSE_PER_TRY);
            }
        }
        storage.risen.notify_waiters();
        batch.woken.iter().for_each(|waker| waker.notify.notify_waiters());
    }
    disk.close();
}

/// Waits for changes, or for the end of the pause of a disk that fails; `None` at the end.
fn next_batch(storage: &Storage, pause: Duration) -> Option<Batch> {
    let rests = |inner: &mut Inner| inner.queue.as_ref().is_some_and(|queue| queue.failing.is_some() && !queue.ending);
    let waited = storage.filled.wait_timeout_while(storage.lock(), pause, rests);
    let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
    loop {
        let version = inner.version;
        let queue = inner.queue.as_mut()?;
        if queue.held.is_none() && (queue.failing.is_some() || !queue.changes.is_empty()) {
            return Some(queue.take(version));
        }
        if queue.ending {
            return None;
        }
        inner = storage.filled.wait(inner).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Storage {
    /// Whether what is committed is written to a disk.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.durable.load(Ordering::Acquire) != u64::MAX
    }

    /// Whether the disk failed, so that nothing is committed for now.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.lock().queue.as_ref().is_some_and(|queue| queue.failing.is_some())
    }

    /// How often commits were undone because the disk refused them. To be asked before work whose end
    /// [`Storage::settled`] waits for.
    #[must_use]
    pub fn undone(&self) -> u64 {
        self.undone.load(Ordering::Acquire)
    }

    /// Waits until everything up to a version is on disk, after which work has seen nothing. `undone` is what there was before
    /// the work began. Where there is no disk, nothing is waited for.
    ///
    /// # Errors
    /// Where something that the work has seen was undone.
    pub async fn settled(&self, undone: u64, seen: u64) -> Result<(), WriteError> {
        if !self.is_kept() {
            return Ok(());
        }
        loop {
            let risen = self.risen.notified();
            tokio::pin!(risen);
            // Registered before looking, so that a write in between wakes it.
            risen.as_mut().enable();
            // In this order: it is undone before it is durable.
            let durable = self.durable.load(Ordering::Acquire);
            if self.undone() != undone {
                let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(refusal) = &*refusal else { return Ok(()) };
                // Of what was undone before the last time, nobody knows.
                let was_on_disk = refusal.undone == undone + 1 && seen <= refusal.after;
                return if was_on_disk { Ok(()) } else { Err(refusal.error.clone()) };
            }
            if seen <= durable {
                return Ok(());
            }
            risen.await;
        }
    }

    /// Says whether it was commits; else it was what there had been before those that were refused.
    fn written(&self, batch: &Batch) -> bool {
        let mut inner = self.lock();
        let Inner { ended, queue: Some(queue), .. } = &mut *inner else { return true };
        queue.removed.retain(|id| !batch.removed.contains(id));
        for id in &batch.removed {
            ended.get_mut(id).into_iter().for_each(Table::clear);
        }
        self.durable.store(batch.group.version, Ordering::Release);
        let commits = queue.failing.take().is_none();
        if !commits {
            tracing::info!("the disk takes writes again");
            // What follows from what there is may have been refused, and is to be done now.
            self.restores.fetch_add(1, Ordering::AcqRel);
        }
        commits
    }

    /// Undoes everything after the last version that is on disk, and refuses commits. Says whether it was the last try.
    fn refused(&self, group: Group, error: WriteError) -> bool {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let durable = self.durable.load(Ordering::Acquire);
        let undone = inner.undo(durable);
        let Some(queue) = &mut inner.queue else { return true };
        let (later, removed) = (std::mem::take(&mut queue.changes), std::mem::take(&mut queue.removed));
        if queue.failing.is_none() {
            tracing::error!(%error, "the last writes are undone, and others are refused until the disk takes writes");
            let refusal = Refusal { undone: self.undone() + 1, after: durable, error: error.clone() };
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
            self.restores.fetch_add(1, Ordering::AcqRel);
            self.undone.fetch_add(1, Ordering::AcqRel);
        }
        let again = queue.failing.replace(error).is_some();
        // What was to be brought back still is; of the rest, what was before is.
        group.changes.into_iter().chain(later).chain(undone).for_each(|change| queue.bring_back(change));
        for gone in removed.iter().filter_map(|id| inner.ended.remove(id)) {
            let objects = gone.objects();
            for entry in &objects {
                queue.bring_back(Change::Put(Arc::clone(&gone.name), Arc::clone(entry)));
            }
            // One of its name may have come since: what was committed to that is undone, and these are its objects.
            match inner.tables.values_mut().find(|table| table.name == gone.name) {
                Some(table) => {
                    objects.into_iter().for_each(|entry| table.insert(entry));
                    table.changes.fetch_add(1, Ordering::Release);
                }
                None => Waiting::add(&mut inner.waiting, &gone.name, objects),
            }
        }
        // What is there is what is on disk, under whatever version.
        self.durable.store(inner.version, Ordering::Release);
        again && queue.ending
    }

    /// The thread has ended: nothing is written any more.
    fn is_left(&self, panicked: bool) {
        let message = if panicked {
            "the thread that writes to the disk has panicked: nothing is written until the server is started again"
        } else {
            "the server has let go of its disk"
        };
        let error = WriteError { message: message.to_owned(), full: false };
        if panicked {
            tracing::error!("{message}");
            self.refused(Group::default(), error);
        } else if let Some(queue) = &mut self.lock().queue {
            queue.failing.get_or_insert(error);
        }
        self.risen.notify_waiters();
    }
}

impl Inner {
    /// Undoes all events after a version, the newest first; answers what each leaves.
    fn undo(&mut self, version: u64) -> Vec<Change> {
        let mut left = Vec::new();
        while let Some(last) = self.timeline.back().copied().filter(|moment| moment.version > version) {
            self.timeline.pop_back();
            self.bytes -= last.bytes;
            let present = self.tables.get_mut(&last.resource);
            let Some(table) = present.or_else(|| self.ended.get_mut(&last.resource)) else { continue };
            let Some(event) = table.undo_last() else { continue };
            left.push(match &event.previous {
                Some(before) => Change::Put(Arc::clone(&table.name), Arc::clone(before)),
                None => {
                    let Entry { namespace, name, .. } = &*event.entry;
                    Change::Remove(Arc::clone(&table.name), Arc::clone(namespace), Arc::clone(name))
                }
            });
        }
        left
    }
}
