//! Labels: a small sorted map that is shared rather than copied.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::wire::StringMap;

/// A map of strings, sorted by key, immutable and cheap to clone. The empty one owns nothing.
///
/// The thousand pods of one ReplicaSet share one allocation where they were decoded through one
/// [`Interner`](crate::Interner).
#[derive(Clone, Default)]
pub struct Labels(Option<Arc<Pairs>>);

/// Keys and values, sorted by key, no key twice.
type Pairs = Vec<(Box<str>, Box<str>)>;

/// Annotations have the shape of labels, though nothing selects by them.
pub type Annotations = Labels;

impl Labels {
    /// No labels.
    pub const EMPTY: Self = Self(None);

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let pairs = self.pairs();
        // Objects carry a handful of labels, where walking beats bisecting.
        let found = if pairs.len() <= 8 {
            pairs.iter().position(|(k, _)| **k == *key)
        } else {
            pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok()
        };
        found.map(|at| &*pairs[at].1)
    }

    /// Whether there is a label of that key, whatever its value.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The labels in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs().iter().map(|(key, value)| (&**key, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether every one of `other`'s labels is here with the same value: how RS-15 counts a pod as
    /// fully labelled.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        self.same(other) || other.iter().all(|(key, value)| self.get(key) == Some(value))
    }

    /// Whether both are the very same allocation, or both empty. Quicker than `==`, never wrongly true.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// `ask`, which is not asked again about labels that are the same allocation as the last ones: the pods of one owner
    /// mostly share theirs.
    pub fn asked_once<'a>(mut ask: impl FnMut(&'a Self) -> bool) -> impl FnMut(&'a Self) -> bool {
        let mut last: Option<(&'a Self, bool)> = None;
        move |labels| match last {
            Some((before, answer)) if before.same(labels) => answer,
            _ => last.insert((labels, ask(labels))).1,
        }
    }

    /// How many owners the allocation has; the interner drops what only it still holds.
    pub(crate) fn owners(&self) -> usize {
        self.0.as_ref().map_or(0, Arc::strong_count)
    }

    fn pairs(&self) -> &[(Box<str>, Box<str>)] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    /// Sorts by key; of several values for one key the last stays.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        pairs.shrink_to_fit();
        Self((!pairs.is_empty()).then(|| Arc::new(pairs)))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.pairs() == other.pairs()
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pairs().hash(state);
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// `a=1,b=2`, as kubectl shows labels.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StringMap::deserialize(deserializer).map(|map| map.to_labels())
    }
}
