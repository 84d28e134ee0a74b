//! Lease.

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::fields::{Fields, metadata};
use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, column, keep_generation};
use crate::field::FieldError;
use crate::validation::{self, Errors};

/// A lock with a holder and a term.
#[derive(Debug)]
pub struct Lease;

static RESOURCE: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short_names: &[],
    categories: &[],
    namespaced: true,
    delete_collection: true,
    subresources: &[],
    field_labels: &[],
};

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    column(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
    ),
    AGE_COLUMN,
];

impl Kind for Lease {
    fn resource(&self) -> &'static Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        object.set_if_absent("spec", Object::new());
    }
    fn prepare_create(&self, object: &mut Object) {
        drop_coordination(object);
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        drop_coordination(object);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::lease::validate_spec(object, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_update(metadata(object), metadata(old), &mut errors);
        validation::lease::validate_spec(object, &mut errors);
        errors
    }
    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let holder = object.object("spec").map_or("", |spec| spec.text("holderIdentity"));
        vec![cells::name(object), holder.into(), cells::age(object, now)]
    }
}

/// Coordinated leader election is off, as it is by default in the reference: its fields are not stored.
fn drop_coordination(object: &mut Object) {
    if let Some(spec) = object.object_mut("spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}
