//! An object.

use std::borrow::Borrow;
use std::fmt::{self, Debug, Formatter};
use std::mem;
use std::ops::{Index, IndexMut};

use bytes::Bytes;

use crate::members::{IntoIter, Iter, IterMut, Members};
use crate::node::Node;
use crate::read::Reader;
use crate::{Text, Value};

/// The members of an object, sorted by their names, whose copies are shared until one is changed.
#[derive(Clone, Default, PartialEq)]
pub struct Map(Node<Members>);

impl Eq for Map {}

impl Map {
    /// No members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Node::new())
    }

    pub(crate) fn of(node: Node<Members>) -> Self {
        Self(node)
    }

    pub(crate) fn node(&self) -> &Node<Members> {
        &self.0
    }

    /// An object that [`Value::write`] wrote, but whose own members, and those of its member `open`, stand in any order. They are
    /// read at once; what is below them when it is looked at.
    #[must_use]
    pub fn stored(text: &Bytes, open: &str) -> Self {
        let opened = |(key, value): (Text, Value)| match value {
            Value::Object(map) if key == open => {
                let members = map.0.text().map(|text| Reader::members(text, 1).collect());
                (key, Value::Object(Self::any_order(members.unwrap_or_default())))
            }
            value => (key, value),
        };
        Self::any_order(Reader::members(text, 0).map(opened).collect())
    }

    /// Of members in any order; of one that is there twice the last counts.
    pub(crate) fn any_order(members: Vec<(Text, Value)>) -> Self {
        Self(Node::of(Members::of(members)))
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// A member.
    #[must_use]
    pub fn get_key_value(&self, key: &str) -> Option<(&Text, &Value)> {
        self.0.content().get(key)
    }

    /// The value of a member, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        // What is not there copies nothing.
        if !self.contains_key(key) {
            return None;
        }
        self.0.content_mut().get_mut(key)
    }

    /// Whether there is a member of this name.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a member; gives its value of before.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<Text>, value: Value) -> Option<Value> {
        self.0.content_mut().insert(key, value)
    }

    /// Removes a member; gives its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a member, and gives it.
    pub fn remove_entry(&mut self, key: &str) -> Option<(Text, Value)> {
        if !self.contains_key(key) {
            return None;
        }
        self.0.content_mut().remove(key)
    }

    /// The place of a member that may be there.
    pub fn entry<K: AsRef<str> + Into<Text>>(&mut self, key: K) -> Entry<'_, K> {
        Entry { map: self, key }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.content().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_nothing()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Keeps the members of which this is said.
    pub fn retain(&mut self, keep: impl FnMut(&Text, &mut Value) -> bool) {
        if !self.is_empty() {
            self.0.content_mut().retain(keep);
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
        self.0.content().iter()
    }

    /// The members, by their names, their values to change.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        if self.is_empty() {
            return IterMut::Few([].iter_mut());
        }
        self.0.content_mut().iter_mut()
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values, by the names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values, by the names, to change.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The values, by the names.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator {
        self.into_iter().map(|(_, value)| value)
    }
}

/// The place of a member that may be there.
#[derive(Debug)]
pub struct Entry<'a, K> {
    map: &'a mut Map,
    key: K,
}

impl<'a, K: AsRef<str> + Into<Text>> Entry<'a, K> {
    /// The value, which is `value` where there was none.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> Value) -> &'a mut Value {
        self.map.0.content_mut().made(self.key, make)
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        self.0.into_content().into_iter()
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
        Self::any_order(members.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
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

impl Debug for Map {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
