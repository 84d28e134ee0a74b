//! Claiming: which objects an owner keeps, adopts and releases.
//!
//! An object's controller reference says who owns it; the selector only says what ought to be owned. Where the two
//! disagree, the reference is changed first and the object counted after:
//!
//! | the object's controller | selector matches | then |
//! |---|---|---|
//! | this owner | yes | keep, even while the owner is being deleted |
//! | this owner | no | release, unless the owner is being deleted |
//! | none | yes | adopt, unless it or the owner is being deleted |
//! | none | no | leave |
//! | another | either | leave |
//!
//! An owner is identified by its uid: a reference to an earlier owner of the same name is another's.
//! The table itself is [`muster_machinery::claim`]. A ReplicaSet claims pods by it, a Deployment ReplicaSets.

use std::sync::Arc;

use muster_machinery::claim::{Claim, claim_if};
use muster_objects::meta::{ControllerRef, Meta, ResourceVersion};
use muster_objects::{Labels, Object, Selector};

use crate::plan::{ClaimAction, ClaimOutcome, ClaimPatch, ClaimPlan, Owner, Resource};

/// The adoptions and releases needed among `objects`, which are served at `resource` (RS-06).
#[must_use]
pub fn claims<'a, T: Object>(
    owner: Owner,
    meta: &Meta,
    selector: &Selector,
    resource: Resource,
    objects: impl IntoIterator<Item = &'a Arc<T>>,
) -> ClaimPlan {
    let reference = ControllerRef::to(owner.resource.api_version(), owner.resource.kind, meta);
    let mut selected = Labels::asked_once(|labels| selector.matches(labels));
    let patch = |object: &'a Arc<T>| {
        let object = object.meta();
        let action = match claim_if(meta, object, || selected(&object.labels)) {
            Claim::Adopt => ClaimAction::Adopt,
            Claim::Release => ClaimAction::Release,
            Claim::Keep | Claim::Ignore => return None,
        };
        Some(ClaimPatch::new(action, resource, object.key(), &object.uid, &reference))
    };
    let patches = objects.into_iter().filter_map(patch).collect();
    ClaimPlan { owner, resource, patches }
}

/// Those of `objects` that the owner controls after the adoptions, in their order. Each comes with its newest known
/// version, which for an object adopted just now is that of the adoption.
pub fn claimed<'a, T: Object>(
    owner: &Meta,
    selector: &Selector,
    objects: impl IntoIterator<Item = &'a Arc<T>>,
    outcome: &ClaimOutcome,
) -> impl Iterator<Item = (&'a Arc<T>, ResourceVersion)> {
    let mut selected = Labels::asked_once(|labels| selector.matches(labels));
    let mut version_of = move |meta: &'a Meta| match claim_if(owner, meta, || selected(&meta.labels)) {
        Claim::Keep => Some(meta.resource_version),
        Claim::Adopt => outcome.adopted.get(&meta.uid).map(|version| version.unwrap_or(meta.resource_version)),
        Claim::Release | Claim::Ignore => None,
    };
    objects.into_iter().filter_map(move |object| Some((object, version_of(object.meta())?)))
}
