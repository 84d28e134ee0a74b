//! What the kinds that own pods by a template do alike when they are written.

use super::{Object, Part, defaults};
use crate::model::fields::{Fields, metadata, set_generation};
use crate::validation;

/// What [`super::Row`] does not know of a pod template: fields of features that are off.
pub(super) fn prepare(part: Part, object: &mut Object, _: Option<&Object>) {
    if part == Part::Main {
        defaults::drop_disabled_template(object);
    }
}

/// Raises the generation where only annotations have changed.
pub(super) fn raise_with_annotations(object: &mut Object, old: &Object) {
    let annotations = |o: &Object| metadata(o).object("annotations").filter(|a| !a.is_empty()).cloned();
    if object.get("spec") == old.get("spec") && annotations(object) != annotations(old) {
        set_generation(object, metadata(old).int("generation") + 1);
    }
}

/// An object with nothing in it wants no pods: the reference's own type always has a number of them.
pub(super) fn no_replicas(object: &mut Object) {
    object.object_or_new("spec").insert("replicas", 0.into());
}

/// The selector of an object's spec in its string form; empty where it is none.
pub(super) fn scale_selector(object: &Object) -> String {
    let selector = object.object("spec").and_then(|spec| spec.object("selector"));
    validation::selector::parse(selector).map(|selector| selector.to_string()).unwrap_or_default()
}
