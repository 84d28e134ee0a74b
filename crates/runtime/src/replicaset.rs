//! The ReplicaSet controller at run time: handlers, queue, books, sync and executor wired together.
//!
//! The decisions are in `muster_controllers::replicaset`; here they get their locks and their clock. The
//! ReplicationController controller is the same wiring for another kind (RC-01).
//!
//! Locks are taken in one order: pods, owners, books; that of a store's handlers before that of any cache. The queue's
//! own lock is taken last and alone.

use std::{future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use muster_controllers::plan::Resource as PlanResource;
use muster_controllers::replicaset::{
    Begin, Books, Effect, Owners, ReplicaOwner, ReplicaSync, owner_changed, pod_changed,
};
use muster_inspect::explain::{Explanation, Memory, Role, Source};
use muster_inspect::history::{Ended, History};
use muster_inspect::inside::{Inside, LastSync};
use muster_machinery::{Cache, Cached, Change, queue::Priority};
use muster_objects::{
    Pod,
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

/// The controller of one kind of replica owner. Cloning shares it.
pub struct ReplicaController<O: Cached> {
    inner: Arc<Inner<O>>,
}

impl<O: Cached> Clone for ReplicaController<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<O: Cached> {
    pods: Store<Pod>,
    owners: Store<O>,
    shell: Shell<Books>,
    burst: u32,
}

impl<O> ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    /// A controller of the owners at `resource`, listening to informers that are not running yet. One sync
    /// creates or deletes at most `burst` pods (CM-02).
    pub fn new(context: &Context, informers: &mut Informers, resource: &WatchedResource, burst: u32) -> Self {
        let inner = Arc::new(Inner {
            pods: informers.of::<Pod>(&WatchedResource::pods()).store(),
            owners: informers.of::<O>(resource).store(),
            shell: Shell::new(context, O::IDENTITY.resource.kind, O::IDENTITY.queue, Books::new(O::IDENTITY)),
            burst,
        });
        informers.of::<Pod>(&WatchedResource::pods()).add_handler(PodHandler(Arc::clone(&inner)));
        informers.of::<O>(resource).add_handler(OwnerHandler(Arc::clone(&inner)));
        Self { inner }
    }

    /// Its queue, whose workers are to be run with this controller.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        self.inner.shell.queue()
    }

    /// Waits until every cache that it reads has synced (INF-02).
    pub fn synced(&self) -> impl Future<Output = ()> + Send + use<O> {
        let (pods, owners) = (self.inner.pods.clone(), self.inner.owners.clone());
        async move {
            pods.synced().await;
            owners.synced().await;
        }
    }

    /// Whether that is so already.
    #[must_use]
    pub(crate) fn is_synced(&self) -> bool {
        self.inner.pods.is_synced() && self.inner.owners.is_synced()
    }

    /// What the recorder knows of `key`; `None` if nothing is recorded.
    pub(crate) fn history(&self, key: &ObjectKey, role: Role, since: Option<Duration>) -> Option<History> {
        self.inner.shell.history(key, since, Source::Manager { role })
    }

    /// What a sync of `key` would see and do now; `None` if the object does not exist. At most `most` places of the
    /// order of deletion are given.
    pub(crate) fn explain(&self, key: &ObjectKey, role: Role, most: usize) -> Option<Explanation> {
        let inner = &self.inner;
        let place = inner.shell.queue().place(key);
        let (owner, begin, memory) = inner.at_one_moment(|owners, pods, books, now| {
            let owner = Owners::get(owners, key)?;
            let newest = |resource: PlanResource| match resource {
                PlanResource::PODS => pods.newest(),
                _ => Owners::newest(owners),
            };
            let mut books = books.only(key);
            let memory = Memory::of_replicas(&books, key, newest, place, now);
            let begin = books.begin(key, owners, pods, inner.burst, now);
            Some((owner, begin.map(|snapshot| snapshot.ranked_among(owners, pods)), memory))
        })?;
        let source = (Source::Manager { role }, Some(memory));
        Explanation::of_replicas::<O>(&owner, begin, source, most, inner.shell.server_now())
    }
}

impl<O> Part for ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn begin(&self, source: Source) -> Inside {
        self.inner.shell.begin_inside(source)
    }

    fn last_syncs(&self) -> Vec<LastSync> {
        self.inner.shell.last_syncs()
    }

    fn add_to(&self, inside: &mut Inside, controller: &'static str, first: bool) {
        let Inner { pods, owners, shell, .. } = &*self.inner;
        informer(inside, PlanResource::PODS.kind, pods, shell.recording());
        informer(inside, O::IDENTITY.resource.kind, owners, shell.recording());
        shell.add_to(inside, controller, first);
    }
}

impl<O> Controller for ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        Box::pin(async move {
            let begin = self.inner.begin(key);
            let synced = self.inner.shell.sync(key, begin, ReplicaSync::new).await;
            if self.inner.shell.books().0.take_put_back() {
                tracing::warn!(owner = %key, "the server was put back to an earlier state: everything is read anew");
                self.inner.pods.doubt();
                self.inner.owners.doubt();
            }
            synced
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
        let keys: Vec<_> = self.inner.owners.read().iter().map(|owner| owner.meta().key()).collect();
        self.inner.shell.begins(&keys);
        keys
    }
}

impl<O> Inner<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn begin(&self, key: &ObjectKey) -> (Begin<O>, Caches<2>) {
        self.at_one_moment(|owners, pods, books, now| {
            let caches =
                [(PlanResource::PODS.kind, pods.newest()), (O::IDENTITY.resource.kind, Owners::newest(owners))];
            (books.begin(key, owners, pods, self.burst, now), caches)
        })
    }

    /// Looks at the caches and the books at one moment.
    fn at_one_moment<R>(&self, look: impl FnOnce(&Cache<O>, &Cache<Pod>, &mut Books, Moment) -> R) -> R {
        // Handlers update the books after the caches show a change. Both are looked at when their handlers are done, so
        // that expectations settled from them are not lowered again (EX-03).
        let _settled = (self.pods.settled(), self.owners.settled());
        let (pods, owners) = (self.pods.read(), self.owners.read());
        let (mut books, now) = self.shell.books();
        look(&owners, &pods, &mut books, now)
    }
}

struct PodHandler<O: Cached>(Arc<Inner<O>>);

impl<O> Handler<Pod> for PodHandler<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn changed(&mut self, changes: &[Change<Pod>], priority: Priority) {
        let mut effects = Vec::with_capacity(changes.len() * 2);
        {
            let owners = self.0.owners.read();
            for (at, change) in changes.iter().enumerate() {
                pod_changed(change, &*owners, |effect| effects.push((at, effect)));
            }
        }
        for (_, effect) in &effects {
            if let Effect::Overlap { pod, owners } = effect {
                let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
                let kind = O::IDENTITY.resource.kind;
                tracing::error!(%pod, kind, ?owners, "user error! more than one owner selects this pod");
            }
        }
        self.0.shell.note(effects, priority, |at| event(PlanResource::PODS.kind, &changes[at]));
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.shell.caught_up(PlanResource::PODS, version);
    }
}

struct OwnerHandler<O: Cached>(Arc<Inner<O>>);

impl<O> Handler<O> for OwnerHandler<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn changed(&mut self, changes: &[Change<O>], priority: Priority) {
        let mut effects = Vec::with_capacity(changes.len());
        for (at, change) in changes.iter().enumerate() {
            owner_changed(change, |effect| effects.push((at, effect)));
        }
        self.0.shell.note(effects, priority, |at| event(O::IDENTITY.resource.kind, &changes[at]));
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.shell.caught_up(O::IDENTITY.resource, version);
    }
}
