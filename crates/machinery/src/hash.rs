//! Hash maps with a fixed key, so that nothing depends on a random seed.

use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A hash map that hashes the same way in every process. It is never iterated where the order shows.
pub(crate) type FixedMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The hash that [`FixedMap`] would use.
pub(crate) fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
