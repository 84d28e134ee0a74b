//! The keys that the queue knows of, each in one place of memory with its state.

use std::hash::Hash;
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use muster_objects::{Moment, ObjectKey};

use super::lanes::Priority;
use super::slots::{Slot, Slots};
use crate::hash::hash_of;

/// A key that says which namespace it is of, so that namespaces can take turns (SH-07).
pub trait Namespaced: Hash + Eq + Clone {
    /// What namespaces are told apart by; `()` for keys that have none.
    type Namespace: Hash + Eq + Clone + std::fmt::Debug;

    /// The key's namespace.
    fn namespace(&self) -> &Self::Namespace;
}

impl Namespaced for ObjectKey {
    type Namespace = std::sync::Arc<str>;

    fn namespace(&self) -> &Self::Namespace {
        &self.namespace
    }
}

/// A key with its state.
#[derive(Debug)]
pub(super) struct Known<K> {
    pub(super) key: K,
    /// Dirty since when; set while ready, and if added again while in work.
    pub(super) dirty: Option<Moment>,
    /// How soon it is to be worked on, while it is dirty.
    pub(super) priority: Priority,
    /// Its place in the lane of that priority, while it is ready.
    pub(super) ready: Option<Slot>,
    /// Whether a worker has it.
    pub(super) in_work: bool,
    /// Its timer.
    pub(super) timer: Option<(Moment, u64)>,
    /// Its place among the retries that wait for a token.
    pub(super) retry: Option<Slot>,
    /// How often it was added with a rate limit since `forget`.
    pub(super) requeues: u32,
}

impl<K> Known<K> {
    const fn new(key: K) -> Self {
        Self {
            key,
            dirty: None,
            priority: Priority::Low,
            ready: None,
            in_work: false,
            timer: None,
            retry: None,
            requeues: 0,
        }
    }

    pub(super) const fn is_delayed(&self) -> bool {
        self.timer.is_some() || self.retry.is_some()
    }

    pub(super) const fn is_only_delayed(&self) -> bool {
        self.dirty.is_none() && !self.in_work
    }

    const fn is_blank(&self) -> bool {
        self.is_only_delayed() && !self.is_delayed() && self.requeues == 0
    }
}

/// Keys that are in the queue or have failed.
#[derive(Debug)]
pub(super) struct Keys<K> {
    table: HashTable<Slot>,
    known: Slots<Known<K>>,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { table: HashTable::new(), known: Slots::default() }
    }
}

impl<K: Hash + Eq> Keys<K> {
    pub(super) fn find(&self, key: &K) -> Option<Slot> {
        self.table.find(hash_of(key), |slot| self.known[*slot].key == *key).copied()
    }

    /// Where the key is, from now on if it was not known.
    pub(super) fn enter(&mut self, key: K) -> Slot {
        let hash = hash_of(&key);
        let known = &mut self.known;
        if let Some(slot) = self.table.find(hash, |slot| known[*slot].key == key) {
            return *slot;
        }
        let slot = known.insert(Known::new(key));
        self.table.insert_unique(hash, slot, |slot| hash_of(&known[*slot].key));
        slot
    }

    /// Forgets a key of which there is nothing to remember.
    pub(super) fn drop_if_blank(&mut self, slot: Slot) {
        if !self.known[slot].is_blank() {
            return;
        }
        let known = self.known.remove(slot);
        if let Ok(entry) = self.table.find_entry(hash_of(&known.key), |other| *other == slot) {
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

impl<K> Index<Slot> for Keys<K> {
    type Output = Known<K>;

    fn index(&self, slot: Slot) -> &Known<K> {
        &self.known[slot]
    }
}

impl<K> IndexMut<Slot> for Keys<K> {
    fn index_mut(&mut self, slot: Slot) -> &mut Known<K> {
        &mut self.known[slot]
    }
}
