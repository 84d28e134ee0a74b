//! The elements of an array.

use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};
use std::{slice, vec};

use crate::Value;
use crate::node::Node;

/// The elements of an array: a vector whose copies are shared until one is changed.
#[derive(Clone, Default, PartialEq)]
pub struct List(Node<Vec<Value>>);

impl Eq for List {}

impl List {
    /// No elements.
    #[must_use]
    pub const fn new() -> Self {
        Self(Node::new())
    }

    pub(crate) fn of(node: Node<Vec<Value>>) -> Self {
        Self(node)
    }

    pub(crate) fn node(&self) -> &Node<Vec<Value>> {
        &self.0
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[Value] {
        self.0.content()
    }

    /// The elements, to change. They are copied where others have them too.
    pub fn as_mut_slice(&mut self) -> &mut [Value] {
        self.0.content_mut()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.content().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_nothing()
    }

    /// Whether this and another list have their elements in common: then they are equal. Others may be equal as well.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        self.0.is_shared_with(&other.0)
    }
}

impl Deref for List {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        self.0.content()
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        self.0.content_mut()
    }
}

impl Debug for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self(Node::of(items))
    }
}

impl From<List> for Vec<Value> {
    fn from(list: List) -> Self {
        list.0.into_content()
    }
}

impl<T: Into<Value>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(Node::of(items.into_iter().map(Into::into).collect()))
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_content().into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl<'a> IntoIterator for &'a mut List {
    type Item = &'a mut Value;
    type IntoIter = slice::IterMut<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_mut_slice().iter_mut()
    }
}

impl PartialEq<Vec<Value>> for List {
    fn eq(&self, other: &Vec<Value>) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl PartialEq<List> for Vec<Value> {
    fn eq(&self, other: &List) -> bool {
        other == self
    }
}
