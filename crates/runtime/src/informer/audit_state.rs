//! What the cache held at a version that it may not have reached yet, or may have passed (B-07).
//!
//! An audit compares the cache with a list from the server. The list is of one version, and the cache changes
//! meanwhile. So the cache is digested when the audit begins, which is before the list's version, and from then on
//! every change up to that version is added to the digest:
//!
//! ```text
//!   digest of the cache --changes up to the list's version--> digest of the cache as of it | changes after it
//!        opened                                                                         reached
//! ```
//!
//! A watch delivers the changes of a kind in the order of their versions: a change that is newer than the list's
//! version shows that everything up to it has been delivered.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use muster_machinery::{Cache, Cached, Change};
use muster_objects::{Meta, Uid, meta::ResourceVersion};

use super::{reflector::Delta, versions::Versions};

/// A set of objects and their versions: the number, and a sum that does not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    objects: u64,
    sum: u64,
}

/// The state of the current audit.
#[derive(Debug, Default)]
pub(super) enum AuditState {
    /// No audit is on.
    #[default]
    Closed,
    /// One is.
    Open(Book),
    /// The store was relisted during the audit, which makes it void.
    Overtaken,
    /// The audit found a difference, and the store is being relisted.
    Correcting,
}

/// The bookkeeping of one audit.
#[derive(Debug)]
pub(super) struct Book {
    /// The cache at the opening and the changes up to `as_of`.
    digest: Digest,
    /// Changes while `as_of` is not known, by their namespaces and versions.
    pending: Vec<(Arc<str>, ResourceVersion, Digest)>,
    /// The versions of the list, once they are known.
    as_of: Option<Versions>,
    /// The version that the watch has reached.
    seen: ResourceVersion,
}

/// What an audit has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The cache is what the server says.
    Agrees,
    /// It is not.
    Differs {
        /// The objects that the cache held.
        cached: u64,
        /// Whether the watch has reached the list's version; otherwise it is behind, or dead.
        reached: bool,
    },
    /// There is nothing left to compare with.
    Overtaken,
}

impl Digest {
    pub(super) fn objects(self) -> u64 {
        self.objects
    }

    pub(super) fn add(&mut self, uid: &Uid, version: ResourceVersion) {
        self.objects = self.objects.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash(uid, version));
    }

    fn remove(&mut self, uid: &Uid, version: ResourceVersion) {
        self.objects = self.objects.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash(uid, version));
    }

    /// Adds a digest of changes, whose number may be negative and then has wrapped.
    fn merge(&mut self, change: Self) {
        self.objects = self.objects.wrapping_add(change.objects);
        self.sum = self.sum.wrapping_add(change.sum);
    }

    fn of<T: Cached>(cache: &Cache<T>) -> Self {
        let mut digest = Self::default();
        for object in cache.iter() {
            let Meta { uid, resource_version, .. } = object.meta();
            digest.add(uid, *resource_version);
        }
        digest
    }
}

fn hash(uid: &Uid, version: ResourceVersion) -> u64 {
    let mut hasher = DefaultHasher::new();
    (uid, version.0).hash(&mut hasher);
    hasher.finish()
}

impl AuditState {
    /// Begins an audit of what the cache holds now, unless one is on. Says if it did.
    pub(super) fn open<T: Cached>(&mut self, cache: &Cache<T>) -> bool {
        if !matches!(self, Self::Closed) {
            return false;
        }
        let seen = cache.newest();
        *self = Self::Open(Book { digest: Digest::of(cache), pending: Vec::new(), as_of: None, seen });
        true
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Books what `delta` is about to do to the cache.
    pub(super) fn note<T: Cached>(&mut self, cache: &Cache<T>, delta: &Delta<T>) {
        let Self::Open(book) = self else { return };
        let (meta, stays) = match delta {
            Delta::Put(object) => (object.meta(), true),
            Delta::Gone(last) => (last.meta(), false),
            Delta::Reached(_) => return,
        };
        let mut change = Digest::default();
        if let Some(known) = cache.get_named(&meta.namespace, &meta.name) {
            change.remove(&known.meta().uid, known.meta().resource_version);
        }
        if stays {
            change.add(&meta.uid, meta.resource_version);
        }
        let version = meta.resource_version;
        match &book.as_of {
            None => book.pending.push((Arc::clone(&meta.namespace), version, change)),
            Some(as_of) if version <= as_of.of(&meta.namespace) => book.digest.merge(change),
            Some(_) => {}
        }
    }

    /// Everything up to `version` has been booked. Says if an audit is on that wants to know.
    pub(super) fn reached(&mut self, version: ResourceVersion) -> bool {
        let Self::Open(book) = self else { return false };
        book.seen = book.seen.max(version);
        true
    }

    /// The server's list is as of `versions`.
    pub(super) fn compare_as_of(&mut self, versions: Versions) {
        let Self::Open(book) = self else { return };
        for (namespace, changed, change) in std::mem::take(&mut book.pending) {
            if changed <= versions.of(&namespace) {
                book.digest.merge(change);
            }
        }
        book.as_of = Some(versions);
    }

    /// What a list with the digest `listed` means; `None` if the watch may still deliver what is missing.
    pub(super) fn verdict(&self, listed: Digest) -> Option<Finding> {
        match self.verdict_now(listed) {
            Finding::Differs { reached: false, .. } => None,
            verdict => Some(verdict),
        }
    }

    /// The same without patience.
    pub(super) fn verdict_now(&self, listed: Digest) -> Finding {
        match self {
            Self::Open(Book { digest, .. }) if *digest == listed => Finding::Agrees,
            Self::Open(Book { digest, as_of, seen, .. }) => Finding::Differs {
                cached: digest.objects,
                reached: as_of.as_ref().is_some_and(|as_of| *seen >= as_of.newest()),
            },
            Self::Closed | Self::Overtaken | Self::Correcting => Finding::Overtaken,
        }
    }

    /// The store was relisted. Returns whether that was because of an audit.
    pub(super) fn replaced(&mut self) -> bool {
        match self {
            Self::Closed | Self::Overtaken => false,
            Self::Open(_) => {
                *self = Self::Overtaken;
                false
            }
            Self::Correcting => {
                *self = Self::Closed;
                true
            }
        }
    }
}

/// Some of `changes` in words: what the cache had, and what the server has.
pub(super) fn in_words<T: Cached>(changes: &[Change<T>], at_most: usize) -> Vec<String> {
    let words = changes.iter().take(at_most).map(|change| {
        let key = change.object().meta().key();
        let version = |object: &T| object.meta().resource_version;
        match change {
            Change::Added(new) => format!("{key}: cached none, listed {}", version(new)),
            Change::Updated { old, new } => format!("{key}: cached {}, listed {}", version(old), version(new)),
            Change::Deleted { last, .. } => format!("{key}: cached {}, listed none", version(last)),
        }
    });
    words.collect()
}

#[cfg(test)]
#[path = "audit_state_tests.rs"]
mod tests;
