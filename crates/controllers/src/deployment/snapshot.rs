//! What one sync looks at, taken from the caches at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_machinery::cache::Cache;
use muster_objects::meta::Uid;
use muster_objects::{Deployment, Object, Pod, ReplicaSet, Selector, SelectorError, Strategy};

use super::sets::{by_age, with_equal_template};
use crate::pause::CountsWait;

/// A Deployment and everything that a decision about it depends on.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The Deployment as the cache has it.
    pub deployment: Arc<Deployment>,
    /// Its selector.
    pub selector: Selector,
    /// The ReplicaSets that the Deployment controls, whatever their labels, and the orphans of its namespace that its
    /// selector matches: oldest first, by creation time and then by name.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// The uids of those whose template equals the Deployment's (DEP-03).
    pub current: BTreeSet<Uid>,
    /// The pods of the ReplicaSets under the Recreate strategy (DEP-12); otherwise none.
    pub pods: Vec<Arc<Pod>>,
    /// How long changed counts may be deferred, because something was written a moment ago.
    pub counts_wait: CountsWait,
    /// Whether the Deployment is to be read before a ReplicaSet is created: the one of its template went, and the cache may not
    /// show yet that the Deployment itself is being deleted (B-23).
    pub confirm: bool,
    /// How many syncs of this Deployment have failed in a row (B-06).
    pub failures: u32,
}

impl Snapshot {
    /// Looks everything up by index: the cost is that of the Deployment's own ReplicaSets and of the orphans that it
    /// might adopt, whatever else the namespace holds (B-15).
    ///
    /// # Errors
    ///
    /// If the Deployment's selector cannot be parsed.
    pub fn take(
        deployment: Arc<Deployment>,
        sets: &Cache<ReplicaSet>,
        pods: &Cache<Pod>,
        failures: u32,
    ) -> Result<Self, SelectorError> {
        let selector = deployment.selector.clone()?;
        let meta = &deployment.meta;
        let owned = sets.controlled_by(&meta.uid).filter(|set| set.meta.namespace == meta.namespace);
        let orphans = sets.orphans_matching(&meta.namespace, &selector);
        let found = owned.chain(orphans).cloned().collect();
        let mut snapshot = Self { failures, ..Self::of(deployment, selector, found) };
        if snapshot.deployment.strategy == Strategy::Recreate {
            let of_sets = snapshot.sets.iter().flat_map(|set| pods.owned_by(ReplicaSet::KIND, &set.meta));
            snapshot.pods = of_sets.cloned().collect();
        }
        Ok(snapshot)
    }

    /// A snapshot of a Deployment with these ReplicaSets, in any order, and nothing else.
    #[must_use]
    pub fn of(deployment: Arc<Deployment>, selector: Selector, mut sets: Vec<Arc<ReplicaSet>>) -> Self {
        sets.sort_by(|a, b| by_age(a, b));
        let current = with_equal_template(&deployment, &sets).map(|set| set.meta.uid.clone()).collect();
        let counts_wait = CountsWait::default();
        Self { deployment, selector, sets, current, pods: Vec::new(), counts_wait, confirm: false, failures: 0 }
    }
}
