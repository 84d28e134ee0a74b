//! Defaults of a volume.

use muster_tree::json;

use super::super::Object;
use super::spec::{divisor, field_ref, pull_policy};
use super::{quantity, resources};
use crate::model::fields::Fields;

/// The mode that files of secrets, config maps and the like get: 0644.
const FILE_MODE: i64 = 0o644;
/// How long a projected service account token lives, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// Defaults of one volume of a pod.
pub(super) fn volume(volume: &mut Object) {
    // Without any source it is an empty directory. Only the name is no source.
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir", json!({}));
        return;
    }
    if let Some(dir) = volume.object_mut("emptyDir") {
        quantity(dir, "sizeLimit");
    }
    if let Some(image) = volume.object_mut("image")
        && image.text("pullPolicy").is_empty()
    {
        let policy = pull_policy(image.text("reference"));
        image.insert("pullPolicy", policy.into());
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.object_mut(source) {
            source.set_if_absent("defaultMode", FILE_MODE);
        }
    }
    if let Some(downward) = volume.object_mut("downwardAPI") {
        downward_files(downward);
    }
    if let Some(projected) = volume.object_mut("projected") {
        // The list is always written, also where it is empty.
        projected.entry("sources").or_insert(muster_tree::Value::Null);
        for source in projected.items_mut("sources") {
            if let Some(downward) = source.object_mut("downwardAPI") {
                downward_files(downward);
            }
            if let Some(token) = source.object_mut("serviceAccountToken") {
                token.set_if_absent("expirationSeconds", TOKEN_SECONDS);
            }
        }
    }
    sources(volume);
    if let Some(claim) = volume.object_mut("ephemeral").and_then(|e| e.object_mut("volumeClaimTemplate")) {
        claim.set_if_absent("metadata", Object::new());
        claim_spec(claim.object_or_new("spec"));
    }
}

/// Defaults of the spec of a volume claim.
pub fn claim_spec(spec: &mut Object) {
    spec.set_if_absent("volumeMode", "Filesystem");
    spec.set_if_absent("resources", Object::new());
    resources(spec, "resources");
}

/// Defaults of the sources that pods' volumes and persistent ones have in common.
pub fn sources(volume: &mut Object) {
    if let Some(host_path) = volume.object_mut("hostPath") {
        host_path.set_if_absent("type", "");
    }
    if let Some(iscsi) = volume.object_mut("iscsi") {
        iscsi.set_if_empty("iscsiInterface", "default");
    }
    if let Some(rbd) = volume.object_mut("rbd") {
        rbd.set_if_empty("pool", "rbd");
        rbd.set_if_empty("user", "admin");
        rbd.set_if_empty("keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = volume.object_mut("azureDisk") {
        disk.set_if_absent("cachingMode", "ReadWrite");
        disk.set_if_absent("fsType", "ext4");
        disk.set_if_absent("readOnly", false);
        disk.set_if_absent("kind", "Shared");
    }
    if let Some(scale_io) = volume.object_mut("scaleIO") {
        scale_io.set_if_empty("storageMode", "ThinProvisioned");
        scale_io.set_if_empty("fsType", "xfs");
    }
}

fn downward_files(source: &mut Object) {
    for item in source.items_mut("items") {
        field_ref(item);
        if let Some(resource) = item.object_mut("resourceFieldRef") {
            divisor(resource);
        }
    }
}
