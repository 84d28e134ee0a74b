//! What is kept on disk: the changes that are still to be written, and the thread that writes them in groups.
//!
//! ```text
//!   commit (one lock) --> queue --> thread: one group, one write --> durable rises --> answers go, watchers wake
//!                                                   \-> refused: everything after `durable` is undone, answers fail
//! ```
//!
//! Nobody outside the process has seen what is undone: answers and watches wait for `durable`. Versions are not given
//! again for it within the process, so that nothing here mistakes one write for another.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::wakers::Waker;
use super::watch::{Event, EventKind};
use super::{Entry, Inner, ResourceId, Storage, Waiting};

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
#[derive(Debug)]
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

/// By table, namespace and name; a table itself has neither.
type Key = (Arc<str>, Arc<str>, Arc<str>);

/// What is still to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    changes: Vec<Change>,
    /// Who watches what is in `changes`.
    woken: Vec<Arc<Waker>>,
    /// What takes a group back that was refused: it may be on the disk all the same. It goes with the next one.
    back: BTreeMap<Key, Change>,
    /// The tables whose removal is not on disk.
    removed: Vec<ResourceId>,
    ending: bool,
}

impl Queue {
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

    /// A table that was gone is there again: whatever is on the disk, these are its objects.
    pub(super) fn bring_back(&mut self, table: &Arc<str>, objects: &[Arc<Entry>]) {
        self.back.remove(&key(&Change::Drop(Arc::clone(table))));
        objects.iter().for_each(|entry| self.take_back(Change::Put(Arc::clone(table), Arc::clone(entry))));
    }

    fn take_back(&mut self, change: Change) {
        self.back.insert(key(&change), change);
    }

    fn take(&mut self, version: u64) -> (Group, Vec<Arc<Waker>>) {
        let mut changes: Vec<Change> = std::mem::take(&mut self.back).into_values().collect();
        changes.append(&mut self.changes);
        (Group { version, changes }, std::mem::take(&mut self.woken))
    }
}

fn key(change: &Change) -> Key {
    match change {
        Change::Put(table, entry) => (Arc::clone(table), Arc::clone(&entry.namespace), Arc::clone(&entry.name)),
        Change::Remove(table, namespace, name) => (Arc::clone(table), Arc::clone(namespace), Arc::clone(name)),
        Change::Drop(table) => (Arc::clone(table), "".into(), "".into()),
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
        let mut inner = storage.lock();
        inner.queue = Some(Queue::default());
        storage.durable.store(inner.version, Ordering::Release);
        drop(inner);
        let writes = Arc::clone(storage);
        let thread = std::thread::Builder::new().name("disk".to_owned()).spawn(move || write_all(&writes, disk))?;
        Ok(Self { storage: Arc::clone(storage), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(queue) = &mut self.storage.lock().queue {
            queue.ending = true;
        }
        self.storage.filled.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to write.
            let _ = thread.join();
        }
    }
}

/// Writes group after group.
fn write_all(storage: &Storage, mut disk: Box<dyn Disk>) {
    while let Some((group, woken)) = next_group(storage) {
        match disk.write(&group) {
            Ok(()) => storage.written(&group),
            Err(error) => storage.refused(group, error),
        }
        storage.risen.notify_waiters();
        woken.iter().for_each(|waker| waker.notify.notify_waiters());
    }
    disk.close();
}

/// Waits for changes; `None` at the end.
fn next_group(storage: &Storage) -> Option<(Group, Vec<Arc<Waker>>)> {
    let mut inner = storage.lock();
    loop {
        let version = inner.version;
        let queue = inner.queue.as_mut()?;
        if !queue.changes.is_empty() {
            let (group, mut woken) = queue.take(version);
            drop(inner);
            woken.sort_by_key(Arc::as_ptr);
            woken.dedup_by(|a, b| Arc::ptr_eq(a, b));
            return Some((group, woken));
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

    /// How often commits were undone because the disk refused them. To be asked before work whose end
    /// [`Storage::settled`] waits for.
    #[must_use]
    pub fn undone(&self) -> u64 {
        self.undone.load(Ordering::Acquire)
    }

    /// Waits until everything that is committed now is on disk: what an answer says may depend on all of it. `undone` is what
    /// there was before the work began. Where there is no disk, nothing is waited for.
    ///
    /// # Errors
    /// Where something that the work has seen was undone.
    pub async fn settled(&self, undone: u64) -> Result<(), WriteError> {
        if !self.is_kept() {
            return Ok(());
        }
        let version = self.version();
        loop {
            let risen = self.risen.notified();
            tokio::pin!(risen);
            // Registered before looking, so that a write in between wakes it.
            risen.as_mut().enable();
            // In this order: it is undone before it is durable.
            let durable = self.durable.load(Ordering::Acquire);
            if self.undone() != undone {
                let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                return Err(error.clone().unwrap_or(WriteError { message: "the disk failed".to_owned(), full: false }));
            }
            if version <= durable {
                return Ok(());
            }
            risen.await;
        }
    }

    fn written(&self, group: &Group) {
        let mut inner = self.lock();
        for change in &group.changes {
            let Change::Drop(table) = change else { continue };
            inner.waiting.remove(table);
            let Inner { ended, queue, .. } = &mut *inner;
            let Some(queue) = queue else { continue };
            queue.removed.retain(|id| {
                let Some(ended) = ended.get_mut(id).filter(|ended| ended.name == *table) else { return true };
                ended.clear();
                false
            });
        }
        self.durable.store(group.version, Ordering::Release);
    }

    /// Undoes everything after the last version that is on disk.
    fn refused(&self, group: Group, error: WriteError) {
        tracing::error!(%error, "the last writes are undone");
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(queue) = &mut inner.queue else { return };
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        let (later, removed) = (std::mem::take(&mut queue.changes), std::mem::take(&mut queue.removed));
        // What was to be taken back before, or is to be dropped, still is; of the rest, what was before is.
        let mut back: BTreeMap<Key, Change> = BTreeMap::new();
        for change in group.changes.into_iter().chain(later).chain(inner.undo(self.durable.load(Ordering::Acquire))) {
            back.insert(key(&change), change);
        }
        let Some(queue) = &mut inner.queue else { return };
        queue.back.append(&mut back);
        for gone in removed.iter().filter_map(|id| inner.ended.remove(id)) {
            let objects = gone.objects();
            // One of its name may have come since: what was committed to that is undone, and these are its objects.
            match inner.tables.values_mut().find(|table| table.name == gone.name) {
                Some(table) => {
                    queue.bring_back(&table.name, &objects);
                    objects.into_iter().for_each(|entry| table.insert(entry));
                    table.changes.fetch_add(1, Ordering::Release);
                }
                None => drop(inner.waiting.insert(Arc::clone(&gone.name), Waiting::Objects(objects))),
            }
        }
        self.restores.fetch_add(1, Ordering::AcqRel);
        self.undone.fetch_add(1, Ordering::AcqRel);
        // What is there is what is on disk, under whatever version.
        self.durable.store(inner.version, Ordering::Release);
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
