//! StorageClass and VolumeAttributesClass.

use super::{AGE_COLUMN, Column, NAME_COLUMN, Resource, Row, cells};
use crate::model::Fields as _;
use crate::validation::meta::Look;
use crate::validation::{IMMUTABLE, storageclass};

/// The annotations of the class that claims get that name none.
pub const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// How volumes are made.
pub(super) fn kind() -> Row {
    Row {
        metadata: Look::BOTH_CHANGE_LAST,
        default: |class| {
            class.set_if_absent("reclaimPolicy", "Delete");
            class.set_if_absent("volumeBindingMode", "Immediate");
        },
        validate: |class, _, errors| storageclass::validate(class, errors),
        immutable: &[
            ("/parameters", IMMUTABLE),
            ("/provisioner", IMMUTABLE),
            ("/reclaimPolicy", IMMUTABLE),
            ("/volumeBindingMode", IMMUTABLE),
        ],
        warnings: |class, _| storageclass::warnings(class),
        columns: &COLUMNS,
        ..Row::new(
            Resource::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses")
                .short(&["sc"])
                .returns_deleted(),
        )
    }
}

static COLUMNS: [Column; 6] = [
    NAME_COLUMN.by(|class, _| cells::name_of_default(class, &DEFAULT_CLASS_ANNOTATIONS)),
    Column::text("Provisioner", "provisioner indicates the type of the provisioner.").at("/provisioner"),
    Column::text(
        "ReclaimPolicy",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
    )
    .at("/reclaimPolicy"),
    Column::text(
        "VolumeBindingMode",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
    )
    .at("/volumeBindingMode"),
    Column::text(
        "AllowVolumeExpansion",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
    )
    .by(|class, _| class.flag("allowVolumeExpansion").into()),
    AGE_COLUMN,
];

/// What of a volume may be changed while it is there.
pub(super) fn attributes() -> Row {
    Row {
        metadata: Look::BOTH,
        validate: storageclass::validate_attributes,
        columns: &ATTRIBUTES_COLUMNS,
        ..Row::new(
            Resource::cluster("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses")
                .short(&["vac"])
                .returns_deleted(),
        )
    }
}

static ATTRIBUTES_COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text("DriverName", "Name of the CSI driver This field is immutable.").at("/driverName"),
    AGE_COLUMN,
];
