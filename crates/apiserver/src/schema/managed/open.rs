//! Types that came at run time: what managers share of the objects of a kind that the table does not have.
//!
//! They are what the reference makes of the schema of a CustomResourceDefinition: an atom says what a value may be, and
//! the value decides which of it it is.

use std::collections::BTreeMap;

use muster_tree::Value;

use super::place::Place;
use crate::model::{Model, Object};
use crate::schema::normal::zero_struct;
use crate::schema::table::{Shape, Table, Topology, TypeId};

/// The versions of a kind that the table does not have.
#[derive(Debug, Default)]
pub struct Open {
    /// The types by version.
    pub versions: BTreeMap<String, Node>,
    /// Whether the status is written apart from the rest.
    pub has_status: bool,
}

/// A type.
#[derive(Debug)]
pub enum Node {
    /// A type of the table.
    Typed(Box<Shape>),
    /// A text, a number or a boolean.
    Scalar(Scalar),
    /// One of its own.
    Atom(Box<Atom>),
    /// Anything, of which each member of a map is owned for itself.
    Deduced,
    /// Anything, owned as a whole.
    Untyped,
}

/// What a value may be; a value that may be several things is what it looks like.
#[derive(Debug, Default)]
pub struct Atom {
    /// A text, a number or a boolean.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<Items>,
    /// A map.
    pub map: Option<Members>,
}

/// What a scalar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Any of them.
    Any,
    /// True or false.
    Boolean,
    /// A number.
    Number,
    /// A text.
    Text,
}

/// A list.
#[derive(Debug)]
pub struct Items {
    /// What its elements are.
    pub element: Box<Node>,
    /// How managers share it.
    pub topology: Topology,
    /// What tells its elements apart.
    pub keys: Vec<String>,
}

/// A map.
#[derive(Debug)]
pub struct Members {
    /// What the members are that have a name here, in the order of their names.
    pub named: Box<[(Box<str>, Member)]>,
    /// What the others are; `None` where there may be none.
    pub others: Option<Box<Node>>,
    /// Whether managers own it only as a whole.
    pub atomic: bool,
}

/// A named member of a map.
#[derive(Debug)]
pub struct Member {
    /// What it is.
    pub node: Node,
    /// What it is where it is not said.
    pub default: Option<Box<Value>>,
}

impl Members {
    /// The member with a name.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        let at = self.named.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.named[at].1)
    }
}

/// The kind of an object, and where its types are.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The kind.
    pub model: Model<'a>,
    /// Its types, where the table does not have them.
    pub open: Option<&'a Open>,
}

impl<'a> From<Model<'a>> for Subject<'a> {
    fn from(model: Model<'a>) -> Self {
        Self { model, open: None }
    }
}

/// The type of a whole object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root<'a> {
    Typed(TypeId),
    Open(&'a Node),
}

impl<'a> Subject<'a> {
    /// `apps/v1`
    pub(super) fn api_version(&self) -> String {
        crate::model::api_version(self.model.group, self.model.version)
    }

    /// The type of the kind in its version.
    pub(super) fn root(&self) -> Option<Root<'a>> {
        self.root_of(self.model.group, self.model.version)
    }

    /// The type of the kind in an `apiVersion`.
    pub(super) fn root_in(&self, api_version: &str) -> Option<Root<'a>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.root_of(group, version)
    }

    fn root_of(&self, group: &str, version: &str) -> Option<Root<'a>> {
        match self.open {
            Some(open) if group == self.model.group => open.versions.get(version).map(Root::Open),
            Some(_) => None,
            None => Table::get().kind(group, version, self.model.kind).map(Root::Typed),
        }
    }

    /// Whether the kind still exists in the version that an entry is of.
    pub(super) fn knows(&self, api_version: &str) -> bool {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        group == self.model.group && self.root_in(api_version).is_some()
    }

    /// Whether a write to a subresource cannot write a field of the object, so that it is not looked at.
    pub(super) fn ignores(&self, field: &str, subresource: &str) -> bool {
        match field {
            // Those that write a part of the object own whatever is sent to them.
            "status" => {
                !matches!(subresource, "approval" | "ephemeralcontainers" | "resize" | "status")
                    && self.open.is_none_or(|open| open.has_status)
            }
            "spec" => subresource == "status",
            "metadata" => subresource == "status" && (self.open.is_some() || KEEP_METADATA.contains(&self.model.kind)),
            _ => false,
        }
    }

    /// As [`Subject::ignores`], for a field of metadata.
    pub(super) fn ignores_metadata(&self, field: &str, subresource: &str) -> bool {
        subresource == "status"
            && matches!(
                (self.model.kind, field),
                ("Pod", "deletionTimestamp" | "ownerReferences") | ("Deployment", "labels")
            )
    }
}

/// The kinds with a status whose writes leave all metadata as it is.
const KEEP_METADATA: [&str; 7] = [
    "APIService",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

impl<'a> Root<'a> {
    /// The place of the whole object.
    pub(super) fn place(self) -> Place<'a> {
        match self {
            Self::Typed(id) => Place::Whole(id),
            Self::Open(node) => Place::node(node),
        }
    }

    /// An object with nothing in it.
    pub(super) fn zero(self) -> Object {
        match self {
            Self::Typed(id) => zero_struct(id),
            Self::Open(_) => Object::new(),
        }
    }
}
