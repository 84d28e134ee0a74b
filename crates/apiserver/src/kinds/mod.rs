//! The kinds the server knows, one file each, behind one trait.
//!
//! The registry (`crate::registry`) owns what is common to every kind: decoding, names, versions,
//! storage, watches, patches, deletion. A [`Kind`] says what is its own: defaults, what a write may
//! change, what is valid, which fields can be selected by, and what a person sees in a table.
//! Adding a kind is one file here and one line in [`all`].

pub mod admissionregistration;
pub mod apiregistration;
pub mod cells;
mod certificatesigningrequest;
mod componentstatus;
mod configmap;
mod controllerrevision;
mod cronjob;
mod csi;
pub mod custom;
pub mod customresourcedefinition;
mod daemonset;
pub mod defaults;
mod deployment;
pub mod devices;
mod endpoints;
mod endpointslice;
pub mod event;
pub mod flowcontrol;
mod horizontalpodautoscaler;
pub mod ingress;
mod job;
mod lease;
mod limitrange;
pub mod namespace;
pub mod networking;
mod networkpolicy;
pub mod node;
mod persistentvolume;
pub mod pod;
mod poddisruptionbudget;
mod podtemplate;
mod rbac;
mod replicaset;
mod replicationcontroller;
mod resourcequota;
mod row;
mod scheduling;
mod secret;
pub mod service;
mod serviceaccount;
mod statefulset;
pub mod storageclass;
mod workload;

use std::borrow::Cow;
use std::sync::Arc;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use crate::field::FieldError;
use crate::model::fields::set_generation;
use crate::model::{
    AGE_COLUMN, Column, Fields as _, Model, NAME_COLUMN, Name, NameRule, Object, Part, Propagation, Resource,
    Subresource, metadata,
};
use crate::schema::{self, Validation};
use crate::validation;

pub use row::Row;

/// What is a kind's own.
///
/// The order in a create: schema decoding, [`Kind::default`], metadata (uid, times, generated name),
/// [`Kind::prepare_create`], [`Kind::validate_create`], [`Kind::canonicalize`], storage.
/// In an update: decoding, `default`, `prepare_update`, metadata that cannot be cleared carried over (uid,
/// times), [`validate_update`] (which calls [`Kind::validate_update`]), `canonicalize`, storage. `generation` is the kind's business in
/// `prepare_*`; every other metadata field is the registry's.
pub trait Kind: Send + Sync + 'static {
    /// What discovery tells.
    fn resource(&self) -> &Resource;

    /// The kind that the objects are stored as, where they are another served kind's in another version. Then
    /// everything but [`Kind::default`] and the two conversions is handed what is stored.
    fn stored_as(&self) -> Option<Model<'_>> {
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

    /// Warnings for what [`Kind::prepare_create`] is about to replace.
    fn early_warnings(&self, object: &Object) -> Vec<String> {
        let _ = object;
        Vec::new()
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
    /// then the kind's own checks.
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let _ = object;
        Vec::new()
    }

    /// What is wrong with a change (API-17), of metadata included. The registry calls [`validate_update`].
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let _ = (part, object, old);
        Vec::new()
    }

    /// The same, with warnings of what was wrong before and is let be.
    fn validate_update_warned(
        &self,
        part: Part,
        object: &Object,
        old: &Object,
        warnings: &mut Vec<String>,
    ) -> Vec<FieldError> {
        let _ = warnings;
        self.validate_update(part, object, old)
    }

    /// Fills in what the reference server's defaulting fills in when it reads what was stored.
    fn canonicalize(&self, object: &mut Object) {
        let _ = object;
    }

    /// Warnings for the answer's `Warning` headers, on creates and updates.
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let _ = (object, old);
        Vec::new()
    }

    /// Warnings for a write of a subresource.
    fn part_warnings(&self, part: Part, object: &Object) -> Vec<String> {
        let _ = (part, object);
        Vec::new()
    }

    /// The annotation that the reference's own type has a field for: it is not told with metadata alone.
    fn hidden_annotation(&self) -> Option<&'static str> {
        None
    }

    /// Adds to an object with nothing in it what the reference's conversion adds to its own.
    fn complete_zero(&self, object: &mut Object) {
        let _ = object;
    }

    /// Writes the times that the server itself keeps; the last thing before the checks. The old object is that of an
    /// update.
    fn stamp(&self, part: Part, object: &mut Object, old: Option<&Object>, now: Timestamp) {
        let _ = (part, object, old, now);
    }

    /// The kind as one that came with a CustomResourceDefinition.
    fn custom(&self) -> Option<&custom::CustomKind> {
        None
    }

    /// The warning that every answer about the kind carries, where it is on its way out.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// The value of one of [`Resource::field_labels`] (API-10). `None` where the object lacks it,
    /// which selects as the empty string.
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let _ = (object, label);
        None
    }

    /// The labels by which what is stored can be found: those of the kind as which it is stored. Its own, if they are others,
    /// stand in the same order.
    fn indexed(&self) -> &[Name] {
        &self.resource().field_labels
    }

    /// Propagation where a delete does not say; `None` where the object has no dependents rule of
    /// its own (the registry then uses Background).
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// The warning that a deletion gets that does not say what is to become of dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// The grace period, in seconds, that a deletion of this object gets: `requested` is what the
    /// caller asked for. `None` means that the kind knows no grace and goes at once (API-18).
    fn grace(&self, object: &Object, requested: Option<i64>) -> Option<i64> {
        let _ = (object, requested);
        None
    }

    /// The finalizer that the first deletion puts on an object: it goes when what depends on the object is gone.
    fn cleanup(&self) -> Option<&'static str> {
        None
    }

    /// Whether the kind keeps finalizers in `spec.finalizers` (namespaces).
    fn spec_finalizers(&self) -> bool {
        false
    }

    /// The columns of its table, `Name` first, `Age` where the real server has it.
    fn columns(&self) -> &[Column];

    /// The cells of one row, one for each column. Ages are already in words (`5m`), for `now`.
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        self.columns().iter().map(|column| column.cell.of(object, now)).collect()
    }

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

impl std::fmt::Debug for dyn Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kind").field(&self.resource().plural).finish()
    }
}

/// Everything that is wrong with a change. Metadata is looked at twice, by the rules common to all kinds and by the
/// kind's, and an error of both is a cause twice: clients of the reference server see that (API-14, API-17).
#[must_use]
pub fn validate_update(
    kind: &dyn Kind,
    part: Part,
    object: &Object,
    old: &Object,
    warnings: &mut Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (new, was) = (metadata(object), metadata(old));
    validation::meta::validate(new, kind.resource().namespaced, NameRule::PathSegment, &mut errors);
    validation::meta::validate_update(new, was, &mut errors);
    errors.extend(kind.validate_update_warned(part, object, old, warnings));
    errors
}

/// Every kind that is served, in the order of discovery.
#[must_use]
pub fn all() -> Vec<Arc<dyn Kind>> {
    let mut all: Vec<Arc<dyn Kind>> = vec![
        Arc::new(componentstatus::kind()),
        Arc::new(configmap::kind()),
        Arc::new(endpoints::kind()),
        Arc::new(event::Event),
        Arc::new(limitrange::kind()),
        Arc::new(namespace::Namespace),
        Arc::new(node::Node),
        Arc::new(persistentvolume::claim()),
        Arc::new(persistentvolume::kind()),
        Arc::new(pod::Pod),
        Arc::new(podtemplate::kind()),
        Arc::new(replicationcontroller::kind()),
        Arc::new(resourcequota::kind()),
        Arc::new(secret::kind()),
        Arc::new(service::Service),
        Arc::new(serviceaccount::kind()),
        Arc::new(controllerrevision::kind()),
        Arc::new(daemonset::kind()),
        Arc::new(deployment::kind()),
        Arc::new(replicaset::kind()),
        Arc::new(statefulset::kind()),
        Arc::new(horizontalpodautoscaler::kind()),
        Arc::new(horizontalpodautoscaler::v1()),
        Arc::new(cronjob::kind()),
        Arc::new(job::kind()),
        Arc::new(lease::kind()),
        Arc::new(endpointslice::kind()),
        Arc::new(poddisruptionbudget::kind()),
        Arc::new(customresourcedefinition::CustomResourceDefinition),
        Arc::new(event::EventV1),
        Arc::new(ingress::class()),
        Arc::new(ingress::kind()),
        Arc::new(networking::address()),
        Arc::new(networkpolicy::kind()),
        Arc::new(networking::range()),
        Arc::new(devices::class()),
        Arc::new(devices::claim()),
        Arc::new(devices::template()),
        Arc::new(devices::slice()),
        Arc::new(csi::driver()),
        Arc::new(csi::node()),
        Arc::new(csi::capacity()),
        Arc::new(storageclass::kind()),
        Arc::new(csi::attachment()),
        Arc::new(storageclass::attributes()),
        Arc::new(scheduling::priority()),
        Arc::new(scheduling::runtime()),
        Arc::new(flowcontrol::schema()),
        Arc::new(flowcontrol::level()),
        Arc::new(apiregistration::kind()),
        Arc::new(certificatesigningrequest::kind()),
    ];
    all.extend(admissionregistration::kinds().map(|row| Arc::new(row) as Arc<dyn Kind>));
    all.extend(rbac::kinds().map(|row| Arc::new(row) as Arc<dyn Kind>));
    all
}

/// The object as its version writes it: fields in order, those that are always there there.
fn formed(model: Model<'_>, object: Object) -> Object {
    let object = Value::Object(object);
    match (schema::round_trip(model.group, model.version, model.kind, &object, None, Validation::Ignore), object) {
        (Ok((formed, _)), _) | (Err(_), Value::Object(formed)) => formed,
        // The value was made as an object above.
        (Err(_), _) => Object::new(),
    }
}

/// Sets the generation to the old one, and one more where the specs differ (API-15).
fn raise_generation(object: &mut Object, old: &Object) {
    keep_generation(object, old);
    raise_if_changed(object, old);
}

/// Sets the generation to one more than the old one where the specs differ.
fn raise_if_changed(object: &mut Object, old: &Object) {
    if object.get("spec") != old.get("spec") {
        let next = metadata(old).get("generation").and_then(Value::as_i64).unwrap_or_default() + 1;
        set_generation(object, next);
    }
}

/// A write of the status leaves what a person writes into metadata alone.
fn keep_metadata(object: &mut Object, old: &Object) {
    let metadata = object.object_or_new("metadata");
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"] {
        metadata.carry(field, self::metadata(old));
    }
}

/// Sets the generation to the old one: no write may choose it.
fn keep_generation(object: &mut Object, old: &Object) {
    object.object_or_new("metadata").carry("generation", metadata(old));
}
