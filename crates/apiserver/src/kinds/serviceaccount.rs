//! ServiceAccount.

use super::{Resource, Row, Subresource};
use crate::model::Fields as _;
use crate::validation::meta;

/// An identity that pods run under.
pub(super) fn kind() -> Row {
    Row {
        metadata: meta::Look::BOTH,
        // References to secrets are by name only.
        prepare: |_, object, _| {
            for secret in object.items_mut("secrets") {
                secret.retain(|field, _| field == "name");
            }
        },
        ..Row::new(
            Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
                .short(&["sa"])
                .returns_deleted()
                .parts(&[Subresource::Token]),
        )
    }
}
