//! Secret.

use std::sync::LazyLock;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// Configuration that is nobody else's business.
#[derive(Debug)]
pub struct Secret;

static RESOURCE: LazyLock<Resource> =
    LazyLock::new(|| Resource::namespaced("", "v1", "Secret", "secrets").labels(&["type"]));

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    Column::text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE_COLUMN,
];

impl Kind for Secret {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        object.set_if_empty("type", "Opaque");
        // No bytes at all are stored as none.
        if let Some(Value::Object(data)) = object.get_mut("data") {
            data.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
        }
        // What was written as text is stored like the rest.
        if let Some(Value::Object(texts)) = object.remove("stringData")
            && !texts.is_empty()
        {
            let data = object.object_or_new("data");
            for (key, text) in texts {
                let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
                data.insert(key, Value::from(encoded));
            }
        }
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::data::validate_secret(object, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        validation::data::validate_secret_change(object, old, &mut errors);
        errors.extend(self.validate_create(object));
        errors
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        (label == "type").then(|| object.text("type").into())
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let count = object.object("data").map_or(0, Object::len);
        vec![cells::name(object), object.text("type").into(), count.into(), cells::age(object, now)]
    }
}
