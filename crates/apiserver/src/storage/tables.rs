//! Tables come with the objects that were kept for them, and go with all that is in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::disk::Stored;
use super::table::Table;
use super::{Draft, Entry, EventKind, Named, ResourceId, Storage};

/// Objects that have no table.
#[derive(Debug)]
pub(super) enum Waiting {
    /// As they were read from a disk.
    Stored(Vec<Stored>),
    /// As they were.
    Objects(Vec<Arc<Entry>>),
}

impl Waiting {
    /// Lets objects wait for a table.
    pub(super) fn add(all: &mut BTreeMap<Arc<str>, Self>, table: &Arc<str>, objects: Vec<Arc<Entry>>) {
        match all.get_mut(table) {
            Some(Self::Objects(waiting)) => waiting.extend(objects),
            _ if objects.is_empty() => {}
            _ => drop(all.insert(Arc::clone(table), Self::Objects(objects))),
        }
    }
}

impl Storage {
    /// Takes over objects that were kept, as of a version, before there is any table. What happened until then cannot be
    /// seen.
    pub fn load(&self, version: u64, stored: Vec<Stored>) {
        let mut inner = self.lock();
        (inner.version, inner.compacted) = (version, version);
        for object in stored {
            let waiting = inner.waiting.entry(Arc::clone(&object.table)).or_insert(Waiting::Stored(Vec::new()));
            if let Waiting::Stored(objects) = waiting {
                objects.push(object);
            }
        }
        self.version.store(version, Ordering::Release);
    }

    /// The keys of what was kept and is no object: `table/namespace/name`.
    #[must_use]
    pub fn unreadable(&self) -> Vec<String> {
        self.lock().unreadable.clone()
    }

    /// Whether there are objects that wait for a table of this name.
    #[must_use]
    pub fn has_waiting(&self, table: &str) -> bool {
        self.lock().waiting.contains_key(table)
    }

    /// A new table, with the objects that wait for one of its name. `read` reads their JSON.
    pub fn add_resource(&self, name: &str, read: impl Fn(&Stored) -> Option<Draft> + Sync) -> ResourceId {
        let mut inner = self.lock();
        let id = ResourceId(inner.next);
        inner.next += 1;
        let mut table = Table::since(name.into(), inner.version);
        match inner.waiting.remove(name) {
            None => {}
            Some(Waiting::Stored(stored)) => {
                for entry in read_all(stored, read) {
                    match entry {
                        Ok(entry) => table.insert(Arc::new(entry)),
                        Err(key) => inner.unreadable.push(key),
                    }
                }
            }
            Some(Waiting::Objects(objects)) => objects.into_iter().for_each(|entry| table.insert(entry)),
        }
        if table.len() > 0 {
            table.changes.fetch_add(1, Ordering::Release);
        }
        inner.tables.insert(id, table);
        id
    }

    /// All tables by name, with their objects, at one version.
    #[must_use]
    pub fn everything(&self) -> (u64, Vec<Named>) {
        let inner = self.lock();
        let tables = inner.tables.values().map(|table| (Arc::clone(&table.name), table.objects())).collect();
        (inner.version, tables)
    }

    /// Removes a table with its objects; watches of it end, once they have seen what happened before. `undone` is what there
    /// was when it was looked why: where more is undone by now, the objects wait for a table of its name.
    pub fn remove_resource(&self, resource: ResourceId, undone: u64) {
        let mut inner = self.lock();
        let Some(mut table) = inner.tables.remove(&resource) else { return };
        let wakers = table.wakers.clone();
        match &mut inner.queue {
            Some(queue) if queue.failing().is_none() && self.undone() == undone => {
                if queue.push_removed(resource, Arc::clone(&table.name), wakers.all().collect()) {
                    self.filled.notify_one();
                }
            }
            Some(_) => {
                // Why it is removed may have been undone, and is looked at again.
                Waiting::add(&mut inner.waiting, &table.name, table.objects());
                table.clear();
            }
            None => table.clear(),
        }
        // What is left of its history goes with the rest.
        inner.ended.insert(resource, table);
        drop(inner);
        wakers.wake_all();
    }
}

/// As many objects are not worth a thread of their own.
const FEW: usize = 2048;

/// Reads what was kept, many on all processors; of what is no object, the key.
fn read_all(mut stored: Vec<Stored>, read: impl Fn(&Stored) -> Option<Draft> + Sync) -> Vec<Result<Entry, String>> {
    let read_some = |part: Vec<Stored>| -> Vec<_> {
        let read_one = |object: Stored| {
            let draft = read(&object).ok_or_else(|| {
                let key = format!("{}/{}/{}", object.table, object.namespace, object.name);
                tracing::error!(key, "what was kept is no object");
                key
            });
            Ok(draft?.at(object.version, EventKind::Added))
        };
        part.into_iter().map(read_one).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let size = stored.len().div_ceil(threads).max(FEW);
    let mut parts = Vec::new();
    while stored.len() > size {
        parts.push(stored.split_off(stored.len() - size));
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| read_some(part))).collect();
        let mut entries = read_some(stored);
        for other in others {
            // What panics there panics here.
            entries.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        entries
    })
}
