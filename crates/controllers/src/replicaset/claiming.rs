//! Claiming: which pods are the owner's, which it takes, and which it lets go.
//!
//! Ownership is written on the pod, by its controller reference; the selector only says what ought to
//! be owned. Where the two disagree, the reference is changed first and the pod counted after:
//!
//! | the pod's controller | selector matches | then |
//! |---|---|---|
//! | this owner | yes | keep, even while the owner is being deleted |
//! | this owner | no | release, unless the owner is being deleted |
//! | nobody | yes | adopt, unless it or the owner is being deleted |
//! | nobody | no | leave |
//! | another | either | leave |
//!
//! The owner is known by its uid alone: a reference of the same name to an earlier owner is another's.
//! The table itself is [`muster_machinery::claim`], since a Deployment claims its ReplicaSets by the same.

use std::sync::Arc;

use muster_machinery::claim::{Claim, claim};
use muster_objects::meta::{Meta, ResourceVersion, Uid};
use muster_objects::{Pod, Selector};

use crate::plan::{ClaimAction, ClaimOutcome, ClaimPatch, ClaimPlan, Owner, Resource};

/// What changes hands among `pods` (RS-06).
#[must_use]
pub fn claims<'a>(
    owner: Owner,
    meta: &Meta,
    selector: &Selector,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
) -> ClaimPlan {
    let reference = muster_objects::ControllerRef::to(owner.resource.api_version(), owner.resource.kind, meta);
    let patch = |pod: &Arc<Pod>| {
        let action = match claim(meta, selector, &pod.meta) {
            Claim::Adopt => ClaimAction::Adopt,
            Claim::Release => ClaimAction::Release,
            Claim::Keep | Claim::Ignore => return None,
        };
        Some(ClaimPatch::new(action, Resource::PODS, pod.meta.key(), &pod.meta.uid, &reference))
    };
    let patches = pods.into_iter().filter_map(patch).collect();
    ClaimPlan { owner, resource: Resource::PODS, patches }
}

/// A pod that is the owner's after claiming.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// As the cache has it.
    pub pod: Arc<Pod>,
    /// Its newest known version: that of the adoption, where it was adopted just now.
    pub version: ResourceVersion,
}

impl Claimed {
    /// The pod's uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.pod.meta.uid
    }
}

/// The pods among `pods` that are the owner's, given what came of the adoptions, in their order.
#[must_use]
pub fn claimed<'a>(
    owner: &Meta,
    selector: &Selector,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    outcome: &ClaimOutcome,
) -> Vec<Claimed> {
    let version_of = |pod: &Pod| match claim(owner, selector, &pod.meta) {
        Claim::Keep => Some(pod.meta.resource_version),
        Claim::Adopt => outcome.adopted.get(&pod.meta.uid).map(|version| version.unwrap_or(pod.meta.resource_version)),
        Claim::Release | Claim::Ignore => None,
    };
    pods.into_iter().filter_map(|pod| Some(Claimed { pod: Arc::clone(pod), version: version_of(pod)? })).collect()
}
