//! The indexes of the cache of pods: by label, and by the claims that they use.

use std::sync::Arc;

use muster_machinery::cache::{Cache, Cached, Index, Indexes, LabelIndex, Slot};
use muster_objects::{ObjectKey, Selector};

use super::Pod;

/// The indexes of pods.
#[derive(Debug, Default)]
pub struct PodIndexes {
    labels: LabelIndex,
    /// By namespace and name of the claims among their volumes.
    claims: Index<ObjectKey>,
}

impl Cached for Pod {
    type Indexes = PodIndexes;
}

impl Indexes<Pod> for PodIndexes {
    fn insert(&mut self, slot: Slot, pod: &Pod) {
        self.labels.insert(slot, &pod.meta.namespace, &pod.meta.labels);
        for key in claims(pod) {
            self.claims.insert(key, slot);
        }
    }

    fn remove(&mut self, slot: Slot, pod: &Pod) {
        self.labels.remove(slot, &pod.meta.namespace, &pod.meta.labels);
        for key in claims(pod) {
            self.claims.remove(&key, slot);
        }
    }

    fn update(&mut self, slot: Slot, old: &Pod, new: &Pod) {
        if old.meta.labels != new.meta.labels || old.extras().claims != new.extras().claims {
            self.remove(slot, old);
            self.insert(slot, new);
        }
    }
}

impl PodIndexes {
    /// The pods of a namespace that a selector matches, sorted by name.
    pub(crate) fn selected(cache: &Cache<Pod>, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        let slots = cache.indexes().labels.select(namespace, selector);
        let mut pods: Vec<Arc<Pod>> = slots.into_iter().filter_map(|slot| cache.get_slot(slot).cloned()).collect();
        pods.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        pods
    }

    /// The pods that use a claim, sorted by name.
    pub(crate) fn using(cache: &Cache<Pod>, claim: &ObjectKey) -> Vec<Arc<Pod>> {
        let slots = cache.indexes().claims.get(claim);
        let mut pods: Vec<Arc<Pod>> = slots.filter_map(|slot| cache.get_slot(slot).cloned()).collect();
        pods.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        pods
    }
}

/// The keys of the claims among a pod's volumes.
pub(crate) fn claims(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let volumes = pod.extras().claims.iter();
    volumes.map(|volume| ObjectKey::new(Arc::clone(&pod.meta.namespace), Arc::clone(&volume.claim)))
}
