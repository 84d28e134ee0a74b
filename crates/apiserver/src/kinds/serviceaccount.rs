//! ServiceAccount.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::Subresource;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// An identity that pods run under.
#[derive(Debug)]
pub struct ServiceAccount;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
        .short(&["sa"])
        .returns_deleted()
        .parts(&[Subresource::Token])
});

static COLUMNS: [Column; 2] = [NAME_COLUMN, AGE_COLUMN];

impl Kind for ServiceAccount {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let _ = object;
    }
    fn prepare_create(&self, object: &mut Object) {
        clean_secrets(object);
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        clean_secrets(object);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        errors.extend(self.validate_create(object));
        errors
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(object), cells::age(object, now)]
    }
}

/// References to secrets are by name only.
fn clean_secrets(object: &mut Object) {
    for secret in object.items_mut("secrets") {
        secret.retain(|field, _| field == "name");
    }
}
