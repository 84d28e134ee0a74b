//! Claiming: which pods are the owner's, by [`crate::claiming`].

use std::sync::Arc;

use muster_objects::meta::{Meta, ResourceVersion, Uid};
use muster_objects::{Pod, Selector};

use crate::plan::{ClaimOutcome, ClaimPlan, Owner, Resource};

/// The adoptions and releases needed among `pods` (RS-06).
#[must_use]
pub fn claims<'a>(
    owner: Owner,
    meta: &Meta,
    selector: &Selector,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
) -> ClaimPlan {
    crate::claiming::claims(owner, meta, selector, Resource::PODS, pods)
}

/// A pod that the owner controls after claiming.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// As the cache has it.
    pub pod: Arc<Pod>,
    /// Its newest known version: that of the adoption, if it was adopted just now.
    pub version: ResourceVersion,
}

impl Claimed {
    /// The pod's uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.pod.meta.uid
    }
}

/// Those of `pods` that the owner controls after the adoptions, in their order.
#[must_use]
pub fn claimed<'a>(
    owner: &Meta,
    selector: &Selector,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    outcome: &ClaimOutcome,
) -> Vec<Claimed> {
    let claimed = crate::claiming::claimed(owner, selector, pods, outcome);
    claimed.map(|(pod, version)| Claimed { pod: Arc::clone(pod), version }).collect()
}
