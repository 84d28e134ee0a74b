//! The indexes of pods: by controlling owner, by label, and the orphans among them (INF-07, B-15).

use std::sync::Arc;

use muster_objects::{Meta, Pod, Selector, Uid};

use super::{Cache, Cached, Index, Indexes, LabelIndex, Slot};

impl Cached for Pod {
    type Indexes = PodIndexes;
}

/// The indexes of pods.
#[derive(Debug, Default)]
pub struct PodIndexes {
    /// By the uid of the controller.
    owners: Index<Uid>,
    /// Every pod by its labels.
    labels: LabelIndex,
    /// The pods without a controller by their labels.
    orphans: LabelIndex,
}

impl Indexes<Pod> for PodIndexes {
    fn insert(&mut self, slot: Slot, pod: &Pod) {
        let Meta { namespace, labels, controller, .. } = &pod.meta;
        self.labels.insert(slot, namespace, labels);
        match controller {
            Some(controller) => self.owners.insert(controller.uid.clone(), slot),
            None => self.orphans.insert(slot, namespace, labels),
        }
    }

    fn remove(&mut self, slot: Slot, pod: &Pod) {
        let Meta { namespace, labels, controller, .. } = &pod.meta;
        self.labels.remove(slot, namespace, labels);
        match controller {
            Some(controller) => self.owners.remove(&controller.uid, slot),
            None => self.orphans.remove(slot, namespace, labels),
        }
    }

    fn update(&mut self, slot: Slot, old: &Pod, new: &Pod) {
        // Most updates are of the status.
        if old.meta.labels != new.meta.labels || old.meta.controller != new.meta.controller {
            self.remove(slot, old);
            self.insert(slot, new);
        }
    }
}

impl PodIndexes {
    /// Whether no pod is indexed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.labels.is_empty() && self.orphans.is_empty()
    }
}

impl Cache<Pod> {
    /// The pods whose controller is that object of that kind: namespace, kind, name and uid all
    /// agree (INF-07).
    pub fn owned_by(&self, kind: &str, owner: &Meta) -> impl Iterator<Item = &Arc<Pod>> {
        let pods = self.controlled_by(&owner.uid);
        pods.filter(move |pod| {
            let names_owner = |controller: &_| {
                let muster_objects::ControllerRef { kind: its_kind, name, .. } = controller;
                **its_kind == *kind && *name == owner.name
            };
            pod.meta.namespace == owner.namespace && pod.meta.controller.as_deref().is_some_and(names_owner)
        })
    }

    /// The pods whose controller has that uid.
    pub fn controlled_by(&self, uid: &Uid) -> impl Iterator<Item = &Arc<Pod>> {
        self.indexes().owners.get(uid).filter_map(|slot| self.get_slot(slot))
    }

    /// The pods of a namespace that have no controller (INF-07).
    pub fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.indexes().orphans.in_namespace(namespace).filter_map(|slot| self.get_slot(slot))
    }

    /// The pods of a namespace that have no controller and that the selector matches: the ones that
    /// could be adopted (B-15).
    pub fn orphans_matching(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<Pod>> {
        self.indexes().orphans.select(namespace, selector).into_iter().filter_map(|slot| self.get_slot(slot))
    }

    /// The pods of a namespace that the selector matches, whoever owns them (DEL-03, B-15).
    pub fn matching(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<Pod>> {
        self.indexes().labels.select(namespace, selector).into_iter().filter_map(|slot| self.get_slot(slot))
    }

    /// The pods of a namespace. For the deletion of a namespace, not for syncs.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.indexes().labels.in_namespace(namespace).filter_map(|slot| self.get_slot(slot))
    }
}
