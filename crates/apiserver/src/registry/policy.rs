//! Where kinds differ in ways that only the registry cares about: a table, read off the reference server's
//! strategies.

use std::time::Duration;

use crate::kinds::Resource;

/// What a kind's writes and deletions may do.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// A deletion answers with the object, not with a `Status`.
    pub returns_deleted: bool,
    /// An update of what is not there creates it.
    pub create_on_update: bool,
    /// An update without a resourceVersion replaces whatever is there.
    pub unconditional_update: bool,
    /// Whether propagation policies put finalizers on it.
    pub collects_garbage: bool,
    /// Whether the kind has a list of field labels of its own, which words the error for others.
    pub own_field_labels: bool,
    /// Whether a write is given something that only one object may have (addresses, ports).
    pub allocates: bool,
    /// How long after its last write an object goes by itself.
    pub lifetime: Option<Duration>,
    /// Where the reference server keeps its objects: a part of one of its messages.
    pub storage_prefix: &'static str,
}

/// The policy for a kind.
#[must_use]
pub fn policy(resource: &Resource) -> Policy {
    let plural = resource.plural;
    Policy {
        returns_deleted: matches!(
            (resource.group, plural),
            (
                "",
                "namespaces"
                    | "persistentvolumeclaims"
                    | "persistentvolumes"
                    | "pods"
                    | "podtemplates"
                    | "resourcequotas"
                    | "serviceaccounts"
                    | "services"
            )
        ),
        create_on_update: matches!(
            plural,
            "events"
                | "leases"
                | "services"
                | "endpoints"
                | "limitranges"
                | "roles"
                | "rolebindings"
                | "clusterroles"
                | "clusterrolebindings"
        ),
        unconditional_update: !matches!(plural, "leases" | "poddisruptionbudgets"),
        collects_garbage: plural != "events",
        own_field_labels: matches!(
            (resource.group, plural),
            ("", "pods" | "nodes" | "replicationcontrollers" | "events" | "namespaces" | "secrets" | "services")
                | ("events.k8s.io", "events")
        ),
        allocates: (resource.group, plural) == ("", "services"),
        lifetime: (plural == "events").then_some(super::expiry::EVENTS),
        storage_prefix: match (resource.group, plural) {
            ("", "nodes") => "minions",
            ("", "replicationcontrollers") => "controllers",
            ("", "services") => "services/specs",
            ("", "endpoints") => "services/endpoints",
            _ => plural,
        },
    }
}
