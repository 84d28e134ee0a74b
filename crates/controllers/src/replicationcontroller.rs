//! The ReplicationController controller: the ReplicaSet controller for the older kind (RC-01).
//!
//! Everything that it does is [`crate::replicaset`]; this is the whole of the difference.

use muster_objects::{ReplicaSetStatus, ReplicationController, Selector, SelectorError, Template};

use crate::replicaset::{Identity, ReplicaOwner};

impl ReplicaOwner for ReplicationController {
    const IDENTITY: Identity = Identity::REPLICATION_CONTROLLER;

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
