//! The members of an object, sorted by their names: a few side by side, which is quick to read and to look through, and many
//! in a tree, which is not slow to change.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::{mem, slice, vec};

use crate::{Text, Value};

/// Up to so many are side by side.
const FEW: usize = if cfg!(test) { 8 } else { 256 };
/// Up to so many are looked through one by one.
const VERY_FEW: usize = if cfg!(test) { 4 } else { 12 };

#[derive(Clone)]
pub(crate) enum Members {
    Few(Vec<(Text, Value)>),
    Many(BTreeMap<Text, Value>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Where a member is, among a few.
fn find(few: &[(Text, Value)], key: &str) -> Option<usize> {
    if few.len() > VERY_FEW {
        return few.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok();
    }
    // Most names that differ have another length, which is told sooner than their order.
    few.iter().position(|(known, _)| known.len() == key.len() && known.as_bytes() == key.as_bytes())
}

/// Where a member that is not there belongs, among a few.
fn place(few: &[(Text, Value)], key: &str) -> usize {
    // What comes in order comes last.
    match few.last() {
        Some((last, _)) if last.as_str().cmp(key) != Ordering::Less => {
            few.partition_point(|(known, _)| known.as_str() < key)
        }
        _ => few.len(),
    }
}

impl Members {
    /// Of members in any order; of one that is there twice the last counts.
    pub(crate) fn of(mut members: Vec<(Text, Value)>) -> Self {
        if members.len() > FEW {
            return Self::Many(members.into_iter().collect());
        }
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
        Self::Few(members)
    }

    pub(crate) fn get(&self, key: &str) -> Option<(&Text, &Value)> {
        match self {
            Self::Few(few) => find(few, key).map(|at| (&few[at].0, &few[at].1)),
            Self::Many(many) => many.get_key_value(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Self::Few(few) => find(few, key).map(|at| &mut few[at].1),
            Self::Many(many) => many.get_mut(key),
        }
    }

    /// The value of a member, which is made where there is none.
    pub(crate) fn made(&mut self, key: impl AsRef<str> + Into<Text>, make: impl FnOnce() -> Value) -> &mut Value {
        if matches!(self, Self::Few(few) if few.len() >= FEW) {
            *self = Self::Many(mem::take(self).into_iter().collect());
        }
        match self {
            Self::Few(few) => {
                let at = find(few, key.as_ref()).unwrap_or_else(|| {
                    let at = place(few, key.as_ref());
                    few.insert(at, (key.into(), make()));
                    at
                });
                &mut few[at].1
            }
            Self::Many(many) => many.entry(key.into()).or_insert_with(make),
        }
    }

    pub(crate) fn insert(&mut self, key: impl AsRef<str> + Into<Text>, value: Value) -> Option<Value> {
        match self.get_mut(key.as_ref()) {
            Some(known) => Some(mem::replace(known, value)),
            None => {
                self.made(key, || value);
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<(Text, Value)> {
        match self {
            Self::Few(few) => find(few, key).map(|at| few.remove(at)),
            Self::Many(many) => many.remove_entry(key),
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        match self {
            Self::Few(few) => few.retain_mut(|(key, value)| keep(key, value)),
            Self::Many(many) => many.retain(keep),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_> {
        match self {
            Self::Few(few) => Iter::Few(few.iter()),
            Self::Many(many) => Iter::Many(many.iter()),
        }
    }

    pub(crate) fn iter_mut(&mut self) -> IterMut<'_> {
        match self {
            Self::Few(few) => IterMut::Few(few.iter_mut()),
            Self::Many(many) => IterMut::Many(many.iter_mut()),
        }
    }
}

impl IntoIterator for Members {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match self {
            Self::Few(few) => IntoIter::Few(few.into_iter()),
            Self::Many(many) => IntoIter::Many(many.into_iter()),
        }
    }
}

/// The members of an object, by their names.
#[derive(Debug, Clone)]
pub enum Iter<'a> {
    /// Side by side.
    Few(slice::Iter<'a, (Text, Value)>),
    /// In a tree.
    Many(btree_map::Iter<'a, Text, Value>),
}

/// The members of an object, by their names, their values to change.
#[derive(Debug)]
pub enum IterMut<'a> {
    /// Side by side.
    Few(slice::IterMut<'a, (Text, Value)>),
    /// In a tree.
    Many(btree_map::IterMut<'a, Text, Value>),
}

/// The members of an object, by their names, for good.
#[derive(Debug)]
pub enum IntoIter {
    /// Side by side.
    Few(vec::IntoIter<(Text, Value)>),
    /// In a tree.
    Many(btree_map::IntoIter<Text, Value>),
}

macro_rules! iterates {
    ($name:ty, $item:ty, $pattern:pat => $member:expr) => {
        impl<'a> Iterator for $name {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                match self {
                    Self::Few(few) => few.next().map(|$pattern| $member),
                    Self::Many(many) => many.next(),
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                match self {
                    Self::Few(few) => few.size_hint(),
                    Self::Many(many) => many.size_hint(),
                }
            }
        }

        impl<'a> DoubleEndedIterator for $name {
            fn next_back(&mut self) -> Option<$item> {
                match self {
                    Self::Few(few) => few.next_back().map(|$pattern| $member),
                    Self::Many(many) => many.next_back(),
                }
            }
        }

        impl<'a> ExactSizeIterator for $name {}
    };
}

iterates!(Iter<'a>, (&'a Text, &'a Value), (key, value) => (key, value));
iterates!(IterMut<'a>, (&'a Text, &'a mut Value), (key, value) => (&*key, value));

impl Iterator for IntoIter {
    type Item = (Text, Value);

    fn next(&mut self) -> Option<(Text, Value)> {
        match self {
            Self::Few(few) => few.next(),
            Self::Many(many) => many.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(few) => few.size_hint(),
            Self::Many(many) => many.size_hint(),
        }
    }
}

impl DoubleEndedIterator for IntoIter {
    fn next_back(&mut self) -> Option<(Text, Value)> {
        match self {
            Self::Few(few) => few.next_back(),
            Self::Many(many) => many.next_back(),
        }
    }
}

impl ExactSizeIterator for IntoIter {}
