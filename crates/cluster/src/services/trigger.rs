//! When what an endpoints object shows last changed: the annotation by which its latency is measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{Meta, ObjectKey, Timestamp};

use crate::pod::Pod;

/// The annotation.
pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times that the last sync of each Service saw.
#[derive(Debug, Default)]
pub(super) struct TriggerTimes {
    services: BTreeMap<ObjectKey, BTreeMap<Arc<str>, Timestamp>>,
}

impl TriggerTimes {
    /// The earliest of the times at which a pod's readiness changed since the Service's last sync; at its first sync,
    /// the Service's creation.
    pub(super) fn changed_at(&mut self, service: &Meta, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let now: BTreeMap<Arc<str>, Timestamp> =
            pods.iter().filter_map(|pod| Some((Arc::clone(&pod.meta.name), pod.status.ready_since?))).collect();
        let Some(before) = self.services.get(&service.key()) else {
            self.services.insert(service.key(), now);
            return service.creation_timestamp;
        };
        let changed = now.iter().filter(|(name, time)| before.get(*name).is_none_or(|before| before < *time));
        let changed = changed.map(|(_, time)| *time).min();
        self.services.insert(service.key(), now);
        changed
    }

    /// A Service is gone.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.services.remove(key);
    }
}
