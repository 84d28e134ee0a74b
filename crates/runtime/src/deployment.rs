//! The Deployment controller at run time: handlers, queue, books, sync and executor wired together.
//!
//! The decisions are in `muster_controllers::deployment`; here they get their locks and their clock. The caches are
//! shared with the other controllers (INF-08).
//!
//! Locks are taken in one order: pods, ReplicaSets, Deployments, books. The queue's own lock is taken last and
//! alone.

use std::{future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use muster_controllers::deployment::{
    Begin, Books, DeploymentSync, Effect, QUEUE, deployment_changed, pod_changed, replica_set_changed,
};
use muster_controllers::plan::Resource as PlanResource;
use muster_inspect::explain::{Explanation, Memory, Role, Source};
use muster_inspect::history::{Ended, History};
use muster_inspect::inside::{Inside, LastSync};
use muster_machinery::{Cache, Change, queue::Priority};
use muster_objects::{
    Deployment, Pod, ReplicaSet,
    meta::{ObjectKey, ResourceVersion},
    time::Moment,
};

use crate::{
    history::event,
    informer::{Handler, Informers, Store, WatchedResource},
    inside::{Part, informer},
    shell::{Caches, Context, Shell},
    workers::{Controller, Queue, Synced},
};

#[cfg(test)]
mod tests;

/// The controller of Deployments. Cloning shares it.
#[derive(Clone)]
pub struct DeploymentController {
    inner: Arc<Inner>,
}

struct Inner {
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    shell: Shell<Books>,
}

impl DeploymentController {
    /// A controller that listens to informers which are not running yet.
    pub fn new(context: &Context, informers: &mut Informers) -> Self {
        let (pods, sets, deployments) =
            (WatchedResource::pods(), WatchedResource::replicasets(), WatchedResource::deployments());
        let inner = Arc::new(Inner {
            pods: informers.of(&pods).store(),
            sets: informers.of(&sets).store(),
            deployments: informers.of(&deployments).store(),
            shell: Shell::new(context, PlanResource::DEPLOYMENTS.kind, QUEUE, Books::new()),
        });
        informers.of(&pods).add_handler(PodHandler(Arc::clone(&inner)));
        informers.of(&sets).add_handler(SetHandler(Arc::clone(&inner)));
        informers.of(&deployments).add_handler(DeploymentHandler(Arc::clone(&inner)));
        Self { inner }
    }

    /// Its queue, whose workers are to be run with this controller.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        self.inner.shell.queue()
    }

    /// Waits until every cache that it reads has synced (INF-02).
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<> {
        let (pods, sets) = (self.inner.pods.clone(), self.inner.sets.clone());
        let deployments = self.inner.deployments.clone();
        async move {
            pods.synced().await;
            sets.synced().await;
            deployments.synced().await;
        }
    }

    /// Whether that is so already.
    #[must_use]
    pub(crate) fn is_synced(&self) -> bool {
        let Inner { pods, sets, deployments, .. } = &*self.inner;
        pods.is_synced() && sets.is_synced() && deployments.is_synced()
    }

    /// What the recorder knows of `key`; `None` if nothing is recorded.
    pub(crate) fn history(&self, key: &ObjectKey, role: Role, since: Option<Duration>) -> Option<History> {
        self.inner.shell.history(key, since, Source::Manager { role })
    }

    /// What a sync of `key` would see and do now; `None` if the Deployment does not exist.
    pub(crate) fn explain(&self, key: &ObjectKey, role: Role) -> Option<Explanation> {
        let Inner { shell, .. } = &*self.inner;
        let place = shell.queue().place(key);
        let (deployment, begin, memory) = self.inner.at_one_moment(|deployments, sets, pods, books, now| {
            let deployment = Arc::clone(deployments.get(key)?);
            let newest = |resource: PlanResource| match resource {
                PlanResource::REPLICA_SETS => sets.newest(),
                _ => deployments.newest(),
            };
            let mut books = books.only(key);
            let memory = Memory::of_deployment(&books, key, newest, place);
            Some((deployment, books.begin(key, deployments, sets, pods, place.requeues, now), memory))
        })?;
        let source = (Source::Manager { role }, Some(memory));
        Explanation::of_deployment(&deployment, begin, source, shell.server_now())
    }
}

impl Part for DeploymentController {
    fn begin(&self, source: Source) -> Inside {
        self.inner.shell.begin_inside(source)
    }

    fn last_syncs(&self) -> Vec<LastSync> {
        self.inner.shell.last_syncs()
    }

    fn add_to(&self, inside: &mut Inside, controller: &'static str, first: bool) {
        let Inner { pods, sets, deployments, shell } = &*self.inner;
        informer(inside, PlanResource::PODS.kind, pods, shell.recording());
        informer(inside, PlanResource::REPLICA_SETS.kind, sets, shell.recording());
        informer(inside, PlanResource::DEPLOYMENTS.kind, deployments, shell.recording());
        shell.add_to(inside, controller, first);
    }
}

impl Controller for DeploymentController {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        // In the future, so that a panic is one of the sync.
        Box::pin(async move {
            let begin = self.inner.begin(key);
            self.inner.shell.sync(key, begin, DeploymentSync::new).await
        })
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.shell.deadline()
    }

    fn expire(&self, now: Moment) {
        self.inner.shell.expire(now);
    }

    fn ended(&self, key: &ObjectKey, ended: Ended<'_>) {
        self.inner.shell.ended(key, ended);
    }

    fn everything(&self) -> Vec<ObjectKey> {
        let keys: Vec<_> = self.inner.deployments.read().iter().map(|deployment| deployment.meta.key()).collect();
        self.inner.shell.begins(&keys);
        keys
    }
}

impl Inner {
    /// Begins a sync.
    fn begin(&self, key: &ObjectKey) -> (Begin, Caches<3>) {
        let failures = self.shell.queue().num_requeues(key);
        self.at_one_moment(|deployments, sets, pods, books, now| {
            let caches = [
                (PlanResource::PODS.kind, pods.newest()),
                (PlanResource::REPLICA_SETS.kind, sets.newest()),
                (PlanResource::DEPLOYMENTS.kind, deployments.newest()),
            ];
            (books.begin(key, deployments, sets, pods, failures, now), caches)
        })
    }

    /// Looks at the caches and the books at one moment.
    fn at_one_moment<R>(
        &self,
        look: impl FnOnce(&Cache<Deployment>, &Cache<ReplicaSet>, &Cache<Pod>, &mut Books, Moment) -> R,
    ) -> R {
        // That a ReplicaSet was deleted is in the books once its handler is done (B-23). For the other kinds handlers only queue
        // the key once more, and are not waited for.
        let _settled = self.sets.settled();
        let pods = self.pods.read();
        let sets = self.sets.read();
        let deployments = self.deployments.read();
        let (mut books, now) = self.shell.books();
        look(&deployments, &sets, &pods, &mut books, now)
    }
}

struct PodHandler(Arc<Inner>);

impl Handler<Pod> for PodHandler {
    fn changed(&mut self, changes: &[Change<Pod>], priority: Priority) {
        let mut effects = Vec::new();
        {
            let pods = self.0.pods.read();
            let sets = self.0.sets.read();
            let deployments = self.0.deployments.read();
            for (at, change) in changes.iter().enumerate() {
                pod_changed(change, &pods, &sets, &deployments, |effect| effects.push((at, effect)));
            }
        }
        self.0.shell.note(effects, priority, |at| event(PlanResource::PODS.kind, &changes[at]));
    }
}

struct SetHandler(Arc<Inner>);

impl Handler<ReplicaSet> for SetHandler {
    fn changed(&mut self, changes: &[Change<ReplicaSet>], priority: Priority) {
        let mut effects = Vec::with_capacity(changes.len());
        {
            let deployments = self.0.deployments.read();
            for (at, change) in changes.iter().enumerate() {
                replica_set_changed(change, &deployments, |effect| effects.push((at, effect)));
            }
        }
        for (_, effect) in &effects {
            if let Effect::Overlap { set, owners } = effect {
                let deployments: Vec<String> = owners.iter().map(ToString::to_string).collect();
                tracing::error!(replicaset = %set, ?deployments, "user error! more than one Deployment selects it");
            }
        }
        self.0.shell.note(effects, priority, |at| event(PlanResource::REPLICA_SETS.kind, &changes[at]));
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.shell.caught_up(PlanResource::REPLICA_SETS, version);
    }
}

struct DeploymentHandler(Arc<Inner>);

impl Handler<Deployment> for DeploymentHandler {
    fn changed(&mut self, changes: &[Change<Deployment>], priority: Priority) {
        let mut effects = Vec::with_capacity(changes.len());
        for (at, change) in changes.iter().enumerate() {
            deployment_changed(change, |effect| effects.push((at, effect)));
        }
        self.0.shell.note(effects, priority, |at| event(PlanResource::DEPLOYMENTS.kind, &changes[at]));
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.shell.caught_up(PlanResource::DEPLOYMENTS, version);
    }
}
