//! StorageObjectInUseProtection and PersistentVolumeClaimResize: what is in use stays, and only some claims grow.

use muster_schema::quantity::Quantity;
use muster_tree::Value;

use super::Write;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::validation::persistentvolumeclaim::CLASS_ANNOTATION;

/// Holds a claim until no pod uses it.
pub(super) fn protect_claim(_: &Write<'_>, claim: &mut Object) -> Result<(), ApiError> {
    protect(claim, "kubernetes.io/pvc-protection")
}

/// Holds a volume until no claim is bound to it.
pub(super) fn protect_volume(_: &Write<'_>, volume: &mut Object) -> Result<(), ApiError> {
    protect(volume, "kubernetes.io/pv-protection")
}

/// Holds a class of attributes until no volume has them.
pub(super) fn protect_attributes(_: &Write<'_>, class: &mut Object) -> Result<(), ApiError> {
    protect(class, "kubernetes.io/vac-protection")
}

/// Adds a finalizer that is not there.
fn protect(object: &mut Object, finalizer: &str) -> Result<(), ApiError> {
    if metadata(object).strings("finalizers").any(|own| own == finalizer) {
        return Ok(());
    }
    let list = object.object_or_new("metadata").entry("finalizers").or_insert_with(|| Value::Array(Vec::new().into()));
    if let Some(list) = list.as_array_mut() {
        list.push(finalizer.into());
    }
    Ok(())
}

/// Refuses that a claim grows which cannot.
pub(super) fn validate_resize(write: &Write<'_>, claim: &Object) -> Result<(), ApiError> {
    let Some(old) = write.live else { return Ok(()) };
    let size = |claim: &Object| Quantity::of(claim.part("spec").part("resources").part("requests").text("storage"));
    if !size(claim).compare(&size(old)).is_gt() {
        return Ok(());
    }
    let why = if old.part("status").text("phase") != "Bound" {
        "Only bound persistent volume claims can be expanded"
    } else if !grows(write.registry, claim, old) {
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    } else {
        return Ok(());
    };
    Err(write.forbidden(super::name_of(claim), why))
}

/// Whether the class of a claim lets it grow.
fn grows(registry: &Registry, claim: &Object, old: &Object) -> bool {
    let class = class_of(claim);
    !class.is_empty()
        && class == class_of(old)
        && super::find(registry, "storage.k8s.io", "storageclasses", class)
            .is_some_and(|class| class.flag("allowVolumeExpansion"))
}

fn class_of(claim: &Object) -> &str {
    let annotation = metadata(claim).part("annotations").maybe_text(CLASS_ANNOTATION);
    annotation.unwrap_or_else(|| claim.part("spec").text("storageClassName"))
}
