//! The members of an object.

use std::borrow::Borrow;
use std::fmt::{self, Debug, Formatter};
use std::ops::{Index, IndexMut};
use std::{mem, slice, vec};

use bytes::Bytes;

use crate::node::Node;
use crate::read::Reader;
use crate::{Text, Value};

/// The members of an object, sorted by their names, whose copies are shared until one is changed.
#[derive(Clone, Default)]
pub struct Map(Node<(Text, Value)>);

/// Up to so many members are looked through one by one.
const FEW: usize = 12;

impl Map {
    /// No members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Node::new())
    }

    pub(crate) fn of(node: Node<(Text, Value)>) -> Self {
        Self(node)
    }

    pub(crate) fn node(&self) -> &Node<(Text, Value)> {
        &self.0
    }

    /// An object that [`Value::write`] wrote, but whose own members, and those of its member `open`, stand in any order. They are
    /// read at once; what is below them when it is looked at.
    #[must_use]
    pub fn stored(text: &Bytes, open: &str) -> Self {
        let opened = |(key, value): (Text, Value)| match value {
            Value::Object(map) if key == open => {
                let members = map.0.text().map(|text| Self::sorted(Reader::members(text).collect()));
                (key, Value::Object(members.unwrap_or_default()))
            }
            value => (key, value),
        };
        Self::sorted(Reader::members(text).map(opened).collect())
    }

    /// Of members in any order; of one that is there twice the last counts.
    fn sorted(mut members: Vec<(Text, Value)>) -> Self {
        if !members.is_sorted_by(|(one, _), (next, _)| one < next) {
            members.sort_by(|(one, _), (next, _)| one.cmp(next));
            // The one that stays is the one before.
            members.dedup_by(|(later, value), (kept, first)| {
                later == kept && {
                    mem::swap(value, first);
                    true
                }
            });
        }
        Self(Node::of(members))
    }

    /// Where a member is. Most names that differ have another length, which is told sooner than their order.
    fn find(&self, key: &str) -> Option<usize> {
        let members = self.0.items();
        if members.len() > FEW {
            return members.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok();
        }
        members.iter().position(|(known, _)| known.len() == key.len() && known.as_bytes() == key.as_bytes())
    }

    /// Where a member is, or belongs.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.find(key).ok_or_else(|| self.0.items().partition_point(|(known, _)| known.as_str() < key))
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A member.
    #[must_use]
    pub fn get_key_value(&self, key: &str) -> Option<(&Text, &Value)> {
        let at = self.find(key)?;
        let (key, value) = &self.0.items()[at];
        Some((key, value))
    }

    /// The value of a member, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.find(key)?;
        Some(&mut self.0.items_mut()[at].1)
    }

    /// Whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Sets a member; gives its value of before.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<Text>, value: Value) -> Option<Value> {
        match self.place(key.as_ref()) {
            Ok(at) => Some(mem::replace(&mut self.0.items_mut()[at].1, value)),
            Err(at) => {
                self.0.items_mut().insert(at, (key.into(), value));
                None
            }
        }
    }

    /// Removes a member; gives its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a member, and gives it.
    pub fn remove_entry(&mut self, key: &str) -> Option<(Text, Value)> {
        let at = self.find(key)?;
        Some(self.0.items_mut().remove(at))
    }

    /// The place of a member that may be there.
    pub fn entry<K: AsRef<str> + Into<Text>>(&mut self, key: K) -> Entry<'_> {
        match self.place(key.as_ref()) {
            Ok(at) => Entry { map: self, at, missing: None },
            Err(at) => Entry { map: self, at, missing: Some(key.into()) },
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Keeps the members of which this is said.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        if !self.is_empty() {
            self.0.items_mut().retain_mut(|(key, value)| keep(key, value));
        }
    }

    /// Takes all members of another.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(mem::take(other));
    }

    /// Whether this and another map have their members in common: then they are equal. Others may be equal as well.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        self.0.is_shared_with(&other.0)
    }

    /// The members, by their names.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.items().iter())
    }

    /// The members, by their names, their values to change.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        if self.is_empty() {
            return IterMut([].iter_mut());
        }
        IterMut(self.0.items_mut().iter_mut())
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.0.items().iter().map(|(key, _)| key)
    }

    /// The values, by the names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.0.items().iter().map(|(_, value)| value)
    }

    /// The values, by the names, to change.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The values, by the names.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator {
        self.0.into_items().into_iter().map(|(_, value)| value)
    }
}

/// The place of a member that may be there.
#[derive(Debug)]
pub struct Entry<'a> {
    map: &'a mut Map,
    at: usize,
    /// The name, where there is no such member.
    missing: Option<Text>,
}

impl<'a> Entry<'a> {
    /// The value, which is `value` where there was none.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'a mut Value {
        let members = self.map.0.items_mut();
        if let Some(key) = self.missing {
            members.insert(self.at, (key, make()));
        }
        &mut members[self.at].1
    }

    /// Changes the value where there is one.
    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut Value)) -> Self {
        if self.missing.is_none() {
            change(&mut self.map.0.items_mut()[self.at].1);
        }
        self
    }
}

/// The members of an object.
#[derive(Debug, Clone)]
pub struct Iter<'a>(slice::Iter<'a, (Text, Value)>);

/// The members of an object, their values to change.
#[derive(Debug)]
pub struct IterMut<'a>(slice::IterMut<'a, (Text, Value)>);

macro_rules! iterates {
    ($name:ident, $item:ty, $pattern:pat => $members:expr) => {
        impl<'a> Iterator for $name<'a> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.0.next().map(|$pattern| $members)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<'a> DoubleEndedIterator for $name<'a> {
            fn next_back(&mut self) -> Option<$item> {
                self.0.next_back().map(|$pattern| $members)
            }
        }

        impl ExactSizeIterator for $name<'_> {}
    };
}

iterates!(Iter, (&'a Text, &'a Value), (key, value) => (key, value));
iterates!(IterMut, (&'a Text, &'a mut Value), (key, value) => (&*key, value));

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_items().into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self::sorted(members.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl<K: Into<Text>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        for (key, value) in members {
            self.insert(key.into(), value.into());
        }
    }
}

impl<Q: Borrow<str> + ?Sized> Index<&Q> for Map {
    type Output = Value;

    /// Null where there is no such member.
    fn index(&self, key: &Q) -> &Value {
        self.get(key.borrow()).unwrap_or(&Value::Null)
    }
}

impl<Q: Borrow<str> + ?Sized> IndexMut<&Q> for Map {
    fn index_mut(&mut self, key: &Q) -> &mut Value {
        self.entry(key.borrow()).or_insert(Value::Null)
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&other.0)
    }
}

impl Eq for Map {}

impl Debug for Map {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
