//! What one sync looks at, taken from the caches at one moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_machinery::cache::Cache;
use muster_machinery::claim::{Claim, claim_if};
use muster_objects::{Labels, Pod, Selector, SelectorError, Timestamp};

use super::handlers::Owners;
use super::identity::ReplicaOwner;
use super::ranking::{Circumstances, Colocation};
use crate::pause::CountsWait;

/// An owner and everything that a decision about it depends on.
#[derive(Debug, Clone)]
pub struct Snapshot<O> {
    /// The owner.
    pub owner: Arc<O>,
    /// Its selector.
    pub selector: Selector,
    /// The pods that the owner controls, whatever their labels, and the orphans of its namespace that its selector
    /// matches. In the order of the cache: the same after the same history.
    pub pods: Vec<Arc<Pod>>,
    /// How many pods of related owners are on each node; empty if nothing is to be ranked by it (DEL-03).
    pub colocation: Colocation,
    /// What the controller remembers of the owner.
    pub memory: Remembered,
    /// How many pods one sync creates or deletes at most.
    pub burst: u32,
}

/// What the controller remembers of one owner between syncs and decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// Whether the expectations of the last round are met.
    pub expected: Expected,
    /// How long creations are still delayed, because the last pods failed as soon as they were created (B-08).
    pub creations_wait: Option<Duration>,
    /// Whether the owner is to be read from the server before pods are created: pods were deleted by somebody else, and
    /// the cache may not show yet that the owner itself is being deleted (B-23).
    pub confirm: bool,
    /// How long changed counts may be deferred, because the status was written, or pods were managed, a moment ago: the
    /// changes that follow are written together.
    pub counts_wait: CountsWait,
    /// Whether the server stores `terminatingReplicas`.
    pub stores_terminating: bool,
    /// Whether a pod that turned ready since the cache showed it is left where others can go (B-02).
    pub spares: bool,
}

impl Default for Remembered {
    /// For an owner without a record.
    fn default() -> Self {
        Self {
            expected: Expected::Settled,
            creations_wait: None,
            confirm: false,
            counts_wait: CountsWait::default(),
            stores_terminating: true,
            spares: true,
        }
    }
}

/// Whether the expectations of the last round are met (EX-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// They are met, or there are none, or they have expired, or the caches have reached every write of the round and
    /// so show all of it (B-01).
    Settled,
    /// Events are still to come. Managing pods now could create or delete too many.
    Pending {
        /// How long until they expire.
        expires_in: Duration,
    },
}

impl<O: ReplicaOwner> Snapshot<O> {
    /// Looks everything up by index: the cost is that of the owner's own pods and of the orphans that it might adopt,
    /// whatever else the namespace holds (B-15).
    ///
    /// # Errors
    ///
    /// If the owner's selector cannot be parsed (RS-20).
    pub fn take(
        owner: Arc<O>,
        owners: &impl Owners<O>,
        pods: &Cache<Pod>,
        memory: Remembered,
        burst: u32,
    ) -> Result<Self, SelectorError> {
        let selector = owner.selector().map_err(Clone::clone)?.clone();
        let meta = owner.meta();
        let owned = pods.owned_by(O::IDENTITY.resource.kind, meta);
        let orphans = pods.orphans_matching(&meta.namespace, &selector);
        let mut snapshot = Self {
            pods: owned.chain(orphans).cloned().collect(),
            colocation: Colocation::default(),
            owner,
            selector,
            memory,
            burst,
        };
        if snapshot.will_rank() {
            snapshot.colocation = colocation(&*snapshot.owner, owners, pods);
        }
        Ok(snapshot)
    }

    /// The same with the colocation of related pods looked up even if nothing is to be ranked now, for an explanation
    /// of the order.
    #[must_use]
    pub fn ranked_among(mut self, owners: &impl Owners<O>, pods: &Cache<Pod>) -> Self {
        self.colocation = colocation(&*self.owner, owners, pods);
        self
    }

    /// What its pods are ranked by at this time of the server.
    #[must_use]
    pub fn circumstances(&self, now: Timestamp) -> Circumstances<'_> {
        let min_ready_seconds = self.owner.min_ready_seconds();
        Circumstances { colocation: &self.colocation, min_ready_seconds, now }
    }

    /// Whether some of the pods are to be deleted, but not all (DEL-05).
    fn will_rank(&self) -> bool {
        let owner = self.owner.meta();
        let mut selected = Labels::asked_once(|labels| self.selector.matches(labels));
        let claims = self.active().map(|pod| claim_if(owner, &pod.meta, || selected(&pod.meta.labels)));
        let active = claims.filter(|claim| matches!(claim, Claim::Keep | Claim::Adopt)).count();
        let wanted = usize::try_from(self.owner.replicas()).unwrap_or(0);
        active > wanted && (wanted > 0 || active > usize::try_from(self.burst).unwrap_or(usize::MAX))
    }

    /// The pods that count (RS-05): neither finished nor being deleted.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter().filter(|pod| pod.is_active())
    }

    /// How many of the owner's own pods that match are being deleted and not finished yet (RS-15).
    #[must_use]
    pub fn terminating(&self) -> i32 {
        let owner = &self.owner.meta().uid;
        let ours = |pod: &&Arc<Pod>| pod.meta.is_controlled_by(owner) && self.selector.matches(&pod.meta.labels);
        let count = self.pods.iter().filter(|pod| pod.is_terminating()).filter(ours).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    }
}

/// Counts, on each node, the active pods that the owner's siblings select, itself included (DEL-03).
fn colocation<O: ReplicaOwner>(owner: &O, owners: &impl Owners<O>, pods: &Cache<Pod>) -> Colocation {
    let mut colocation = Colocation::default();
    // An owner without a controller has no siblings, and its pods are not ranked by this.
    let controller = owner.meta().controller.as_ref().filter(|_| O::IDENTITY.ranks_by_node);
    let Some(controller) = controller else { return colocation };
    let mut seen = BTreeSet::new();
    for sibling in owners.siblings(&controller.uid) {
        // One with an invalid selector selects nothing.
        let Ok(selector) = sibling.selector() else { continue };
        for pod in pods.matching(&sibling.meta().namespace, selector) {
            // Selectors may overlap, and a pod counts once.
            if seen.insert(pod.meta.uid.clone()) {
                colocation.add(pod);
            }
        }
    }
    colocation
}
