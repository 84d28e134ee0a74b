//! PersistentVolume and PersistentVolumeClaim.

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, cells, defaults};
use crate::model::{Fields as _, metadata};
use crate::validation::meta::Look;
use crate::validation::{persistentvolume as volume, persistentvolumeclaim as claim};

/// A piece of storage in the cluster.
pub(super) fn kind() -> Row {
    Row {
        metadata: Look::WHOLE,
        default: |object| {
            let spec = object.object_or_new("spec");
            spec.set_if_empty("persistentVolumeReclaimPolicy", "Retain");
            spec.set_if_absent("volumeMode", "Filesystem");
            defaults::resource_list(spec, "capacity");
            defaults::sources(spec);
            object.object_or_new("status").set_if_empty("phase", "Pending");
        },
        prepare: |part, object, old| {
            if part == Part::Main && old.is_none() {
                object.insert("status", json!({"phase": "Pending"}));
            }
        },
        stamp,
        validate: volume::validate,
        validate_part: |_, object, _, errors| volume::validate_status(object, errors),
        warnings: |object, _| volume::warnings(object),
        columns: &COLUMNS,
        ..Row::new(
            Resource::cluster("", "v1", "PersistentVolume", "persistentvolumes")
                .short(&["pv"])
                .parts(&[Subresource::Status])
                .returns_deleted(),
        )
    }
}

/// Keeps when a volume got the phase that it has.
fn stamp(part: Part, object: &mut Object, old: Option<&Object>, now: Timestamp) {
    const TIME: &str = "lastPhaseTransitionTime";
    let empty = Object::new();
    let was = old.map(|old| old.object("status").unwrap_or(&empty));
    let status = object.object_or_new("status");
    match (part, was) {
        (Part::Main, None) => {
            status.insert(TIME.to_owned(), Value::from(now.to_string()));
        }
        (Part::Status, Some(was)) => {
            let said = status.get(TIME).filter(|time| !time.is_null());
            if status.text("phase") == was.text("phase") {
                if said.is_none() {
                    status.carry(TIME, was);
                }
            } else if said.is_none() || said == was.get(TIME) {
                status.insert(TIME.to_owned(), Value::from(now.to_string()));
            }
        }
        _ => {}
    }
}

static COLUMNS: [Column; 11] = [
    NAME_COLUMN,
    Column::text("Capacity", "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity")
        .by(|object, _| storage(object.object("spec").and_then(|s| s.object("capacity")))),
    Column::text("Access Modes", "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes")
        .by(|object, _| cells::access_modes(object.object("spec"))),
    Column::text("Reclaim Policy", "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming")
        .at("/spec/persistentVolumeReclaimPolicy"),
    Column::text("Status", "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase")
        .by(|object, _| phase(object)),
    Column::text("Claim", "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding")
        .by(|object, _| {
            let claim = object.object("spec").and_then(|s| s.object("claimRef"));
            claim.map(|claim| format!("{}/{}", claim.text("namespace"), claim.text("name"))).unwrap_or_default().into()
        }),
    Column::text("StorageClass", "StorageClass of the pv").by(|object, _| claim::class(object).unwrap_or_default().into()),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pv")
        .by(|object, _| cells::or_unset(object.object("spec"), "volumeAttributesClassName")),
    Column::text("Reason", "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.")
        .at("/status/reason"),
    AGE_COLUMN,
    Column::wide_text("VolumeMode", "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.")
        .by(|object, _| cells::or_unset(object.object("spec"), "volumeMode")),
];

fn phase(object: &Object) -> Value {
    if metadata(object).contains_key("deletionTimestamp") {
        return "Terminating".into();
    }
    object.object("status").map_or("", |s| s.text("phase")).into()
}

fn storage(list: Option<&Object>) -> Value {
    list.and_then(|list| list.maybe_text("storage")).unwrap_or("0").into()
}

/// What somebody wants of a volume.
pub(super) fn claim() -> Row {
    Row {
        metadata: Look::BOTH,
        default: |object| {
            defaults::claim_spec(object.object_or_new("spec"));
            let status = object.object_or_new("status");
            status.set_if_empty("phase", "Pending");
            defaults::resource_list(status, "capacity");
            defaults::resource_list(status, "allocatedResources");
        },
        prepare: |part, object, old| {
            if part != Part::Main {
                return;
            }
            if old.is_none() {
                object.insert("status", json!({"phase": "Pending"}));
            }
            let spec = object.object_or_new("spec");
            claim::drop_other_sources(spec, old.and_then(|old| old.object("spec")));
            claim::normalize_sources(spec);
        },
        validate: claim::validate,
        validate_part: |_, object, _, errors| claim::validate_status(object, errors),
        warnings: |object, _| claim::warnings(object),
        columns: &CLAIM_COLUMNS,
        ..Row::new(
            Resource::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
                .short(&["pvc"])
                .parts(&[Subresource::Status])
                .returns_deleted(),
        )
    }
}

static CLAIM_COLUMNS: [Column; 9] = [
    NAME_COLUMN,
    Column::text("Status", "phase represents the current phase of PersistentVolumeClaim.").by(|object, _| phase(object)),
    Column::text("Volume", "volumeName is the binding reference to the PersistentVolume backing this claim.").at("/spec/volumeName"),
    Column::text("Capacity", "capacity represents the actual resources of the underlying volume.")
        .by(|object, _| bound(object).map_or_else(|| "".into(), |status| storage(status.object("capacity")))),
    Column::text("Access Modes", "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1")
        .by(|object, _| cells::access_modes(bound(object))),
    Column::text("StorageClass", "StorageClass of the pvc").by(|object, _| claim::class(object).unwrap_or_default().into()),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc")
        .by(|object, _| cells::or_unset(object.object("spec"), "volumeAttributesClassName")),
    AGE_COLUMN,
    Column::wide_text("VolumeMode", "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.")
        .by(|object, _| cells::or_unset(object.object("spec"), "volumeMode")),
];

/// The status of a claim that has a volume.
fn bound(object: &Object) -> Option<&Object> {
    let has_volume = object.object("spec").is_some_and(|spec| !spec.text("volumeName").is_empty());
    object.object("status").filter(|_| has_volume)
}
