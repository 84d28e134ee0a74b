//! The kinds the server knows, one file each, behind one trait.
//!
//! The registry (`crate::registry`) owns what is common to every kind: decoding, names, versions,
//! storage, watches, patches, deletion. A [`Kind`] says what is its own: defaults, what a write may
//! change, what is valid, which fields can be selected by, and what a person sees in a table.
//! Adding a kind is one file here and one line in [`all`].

pub mod cells;
pub mod configmap;
pub mod defaults;
pub mod deployment;
pub mod endpoints;
pub mod endpointslice;
pub mod event;
pub mod fields;
pub mod horizontalpodautoscaler;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod podtemplate;
pub mod qos;
pub mod replicaset;
pub mod replicationcontroller;
pub mod resourcequota;
pub mod secret;
pub mod service;
pub mod serviceaccount;
mod workload;

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use serde_json::{Map, Value};

use crate::field::FieldError;

/// A JSON object, as the registry hands it to a kind.
pub type Object = Map<String, Value>;

/// What discovery tells of a kind (API-03).
#[derive(Debug)]
pub struct Resource {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The kind, such as `ReplicaSet`.
    pub kind: &'static str,
    /// The name in URLs, such as `replicasets`.
    pub plural: &'static str,
    /// The singular name, such as `replicaset`.
    pub singular: &'static str,
    /// Short names, such as `rs`.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `deletecollection` is among its verbs (it is not for namespaces).
    pub delete_collection: bool,
    /// The parts of an object that have a URL of their own.
    pub subresources: &'static [Subresource],
    /// Field labels that a selector may name beside `metadata.name` and `metadata.namespace`.
    pub field_labels: &'static [&'static str],
}

/// A part of an object with a URL of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// `/status`: reads the object, writes its status only.
    Status,
    /// `/scale`: reads and writes an `autoscaling/v1` Scale.
    Scale,
    /// `/binding` of a pod.
    Binding,
    /// `/eviction` of a pod.
    Eviction,
    /// `/log` of a pod.
    Log,
    /// `/finalize` of a namespace.
    Finalize,
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

/// A column of a kind's table (API-05).
#[derive(Debug)]
pub struct Column {
    /// The heading, such as `Ready`.
    pub name: &'static str,
    /// `string`, `integer`, `date` or `boolean`.
    pub kind: &'static str,
    /// The OpenAPI format; `name` for the name column, else empty.
    pub format: &'static str,
    /// What `kubectl explain` would say of it.
    pub description: &'static str,
    /// 0 is always shown, 1 only when wide.
    pub priority: i32,
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
}

/// What is a kind's own.
///
/// The order in a create: schema decoding, [`Kind::default`], metadata (uid, times, generated name),
/// [`Kind::prepare_create`], [`crate::validation::create`] (which calls [`Kind::validate_create`]), storage.
/// In an update: decoding, `default`, `prepare_update`, metadata that cannot be cleared carried over (uid,
/// times), [`crate::validation::update`] (which calls [`Kind::validate_update`]), storage. `generation` is the kind's business in
/// `prepare_*`; every other metadata field is the registry's.
pub trait Kind: Send + Sync + 'static {
    /// What discovery tells.
    fn resource(&self) -> &'static Resource;

    /// The kind that the objects are stored as, where they are another served kind's in another version. Then
    /// everything but [`Kind::default`] and the two conversions is handed what is stored.
    fn stored_as(&self) -> Option<&'static dyn Kind> {
        None
    }

    /// Turns a decoded and defaulted object of this version into what is stored.
    fn to_stored(&self, object: &mut Object) {
        let _ = object;
    }

    /// Turns what is stored into an object of this version.
    fn to_served(&self, object: &mut Object) {
        let _ = object;
    }

    /// Fills in what the reference server's versioned defaulting fills in (API-16). Idempotent. Runs on
    /// every decoded body, before anything else looks at it.
    fn default(&self, object: &mut Object);

    /// Which rule `metadata.name` obeys.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Resets what a creation may not set (status) and sets the first generation where the kind has one.
    /// The name and `creationTimestamp` are already there.
    fn prepare_create(&self, object: &mut Object) {
        let _ = object;
    }

    /// Carries over what this part of a write may not change, and raises the generation where the
    /// rest changed (API-15).
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        let _ = (part, object, old);
    }

    /// What is wrong with a new object (API-17), its metadata included: by [`Kind::name_rule`] first,
    /// then the kind's own checks. The registry calls [`crate::validation::create`].
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let _ = object;
        Vec::new()
    }

    /// What is wrong with a change (API-17), of metadata included. The registry calls
    /// [`crate::validation::update`].
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let _ = (part, object, old);
        Vec::new()
    }

    /// Warnings for the answer's `Warning` headers, on creates and updates.
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let _ = (object, old);
        Vec::new()
    }

    /// The warning that every answer about the kind carries, where it is on its way out.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// The value of one of [`Resource::field_labels`] (API-10). `None` where the object lacks it,
    /// which selects as the empty string.
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let _ = (object, label);
        None
    }

    /// Propagation where a delete does not say; `None` where the object has no dependents rule of
    /// its own (the registry then uses Background).
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// The grace period, in seconds, that a deletion of this object gets: `requested` is what the
    /// caller asked for. `None` means that the kind knows no grace and goes at once (API-18).
    fn grace(&self, object: &Object, requested: Option<i64>) -> Option<i64> {
        let _ = (object, requested);
        None
    }

    /// Whether the kind keeps finalizers in `spec.finalizers` (namespaces).
    fn spec_finalizers(&self) -> bool {
        false
    }

    /// The columns of its table, `Name` first, `Age` where the real server has it.
    fn columns(&self) -> &'static [Column];

    /// The cells of one row, one for each column. Ages are already in words (`5m`), for `now`.
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value>;

    /// The conditions of its row in a table: that a pod has run to its end.
    fn row_conditions(&self, object: &Object) -> Vec<Value> {
        let _ = object;
        Vec::new()
    }

    /// For kinds with a scale: the selector in its string form, for `status.selector`.
    fn scale_selector(&self, object: &Object) -> String {
        let _ = object;
        String::new()
    }
}

/// Every kind that is served, in the order of discovery.
#[must_use]
pub fn all() -> &'static [&'static dyn Kind] {
    &[
        &configmap::ConfigMap,
        &endpoints::Endpoints,
        &event::Event,
        &namespace::Namespace,
        &node::Node,
        &pod::Pod,
        &podtemplate::PodTemplate,
        &replicationcontroller::ReplicationController,
        &resourcequota::ResourceQuota,
        &secret::Secret,
        &service::Service,
        &serviceaccount::ServiceAccount,
        &deployment::Deployment,
        &replicaset::ReplicaSet,
        &horizontalpodautoscaler::HorizontalPodAutoscaler,
        &horizontalpodautoscaler::HorizontalPodAutoscalerV1,
        &lease::Lease,
        &endpointslice::EndpointSlice,
    ]
}

/// Sets the generation to the old one, and one more where the specs differ (API-15).
fn raise_generation(object: &mut Object, old: &Object) {
    keep_generation(object, old);
    if object.get("spec") != old.get("spec") {
        let next = fields::metadata(old).get("generation").and_then(Value::as_i64).unwrap_or_default() + 1;
        fields::set_generation(object, next);
    }
}

/// Sets the generation to the old one: no write may choose it.
fn keep_generation(object: &mut Object, old: &Object) {
    use fields::Fields;
    object.object_or_new("metadata").carry("generation", fields::metadata(old));
}

/// The name column that nearly every table begins with.
const NAME_COLUMN: Column =
    Column { name: "Name", kind: "string", format: "name", description: cells::NAME_DOC, priority: 0 };
/// The age column that nearly every table has.
const AGE_COLUMN: Column = Column { name: "Age", kind: "string", format: "", description: cells::AGE_DOC, priority: 0 };

/// A column of texts that is always shown.
const fn column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of whole numbers that is always shown.
const fn number_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", description, priority: 0 }
}

/// A column of texts that is shown when wide.
const fn wide_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}
