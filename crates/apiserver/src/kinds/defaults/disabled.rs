//! Fields of features that are off in v1.36 unless switched on: they are dropped, as the reference drops them.

use super::super::Object;
use crate::model::fields::Fields;

/// Drops what a pod's spec says of features that are off.
pub fn drop_disabled(spec: &mut Object) {
    spec.remove("schedulingGroup");
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(field) {
            let Some(lifecycle) = container.object_mut("lifecycle") else { continue };
            // A lifecycle that said nothing else is gone with it.
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
    for volume in spec.items_mut("volumes") {
        let Some(projected) = volume.object_mut("projected") else { continue };
        for source in projected.items_mut("sources") {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

/// Drops the same from a pod template, at `object.spec.template`.
pub fn drop_disabled_template(object: &mut Object) {
    let template = object.object_mut("spec").and_then(|spec| spec.object_mut("template"));
    if let Some(spec) = template.and_then(|template| template.object_mut("spec")) {
        drop_disabled(spec);
    }
}

/// Drops the same from a pod's status.
pub fn drop_disabled_status(status: &mut Object) {
    status.remove("nodeAllocatableResourceClaimStatuses");
    for field in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        let mut mounts = status.items(field).flat_map(|container| container.items("volumeMounts"));
        if mounts.any(|mount| mount.contains_key("volumeStatus")) {
            for mount in status.items_mut(field).flat_map(|container| container.items_mut("volumeMounts")) {
                mount.remove("volumeStatus");
            }
        }
    }
}
