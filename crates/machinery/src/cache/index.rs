//! The plain index: a key to the slots of the objects that have it.

use std::collections::BTreeSet;
use std::hash::Hash;

use crate::hash::FixedMap;
use crate::work::look;

/// An object's place in its [`Cache`](super::Cache), good until the object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    pub(super) fn new(at: usize) -> Self {
        Self(u32::try_from(at).expect("four thousand million objects do not fit into memory"))
    }

    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// An index from keys to slots. Insertion and removal cost the logarithm of the key's slots.
#[derive(Debug)]
pub struct Index<K> {
    slots: FixedMap<K, BTreeSet<Slot>>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { slots: FixedMap::default() }
    }
}

impl<K: Hash + Eq> Index<K> {
    /// Adds a slot to a key.
    pub fn insert(&mut self, key: K, slot: Slot) {
        self.slots.entry(key).or_default().insert(slot);
    }

    /// Removes a slot from a key; a key without slots is removed.
    pub fn remove(&mut self, key: &K, slot: Slot) {
        if let Some(slots) = self.slots.get_mut(key) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.slots.remove(key);
            }
        }
    }

    /// The slots of a key, in order.
    pub fn get(&self, key: &K) -> impl Iterator<Item = Slot> {
        self.slots.get(key).into_iter().flatten().copied().inspect(|_| look(1))
    }

    /// How many slots a key has.
    #[must_use]
    pub fn count(&self, key: &K) -> usize {
        self.slots.get(key).map_or(0, BTreeSet::len)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
