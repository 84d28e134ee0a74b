//! A resource: what discovery tells of a kind, and where its writes differ from other kinds' (API-03).

use std::time::Duration;

use super::{Model, Name, Subresource, api_version};

/// What discovery tells of a kind, and what its writes and deletions may do.
///
/// Made by [`Resource::namespaced`] or [`Resource::cluster`]; the methods say where it differs from most.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The API group; empty for core.
    pub group: Name,
    /// The version within the group.
    pub version: Name,
    /// The kind, such as `ReplicaSet`.
    pub kind: Name,
    /// The kind of its lists.
    pub list_kind: Name,
    /// The name in URLs, such as `replicasets`.
    pub plural: Name,
    /// The singular name, such as `replicaset`.
    pub singular: Name,
    /// Short names, such as `rs`.
    pub short_names: Vec<Name>,
    /// Categories, such as `all`.
    pub categories: Vec<Name>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What can be done with it, by its verbs' names.
    pub verbs: &'static [&'static str],
    /// The parts of an object that have a URL of their own.
    pub subresources: Vec<Subresource>,
    /// Field labels that a selector may name beside `metadata.name` and `metadata.namespace`.
    pub field_labels: Vec<Name>,
    /// Whether the kind has a list of field labels of its own, which words the error for others.
    pub own_field_labels: bool,
    /// What such a kind says of a label that is none.
    pub unknown_label: fn(&str) -> String,
    /// A deletion answers with the object, not with a `Status`.
    pub returns_deleted: bool,
    /// An update of what is not there creates it.
    pub create_on_update: bool,
    /// An update without a resourceVersion replaces whatever is there.
    pub unconditional_update: bool,
    /// Whether propagation policies put finalizers on it.
    pub collects_garbage: bool,
    /// Whether a write is given something that only one object may have (addresses, ports).
    pub allocates: bool,
    /// How long after its last write an object goes by itself.
    pub lifetime: Option<Duration>,
    /// Where the reference server keeps its objects: a part of one of its messages.
    pub storage_prefix: Name,
    /// What changes when its schema does, where that came at run time.
    pub stamp: u64,
}

/// What can be done with most kinds.
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// What can be done with a kind whose objects go one by one.
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

impl Resource {
    /// A kind whose objects live in namespaces.
    pub fn namespaced(
        group: impl Into<Name>,
        version: impl Into<Name>,
        kind: impl Into<Name>,
        plural: impl Into<Name>,
    ) -> Self {
        let (kind, plural) = (kind.into(), plural.into());
        Self {
            group: group.into(),
            version: version.into(),
            list_kind: format!("{kind}List").into(),
            singular: kind.to_lowercase().into(),
            storage_prefix: plural.clone(),
            kind,
            plural,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: VERBS,
            subresources: Vec::new(),
            field_labels: Vec::new(),
            own_field_labels: false,
            unknown_label: |label| format!("field label not supported: {label}"),
            returns_deleted: false,
            create_on_update: false,
            unconditional_update: true,
            collects_garbage: true,
            allocates: false,
            lifetime: None,
            stamp: 0,
        }
    }

    /// A kind whose objects are the cluster's.
    pub fn cluster(
        group: impl Into<Name>,
        version: impl Into<Name>,
        kind: impl Into<Name>,
        plural: impl Into<Name>,
    ) -> Self {
        Self { namespaced: false, ..Self::namespaced(group, version, kind, plural) }
    }

    /// With short names.
    #[must_use]
    pub fn short(mut self, names: &[&'static str]) -> Self {
        self.short_names = names.iter().map(|name| Name::Borrowed(*name)).collect();
        self
    }

    /// In the category `all`.
    #[must_use]
    pub fn in_all(mut self) -> Self {
        self.categories = vec!["all".into()];
        self
    }

    /// In a category.
    #[must_use]
    pub fn category(mut self, category: &'static str) -> Self {
        self.categories = vec![category.into()];
        self
    }

    /// With parts that have a URL of their own.
    #[must_use]
    pub fn parts(mut self, parts: &[Subresource]) -> Self {
        self.subresources = parts.to_vec();
        self
    }

    /// With field labels beside those that every kind has.
    #[must_use]
    pub fn labels(mut self, labels: &[&'static str]) -> Self {
        self.field_labels = labels.iter().map(|label| Name::Borrowed(*label)).collect();
        self.own_field_labels = true;
        self
    }

    /// Only some verbs.
    #[must_use]
    pub fn only(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    /// Objects go one by one only.
    #[must_use]
    pub fn without_delete_collection(mut self) -> Self {
        self.verbs = NO_COLLECTION;
        self
    }

    /// A deletion answers with the object.
    #[must_use]
    pub fn returns_deleted(mut self) -> Self {
        self.returns_deleted = true;
        self
    }

    /// An update of what is not there creates it.
    #[must_use]
    pub fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// An update must say which version it changes.
    #[must_use]
    pub fn conditional_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    /// Where the reference server keeps its objects, where that is not the plural name.
    #[must_use]
    pub fn stored_under(mut self, prefix: &'static str) -> Self {
        self.storage_prefix = prefix.into();
        self
    }

    /// A write is given something that only one object may have.
    #[must_use]
    pub fn allocates(mut self) -> Self {
        self.allocates = true;
        self
    }

    /// Objects go by themselves, so long after they were last written.
    #[must_use]
    pub fn expires_after(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self.collects_garbage = false;
        self
    }

    /// Group, version and kind.
    #[must_use]
    pub fn model(&self) -> Model<'_> {
        Model { group: &self.group, version: &self.version, kind: &self.kind }
    }

    /// The name of the table that holds the objects.
    #[must_use]
    pub fn table(&self) -> String {
        Self::table_of(&self.group, &self.plural)
    }

    /// The same, by group and plural name.
    #[must_use]
    pub fn table_of(group: &str, plural: &str) -> String {
        format!("{group}/{plural}")
    }

    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Whether a verb is among its own.
    #[must_use]
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}
