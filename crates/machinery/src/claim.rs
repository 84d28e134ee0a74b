//! Claiming: which objects an owner keeps, adopts and releases, by owner reference and selector (RS-06 to RS-08).
//!
//! The decision is a pure function, and the patches are bytes. A ReplicaSet claims pods with them, a Deployment claims
//! ReplicaSets.

use std::fmt;

use muster_objects::{ControllerRef, Meta, Selector, Timestamp, Uid};
use serde::Serialize;
use serde_json::json;

/// What an owner does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// The owner controls it, and keeps it.
    Keep,
    /// The owner controls it and no longer selects it: the reference is removed.
    Release,
    /// It has no controller and is selected: a reference is added.
    Adopt,
    /// Another owner controls it, it is not selected, or it may not be changed now.
    Ignore,
}

/// The claim for one object (RS-06).
#[must_use]
pub fn claim(owner: &Meta, selector: &Selector, object: &Meta) -> Claim {
    claim_if(owner, object, || selector.matches(&object.labels))
}

/// The same with `matches` for whether the object is selected; it is not called if the answer makes no difference.
pub fn claim_if(owner: &Meta, object: &Meta, matches: impl FnOnce() -> bool) -> Claim {
    if let Some(controller) = &object.controller {
        if controller.uid != owner.uid {
            return Claim::Ignore;
        }
        // An owned object is kept during the owner's deletion: that needs no write.
        return match matches() {
            true => Claim::Keep,
            false if owner.is_being_deleted() => Claim::Ignore,
            false => Claim::Release,
        };
    }
    let out_of_reach = owner.is_being_deleted()
        || object.is_being_deleted()
        || (!owner.namespace.is_empty() && owner.namespace != object.namespace);
    if out_of_reach || !matches() { Claim::Ignore } else { Claim::Adopt }
}

/// The strategic merge patch that adopts an object: it adds the owner as controller and contains the object's uid, so
/// that the server refuses it for a new object of the same name (RS-08).
#[must_use]
pub fn adopt_patch(owner: &ControllerRef, object: &Uid) -> Vec<u8> {
    to_bytes(&json!({
        "metadata": { "ownerReferences": [owner.to_owner_reference()], "uid": object },
    }))
}

/// The strategic merge patch that releases an object: it removes the reference to the owner and contains the object's
/// uid (RS-08).
#[must_use]
pub fn release_patch(owner: &Uid, object: &Uid) -> Vec<u8> {
    to_bytes(&json!({
        "metadata": { "ownerReferences": [{ "$patch": "delete", "uid": owner }], "uid": object },
    }))
}

/// Checks a fresh, uncached read of the owner before the first adoption of a sync (RS-07).
///
/// # Errors
///
/// If the owner is another object by now, or is being deleted: then nothing may be adopted.
pub fn recheck_owner(kind: &str, owner: &Meta, fresh: &Meta) -> Result<(), AdoptionRefused> {
    if fresh.uid != owner.uid {
        return Err(AdoptionRefused::Gone {
            kind: kind.to_owned(),
            owner: owner.key().to_string(),
            found: fresh.uid.clone(),
            wanted: owner.uid.clone(),
        });
    }
    match fresh.deletion_timestamp {
        Some(at) => Err(AdoptionRefused::BeingDeleted { owner: fresh.key().to_string(), at: GoTime(at) }),
        None => Ok(()),
    }
}

/// Why an owner may not adopt in this sync, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptionRefused {
    /// Another object has the owner's name by now.
    #[error("can't recheck DeletionTimestamp: original {kind} {owner} is gone: got uid {found}, wanted {wanted}")]
    Gone {
        /// The owner's kind.
        kind: String,
        /// The owner's namespace and name.
        owner: String,
        /// The uid of that object.
        found: Uid,
        /// The owner's uid.
        wanted: Uid,
    },
    /// The owner is being deleted.
    #[error("{owner} has just been deleted at {at}")]
    BeingDeleted {
        /// The owner's namespace and name.
        owner: String,
        /// Its deletion timestamp.
        at: GoTime,
    },
    /// The owner could not be read.
    #[error("can't recheck DeletionTimestamp: {message}")]
    Unreadable {
        /// The client's error.
        message: String,
    },
}

/// An adoption that was refused, with the object that it was for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("can't adopt {kind} {object} ({uid}): {refused}")]
pub struct AdoptionError {
    /// The object's kind.
    pub kind: String,
    /// The object's namespace and name.
    pub object: String,
    /// The object's uid.
    pub uid: Uid,
    /// Why.
    #[source]
    pub refused: AdoptionRefused,
}

/// A time as Go prints one by default: `2026-01-02 15:04:05 +0000 UTC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoTime(pub Timestamp);

impl fmt::Display for GoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rfc3339 = self.0.to_string();
        write!(f, "{} +0000 UTC", rfc3339.trim_end_matches('Z').replace('T', " "))
    }
}

fn to_bytes<T: Serialize>(patch: &T) -> Vec<u8> {
    serde_json::to_vec(patch).expect("strings, booleans and uids always have a JSON form")
}

#[cfg(test)]
mod tests;
