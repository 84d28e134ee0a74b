//! The versions of a list: one, or one for each namespace that was listed by itself.

use std::{collections::BTreeMap, sync::Arc};

use muster_objects::ResourceVersion;

/// As of which version the objects of a namespace were listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    of_namespaces: BTreeMap<Arc<str>, ResourceVersion>,
    /// That of every other namespace: it had no objects then.
    of_others: ResourceVersion,
}

impl Versions {
    /// Those of one list of everything.
    pub(super) fn one(version: ResourceVersion) -> Self {
        Self { of_namespaces: BTreeMap::new(), of_others: version }
    }

    /// The same with that of a namespace's own list, which came later.
    pub(super) fn set(&mut self, namespace: &str, version: ResourceVersion) {
        self.of_namespaces.insert(namespace.into(), version);
    }

    /// That of a namespace.
    pub(super) fn of(&self, namespace: &str) -> ResourceVersion {
        self.of_namespaces.get(namespace).copied().unwrap_or(self.of_others)
    }

    /// The version up to which everything was listed.
    pub(super) fn oldest(&self) -> ResourceVersion {
        self.of_namespaces.values().copied().fold(self.of_others, Ord::min)
    }

    /// The version after which nothing was listed.
    pub(super) fn newest(&self) -> ResourceVersion {
        self.of_namespaces.values().copied().fold(self.of_others, Ord::max)
    }
}
