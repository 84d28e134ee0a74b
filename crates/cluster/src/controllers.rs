//! The controllers that kube-controller-manager has too, by their names there, so that someone else's manager can take
//! the place of any.

use muster_runtime::manager::Name;

use crate::control::Frame;
use crate::{certificates, disruption, quota, roles, services, tokens, volumes};

/// The collector of dependents whose owners are gone.
pub const GARBAGE_COLLECTOR: Name = Name { name: "garbage-collector-controller", alias: "garbagecollector" };
/// The one that empties and removes deleted namespaces.
pub const NAMESPACE: Name = Name { name: "namespace-controller", alias: "namespace" };
/// The one that gives every namespace its certificate authority.
pub const ROOT_CA: Name = Name { name: "root-ca-certificate-publisher-controller", alias: "root-ca-cert-publisher" };
/// The one that gives every namespace its service account.
pub const SERVICE_ACCOUNT: Name = Name { name: "serviceaccount-controller", alias: "serviceaccount" };
/// The one that keeps EndpointSlices.
pub const ENDPOINT_SLICE: Name = Name { name: "endpointslice-controller", alias: "endpointslice" };
/// The one that mirrors Endpoints into EndpointSlices.
pub const ENDPOINT_SLICE_MIRRORING: Name =
    Name { name: "endpointslice-mirroring-controller", alias: "endpointslicemirroring" };
/// The one that keeps Endpoints.
pub const ENDPOINTS: Name = Name { name: "endpoints-controller", alias: "endpoint" };

/// The one that says how many pods may be evicted.
pub const DISRUPTION: Name = Name { name: "disruption-controller", alias: "disruption" };
/// The one that sums up what namespaces use.
pub const RESOURCE_QUOTA: Name = Name { name: "resourcequota-controller", alias: "resourcequota" };
/// The one that signs requests for certificates.
pub const CSR_SIGNING: Name = Name { name: "certificatesigningrequest-signing-controller", alias: "csrsigning" };
/// The one that approves those of nodes.
pub const CSR_APPROVING: Name = Name { name: "certificatesigningrequest-approving-controller", alias: "csrapproving" };
/// The one that deletes old ones.
pub const CSR_CLEANER: Name = Name { name: "certificatesigningrequest-cleaner-controller", alias: "csrcleaner" };
/// The one that puts ClusterRoles together of others.
pub const CLUSTER_ROLE_AGGREGATION: Name =
    Name { name: "clusterrole-aggregation-controller", alias: "clusterrole-aggregation" };
/// The one that binds claims to volumes.
pub const VOLUME_BINDER: Name = Name { name: "persistentvolume-binder-controller", alias: "persistentvolume-binder" };
/// The one that keeps claims that pods use.
pub const CLAIM_PROTECTION: Name =
    Name { name: "persistentvolumeclaim-protection-controller", alias: "pvc-protection" };
/// The one that keeps volumes that are bound.
pub const VOLUME_PROTECTION: Name = Name { name: "persistentvolume-protection-controller", alias: "pv-protection" };

/// The one that makes the claims of ephemeral volumes.
pub const EPHEMERAL_VOLUME: Name = Name { name: "ephemeral-volume-controller", alias: "ephemeral-volume" };
/// The one that writes tokens into the Secrets that ask for one.
pub const SERVICE_ACCOUNT_TOKEN: Name = Name { name: "serviceaccount-token-controller", alias: "serviceaccount-token" };

/// The one that says which ranges of cluster IPs are ready.
pub const SERVICE_CIDR: Name = Name { name: "service-cidr-controller", alias: "service-cidr-controller" };

/// All of them.
pub const CONTROLLERS: &[Name] = &[
    GARBAGE_COLLECTOR,
    NAMESPACE,
    ROOT_CA,
    SERVICE_ACCOUNT,
    ENDPOINT_SLICE,
    ENDPOINTS,
    ENDPOINT_SLICE_MIRRORING,
    DISRUPTION,
    RESOURCE_QUOTA,
    CSR_SIGNING,
    CSR_APPROVING,
    CSR_CLEANER,
    CLUSTER_ROLE_AGGREGATION,
    VOLUME_BINDER,
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    EPHEMERAL_VOLUME,
    SERVICE_ACCOUNT_TOKEN,
    SERVICE_CIDR,
];

/// Sets a controller up.
type SetUp = fn(&mut Frame<'_>);

/// Those that are set up in a [`Frame`], and how.
pub(crate) const FRAMED: &[(Name, SetUp)] = &[
    (ENDPOINT_SLICE, services::keep_slices),
    (ENDPOINTS, services::keep_endpoints),
    (ENDPOINT_SLICE_MIRRORING, services::mirror_endpoints),
    (DISRUPTION, disruption::keep_budgets),
    (RESOURCE_QUOTA, quota::keep_quotas),
    (CSR_SIGNING, certificates::sign_requests),
    (CSR_APPROVING, certificates::approve_requests),
    (CSR_CLEANER, certificates::clean_requests),
    (CLUSTER_ROLE_AGGREGATION, roles::aggregate_roles),
    (VOLUME_BINDER, volumes::bind_volumes),
    (CLAIM_PROTECTION, volumes::protect_claims),
    (VOLUME_PROTECTION, volumes::protect_volumes),
    (EPHEMERAL_VOLUME, volumes::make_claims),
    (SERVICE_ACCOUNT_TOKEN, tokens::keep_tokens),
    (SERVICE_CIDR, services::keep_ranges),
];

#[cfg(test)]
mod tests {
    use super::{CONTROLLERS, FRAMED};

    /// Contract: CM-01
    #[test]
    fn every_controller_is_known_by_its_name() {
        for (name, _) in FRAMED {
            assert!(CONTROLLERS.contains(name), "{}", name.name);
        }
    }
}
