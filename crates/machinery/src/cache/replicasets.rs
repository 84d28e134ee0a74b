//! The indexes of ReplicaSets: by controlling owner, by label, and by what they select (INF-07, B-15).

use std::sync::Arc;

use muster_objects::{Labels, ReplicaSet, Selector, Uid};

use super::{Cache, Cached, Index, Indexes, LabelIndex, SelectorIndex, Slot};

impl Cached for ReplicaSet {
    type Indexes = ReplicaSetIndexes;
}

/// Where the ReplicaSets are.
#[derive(Debug, Default)]
pub struct ReplicaSetIndexes {
    /// By the uid of the controller.
    owners: Index<Uid>,
    /// The ReplicaSets without a controller by their labels: what a Deployment may adopt.
    orphans: LabelIndex,
    /// By what they select.
    selectors: SelectorIndex,
}

impl Indexes<ReplicaSet> for ReplicaSetIndexes {
    fn insert(&mut self, slot: Slot, set: &ReplicaSet) {
        match &set.meta.controller {
            Some(controller) => self.owners.insert(controller.uid.clone(), slot),
            None => self.orphans.insert(slot, &set.meta.namespace, &set.meta.labels),
        }
        if let Ok(selector) = &set.selector {
            self.selectors.insert(slot, &set.meta.namespace, selector);
        }
    }

    fn remove(&mut self, slot: Slot, set: &ReplicaSet) {
        match &set.meta.controller {
            Some(controller) => self.owners.remove(&controller.uid, slot),
            None => self.orphans.remove(slot, &set.meta.namespace, &set.meta.labels),
        }
        if let Ok(selector) = &set.selector {
            self.selectors.remove(slot, &set.meta.namespace, selector);
        }
    }

    fn update(&mut self, slot: Slot, old: &ReplicaSet, new: &ReplicaSet) {
        let unchanged = old.meta.labels == new.meta.labels
            && old.meta.controller == new.meta.controller
            && old.selector == new.selector;
        if !unchanged {
            self.remove(slot, old);
            self.insert(slot, new);
        }
    }
}

impl Cache<ReplicaSet> {
    /// The ReplicaSets whose controller has that uid: the siblings of one Deployment (INF-07, DEL-03).
    pub fn controlled_by(&self, uid: &Uid) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.indexes().owners.get(uid).filter_map(|slot| self.get_slot(slot))
    }

    /// The ReplicaSets of a namespace that select those labels: whom an orphan pod may concern
    /// (RS-02, B-15). An empty or invalid selector selects nothing, and a pod without labels is
    /// selected by nobody.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        let candidates = self.indexes().selectors.candidates(namespace, labels);
        let sets = candidates.into_iter().filter_map(|slot| self.get_slot(slot));
        sets.filter(|set| set.selector.as_ref().is_ok_and(|selector| selector.matches(labels)))
    }

    /// The ReplicaSets of a namespace that have no controller and that the selector matches.
    pub fn orphans_matching(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.indexes().orphans.select(namespace, selector).into_iter().filter_map(|slot| self.get_slot(slot))
    }
}
