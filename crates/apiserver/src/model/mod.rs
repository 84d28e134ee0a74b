//! The nouns that everything else of the server speaks in: objects and their fields, resources and their subresources,
//! columns of tables. Imports nothing of this crate.

pub mod amounts;
pub mod column;
pub mod fields;
pub mod groups;
pub mod json;
pub mod pod;
pub mod qos;
pub mod resource;
pub mod service;
pub mod subresource;

use std::borrow::Cow;

use muster_tree::Map;

pub use amounts::ResourceList;
pub use column::{AGE_COLUMN, CREATED_AT_COLUMN, Cell, Column, NAME_COLUMN};
pub use fields::{Fields, metadata};
pub use resource::Resource;
pub use subresource::Subresource;

/// A JSON object.
pub type Object = Map;

/// A name that is part of the program, or came with a CustomResourceDefinition.
pub type Name = Cow<'static, str>;

/// Group, version and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

impl Model<'static> {
    /// `autoscaling/v1` Scale.
    pub const SCALE: Self = Self { group: "autoscaling", version: "v1", kind: "Scale" };
    /// `v1` Binding.
    pub const BINDING: Self = Self { group: "", version: "v1", kind: "Binding" };
    /// `policy/v1` Eviction.
    pub const EVICTION: Self = Self { group: "policy", version: "v1", kind: "Eviction" };
    /// `authentication.k8s.io/v1` TokenRequest.
    pub const TOKEN_REQUEST: Self = Self { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" };
}

/// What of a write the kind is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Main,
    /// Its `/status`.
    Status,
    /// Its `/finalize` (namespaces).
    Finalize,
    /// Its `/approval` (certificate signing requests).
    Approval,
    /// Its `/ephemeralcontainers` (pods).
    EphemeralContainers,
    /// Its `/resize` (pods).
    Resize,
}

/// Which rule an object's name obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, at most 253.
    Subdomain,
    /// RFC 1123 label, at most 63.
    Label,
    /// RFC 1035 label, at most 63 (services).
    Label1035,
    /// A path segment: anything without `/` and `%`, and not `.` or `..` (rbac).
    PathSegment,
    /// An IP address, in its one way of being written (IPAddress).
    Ip,
}

/// What happens to the dependents of a deleted object when the request does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are collected after it.
    Background,
    /// They are collected before it.
    Foreground,
    /// They are left, without their owner.
    Orphan,
}

/// What to do about fields that the schema does not know (API-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Refuse.
    Strict,
    /// Drop them and warn.
    #[default]
    Warn,
    /// Drop them.
    Ignore,
}

/// `v1` or `apps/v1`.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
