//! The differences between the two kinds that this controller serves.

use muster_objects::meta::ControllerRef;
use muster_objects::{Object, ReplicaSet, ReplicaSetStatus, Selector, SelectorError, Template};

use crate::plan::{Owner, Resource};

/// An owner of replicas, with the fields that the controller reads: a ReplicaSet, or a ReplicationController behind an
/// adapter (RC-01).
pub trait ReplicaOwner: Object {
    /// The names of its kind.
    const IDENTITY: Identity;

    /// `spec.replicas`; never negative.
    fn replicas(&self) -> i32;

    /// `spec.minReadySeconds`, in seconds.
    fn min_ready_seconds(&self) -> i32;

    /// The parsed selector, or why it cannot be parsed (RS-20).
    fn selector(&self) -> Result<&Selector, &SelectorError>;

    /// `spec.template`.
    fn template(&self) -> &Template;

    /// The status as the cache has it. A field that the kind does not have is the default.
    fn status(&self) -> &ReplicaSetStatus;

    /// The owner as plans name it.
    fn as_planned(&self) -> Owner {
        let meta = self.meta();
        Owner {
            resource: Self::IDENTITY.resource,
            key: meta.key(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            generation: meta.generation,
            component: Self::IDENTITY.component,
        }
    }

    /// The controller reference of its pods.
    fn as_controller(&self) -> ControllerRef {
        let Resource { kind, .. } = Self::IDENTITY.resource;
        ControllerRef::to(Self::IDENTITY.resource.api_version(), kind, self.meta())
    }
}

/// The names of one kind of owner, and the features that only ReplicaSets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Kind, version and path.
    pub resource: Resource,
    /// The source of its Events.
    pub component: &'static str,
    /// Its work queue, as metrics name it.
    pub queue: &'static str,
    /// Whether its status counts terminating pods (RS-15; not so for RC-02).
    pub counts_terminating: bool,
    /// Whether written resourceVersions are recorded, and syncs wait for caches that have passed them
    /// (RS-19; not so for RC-02).
    pub keeps_record: bool,
    /// Whether its pods are ranked by how many of its siblings' are on the same node (DEL-03; not so for RC-02).
    pub ranks_by_node: bool,
}

impl Identity {
    /// Of the ReplicaSet controller.
    pub const REPLICA_SET: Self = Self {
        resource: Resource::REPLICA_SETS,
        component: "replicaset-controller",
        queue: "replicaset",
        counts_terminating: true,
        keeps_record: true,
        ranks_by_node: true,
    };

    /// Of the ReplicationController controller.
    pub const REPLICATION_CONTROLLER: Self = Self {
        resource: Resource::REPLICATION_CONTROLLERS,
        component: "replication-controller",
        queue: "replicationmanager",
        counts_terminating: false,
        keeps_record: false,
        ranks_by_node: false,
    };
}

impl ReplicaOwner for ReplicaSet {
    const IDENTITY: Identity = Identity::REPLICA_SET;

    fn replicas(&self) -> i32 {
        self.replicas
    }

    fn min_ready_seconds(&self) -> i32 {
        self.min_ready_seconds
    }

    fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.selector.as_ref()
    }

    fn template(&self) -> &Template {
        &self.template
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}
