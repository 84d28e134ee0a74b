//! A map of limited size that drops the least recently used entry.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::hash::FixedMap;

#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    capacity: usize,
    entries: FixedMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Hash + Eq + Clone, V> Lru<K, V> {
    /// An empty map for `capacity` entries, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: FixedMap::default(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The entry of a key; this counts as a use.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        let key = self.by_use.remove(used)?;
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(value)
    }

    /// Inserts or replaces an entry.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if let Some((used, _)) = self.entries.insert(key.clone(), (self.uses, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key);
        while self.entries.len() > self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.entries.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get(&"a"), Some(&mut 1));
        lru.insert("c", 3);
        assert_eq!(lru.get(&"b"), None);
        assert_eq!((lru.get(&"a").copied(), lru.get(&"c").copied()), (Some(1), Some(3)));
        lru.insert("a", 4);
        lru.insert("d", 5);
        assert_eq!((lru.get(&"a").copied(), lru.get(&"c").copied()), (Some(4), None));
        assert_eq!((lru.entries.len(), lru.by_use.len()), (2, 2));
    }
}
