//! The index by selector: which ReplicaSets of a namespace select a set of labels? (B-15)
//!
//! Most selectors require exact values of a few keys, and the selectors of one namespace use few different combinations
//! of keys. For each combination in use, the values that a label set has for those keys lead to the selectors that
//! require them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_objects::{Labels, Selector};

use super::Slot;
use crate::hash::FixedMap;
use crate::work::look;

/// Selectors by namespace, by the keys that they require, and by the values.
#[derive(Debug, Default)]
pub struct SelectorIndex {
    namespaces: FixedMap<Arc<str>, NamespaceSelectors>,
}

/// Keys, or the values of keys, in the order of the keys.
type Words = Vec<Box<str>>;

/// The selectors of one namespace.
#[derive(Debug, Default)]
struct NamespaceSelectors {
    /// Keys -> values -> slots.
    exact: BTreeMap<Words, BTreeMap<Words, BTreeSet<Slot>>>,
    /// Selectors that require no exact value, such as `app` or `app notin (web)`.
    loose: BTreeSet<Slot>,
}

impl SelectorIndex {
    /// Adds an object with its selector. A selector that matches everything or nothing is left out: it selects nothing
    /// (as in upstream's listers).
    pub fn insert(&mut self, slot: Slot, namespace: &Arc<str>, selector: &Selector) {
        if !is_indexed(selector) {
            return;
        }
        let selectors = self.namespaces.entry(Arc::clone(namespace)).or_default();
        let (keys, values) = exact_part(selector);
        if keys.is_empty() {
            selectors.loose.insert(slot);
        } else {
            selectors.exact.entry(keys).or_default().entry(values).or_default().insert(slot);
        }
    }

    /// Removes an object that was added with this selector.
    pub fn remove(&mut self, slot: Slot, namespace: &Arc<str>, selector: &Selector) {
        let Some(selectors) = self.namespaces.get_mut(namespace) else { return };
        let (keys, values) = exact_part(selector);
        if keys.is_empty() {
            selectors.loose.remove(&slot);
        } else if let Some(by_values) = selectors.exact.get_mut(&keys) {
            if let Some(slots) = by_values.get_mut(&values) {
                slots.remove(&slot);
                if slots.is_empty() {
                    by_values.remove(&values);
                }
            }
            if by_values.is_empty() {
                selectors.exact.remove(&keys);
            }
        }
        if selectors.exact.is_empty() && selectors.loose.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// The slots whose selectors may match the labels, each once: those whose exact part does. The caller evaluates the
    /// rest of the selector. An empty label set is selected by none.
    #[must_use]
    pub fn candidates(&self, namespace: &str, labels: &Labels) -> BTreeSet<Slot> {
        let Some(selectors) = self.namespaces.get(namespace).filter(|_| !labels.is_empty()) else {
            return BTreeSet::new();
        };
        let mut slots = selectors.loose.clone();
        look(slots.len() + selectors.exact.len());
        for (keys, by_values) in &selectors.exact {
            let values: Option<Words> = keys.iter().map(|key| labels.get(key).map(Box::from)).collect();
            slots.extend(values.and_then(|values| by_values.get(&values)).into_iter().flatten());
        }
        slots
    }
}

fn is_indexed(selector: &Selector) -> bool {
    !selector.is_nothing() && !selector.is_everything()
}

/// Keys and values of the requirements that name exactly one value, in the order of the keys.
fn exact_part(selector: &Selector) -> (Words, Words) {
    let requirements = selector.requirements().iter();
    requirements
        .filter_map(|requirement| match requirement.required_values()? {
            [only] => Some((Box::from(requirement.key()), only.clone())),
            _ => None,
        })
        .unzip()
}
