//! CustomResourceDefinition (API-28). What follows from one is the registry's business.

use std::sync::LazyLock;

use muster_tree::json;

use super::{Column, Kind, NAME_COLUMN, Object, Part, Resource, keep_generation, raise_if_changed};
use crate::custom::definition::{self, Definition, validate};
use crate::field::{FieldError, go_quote};
use crate::model::column::Cell;
use crate::model::fields::{Fields as _, metadata, set_generation};
use crate::model::{Name, NameRule, Subresource};
use crate::validation::{Errors, meta};

/// A kind that comes at run time.
#[derive(Debug)]
pub struct CustomResourceDefinition;

/// The finalizer under which the objects of a definition are deleted before it.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| Resource {
    categories: vec!["api-extensions".into()],
    ..Resource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .short(&["crd", "crds"])
        .parts(&[Subresource::Status])
        .stored_under("apiextensions.k8s.io/customresourcedefinitions")
        .conditional_update()
});

static COLUMNS: [Column; 2] = [
    NAME_COLUMN,
    Column {
        name: Name::Borrowed("Created At"),
        kind: Name::Borrowed("date"),
        format: Name::Borrowed(""),
        description: Name::Borrowed(CREATED),
        priority: 0,
        cell: Cell::By(|object, _| metadata(object).text("creationTimestamp").into()),
    },
];

const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Reads a definition. What the table of types has let through can be read.
fn read(object: &Object, errors: &mut Errors) -> Option<Definition> {
    match Definition::read(object) {
        Ok(definition) => Some(definition),
        Err(why) => {
            errors.push(FieldError::invalid("spec", crate::field::Shown::Bare("null".to_owned()), why));
            None
        }
    }
}

impl Kind for CustomResourceDefinition {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn cleanup(&self) -> Option<&'static str> {
        Some(CLEANUP)
    }
    fn default(&self, object: &mut Object) {
        definition::default(object);
        definition::normalize(object);
    }
    fn prepare_create(&self, object: &mut Object) {
        let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
        object.insert("status", status);
        definition::note_storage_version(object);
        set_generation(object, 1);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        if part == Part::Status {
            object.carry("spec", old);
            return;
        }
        object.carry("status", old);
        definition::note_storage_version(object);
        raise_if_changed(object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let Some(definition) = read(object, &mut errors) else { return errors };
        check_name(object, &definition, &mut errors);
        meta::validate(metadata(object), false, NameRule::PathSegment, &mut errors);
        errors.extend(validate::create(&definition));
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        meta::validate_update(metadata(object), metadata(old), &mut errors);
        let Some((new, was)) = read(object, &mut errors).zip(read(old, &mut errors)) else { return errors };
        errors.extend(match part {
            Part::Status => validate::update_status(&new),
            _ => validate::update(&new, &was),
        });
        errors
    }
    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let Ok(definition) = Definition::read(object) else { return Vec::new() };
        let unknown = validate::unknown_formats(&definition.spec);
        unknown.iter().map(|format| format!("unrecognized format {}", go_quote(format))).collect()
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
}

/// The name says the plural and the group.
fn check_name(object: &Object, definition: &Definition, errors: &mut Errors) {
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let name = metadata(object).text(field);
        if name.is_empty() {
            continue;
        }
        for why in validate::complain_of_name(definition, name, prefix) {
            errors.push(FieldError::invalid(format!("metadata.{field}"), name, why));
        }
    }
}
