//! ServiceAccount.

use super::{Resource, Row, Subresource};
use crate::model::{Fields as _, Object, metadata};
use crate::validation::meta;

/// An annotation that kept pods from secrets that the account does not name.
const ENFORCES_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

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
        warnings,
        ..Row::new(
            Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
                .short(&["sa"])
                .returns_deleted()
                .parts(&[Subresource::Token]),
        )
    }
}

/// That it is given an annotation that goes.
fn warnings(account: &Object, old: Option<&Object>) -> Vec<String> {
    let has = |account: &Object| metadata(account).part("annotations").contains_key(ENFORCES_SECRETS);
    if !has(account) || old.is_some_and(has) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCES_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to \
         mounted secrets"
    )]
}
