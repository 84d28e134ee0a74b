//! What is asked of admission: a write, as webhooks and expressions are told of it.

use std::sync::Arc;

use muster_tree::{Map, Value, json};

use crate::model::{Fields as _, Model, Name, Object, Resource, metadata};
use crate::registry::{Catalogue, Served};
use crate::status::{ApiError, GroupResource};

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Makes an object.
    Create,
    /// Changes one.
    Update,
    /// Deletes one.
    Delete,
    /// Connects to one.
    Connect,
}

impl Operation {
    /// Its name in rules and reviews.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A kind in the place of which a request is seen: the request's own, or the same objects in another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The API group of the resource.
    pub(super) group: Name,
    /// Its version.
    pub(super) version: Name,
    /// Its plural name.
    pub(super) plural: Name,
    /// Group, version and kind of the object that is sent.
    pub(super) kind: (Name, Name, Name),
}

impl Seen {
    /// As a resource's requests are seen, or those to a subresource of a type of its own.
    pub(super) fn of(resource: &Resource, model: Option<Model<'static>>) -> Self {
        let own = || (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            kind: model.map_or_else(own, |model| (model.group.into(), model.version.into(), model.kind.into())),
        }
    }

    fn kind(&self) -> Value {
        json!({"group": self.kind.0, "version": self.kind.1, "kind": self.kind.2})
    }

    fn resource(&self) -> Value {
        json!({"group": self.group, "version": self.version, "resource": self.plural})
    }

    /// The kind's model.
    pub(super) fn model(&self) -> Model<'_> {
        Model { group: &self.kind.0, version: &self.kind.1, kind: &self.kind.2 }
    }
}

/// A write on its way.
#[derive(Debug)]
pub(super) struct Attributes<'a> {
    /// What it does.
    pub(super) operation: Operation,
    /// The request's own kind and resource.
    pub(super) seen: Seen,
    /// The type of what is sent, where a subresource has one of its own.
    pub(super) model: Option<Model<'static>>,
    /// The subresource; may be empty.
    pub(super) subresource: &'a str,
    /// The namespace; that of a namespace is its own name.
    pub(super) namespace: String,
    /// The object's name; empty where it is still to be made.
    pub(super) name: String,
    /// Who asks, as `userInfo`.
    pub(super) user: &'a Value,
    /// The options of the operation.
    pub(super) options: Value,
    /// Whether nothing is stored.
    pub(super) dry_run: bool,
}

impl Attributes<'_> {
    /// The group and plural name, for messages.
    pub(super) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.seen.group, resource: &self.seen.plural }
    }

    /// The request, as a review and as expressions have it, without what a review adds to it.
    pub(super) fn request(&self, seen: &Seen) -> Object {
        let mut out = Map::new();
        out.insert("kind", seen.kind());
        out.insert("resource", seen.resource());
        out.insert("requestKind", self.seen.kind());
        out.insert("requestResource", self.seen.resource());
        for (key, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !value.is_empty() {
                out.insert(key, json!(value));
            }
        }
        out.insert("operation", json!(self.operation.word()));
        out.insert("userInfo", self.user.clone());
        out.insert("dryRun", json!(self.dry_run));
        out.insert("options", self.options.clone());
        out
    }

    /// 403, as a plug-in words it: an object without a name is told by what its name will begin with.
    pub(super) fn forbidden(&self, object: Option<&Object>, why: &str) -> ApiError {
        let meta = object.map(metadata);
        let texts = [self.name.as_str()]
            .into_iter()
            .chain(meta.into_iter().flat_map(|meta| [meta.text("name"), meta.text("generateName")]));
        let name = texts.into_iter().find(|text| !text.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(self.group_resource(), name, why)
    }

    /// The same objects in other versions that have the subresource too, the request's own left out.
    pub(super) fn equivalents(&self, catalogue: &Catalogue) -> Vec<Seen> {
        let own = catalogue.find(&self.seen.group, &self.seen.version, &self.seen.plural);
        let Some(own) = own else { return Vec::new() };
        let same = |served: &&Arc<Served>| {
            let has = |name: &str| served.resource().subresources.iter().any(|part| part.name() == name);
            served.id == own.id
                && (self.subresource.is_empty() || has(self.subresource))
                && Seen::of(served.resource(), None) != Seen::of(own.resource(), None)
        };
        catalogue.served().iter().filter(same).map(|served| Seen::of(served.resource(), self.model)).collect()
    }
}
