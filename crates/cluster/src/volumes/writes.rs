//! The writes of the controllers of volumes, as merge patches.

use std::sync::Arc;

use muster_objects::ObjectKey;
use muster_objects::event::ObjectReference;
use serde_json::{Value, json};

use super::objects::{BIND_COMPLETED, BOUND_BY_CONTROLLER, Claim, SELECTED_NODE, Volume};
use super::{all_claims, all_volumes};
use crate::control::Slim;

/// A write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// To a claim.
    Claim(ObjectKey, Value),
    /// To its status.
    ClaimStatus(ObjectKey, Value),
    /// To a volume.
    Volume(Arc<str>, Value),
    /// To its status.
    VolumeStatus(Arc<str>, Value),
}

impl Write {
    /// The path of the object or of its status, and the patch.
    pub(crate) fn request(&self) -> (String, &Value) {
        let status = |path: String| format!("{path}/status");
        let claim = |key: &ObjectKey| all_claims().object(Some(&key.namespace), &key.name);
        let volume = |name: &str| all_volumes().object(None, name);
        match self {
            Self::Claim(key, patch) => (claim(key), patch),
            Self::ClaimStatus(key, patch) => (status(claim(key)), patch),
            Self::Volume(name, patch) => (volume(name), patch),
            Self::VolumeStatus(name, patch) => (status(volume(name)), patch),
        }
    }
}

/// What is to be done about a claim or a volume.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// In their order; the first that fails ends it.
    pub(super) writes: Vec<Write>,
    /// Events.
    pub(super) tell: Vec<Note>,
    /// What is wrong with the objects.
    pub(super) failure: Option<String>,
}

/// Something to tell of an object.
#[derive(Debug, PartialEq)]
pub(super) struct Note {
    pub(super) about: ObjectReference,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Binds a volume and a claim to each other, both as they were seen: what of it is not done yet, the volume first.
pub(super) fn bind(volume: &Slim<Volume>, claim: &Slim<Claim>) -> Result<Vec<Write>, String> {
    let mut writes: Vec<Write> = binding(volume, claim).into_iter().collect();
    writes.extend(volume_phase(volume, "Bound"));
    let chosen = claim.body.volume != *volume.meta.name;
    if chosen || !claim.body.annotations.has(BIND_COMPLETED) {
        let mut patch = json!({
            "metadata": {
                "uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version,
                "annotations": {BIND_COMPLETED: "yes"},
            },
        });
        if chosen {
            patch["spec"] = json!({"volumeName": volume.meta.name});
            if !claim.body.annotations.has(BOUND_BY_CONTROLLER) {
                patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
            }
        }
        writes.push(Write::Claim(claim.meta.key(), patch));
    }
    writes.extend(claim_phase(claim, "Bound", Some(volume))?);
    Ok(writes)
}

/// Makes a volume that of a claim, if it is not.
pub(crate) fn binding(volume: &Slim<Volume>, claim: &Slim<Claim>) -> Option<Write> {
    let bound = volume.body.is_for(claim);
    let complete = volume.body.claim.as_ref().is_some_and(|reference| reference.uid == claim.meta.uid);
    let annotate = !bound && !volume.body.annotations.has(BOUND_BY_CONTROLLER);
    if bound && complete {
        return None;
    }
    let mut patch = json!({
        "metadata": {"uid": volume.meta.uid, "resourceVersion": volume.meta.resource_version},
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": claim.meta.namespace, "name": claim.meta.name,
            "uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version,
        }},
    });
    if annotate {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    Some(Write::Volume(Arc::clone(&volume.meta.name), patch))
}

/// Asks for a volume for a claim on a node.
pub(crate) fn selecting(claim: &Slim<Claim>, node: &str) -> Write {
    let patch = json!({"metadata": {
        "uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version, "annotations": {SELECTED_NODE: node},
    }});
    Write::Claim(claim.meta.key(), patch)
}

/// Takes a volume from the claim that it is bound to.
pub(super) fn unbind(volume: &Slim<Volume>) -> Vec<Write> {
    let mut patch = json!({"metadata": {"uid": volume.meta.uid, "resourceVersion": volume.meta.resource_version}});
    if volume.body.annotations.has(BOUND_BY_CONTROLLER) {
        patch["spec"] = json!({"claimRef": null});
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: null});
    } else {
        // It is still kept for a claim of that name.
        patch["spec"] = json!({"claimRef": {"uid": null}});
    }
    let mut writes = vec![Write::Volume(Arc::clone(&volume.meta.name), patch)];
    writes.extend(volume_phase(volume, "Available"));
    writes
}

/// Sets a volume's phase, if it is not that.
pub(super) fn volume_phase(volume: &Slim<Volume>, phase: &str) -> Option<Write> {
    volume_phase_saying(volume, phase, None)
}

/// Sets a volume's phase, if it is not that, and says why.
pub(super) fn volume_phase_saying(volume: &Slim<Volume>, phase: &str, message: Option<&str>) -> Option<Write> {
    (volume.body.status.phase != phase).then(|| {
        let status = json!({"phase": phase, "message": message});
        let patch = json!({"metadata": {"uid": volume.meta.uid}, "status": status});
        Write::VolumeStatus(Arc::clone(&volume.meta.name), patch)
    })
}

/// Sets a claim's phase and what it has of the volume, if they are not that.
///
/// # Errors
/// Where the volume does not say how much it stores.
pub(super) fn claim_phase(
    claim: &Slim<Claim>,
    phase: &str,
    volume: Option<&Slim<Volume>>,
) -> Result<Option<Write>, String> {
    let old = &claim.body.status;
    let mut status = serde_json::Map::new();
    if old.phase != phase {
        status.insert("phase".to_owned(), phase.into());
    }
    match volume {
        None => {
            let fields = [
                ("accessModes", old.access_modes.is_some()),
                ("capacity", old.capacity.is_some()),
                ("currentVolumeAttributesClassName", old.current_volume_attributes_class_name.is_some()),
            ];
            status.extend(fields.iter().filter(|(_, there)| *there).map(|(name, _)| ((*name).to_owned(), Value::Null)));
        }
        Some(volume) => {
            if old.access_modes.as_ref() != Some(&volume.body.access_modes) {
                status.insert("accessModes".to_owned(), json!(volume.body.access_modes));
            }
            // What a claim that is bound already has may be less: its file system was not grown yet.
            if old.phase != phase {
                if !volume.body.capacity.contains_key("storage") {
                    return Err(format!("PersistentVolume {:?} is without a storage capacity", &*volume.meta.name));
                }
                status.insert("capacity".to_owned(), json!(volume.body.capacity));
            }
            let attributes = Some(&volume.body.attributes).filter(|attributes| !attributes.is_empty());
            if old.phase == "Pending" && old.current_volume_attributes_class_name.as_ref() != attributes {
                status.insert("currentVolumeAttributesClassName".to_owned(), json!(attributes));
            }
        }
    }
    Ok((!status.is_empty()).then(|| {
        let patch = json!({"metadata": {"uid": claim.meta.uid}, "status": status});
        Write::ClaimStatus(claim.meta.key(), patch)
    }))
}
