//! The writes of a plan: creations, deletions, patches and the status.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use muster_objects::Selector;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};

use super::fresh::FreshMeta;
use super::outcome::{Holder, Settled, Settlement, Written};
use super::{Announcement, Failure, Resource};

/// Identical objects to create.
#[derive(Debug, Clone, PartialEq)]
pub struct Creation {
    /// What is created.
    pub resource: Resource,
    /// Where.
    pub namespace: Arc<str>,
    /// How many times `body` is POSTed; at least 1.
    pub count: u32,
    /// The object as JSON, encoded once. With `generateName`, equal bodies create different objects; with a `name`,
    /// `count` is 1.
    pub body: Bytes,
    /// The object's `name`, if it has one. If that name is taken the result is [`Settlement::NameTaken`], not yet a
    /// failure.
    pub name: Option<Arc<str>>,
    /// The Events on the owner.
    pub events: EventTexts,
}

impl Creation {
    /// What a result means.
    ///
    /// A refusal because the namespace is terminating is no error and no event: the object is not
    /// needed any more (RS-12). It ends the round, since every further creation would meet it too.
    #[must_use]
    pub fn settle(&self, result: &Result<Written, Failure>) -> Settled {
        match result {
            Ok(written) => Settled {
                announcement: self.events.succeeded(&written.name),
                wrote: written.resource_version,
                ..Settled::of(Settlement::Created)
            },
            Err(failure) if failure.is_namespace_terminating() => {
                Settled { lowers: true, ends_round: true, ..Settled::of(Settlement::NotNeeded) }
            }
            Err(failure) if self.name.is_some() && failure.is_already_exists() => {
                Settled { lowers: true, ends_round: true, ..Settled::of(Settlement::NameTaken(failure.clone())) }
            }
            Err(failure) => Settled {
                announcement: self.events.failed(&failure.message),
                lowers: true,
                ends_round: true,
                ..Settled::of(Settlement::Failed(failure.clone()))
            },
        }
    }

    /// The object that has the name, from a read of it after [`Settlement::NameTaken`]. `None` if it is gone by now.
    ///
    /// Its version is to be recorded as if it had been written: the next decision then waits for a cache that shows the
    /// object, and does not try the same name again.
    ///
    /// # Errors
    ///
    /// If it could not be read.
    pub fn holder(&self, read: Result<&[u8], &Failure>) -> Result<Option<Holder>, Failure> {
        let json = match read {
            Ok(json) => json,
            Err(failure) if failure.is_not_found() => return Ok(None),
            Err(failure) => return Err(failure.clone()),
        };
        let name = self.name.as_deref().unwrap_or_default();
        let fresh = FreshMeta::decode(json)
            .map_err(|error| Failure::local(format!("reading {} {}/{name}: {error}", self.resource, self.namespace)))?;
        let controller = fresh.controller().cloned();
        Ok(Some(Holder { uid: fresh.uid, controller, resource_version: fresh.resource_version }))
    }
}

/// One object to delete, with preconditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// What is deleted.
    pub resource: Resource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid precondition: a new object of the same name is not deleted.
    pub uid: Uid,
    /// The resourceVersion precondition: the object is not deleted in a state that was not seen (B-02).
    pub resource_version: ResourceVersion,
    /// What must hold of the object after a conflict for the deletion to be sent again.
    pub ownership: Arc<Ownership>,
    /// Whether it was chosen before others because it was not ready: one that is ready by now is left.
    pub unready: bool,
    /// The Events on the owner.
    pub events: EventTexts,
}

impl Deletion {
    /// How often one deletion is sent within a sync before its conflict counts as an error. An object
    /// that changes between read and delete this many times in a row is left to the next sync.
    pub const MOST_ATTEMPTS: u32 = 8;

    /// The `DeleteOptions` that go with the DELETE.
    #[must_use]
    pub fn options(&self) -> Bytes {
        let Self { uid, resource_version, .. } = self;
        let preconditions = if resource_version.is_known() {
            serde_json::json!({"uid": uid, "resourceVersion": resource_version})
        } else {
            serde_json::json!({"uid": uid})
        };
        let options = serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
        Bytes::from(options.to_string())
    }

    /// What a conflict means, from a fresh read of the object (B-02).
    ///
    /// `read` is the answer to a GET: the object's JSON, or why there is none.
    #[must_use]
    pub fn after_conflict(&self, read: Result<&[u8], &Failure>) -> AfterConflict {
        let json = match read {
            Ok(json) => json,
            Err(failure) if failure.is_not_found() => return AfterConflict::Leave { seen: None },
            Err(failure) => return AfterConflict::Fail(failure.clone()),
        };
        let fresh = match FreshMeta::decode(json) {
            Ok(fresh) => fresh,
            Err(error) => {
                return AfterConflict::Fail(Failure::local(format!("reading {} again: {error}", self.key)));
            }
        };
        let unchanged = self.ownership.generation.is_none_or(|generation| fresh.generation == generation);
        let ours = unchanged
            && !(self.unready && fresh.ready)
            && fresh.uid == self.uid
            && fresh.deletion_timestamp.is_none()
            && fresh.is_controlled_by(&self.ownership.owner)
            && self.ownership.selector.matches(&fresh.labels.unwrap_or_default());
        if ours {
            AfterConflict::Again(Self { resource_version: fresh.resource_version, ..self.clone() })
        } else {
            AfterConflict::Leave { seen: Some(fresh.resource_version) }
        }
    }

    /// What the last result means.
    ///
    /// An object already gone lowers the expectation and is no error (RS-13).
    #[must_use]
    pub fn settle(&self, result: &Result<Written, Failure>) -> Settled {
        match result {
            Ok(written) => Settled {
                announcement: self.events.succeeded(&self.key.name),
                wrote: written.resource_version,
                ..Settled::of(Settlement::Deleted)
            },
            Err(failure) if failure.is_not_found() => Settled { lowers: true, ..Settled::of(Settlement::AlreadyGone) },
            Err(failure) => Settled {
                announcement: self.events.failed(&failure.message),
                lowers: true,
                ..Settled::of(Settlement::Failed(self.events.error(failure)))
            },
        }
    }

    /// What it means that the object was [left alone](AfterConflict::Leave): no watch event will come of this deletion,
    /// and the owner is to be synced again.
    ///
    /// The version `seen` by the fresh read is recorded as if it had been written, so that the next decision waits for
    /// a cache that shows this state, and does not choose the same object.
    #[must_use]
    pub fn settle_no_longer_owned(&self, seen: Option<ResourceVersion>) -> Settled {
        match seen {
            Some(_) => Settled { lowers: true, wrote: seen, ..Settled::of(Settlement::NoLongerOwned) },
            None => Settled { lowers: true, ..Settled::of(Settlement::AlreadyGone) },
        }
    }
}

/// What makes an object the owner's to delete: still controlled by it, and still selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Ownership {
    /// The uid of the owner.
    pub owner: Uid,
    /// The owner's selector.
    pub selector: Selector,
    /// The generation that the object must still have, if its spec is the reason for the deletion.
    pub generation: Option<i64>,
}

/// What to do about a deletion that got a conflict.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterConflict {
    /// It is still ours to delete: send this instead, at once, at most [`Deletion::MOST_ATTEMPTS`] in all.
    Again(Deletion),
    /// It is gone, another object, being deleted already, no longer ours, or was chosen for not being ready and is: leave it,
    /// and settle by [`Deletion::settle_no_longer_owned`].
    Leave {
        /// The version that the fresh read saw; `None` if it found nothing.
        seen: Option<ResourceVersion>,
    },
    /// It could not be read: settle by this failure.
    Fail(Failure),
}

/// A patch of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// What is patched.
    pub resource: Resource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `status` or `scale`; none for the object itself.
    pub subresource: Option<&'static str>,
    /// How the server reads `body`.
    pub patch_type: PatchType,
    /// The patch. It contains the uid of the object, and its resourceVersion if the patch depends on it.
    pub body: Bytes,
    /// The Events on the owner.
    pub events: EventTexts,
    /// What the patch does, for a dry run: `scale up from 1 to 3`.
    pub purpose: String,
}

impl Patch {
    /// What a result means.
    #[must_use]
    pub fn settle(&self, result: &Result<Written, Failure>) -> Settled {
        match result {
            Ok(written) => Settled {
                announcement: self.events.succeeded(&written.name),
                wrote: written.resource_version,
                ..Settled::of(Settlement::Patched)
            },
            Err(failure) => Settled {
                announcement: self.events.failed(&failure.message),
                ends_round: true,
                ..Settled::of(Settlement::Failed(self.events.error(failure)))
            },
        }
    }
}

/// How a server reads a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// Lists merge by their keys, and `$patch: delete` removes an element.
    Strategic,
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
}

impl PatchType {
    /// The `Content-Type` of the request.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// A change of the owner's status.
///
/// Only what changed is sent, as a strategic merge patch: conditions merge by type, and fields that this version does
/// not know are kept. The patch contains the uid of the object, and the resourceVersion if an old status could do harm.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWrite {
    /// What is patched.
    pub resource: Resource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The object's uid.
    pub uid: Uid,
    /// The version that the status was computed from, or that was read since, as a precondition. `None` if the write is
    /// right whatever was written in between.
    pub resource_version: Option<ResourceVersion>,
    /// Only counts differ: the write may be deferred.
    pub can_wait: bool,
    /// The value of `status` in the patch.
    pub status: serde_json::Value,
    /// Annotations of the owner that are set in the same patch: the server accepts them with the status of a
    /// Deployment, to which the revision is copied in this way (DEP-06).
    pub annotations: BTreeMap<String, String>,
}

impl StatusWrite {
    /// How the server reads [`StatusWrite::body`].
    pub const PATCH_TYPE: PatchType = PatchType::Strategic;

    /// The patch to send to the status subresource.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let Self { uid, resource_version, status, annotations, .. } = self;
        let mut patch = serde_json::json!({
            "metadata": {"uid": uid},
            "status": status,
        });
        if let Some(version) = resource_version {
            patch["metadata"]["resourceVersion"] = serde_json::json!(version);
        }
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = serde_json::json!(annotations);
        }
        Bytes::from(patch.to_string())
    }

    /// The write for a second attempt, after the first failed and the owner was read again (RS-17).
    ///
    /// The values stay those that were computed, `observedGeneration` among them: a change of the spec that only the
    /// second read saw was not acted on.
    ///
    /// # Errors
    ///
    /// If the read failed, or found another object of that name.
    pub fn again(&self, read: Result<&[u8], &Failure>) -> Result<Self, Failure> {
        let fresh = FreshMeta::decode(read.map_err(Clone::clone)?)
            .map_err(|error| Failure::local(format!("reading {} {} again: {error}", self.resource, self.key)))?;
        if fresh.uid != self.uid {
            return Err(Failure::local(format!(
                "original {} {} is gone: got uid {}, wanted {}",
                self.resource, self.key, fresh.uid, self.uid
            )));
        }
        Ok(Self { resource_version: Some(fresh.resource_version), ..self.clone() })
    }
}

/// The Events of a write, and the context of its error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventTexts {
    /// Reason and text of the Normal event on success.
    pub success: Option<(&'static str, EventText)>,
    /// Reason and text of the Warning event on failure.
    pub failure: Option<(&'static str, EventText)>,
    /// The prefix of the error in conditions and logs: `unable to delete pods`.
    pub error_context: Option<&'static str>,
}

/// The text of an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventText {
    /// This text, followed by the object's name or the error: `Created pod: ` and `web-x2v4b`.
    Before(&'static str),
    /// The same with text that is composed at run time.
    Followed(String),
    /// Exactly this text.
    Exactly(String),
}

impl EventText {
    fn with(&self, end: &str) -> String {
        match self {
            Self::Before(start) => format!("{start}{end}"),
            Self::Followed(start) => format!("{start}{end}"),
            Self::Exactly(text) => text.clone(),
        }
    }
}

impl EventTexts {
    /// No Events and no error context.
    pub const SILENT: Self = Self { success: None, failure: None, error_context: None };

    fn succeeded(&self, name: &str) -> Option<Announcement> {
        let (reason, words) = self.success.as_ref()?;
        Some(Announcement { warning: false, reason, message: words.with(name) })
    }

    fn failed(&self, error: &str) -> Option<Announcement> {
        let (reason, words) = self.failure.as_ref()?;
        Some(Announcement { warning: true, reason, message: words.with(error) })
    }

    fn error(&self, failure: &Failure) -> Failure {
        self.error_context.map_or_else(|| failure.clone(), |words| failure.in_context(words))
    }
}
