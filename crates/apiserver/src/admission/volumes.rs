//! StorageObjectInUseProtection and PersistentVolumeClaimResize: what is in use stays, and only some claims grow.

use muster_schema::quantity::Quantity;
use serde_json::Value;

use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::validation::persistentvolumeclaim::CLASS_ANNOTATION;

/// Holds claims until no pod uses them.
pub(super) const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Holds volumes until no claim is bound to them.
pub(super) const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// Holds classes of attributes until no volume has them.
pub(super) const ATTRIBUTES_FINALIZER: &str = "kubernetes.io/vac-protection";

/// Adds a finalizer that is not there.
pub(super) fn protect(object: &mut Object, finalizer: &str) {
    if metadata(object).strings("finalizers").any(|own| own == finalizer) {
        return;
    }
    let list = object.object_or_new("metadata").entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.push(finalizer.into());
    }
}

/// Refuses that a claim grows which cannot.
pub(super) fn validate_resize(
    registry: &Registry,
    served: &Served,
    claim: &Object,
    old: &Object,
) -> Result<(), ApiError> {
    let size = |claim: &Object| Quantity::of(claim.part("spec").part("resources").part("requests").text("storage"));
    if !size(claim).compare(&size(old)).is_gt() {
        return Ok(());
    }
    let why = if old.part("status").text("phase") != "Bound" {
        "Only bound persistent volume claims can be expanded"
    } else if !grows(registry, claim, old) {
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    } else {
        return Ok(());
    };
    Err(ApiError::forbidden(served.group_resource(), super::name_of(claim), why))
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
