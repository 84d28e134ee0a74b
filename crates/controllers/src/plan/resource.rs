//! The kinds that controllers write, and where an API server serves them.

use std::fmt;

/// A kind together with the path it is served at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The plural, as in paths: `replicasets`.
    pub plural: &'static str,
    /// The kind, as in objects and owner references: `ReplicaSet`.
    pub kind: &'static str,
}

impl Resource {
    /// v1 Pod.
    pub const PODS: Self = Self { group: "", version: "v1", plural: "pods", kind: "Pod" };
    /// apps/v1 ReplicaSet.
    pub const REPLICA_SETS: Self = Self { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet" };
    /// v1 ReplicationController.
    pub const REPLICATION_CONTROLLERS: Self =
        Self { group: "", version: "v1", plural: "replicationcontrollers", kind: "ReplicationController" };
    /// apps/v1 Deployment.
    pub const DEPLOYMENTS: Self = Self { group: "apps", version: "v1", plural: "deployments", kind: "Deployment" };

    /// `apiVersion` as objects carry it: `apps/v1`, or `v1` for the core group.
    #[must_use]
    pub const fn api_version(&self) -> &'static str {
        // The groups written here all serve v1; a const table keeps this free of allocation.
        match self.group.as_bytes() {
            b"" => "v1",
            b"apps" => "apps/v1",
            _ => self.version,
        }
    }

    /// The path of the collection in a namespace: `/apis/apps/v1/namespaces/default/replicasets`.
    #[must_use]
    pub fn collection_path(&self, namespace: &str) -> String {
        let Self { group, version, plural, .. } = self;
        if group.is_empty() {
            format!("/api/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
        }
    }

    /// The path of one object: `/api/v1/namespaces/default/pods/web-x2v4b`.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = self.collection_path(namespace);
        path.push('/');
        path.push_str(name);
        path
    }
}

/// The kind.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}
