//! The indexes of kinds that select others: by controlling owner, by label, and by what they select
//! (INF-07, B-15). ReplicaSets and ReplicationControllers select pods, Deployments select ReplicaSets.

use std::marker::PhantomData;
use std::sync::Arc;

use muster_objects::{Deployment, Labels, Object, ReplicaSet, ReplicationController, Selector, SelectorError, Uid};

use super::{Cache, Cached, Index, Indexes, LabelIndex, SelectorIndex, Slot};

/// A kind whose objects select others by their labels.
pub trait Selecting: Object {
    /// The parsed selector, or why it cannot be parsed.
    fn selector(&self) -> Result<&Selector, &SelectorError>;
}

impl Selecting for ReplicaSet {
    fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.selector.as_ref()
    }
}

impl Selecting for ReplicationController {
    fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.selector.as_ref()
    }
}

impl Selecting for Deployment {
    fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.selector.as_ref()
    }
}

impl Cached for ReplicaSet {
    type Indexes = SelectingIndexes<Self>;
}

impl Cached for ReplicationController {
    type Indexes = SelectingIndexes<Self>;
}

impl Cached for Deployment {
    type Indexes = SelectingIndexes<Self>;
}

/// The indexes of one selecting kind.
#[derive(Debug)]
pub struct SelectingIndexes<T> {
    /// By the uid of the controller.
    owners: Index<Uid>,
    /// Those without a controller, by their labels: what an owner of such objects may adopt.
    orphans: LabelIndex,
    /// By what they select.
    selectors: SelectorIndex,
    kind: PhantomData<fn(T)>,
}

impl<T> Default for SelectingIndexes<T> {
    fn default() -> Self {
        Self {
            owners: Index::default(),
            orphans: LabelIndex::default(),
            selectors: SelectorIndex::default(),
            kind: PhantomData,
        }
    }
}

impl<T: Selecting> Indexes<T> for SelectingIndexes<T> {
    fn insert(&mut self, slot: Slot, object: &T) {
        let meta = object.meta();
        match &meta.controller {
            Some(controller) => self.owners.insert(controller.uid.clone(), slot),
            None => self.orphans.insert(slot, &meta.namespace, &meta.labels),
        }
        if let Ok(selector) = object.selector() {
            self.selectors.insert(slot, &meta.namespace, selector);
        }
    }

    fn remove(&mut self, slot: Slot, object: &T) {
        let meta = object.meta();
        match &meta.controller {
            Some(controller) => self.owners.remove(&controller.uid, slot),
            None => self.orphans.remove(slot, &meta.namespace, &meta.labels),
        }
        if let Ok(selector) = object.selector() {
            self.selectors.remove(slot, &meta.namespace, selector);
        }
    }

    fn update(&mut self, slot: Slot, old: &T, new: &T) {
        let unchanged = old.meta().labels == new.meta().labels
            && old.meta().controller == new.meta().controller
            && old.selector() == new.selector();
        if !unchanged {
            self.remove(slot, old);
            self.insert(slot, new);
        }
    }
}

impl<T: Selecting + Cached<Indexes = SelectingIndexes<T>>> Cache<T> {
    /// The objects whose controller has that uid: the ReplicaSets of one Deployment (INF-07, DEL-03).
    pub fn controlled_by(&self, uid: &Uid) -> impl Iterator<Item = &Arc<T>> {
        self.indexes().owners.get(uid).filter_map(|slot| self.get_slot(slot))
    }

    /// The objects of a namespace that select those labels: the owners that may adopt an orphan (RS-02, DEP-01, B-15).
    /// An empty or invalid selector selects nothing, and an object without labels is not selected.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = &Arc<T>> {
        let candidates = self.indexes().selectors.candidates(namespace, labels);
        let objects = candidates.into_iter().filter_map(|slot| self.get_slot(slot));
        objects.filter(|object| object.selector().is_ok_and(|selector| selector.matches(labels)))
    }

    /// The objects of a namespace that have no controller and that the selector matches.
    pub fn orphans_matching(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<T>> {
        self.indexes().orphans.select(namespace, selector).into_iter().filter_map(|slot| self.get_slot(slot))
    }
}
