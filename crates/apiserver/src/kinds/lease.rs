//! Lease.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// A lock with a holder and a term.
#[derive(Debug)]
pub struct Lease;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases").create_on_update().conditional_update()
});

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
    ),
    AGE_COLUMN,
];

impl Kind for Lease {
    fn resource(&self) -> &Resource {
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
    fn columns(&self) -> &[Column] {
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
