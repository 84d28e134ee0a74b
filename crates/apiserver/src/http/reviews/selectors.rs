//! Selectors in a review of access: what is wrong with them, and what of them cannot be used.
//!
//! Roles do not look at selectors, so that all that is told of them is whether they could be read.

use muster_objects::selector::Selector;

use crate::field::FieldError;
use crate::model::{Fields as _, Object};
use crate::registry::selection;
use crate::validation::{Errors, Path, selector};

const FIELDS: &str = "fieldSelector";
const LABELS: &str = "labelSelector";

/// Checks the selectors of `spec.resourceAttributes`.
pub(super) fn validate(asked: &Object, errors: &mut Errors) {
    let (spec, attributes) = (Path::new("spec"), "resourceAttributes");
    let attributes = spec.child(attributes);
    for name in [FIELDS, LABELS] {
        let Some(found) = asked.object(name) else { continue };
        let path = attributes.child(name);
        let (raw, requirements) = (found.text("rawSelector"), found.list("requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(path.child("rawSelector"), raw, why));
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(path.child("requirements"), why));
        }
        for (index, requirement) in found.items("requirements").enumerate() {
            let list = path.child("requirements");
            let path = list.index(index);
            if name == LABELS {
                selector::validate_requirement(requirement, true, false, &path, errors);
            } else {
                if requirement.text("key").is_empty() {
                    errors.push(FieldError::required(path.child("key"), "must be specified"));
                }
                selector::validate_operator(requirement, true, &path, errors);
            }
        }
    }
}

/// What is said of selectors that could not be read, or not as a whole.
pub(super) fn ignored(asked: &Object) -> Vec<String> {
    let said = |name: &str, usable: usize, unusable: usize| {
        let partially = match (usable, unusable) {
            (_, 0) => return None,
            (0, _) => "",
            _ => "partially ",
        };
        Some(format!("spec.resourceAttributes.{name} {partially}ignored due to parse error"))
    };
    let count = |found: &Object, usable: fn(&Object) -> bool| {
        let usable = found.items("requirements").filter(|requirement| usable(requirement)).count();
        (usable, found.list("requirements").len() - usable)
    };
    let raw = |found: &Object, readable: fn(&str) -> bool| {
        let text = found.text("rawSelector");
        if text.is_empty() || readable(text) { (0, 0) } else { (0, 1) }
    };
    let mut out = Vec::new();
    if let Some(found) = asked.object(FIELDS) {
        let (usable, unusable) = match found.list("requirements") {
            [] => raw(found, selection::are_fields),
            _ => count(found, |it| matches!(it.text("operator"), "In" | "NotIn") && it.list("values").len() == 1),
        };
        out.extend(said(FIELDS, usable, unusable));
    }
    if let Some(found) = asked.object(LABELS) {
        let (usable, unusable) = match found.list("requirements") {
            [] => raw(found, |text| Selector::parse(text).is_ok()),
            _ => count(found, |it| matches!(it.text("operator"), "In" | "NotIn" | "Exists" | "DoesNotExist")),
        };
        out.extend(said(LABELS, usable, unusable));
    }
    out
}
