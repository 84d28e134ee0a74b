//! What the kinds that own pods by a template do alike when they are written.

use serde_json::Value;

use super::{Object, Part, defaults, keep_generation, raise_generation};
use crate::model::fields::{Fields, metadata, set_generation};
use crate::validation;

/// What [`super::Row`] does not know of a pod template: fields of features that are off.
pub(super) fn prepare(part: Part, object: &mut Object, _: Option<&Object>) {
    if part == Part::Main {
        defaults::drop_disabled_template(object);
    }
}

/// A new object has an empty status and its first generation.
pub(super) fn prepare_create(object: &mut Object, status: Value) {
    defaults::drop_disabled_template(object);
    object.insert("status".to_owned(), status);
    set_generation(object, 1);
}

/// A write of the object leaves its status alone, and raises its generation with its spec; a write of its status leaves
/// its spec alone (API-15).
pub(super) fn prepare_update(part: Part, object: &mut Object, old: &Object) {
    match part {
        Part::Status => {
            keep_generation(object, old);
            object.carry("spec", old);
        }
        _ => {
            object.carry("status", old);
            defaults::drop_disabled_template(object);
            raise_generation(object, old);
        }
    }
}

/// Raises the generation where only annotations have changed.
pub(super) fn raise_with_annotations(object: &mut Object, old: &Object) {
    let annotations = |o: &Object| metadata(o).object("annotations").filter(|a| !a.is_empty()).cloned();
    if object.get("spec") == old.get("spec") && annotations(object) != annotations(old) {
        set_generation(object, metadata(old).int("generation") + 1);
    }
}

/// The selector of an object's spec in its string form; empty where it is none.
pub(super) fn scale_selector(object: &Object) -> String {
    let selector = object.object("spec").and_then(|spec| spec.object("selector"));
    validation::selector::parse(selector).map(|selector| selector.to_string()).unwrap_or_default()
}
