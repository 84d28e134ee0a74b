//! Namespace.

use std::sync::LazyLock;

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, keep_generation,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// A room for other objects.
#[derive(Debug)]
pub struct Namespace;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::cluster("", "v1", "Namespace", "namespaces")
        .short(&["ns"])
        .parts(&[Subresource::Finalize, Subresource::Status])
        .labels(&["status.phase"])
        .without_delete_collection()
        .returns_deleted()
});

static COLUMNS: [Column; 3] = [NAME_COLUMN, Column::text("Status", "The status of the namespace"), AGE_COLUMN];

/// The label by which selectors find a namespace by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl Kind for Namespace {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        name_label(object);
        object.set_if_absent("spec", Object::new());
        object.object_or_new("status").set_if_empty("phase", "Active");
    }
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
    fn prepare_create(&self, object: &mut Object) {
        name_label(object);
        object.insert("status", json!({"phase": "Active"}));
        let spec = object.object_or_new("spec");
        if spec.strings("finalizers").all(|f| f != "kubernetes") {
            match spec.get_mut("finalizers") {
                Some(Value::Array(list)) => list.push("kubernetes".into()),
                _ => {
                    spec.insert("finalizers", json!(["kubernetes"]));
                }
            }
        }
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Main => {
                object.carry("status", old);
                let empty = Object::new();
                object.object_or_new("spec").carry("finalizers", old.object("spec").unwrap_or(&empty));
            }
            Part::Finalize => object.carry("status", old),
            _ => object.carry("spec", old),
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), false, NameRule::Label, &mut errors);
        validation::namespace::validate_finalizers(object, false, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = match part {
            Part::Main => self.validate_create(object),
            _ => Errors::new(),
        };
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Main => {}
            Part::Finalize => validation::namespace::validate_finalizers(object, true, &mut errors),
            _ => validation::namespace::validate_phase(object, &mut errors),
        }
        errors
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        (label == "status.phase").then(|| object.object("status").map(|s| s.text("phase").into()))?
    }
    fn spec_finalizers(&self) -> bool {
        true
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let phase = object.object("status").map_or("", |s| s.text("phase"));
        vec![cells::name(object), phase.into(), cells::age(object, now)]
    }
}

/// Every namespace carries its own name as a label. A name still to be generated is not known yet.
fn name_label(object: &mut Object) {
    let name = metadata(object).text("name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = object.object_or_new("metadata").object_or_new("labels");
    if labels.text(NAME_LABEL) != name {
        labels.insert(NAME_LABEL.to_owned(), name.into());
    }
}
