//! The controller's names.

use muster_objects::Deployment;

use crate::plan::{Owner, Resource};

/// The work queue, as metrics name it.
pub const QUEUE: &str = "deployment";
/// The source of the Events about Deployments (DEP-13).
pub const COMPONENT: &str = "deployment-controller";

/// The Deployment as plans name it.
#[must_use]
pub fn as_planned(deployment: &Deployment) -> Owner {
    let meta = &deployment.meta;
    Owner {
        resource: Resource::DEPLOYMENTS,
        key: meta.key(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version,
        generation: meta.generation,
        component: COMPONENT,
    }
}
