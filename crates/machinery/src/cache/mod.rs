//! The objects of one kind as last seen by the watch, their indexes, and what each event changed.
//!
//! The cache does not lock, watch or call back: an informer feeds it, takes the [`Change`] of each event, and passes
//! that to handlers. Objects are behind [`Arc`], so a snapshot costs only reference counts.
//!
//! ```text
//!   table: hash of namespace/name -> slot      slots: slot -> Arc<T>      indexes: key -> {slots}
//! ```
//!
//! A slot is a number of four bytes. Table and indexes hold slots rather than keys, which keeps a pod within 512 bytes
//! including all its entries (INF-10).

mod index;
mod labels;
mod pods;
mod selecting;
mod selectors;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;
use muster_objects::{Object, ObjectKey, ResourceVersion};

pub use index::{Index, Slot};
pub use labels::LabelIndex;
pub use pods::PodIndexes;
pub use selecting::{Selecting, SelectingIndexes};
pub use selectors::SelectorIndex;

use crate::hash::hash_of;
use crate::work::look;

/// A kind that can be cached, with its indexes.
pub trait Cached: Object + PartialEq {
    /// The indexes of this kind; `()` for none.
    type Indexes: Indexes<Self>;
}

/// The indexes of one kind, kept in step with its cache.
///
/// An index maps fields of an object to the [`Slot`]s of the objects that have them. It gets every change, with the
/// same object at removal as at insertion.
pub trait Indexes<T>: Default + Send + Sync + 'static {
    /// Adds an object.
    fn insert(&mut self, slot: Slot, object: &T);

    /// Removes an object that was added before.
    fn remove(&mut self, slot: Slot, object: &T);

    /// Replaces an object. Worth overriding where most updates change nothing that is indexed.
    fn update(&mut self, slot: Slot, old: &T, new: &T) {
        self.remove(slot, old);
        self.insert(slot, new);
    }
}

impl<T> Indexes<T> for () {
    fn insert(&mut self, _: Slot, _: &T) {}

    fn remove(&mut self, _: Slot, _: &T) {}
}

/// What an event did to the cache (INF-03).
#[derive(Debug)]
pub enum Change<T> {
    /// The object was not in the cache.
    Added(Arc<T>),
    /// The object replaces an older state. Where the uids differ, the old object was deleted and
    /// another one created under its name in between (RS-01).
    Updated {
        /// The old state.
        old: Arc<T>,
        /// The new state.
        new: Arc<T>,
    },
    /// The object is gone.
    Deleted {
        /// The last known state.
        last: Arc<T>,
        /// Whether the deletion itself was missed and found by a relist, so that `last` may be older than the object's
        /// true last state: a tombstone (INF-04).
        tombstone: bool,
    },
}

impl<T> Change<T> {
    /// The newest state in the change.
    #[must_use]
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted { last: object, .. } => object,
        }
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Updated { old, new } => Self::Updated { old: Arc::clone(old), new: Arc::clone(new) },
            Self::Deleted { last, tombstone } => Self::Deleted { last: Arc::clone(last), tombstone: *tombstone },
        }
    }
}

/// The cache of one kind.
#[derive(Debug)]
pub struct Cache<T: Cached> {
    slots: Vec<Option<Arc<T>>>,
    free: Vec<Slot>,
    table: HashTable<Slot>,
    indexes: T::Indexes,
    newest: ResourceVersion,
}

impl<T: Cached> Default for Cache<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            indexes: T::Indexes::default(),
            newest: ResourceVersion::UNKNOWN,
        }
    }
}

impl<T: Cached> Cache<T> {
    /// An empty cache, which has seen no version yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an added or modified object. `None` if the cache holds it already. A version alone does not say so: a server that
    /// was put back to an earlier state gives its versions again, to other states.
    pub fn apply(&mut self, object: T) -> Option<Change<T>> {
        self.saw(object.meta().resource_version);
        self.put(Arc::new(object))
    }

    /// The same with an object that is shared, for example with another cache.
    pub fn apply_shared(&mut self, object: Arc<T>) -> Option<Change<T>> {
        self.saw(object.meta().resource_version);
        self.put(object)
    }

    /// Applies a deletion; `last` is the state in the event. `None` if the cache did not have the object.
    pub fn delete(&mut self, last: T) -> Option<Change<T>> {
        self.saw(last.meta().resource_version);
        let meta = last.meta();
        let slot = self.find(&meta.namespace, &meta.name)?;
        self.take(slot)?;
        Some(Change::Deleted { last: Arc::new(last), tombstone: false })
    }

    /// Applies a deletion of which only the key is known.
    pub fn delete_key(&mut self, key: &ObjectKey) -> Option<Change<T>> {
        let slot = self.find(&key.namespace, &key.name)?;
        let last = self.take(slot)?;
        Some(Change::Deleted { last, tombstone: true })
    }

    /// Replaces the contents by a list of everything at `version`. The changes are those between the cache as it was
    /// and the list: additions and updates in the order of the list, then the deletions that were missed, as tombstones
    /// in the order of their keys (INF-04).
    ///
    /// The newest version becomes `version` even if that is older than before, as after a restore from a backup.
    pub fn replace(&mut self, list: Vec<T>, version: ResourceVersion) -> Vec<Change<T>> {
        self.replace_shared(list.into_iter().map(Arc::new), version)
    }

    /// The same for objects that are shared already, so that a long list is in memory once.
    pub fn replace_shared(
        &mut self,
        list: impl IntoIterator<Item = Arc<T>>,
        version: ResourceVersion,
    ) -> Vec<Change<T>> {
        let mut listed = vec![false; self.slots.len()];
        let mut changes = Vec::new();
        for object in list {
            changes.extend(self.put(Arc::clone(&object)));
            // A new object may have got the slot of one that was deleted.
            let slot = self.find(&object.meta().namespace, &object.meta().name);
            if let Some(seen) = slot.and_then(|slot| listed.get_mut(slot.at())) {
                *seen = true;
            }
        }
        let mut vanished = BTreeMap::new();
        for (at, _) in listed.iter().enumerate().filter(|(_, seen)| !**seen) {
            let slot = Slot::new(at);
            if let Some(object) = self.get_slot(slot) {
                vanished.insert(object.meta().key(), slot);
            }
        }
        for last in vanished.into_values().filter_map(|slot| self.take(slot)) {
            changes.push(Change::Deleted { last, tombstone: true });
        }
        self.newest = version;
        changes
    }

    /// Records that everything up to `version` has been seen: a bookmark (INF-09).
    pub fn saw(&mut self, version: ResourceVersion) {
        self.newest = self.newest.max(version);
    }

    /// The newest resourceVersion that was seen in a list, an event or a bookmark (INF-09).
    #[must_use]
    pub fn newest(&self) -> ResourceVersion {
        self.newest
    }

    /// The object of that key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.get_named(&key.namespace, &key.name)
    }

    /// The object of that name; the namespace is empty for a kind that has none.
    #[must_use]
    pub fn get_named(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.get_slot(self.find(namespace, name)?)
    }

    /// The object in a slot that an index returned.
    #[must_use]
    pub fn get_slot(&self, slot: Slot) -> Option<&Arc<T>> {
        look(1);
        self.slots.get(slot.at())?.as_ref()
    }

    /// Every object, in the order of the slots, which is the same for the same history of calls. For resyncs, not for
    /// syncs.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.slots.iter().flatten().inspect(|_| look(1))
    }

    /// The indexes, for look-ups of slots.
    #[must_use]
    pub fn indexes(&self) -> &T::Indexes {
        &self.indexes
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn find(&self, namespace: &str, name: &str) -> Option<Slot> {
        let named = |slot: &Slot| {
            self.get_slot(*slot).is_some_and(|object| {
                let meta = object.meta();
                *meta.name == *name && *meta.namespace == *namespace
            })
        };
        self.table.find(hash_of(&(namespace, name)), named).copied()
    }

    fn put(&mut self, new: Arc<T>) -> Option<Change<T>> {
        let meta = new.meta();
        let Some(slot) = self.find(&meta.namespace, &meta.name) else {
            self.add(Arc::clone(&new));
            return Some(Change::Added(new));
        };
        let place = self.slots.get_mut(slot.at())?;
        let old = place.as_ref()?;
        let known = old.meta().resource_version;
        if known.is_known() && known == meta.resource_version && *old == new {
            return None;
        }
        self.indexes.update(slot, old, &new);
        let old = place.replace(Arc::clone(&new))?;
        Some(Change::Updated { old, new })
    }

    fn add(&mut self, object: Arc<T>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot::new(self.slots.len() - 1)
        });
        self.indexes.insert(slot, &object);
        let hash = name_hash(&*object);
        self.slots[slot.at()] = Some(object);
        let slots = &self.slots;
        let rehash = |slot: &Slot| slots[slot.at()].as_deref().map_or(0, name_hash);
        self.table.insert_unique(hash, slot, rehash);
    }

    fn take(&mut self, slot: Slot) -> Option<Arc<T>> {
        let object = self.slots.get_mut(slot.at())?.take()?;
        if let Ok(entry) = self.table.find_entry(name_hash(&*object), |other| *other == slot) {
            entry.remove();
        }
        self.indexes.remove(slot, &object);
        self.free.push(slot);
        Some(object)
    }
}

fn name_hash<T: Object>(object: &T) -> u64 {
    let meta = object.meta();
    hash_of(&(&*meta.namespace, &*meta.name))
}
