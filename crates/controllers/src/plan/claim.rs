//! Claims as writes: the patches that adopt and release, and their results.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use muster_machinery::claim::{AdoptionRefused, adopt_patch, recheck_owner, release_patch};
use muster_objects::meta::{ControllerRef, Meta, ObjectKey, ResourceVersion, Uid};

use super::fresh::FreshMeta;
use super::outcome::Written;
use super::{Failure, Owner, PatchType, Resource};

/// The adoptions and releases to do before anything is counted (RS-06 to RS-08).
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimPlan {
    /// The owner.
    pub owner: Owner,
    /// The kind of the objects.
    pub resource: Resource,
    /// One for each object, in the order of the snapshot.
    pub patches: Vec<ClaimPatch>,
}

impl ClaimPlan {
    /// Whether there is nothing to adopt or release.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patches.is_empty()
    }

    /// The outcome if every patch succeeds.
    #[must_use]
    pub fn if_all_succeed(&self) -> ClaimOutcome {
        let adopted = self.patches.iter().filter(|patch| patch.action == ClaimAction::Adopt);
        ClaimOutcome { adopted: adopted.map(|patch| (patch.uid.clone(), None)).collect(), failures: Vec::new() }
    }

    /// Whether the owner must be read from the server once before the patches are sent: there is something to adopt
    /// (RS-07). A release needs no permission.
    #[must_use]
    pub fn needs_permission(&self) -> bool {
        self.patches.iter().any(|patch| patch.action == ClaimAction::Adopt)
    }

    /// Whether the owner may still adopt, from an uncached read of it (RS-07).
    ///
    /// The cache may not show yet that the owner is being deleted. The garbage collector then deletes the owner's pods,
    /// and an adopted orphan would be deleted with them.
    ///
    /// # Errors
    ///
    /// Why not: it could not be read, is another object of the same name, or is being deleted.
    pub fn permission(&self, read: Result<&[u8], &Failure>) -> Result<(), Failure> {
        let refused = |refused: AdoptionRefused| Failure::local(refused.to_string());
        let unreadable = |message: String| refused(AdoptionRefused::Unreadable { message });
        let json = read.map_err(|failure| {
            let why = unreadable(failure.message.clone());
            // A missing owner must not look like a missing pod, which would be skipped. For other failures the server's
            // reason decides when to retry (B-09).
            if failure.is_not_found() { why } else { Failure { message: why.message, ..failure.clone() } }
        })?;
        let FreshMeta { uid, deletion_timestamp, .. } = FreshMeta::decode(json).map_err(unreadable)?;
        let Owner { resource, key: ObjectKey { namespace, name }, uid: owner_uid, .. } = &self.owner;
        let meta = |uid: &Uid, deletion_timestamp| Meta {
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
            uid: uid.clone(),
            deletion_timestamp,
            ..Meta::default()
        };
        recheck_owner(resource.kind, &meta(owner_uid, None), &meta(&uid, deletion_timestamp)).map_err(refused)
    }
}

/// One object to adopt or release.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimPatch {
    /// Whether it is adopted or released.
    pub action: ClaimAction,
    /// The kind of the object.
    pub resource: Resource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid, which the patch contains: a new object of the same name is not patched.
    pub uid: Uid,
    /// The strategic merge patch.
    pub body: Bytes,
}

/// Whether an object is adopted or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAction {
    /// The owner reference is added.
    Adopt,
    /// The owner reference is removed.
    Release,
}

impl ClaimPatch {
    /// How the server reads [`ClaimPatch::body`].
    pub const PATCH_TYPE: PatchType = PatchType::Strategic;

    /// The patch by which `owner` adopts or releases an object. The server refuses an adoption (422) if the object
    /// already has a controller.
    #[must_use]
    pub fn new(action: ClaimAction, resource: Resource, key: ObjectKey, uid: &Uid, owner: &ControllerRef) -> Self {
        let body = match action {
            ClaimAction::Adopt => adopt_patch(owner, uid),
            ClaimAction::Release => release_patch(&owner.uid, uid),
        };
        Self { action, resource, key, uid: uid.clone(), body: Bytes::from(body) }
    }

    /// The failure of an adoption that was not sent because the permission was refused.
    #[must_use]
    pub fn refused(&self, why: &Failure) -> Failure {
        let Self { resource, key, uid, .. } = self;
        why.in_context(&format!("can't adopt {resource} {key} ({uid})"))
    }
}

/// The outcome of a [`ClaimPlan`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimOutcome {
    /// The objects adopted, with their version after the adoption if the answer had it.
    pub adopted: BTreeMap<Uid, Option<ResourceVersion>>,
    /// Why others failed, in the order in which they were settled.
    pub failures: Vec<Failure>,
}

impl ClaimOutcome {
    /// Adds one result.
    ///
    /// An object that is gone is skipped. On release an `Invalid` answer is skipped too: the object no longer has such
    /// a reference, or is another one by now (RS-08). Everything else fails the sync, but only after every other object
    /// was tried.
    ///
    /// Returns the version to record as written for the owner.
    pub fn settle(&mut self, patch: &ClaimPatch, result: Result<Written, Failure>) -> Option<ResourceVersion> {
        match result {
            Ok(written) => {
                if patch.action == ClaimAction::Adopt {
                    self.adopted.insert(patch.uid.clone(), written.resource_version);
                }
                written.resource_version
            }
            Err(failure) => {
                let released = patch.action == ClaimAction::Release && failure.is_invalid();
                if !failure.is_not_found() && !released {
                    self.failures.push(failure);
                }
                None
            }
        }
    }

    /// The error of the sync, if any patch failed.
    #[must_use]
    pub fn error(&self) -> Option<Failure> {
        Failure::aggregate(&self.failures)
    }
}
