//! Sharing of strings that recur: namespaces, node names, label sets, owners.
//!
//! A hundred thousand pods name a few hundred nodes and a thousand owners. Every decoder takes an
//! [`Interner`] and asks it for these, so that the cache holds one allocation of each (INF-10).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::labels::Labels;
use crate::meta::{ControllerRef, Uid};
use crate::wire::StringMap;

/// A pool of shared values. What nobody but the pool holds any more is dropped from time to time,
/// at a cost that stays constant for each value interned.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Pool<Arc<str>>,
    labels: Pool<Labels>,
    controllers: Pool<Arc<ControllerRef>>,
}

impl Interner {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The shared form of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(hash_of(text), |shared| **shared == *text, || Arc::from(text))
    }

    /// The shared form of a label set.
    pub fn labels(&mut self, labels: &Labels) -> Labels {
        if labels.is_empty() {
            return Labels::EMPTY;
        }
        let hash = hash_of_pairs(labels.iter());
        self.labels.get(hash, |shared| shared == labels, || labels.clone())
    }

    /// The shared form of a controller reference.
    pub fn controller(&mut self, api_version: &str, kind: &str, name: &str, uid: &Uid) -> Arc<ControllerRef> {
        let Self { texts, controllers, .. } = self;
        controllers.get(
            hash_of(uid),
            |shared| {
                shared.uid == *uid
                    && *shared.name == *name
                    && *shared.kind == *kind
                    && *shared.api_version == *api_version
            },
            || {
                let mut text = |text: &str| texts.get(hash_of(text), |shared| **shared == *text, || Arc::from(text));
                Arc::new(ControllerRef {
                    api_version: text(api_version),
                    kind: text(kind),
                    name: Arc::from(name),
                    uid: uid.clone(),
                })
            },
        )
    }

    /// Drops at once whatever nobody else holds.
    pub fn sweep(&mut self) {
        self.labels.sweep();
        self.controllers.sweep();
        self.texts.sweep();
    }

    /// How many values the pool holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.table.len() + self.labels.table.len() + self.controllers.table.len()
    }

    /// Whether the pool holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shared label set of a map as it was read. Builds nothing where the pool has it already.
    pub fn labels_of(&mut self, mut map: StringMap<'_>) -> Labels {
        if map.0.is_empty() {
            return Labels::EMPTY;
        }
        // Servers write maps sorted; a sort of what is sorted is a walk.
        let sorted = map.0.is_sorted_by(|a, b| a.0 < b.0);
        if !sorted {
            let labels = map.to_labels();
            return self.labels(&labels);
        }
        let pairs = &mut map.0;
        let hash = hash_of_pairs(pairs.iter().map(|(key, value)| (&**key, &**value)));
        let same = |shared: &Labels| {
            shared.len() == pairs.len()
                && shared.iter().zip(&*pairs).all(|(a, (key, value))| a.0 == &**key && a.1 == &**value)
        };
        self.labels.get(hash, same, || pairs.iter().map(|(key, value)| (&**key, &**value)).collect())
    }
}

/// A value that knows how many own it and how it is found.
trait Shared: Clone {
    fn owners(&self) -> usize;
    fn hash(&self) -> u64;
}

impl Shared for Arc<str> {
    fn owners(&self) -> usize {
        Self::strong_count(self)
    }

    fn hash(&self) -> u64 {
        hash_of(&**self)
    }
}

impl Shared for Labels {
    fn owners(&self) -> usize {
        self.owners()
    }

    fn hash(&self) -> u64 {
        hash_of_pairs(self.iter())
    }
}

impl Shared for Arc<ControllerRef> {
    fn owners(&self) -> usize {
        Self::strong_count(self)
    }

    fn hash(&self) -> u64 {
        hash_of(&self.uid)
    }
}

#[derive(Debug)]
struct Pool<T> {
    table: HashTable<T>,
    /// The size at which unused values are looked for next: twice of what the last search left.
    sweep_at: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { table: HashTable::new(), sweep_at: 1_024 }
    }
}

impl<T: Shared> Pool<T> {
    fn get(&mut self, hash: u64, same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> T {
        if let Some(shared) = self.table.find(hash, same) {
            return shared.clone();
        }
        if self.table.len() >= self.sweep_at {
            self.sweep();
        }
        let made = make();
        self.table.insert_unique(hash, made.clone(), T::hash);
        made
    }

    fn sweep(&mut self) {
        self.table.retain(|shared| shared.owners() > 1);
        self.table.shrink_to_fit(T::hash);
        self.sweep_at = (self.table.len() * 2).max(1_024);
    }
}

/// A hash with a fixed key: no outcome of this crate depends on a random seed.
fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn hash_of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for pair in pairs {
        pair.hash(&mut hasher);
    }
    hasher.finish()
}
