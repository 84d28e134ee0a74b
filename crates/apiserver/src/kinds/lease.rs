//! Lease.

use super::{AGE_COLUMN, Column, NAME_COLUMN, Resource, Row};
use crate::model::{Fields as _, Object};
use crate::validation::{lease, meta};

/// A lock with a holder and a term.
pub(super) fn kind() -> Row {
    Row {
        metadata: meta::Look::CHANGE.lenient(),
        default: |object| object.set_if_absent("spec", Object::new()),
        // Coordinated leader election is off, as it is by default in the reference: its fields are not stored.
        prepare: |_, object, _| {
            if let Some(spec) = object.object_mut("spec") {
                spec.remove("strategy");
                spec.remove("preferredHolder");
            }
        },
        validate: |object, _, errors| lease::validate_spec(object, errors),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
                .create_on_update()
                .conditional_update(),
        )
    }
}

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
    )
    .at("/spec/holderIdentity"),
    AGE_COLUMN,
];
