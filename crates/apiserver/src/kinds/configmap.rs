//! ConfigMap.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// Configuration that pods read.
#[derive(Debug)]
pub struct ConfigMap;

static RESOURCE: LazyLock<Resource> =
    LazyLock::new(|| Resource::namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]));

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE_COLUMN,
];

impl Kind for ConfigMap {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let _ = object;
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::data::validate_config_map(object, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        validation::data::validate_config_map_change(object, old, &mut errors);
        errors.extend(self.validate_create(object));
        errors
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let count = |field: &str| object.object(field).map_or(0, Object::len);
        vec![cells::name(object), (count("data") + count("binaryData")).into(), cells::age(object, now)]
    }
}
