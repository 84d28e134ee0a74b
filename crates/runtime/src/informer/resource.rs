//! Which objects an informer reads: a whole resource of the API, or those that a selector picks.

use std::{borrow::Cow, fmt::Write as _};

use crate::client::ClientError;
use muster_objects::{HashRange, ResourceVersion};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that need no escape in a query value.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A resource of the API and the part of it that is of interest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchedResource {
    /// The API group; empty for the core one.
    pub group: Cow<'static, str>,
    /// The version, such as `v1`.
    pub version: Cow<'static, str>,
    /// The plural name in the path, such as `pods`.
    pub plural: Cow<'static, str>,
    /// The one namespace to read; none reads all of them (or a resource that has none).
    pub namespace: Option<String>,
    /// A label selector in its string form; empty selects everything.
    pub label_selector: String,
    /// A field selector; empty selects everything.
    pub field_selector: String,
    /// The range of the hash of their namespace that the objects must be in; none reads all of them. Not for a resource
    /// that has no namespaces.
    pub range: Option<HashRange>,
    /// Ask for `PartialObjectMetadata` instead of whole objects.
    pub metadata_only: bool,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    /// The first one, of what there is now.
    First,
    /// The first one as of this version or later: a server answers it by its cache, and does not ask its storage first how far
    /// that has come.
    NotOlderThan(ResourceVersion),
    /// The one that the page before has this token for.
    After(String),
}

impl Page {
    /// The first page, of what there is now where no version is said.
    pub(super) fn first(not_older: Option<ResourceVersion>) -> Self {
        not_older.map_or(Self::First, Self::NotOlderThan)
    }

    /// Whether the same is to be asked for without a version: the server's cache is behind, and its storage is not.
    pub(super) fn is_behind(&self, error: &ClientError) -> bool {
        matches!(self, Self::NotOlderThan(_)) && error.is_too_new()
    }
}

impl WatchedResource {
    /// All objects of a resource.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            namespace: None,
            label_selector: String::new(),
            field_selector: String::new(),
            range: None,
            metadata_only: false,
        }
    }

    /// `v1` pods.
    #[must_use]
    pub fn pods() -> Self {
        Self::new("", "v1", "pods")
    }

    /// `apps/v1` replicasets.
    #[must_use]
    pub fn replicasets() -> Self {
        Self::new("apps", "v1", "replicasets")
    }

    /// `v1` replicationcontrollers.
    #[must_use]
    pub fn replicationcontrollers() -> Self {
        Self::new("", "v1", "replicationcontrollers")
    }

    /// `apps/v1` deployments.
    #[must_use]
    pub fn deployments() -> Self {
        Self::new("apps", "v1", "deployments")
    }

    /// The same, of metadata only.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The same, in one namespace.
    pub(super) fn of_namespace(&self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), range: None, ..self.clone() }
    }

    /// The path of the collection, of one namespace or of all.
    #[must_use]
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let mut path = String::with_capacity(64);
        if self.group.is_empty() {
            path.push_str("/api/");
        } else {
            path.push_str("/apis/");
            path.push_str(&self.group);
            path.push('/');
        }
        path.push_str(&self.version);
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// The path of one object; a resource without namespaces is given none.
    #[must_use]
    pub fn object(&self, namespace: Option<&str>, name: &str) -> String {
        let mut path = self.collection(namespace);
        path.push('/');
        path.push_str(name);
        path
    }

    /// The path and query of one page of a consistent list, of the range where the server shards.
    pub(super) fn list(&self, limit: u32, page: &Page) -> String {
        let mut path = self.collection(self.namespace.as_deref());
        let _ = write!(path, "?limit={limit}");
        self.select(&mut path, self.range.as_slice());
        let _ = match page {
            Page::First => Ok(()),
            Page::NotOlderThan(version) => {
                write!(path, "&resourceVersion={version}&resourceVersionMatch=NotOlderThan")
            }
            Page::After(token) => write!(path, "&continue={}", utf8_percent_encode(token, QUERY)),
        };
        path
    }

    /// The path and query of a watch: from a version on, or from a consistent streaming list.
    pub(super) fn watch(&self, from: Option<&str>, timeout_seconds: u64) -> String {
        self.watch_within(&[], from, timeout_seconds)
    }

    /// The same of several ranges, where the server shards; of everything if there are none.
    pub(super) fn watch_within(&self, ranges: &[HashRange], from: Option<&str>, timeout_seconds: u64) -> String {
        let mut path = self.collection(self.namespace.as_deref());
        let _ = write!(path, "?watch=true&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}");
        self.select(&mut path, ranges);
        match from {
            Some(version) => {
                let _ = write!(path, "&resourceVersion={version}");
            }
            None => path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        path
    }

    fn select(&self, path: &mut String, ranges: &[HashRange]) {
        let shard_selector = ranges.iter().map(|range| range.selector()).collect::<Vec<_>>().join(" || ");
        for (name, value) in [
            ("labelSelector", &self.label_selector),
            ("fieldSelector", &self.field_selector),
            ("shardSelector", &shard_selector),
        ] {
            if !value.is_empty() {
                let _ = write!(path, "&{name}={}", utf8_percent_encode(value, QUERY));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: INF-01
    #[test]
    fn the_first_read_asks_for_what_is_consistent() {
        let pods = WatchedResource::pods();
        // No resourceVersion: the server must not answer from an older cache.
        assert_eq!(pods.list(500, &Page::First), "/api/v1/pods?limit=500");
        assert_eq!(pods.list(500, &Page::After("a/b=".to_owned())), "/api/v1/pods?limit=500&continue=a%2Fb%3D");
        assert_eq!(
            pods.watch(None, 301),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=301\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
    }

    #[test]
    fn a_selection_is_escaped() {
        let mut sets = WatchedResource::replicasets();
        sets.namespace = Some("ns".into());
        sets.label_selector = "app in (a,b)".into();
        assert_eq!(
            sets.watch(Some("12"), 300),
            "/apis/apps/v1/namespaces/ns/replicasets?watch=true&allowWatchBookmarks=true&timeoutSeconds=300\
             &labelSelector=app%20in%20%28a%2Cb%29&resourceVersion=12"
        );
        assert_eq!(sets.object(Some("x"), "y"), "/apis/apps/v1/namespaces/x/replicasets/y");
    }
}
