//! PodTemplate.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, defaults, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata, set_generation};
use crate::validation::{self, Errors, Path};

/// A template by itself.
#[derive(Debug)]
pub struct PodTemplate;

static RESOURCE: LazyLock<Resource> =
    LazyLock::new(|| Resource::namespaced("", "v1", "PodTemplate", "podtemplates").returns_deleted());

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Containers", "Names of each container in the template."),
    Column::text("Images", "Images referenced by each container in the template."),
    Column::text("Pod Labels", "The labels for the pod template."),
];

impl Kind for PodTemplate {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        defaults::template(object, "template");
    }
    fn prepare_create(&self, object: &mut Object) {
        set_generation(object, 1);
        drop_disabled(object);
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        drop_disabled(object);
        keep_generation(object, old);
        // There is no spec: the template is all that counts.
        if object.get("template") != old.get("template") {
            set_generation(object, metadata(old).int("generation") + 1);
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validate_template(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        validate_template(object, Some(old), &mut errors);
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let Some(template) = object.object("template") else { return Vec::new() };
        let path = Path::new("template");
        validation::pod::warnings::template(&path, template, old.and_then(|o| o.object("template")))
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let _ = now;
        let template = object.object("template");
        let [names, images] = cells::containers(template);
        let labels = template.and_then(|t| t.object("metadata")).and_then(|m| m.object("labels"));
        vec![cells::name(object), names, images, cells::labels(labels).into()]
    }
}

fn validate_template(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let template = object.object("template").unwrap_or(&empty);
    validation::pod::validate_template(
        template,
        old.and_then(|o| o.object("template")),
        &Path::new("template"),
        errors,
    );
}

fn drop_disabled(object: &mut Object) {
    if let Some(spec) = object.object_mut("template").and_then(|t| t.object_mut("spec")) {
        defaults::drop_disabled(spec);
    }
}
