//! DefaultStorageClass and DefaultIngressClass: what names no class gets the one that is marked as the default.

use super::{Write, stored};
use crate::kinds::{ingress, storageclass};
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::validation;

/// Gives a claim a storage class.
pub(super) fn complete_claim(write: &Write<'_>, claim: &mut Object) -> Result<(), ApiError> {
    let old = validation::persistentvolumeclaim::CLASS_ANNOTATION;
    complete(claim, "storageClassName", old, || {
        default_class(write.registry, "storage.k8s.io", "storageclasses", &storageclass::DEFAULT_CLASS_ANNOTATIONS)
    });
    Ok(())
}

/// Gives an Ingress a class.
pub(super) fn complete_ingress(write: &Write<'_>, ingress: &mut Object) -> Result<(), ApiError> {
    let marks = [ingress::DEFAULT_CLASS_ANNOTATION];
    complete(ingress, "ingressClassName", validation::ingress::CLASS_ANNOTATION, || {
        default_class(write.registry, "networking.k8s.io", "ingressclasses", &marks)
    });
    Ok(())
}

/// Sets a field of the spec, unless that is set, or the annotation that did its work before.
fn complete(object: &mut Object, field: &str, old: &str, class: impl FnOnce() -> Option<String>) {
    if object.part("spec").contains_key(field) || metadata(object).part("annotations").contains_key(old) {
        return;
    }
    if let Some(class) = class() {
        object.object_or_new("spec").insert(field.to_owned(), class.into());
    }
}

/// The newest class that is marked; of those made in one second, the first by name.
fn default_class(registry: &Registry, group: &str, plural: &str, marks: &[&str]) -> Option<String> {
    let mut best: Option<Object> = None;
    for class in stored(registry, group, plural, "", "is-default-class") {
        let marked = marks.iter().any(|mark| metadata(&class).part("annotations").text(mark) == "true");
        let made = metadata(&class).text("creationTimestamp");
        if marked && best.as_ref().is_none_or(|best| metadata(best).text("creationTimestamp") < made) {
            best = Some(class);
        }
    }
    best.map(|class| metadata(&class).text("name").to_owned())
}
