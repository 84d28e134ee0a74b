//! Explains a live object, from the caches and books of a running manager or from lists of the API.
//!
//! ```text
//!   Manager --explainer--> Explainer --(key)--> books copied, caches held still --> begin --> Explanation
//!   Client --lists of one namespace--> caches of its own, empty books ----------> begin --> Explanation
//! ```
//!
//! An explanation changes nothing: it uses a copy of the books of that one object.

use std::time::Duration;

use muster_controllers::{
    deployment, plan,
    replicaset::{self, Owners, ReplicaOwner},
};
use muster_inspect::explain::{Explanation, Role, Source};
use muster_inspect::history::History;
use muster_machinery::{Cache, Cached};
use muster_objects::{
    Deployment, Pod, ReplicaSet, ReplicationController,
    meta::ObjectKey,
    time::{Moment, Timestamp},
};

use crate::{
    client::{Client, ClientError},
    deployment::DeploymentController,
    informer::{WatchedResource, read_once},
    manager::{self, Name},
    replicaset::ReplicaController,
};

/// The kinds that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// v1 ReplicationController.
    ReplicationController,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::ReplicaSet, Self::ReplicationController];

    /// Where the API serves it.
    #[must_use]
    pub const fn resource(self) -> plan::Resource {
        match self {
            Self::Deployment => plan::Resource::DEPLOYMENTS,
            Self::ReplicaSet => plan::Resource::REPLICA_SETS,
            Self::ReplicationController => plan::Resource::REPLICATION_CONTROLLERS,
        }
    }

    /// The kind of that plural, such as `replicasets`.
    #[must_use]
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource().plural == plural)
    }

    /// The controller that works for it.
    #[must_use]
    pub const fn controller(self) -> Name {
        match self {
            Self::Deployment => manager::DEPLOYMENT,
            Self::ReplicaSet => manager::REPLICASET,
            Self::ReplicationController => manager::REPLICATIONCONTROLLER,
        }
    }
}

/// Why an object could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum NotExplained {
    /// No such object.
    #[error("{kind} {key} not found", kind = .kind.resource().kind)]
    NotFound {
        /// The kind asked for.
        kind: Kind,
        /// The object asked for.
        key: ObjectKey,
    },
    /// This manager does not run the controller that would know.
    #[error("this manager does not run the {}", .0.controller().name)]
    NotRun(Kind),
    /// The caches of this manager are not filled yet.
    #[error("the caches of the {} are not filled yet", .0.controller().name)]
    NotSynced(Kind),
    /// This manager runs none of the controllers.
    #[error("this manager runs no controller")]
    NothingRuns,
    /// This manager was told to keep no history.
    #[error("this manager keeps no history (--history-bytes=0)")]
    NotRecorded,
    /// A request to the API server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A handle to the controllers of a manager, to be asked what they think.
#[derive(Clone, Default)]
pub struct Explainer {
    pub(crate) deployments: Option<DeploymentController>,
    pub(crate) replicasets: Option<ReplicaController<ReplicaSet>>,
    pub(crate) replicationcontrollers: Option<ReplicaController<ReplicationController>>,
}

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl Explainer {
    /// What the controller of `kind` sees of an object, and what it would do. `role` is the manager's present role; at
    /// most `most` places of the order of deletion are given.
    ///
    /// # Errors
    /// If the object is not in the cache, or the controller does not run or is not ready.
    pub fn explain(&self, kind: Kind, key: &ObjectKey, role: Role, most: usize) -> Result<Explanation, NotExplained> {
        let found = match kind {
            Kind::Deployment => match &self.deployments {
                Some(controller) if controller.is_synced() => controller.explain(key, role),
                Some(_) => return Err(NotExplained::NotSynced(kind)),
                None => return Err(NotExplained::NotRun(kind)),
            },
            Kind::ReplicaSet => of_replicas(self.replicasets.as_ref(), kind, key, role, most)?,
            Kind::ReplicationController => of_replicas(self.replicationcontrollers.as_ref(), kind, key, role, most)?,
        };
        found.ok_or_else(|| NotExplained::NotFound { kind, key: key.clone() })
    }
}

impl Explainer {
    /// What the controller of `kind` did for an object in its last syncs, those that ended within `since`.
    ///
    /// # Errors
    /// If the controller does not run, or nothing is recorded.
    pub fn history(
        &self,
        kind: Kind,
        key: &ObjectKey,
        role: Role,
        since: Option<Duration>,
    ) -> Result<History, NotExplained> {
        let told = match kind {
            Kind::Deployment => self.deployments.as_ref().map(|controller| controller.history(key, role, since)),
            Kind::ReplicaSet => self.replicasets.as_ref().map(|controller| controller.history(key, role, since)),
            Kind::ReplicationController => {
                self.replicationcontrollers.as_ref().map(|controller| controller.history(key, role, since))
            }
        };
        told.ok_or(NotExplained::NotRun(kind))?.ok_or(NotExplained::NotRecorded)
    }
}

fn of_replicas<O>(
    controller: Option<&ReplicaController<O>>,
    kind: Kind,
    key: &ObjectKey,
    role: Role,
    most: usize,
) -> Result<Option<Explanation>, NotExplained>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    let controller = controller.ok_or(NotExplained::NotRun(kind))?;
    if !controller.is_synced() {
        return Err(NotExplained::NotSynced(kind));
    }
    Ok(controller.explain(key, role, most))
}

/// The same computed from lists of the object's namespace: of its own kind, of pods, and for a Deployment of
/// ReplicaSets. They are read one after another, owners first.
///
/// # Errors
/// If the object does not exist, or a list is refused.
pub async fn explain_afresh(
    client: &Client,
    kind: Kind,
    key: &ObjectKey,
    burst: u32,
) -> Result<Explanation, NotExplained> {
    let explained = match kind {
        Kind::Deployment => deployment_afresh(client, key).await?,
        Kind::ReplicaSet => replicas_afresh::<ReplicaSet>(client, key, burst, WatchedResource::replicasets()).await?,
        Kind::ReplicationController => {
            let resource = WatchedResource::replicationcontrollers();
            replicas_afresh::<ReplicationController>(client, key, burst, resource).await?
        }
    };
    explained.ok_or_else(|| NotExplained::NotFound { kind, key: key.clone() })
}

async fn replicas_afresh<O>(
    client: &Client,
    key: &ObjectKey,
    burst: u32,
    resource: WatchedResource,
) -> Result<Option<Explanation>, ClientError>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    let owners: Cache<O> = read_once(client, within(resource, key)).await?;
    if Owners::get(&owners, key).is_none() {
        return Ok(None);
    }
    let pods: Cache<Pod> = read_once(client, within(WatchedResource::pods(), key)).await?;
    Ok(replicas_of_caches(key, &owners, &pods, burst, client.server_now()))
}

/// The same of a ReplicaSet or ReplicationController out of caches that the caller has: of its kind, and of the pods of
/// its namespace. `None` if it is not there.
pub fn replicas_of_caches<O>(
    key: &ObjectKey,
    owners: &Cache<O>,
    pods: &Cache<Pod>,
    burst: u32,
    now: Timestamp,
) -> Option<Explanation>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    let owner = Owners::get(owners, key)?;
    let begin = replicaset::Books::new(O::IDENTITY)
        .begin(key, owners, pods, burst, Moment::ORIGIN)
        .map(|snapshot| snapshot.ranked_among(owners, pods));
    Explanation::of_replicas(&*owner, begin, (Source::Api, None), usize::MAX, now)
}

async fn deployment_afresh(client: &Client, key: &ObjectKey) -> Result<Option<Explanation>, ClientError> {
    let deployments: Cache<Deployment> = read_once(client, within(WatchedResource::deployments(), key)).await?;
    if deployments.get(key).is_none() {
        return Ok(None);
    }
    let sets: Cache<ReplicaSet> = read_once(client, within(WatchedResource::replicasets(), key)).await?;
    let pods: Cache<Pod> = read_once(client, within(WatchedResource::pods(), key)).await?;
    Ok(deployment_of_caches(key, &deployments, &sets, &pods, client.server_now()))
}

/// The same of a Deployment. `None` if it is not there.
#[must_use]
pub fn deployment_of_caches(
    key: &ObjectKey,
    deployments: &Cache<Deployment>,
    sets: &Cache<ReplicaSet>,
    pods: &Cache<Pod>,
    now: Timestamp,
) -> Option<Explanation> {
    let deployment = deployments.get(key)?;
    let begin = deployment::Books::new().begin(key, deployments, sets, pods, 0, Moment::ORIGIN);
    Explanation::of_deployment(deployment, begin, (Source::Api, None), now)
}

/// The part of a resource that is in the object's namespace.
fn within(resource: WatchedResource, key: &ObjectKey) -> WatchedResource {
    WatchedResource { namespace: Some(key.namespace.to_string()), ..resource }
}

#[cfg(test)]
mod tests;
