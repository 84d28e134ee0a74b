//! The index by label: which objects of a namespace does a selector match? (B-15)
//!
//! Objects of one workload have the same labels. So the index groups objects by their whole label set, and maps each
//! single label to groups: a selector is evaluated once for a group, not once for an object, and an object costs one
//! entry however many labels it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashTable;
use muster_objects::{Labels, Selector};

use super::Slot;
use crate::hash::{FixedMap, hash_of};
use crate::work::look;

/// The objects of each namespace by label set, and the label sets by label.
#[derive(Debug, Default)]
pub struct LabelIndex {
    groups: Vec<Option<Group>>,
    free: Vec<u32>,
    by_set: HashTable<u32>,
    by_label: HashTable<LabelEntry>,
    by_namespace: FixedMap<Arc<str>, BTreeSet<u32>>,
}

/// The objects of one namespace that carry exactly the same labels.
#[derive(Debug)]
struct Group {
    namespace: Arc<str>,
    labels: Labels,
    slots: BTreeSet<Slot>,
}

/// The groups that carry one label.
#[derive(Debug)]
struct LabelEntry {
    namespace: Arc<str>,
    key: Box<str>,
    value: Box<str>,
    groups: BTreeSet<u32>,
}

impl LabelIndex {
    /// Adds an object.
    pub fn insert(&mut self, slot: Slot, namespace: &Arc<str>, labels: &Labels) {
        let at = self.find(namespace, labels).unwrap_or_else(|| self.open(namespace, labels));
        if let Some(group) = self.group_mut(at) {
            group.slots.insert(slot);
        }
    }

    /// Removes an object that was added with these labels.
    pub fn remove(&mut self, slot: Slot, namespace: &Arc<str>, labels: &Labels) {
        let Some(at) = self.find(namespace, labels) else { return };
        let Some(group) = self.group_mut(at) else { return };
        group.slots.remove(&slot);
        if group.slots.is_empty() {
            self.close(at);
        }
    }

    /// The slots of the objects in a namespace whose labels a selector matches. The cost is that of the matches, and of
    /// the label sets that share the selector's rarest label.
    #[must_use]
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Slot> {
        let groups = self.candidates(namespace, selector);
        let matching = groups.into_iter().filter(|group| selector.matches(&group.labels));
        matching.flat_map(|group| group.slots.iter().copied()).inspect(|_| look(1)).collect()
    }

    /// The slots of every object in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = Slot> {
        let groups = self.by_namespace.get(namespace).into_iter().flatten();
        groups.filter_map(|at| self.group(*at)).flat_map(|group| group.slots.iter().copied())
    }

    /// Whether no object is indexed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_set.is_empty() && self.by_label.is_empty() && self.by_namespace.is_empty()
    }

    /// The groups that can match: those with one of the values of the requirement that has the fewest groups; without
    /// such a requirement, the whole namespace.
    fn candidates(&self, namespace: &str, selector: &Selector) -> Vec<&Group> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut best: Option<(usize, Vec<&LabelEntry>)> = None;
        for requirement in selector.requirements() {
            let Some(values) = requirement.required_values() else { continue };
            let entries = values.iter().filter_map(|value| self.entry(namespace, requirement.key(), value));
            let entries: Vec<_> = entries.collect();
            let count = entries.iter().map(|entry| entry.groups.len()).sum();
            if best.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
                best = Some((count, entries));
            }
        }
        match best {
            // A label has one value, so no group comes twice.
            Some((_, entries)) => {
                entries.into_iter().flat_map(|entry| &entry.groups).filter_map(|at| self.group(*at)).collect()
            }
            None => self.by_namespace.get(namespace).into_iter().flatten().filter_map(|at| self.group(*at)).collect(),
        }
    }

    fn find(&self, namespace: &str, labels: &Labels) -> Option<u32> {
        let same =
            |at: &u32| self.group(*at).is_some_and(|group| group.labels == *labels && *group.namespace == *namespace);
        self.by_set.find(hash_of(&(namespace, labels)), same).copied()
    }

    fn open(&mut self, namespace: &Arc<str>, labels: &Labels) -> u32 {
        let group = Group { namespace: Arc::clone(namespace), labels: labels.clone(), slots: BTreeSet::new() };
        let at = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            u32::try_from(self.groups.len() - 1).expect("there are no more groups than slots")
        });
        self.groups[at as usize] = Some(group);
        let groups = &self.groups;
        let rehash =
            |at: &u32| groups[*at as usize].as_ref().map_or(0, |group| hash_of(&(&*group.namespace, &group.labels)));
        self.by_set.insert_unique(hash_of(&(&**namespace, labels)), at, rehash);
        self.by_namespace.entry(Arc::clone(namespace)).or_default().insert(at);
        for (key, value) in labels.iter() {
            let hash = hash_of(&(&**namespace, key, value));
            let entry = self.by_label.entry(hash, |entry| entry.is(namespace, key, value), LabelEntry::hash);
            let mut entry = entry.or_insert_with(|| LabelEntry {
                namespace: Arc::clone(namespace),
                key: key.into(),
                value: value.into(),
                groups: BTreeSet::new(),
            });
            entry.get_mut().groups.insert(at);
        }
        at
    }

    fn close(&mut self, at: u32) {
        let Some(group) = self.groups.get_mut(at as usize).and_then(Option::take) else { return };
        let Group { namespace, labels, .. } = group;
        if let Ok(entry) = self.by_set.find_entry(hash_of(&(&*namespace, &labels)), |other| *other == at) {
            entry.remove();
        }
        if let Some(groups) = self.by_namespace.get_mut(&namespace) {
            groups.remove(&at);
            if groups.is_empty() {
                self.by_namespace.remove(&namespace);
            }
        }
        for (key, value) in labels.iter() {
            let hash = hash_of(&(&*namespace, key, value));
            if let Ok(mut entry) = self.by_label.find_entry(hash, |entry| entry.is(&namespace, key, value)) {
                entry.get_mut().groups.remove(&at);
                if entry.get().groups.is_empty() {
                    entry.remove();
                }
            }
        }
        self.free.push(at);
    }

    fn entry(&self, namespace: &str, key: &str, value: &str) -> Option<&LabelEntry> {
        self.by_label.find(hash_of(&(namespace, key, value)), |entry| entry.is(namespace, key, value))
    }

    fn group(&self, at: u32) -> Option<&Group> {
        look(1);
        self.groups.get(at as usize)?.as_ref()
    }

    fn group_mut(&mut self, at: u32) -> Option<&mut Group> {
        self.groups.get_mut(at as usize)?.as_mut()
    }
}

impl LabelEntry {
    fn is(&self, namespace: &str, key: &str, value: &str) -> bool {
        *self.value == *value && *self.key == *key && *self.namespace == *namespace
    }

    fn hash(&self) -> u64 {
        hash_of(&(&*self.namespace, &*self.key, &*self.value))
    }
}
