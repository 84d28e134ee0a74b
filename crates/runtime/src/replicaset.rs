//! The ReplicaSet controller put to work: handlers, queue, books, sync and executor wired together.
//!
//! Everything that is decided is decided in `muster_controllers::replicaset`; here its parts get their
//! locks and their clock. ReplicationController will be the same wiring for another kind (RC-01).
//!
//! Locks are taken in one order: pods, owners, books. The queue's own lock is taken last and alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use muster_controllers::plan::{
    Announcement, Expectation, Failure, Outcome, Owner, Remark, Requeue, Resource as PlanResource, Verdict,
};
use muster_controllers::replicaset::{
    Begin, Books, Effect, Enqueue, Owners, ReplicaOwner, ReplicaSync, Snapshot, owner_changed, pod_changed,
};
use muster_machinery::{Cache, Cached, Change, Remedy};
use muster_objects::{
    Pod,
    meta::{ObjectKey, ResourceVersion},
    time::{Moment, Timestamp},
};

use crate::{
    client::Client,
    clock::Clock,
    events::EventSink,
    executor::{self, Ledger},
    informer::{Handler, Informers, Resource, Store},
    metrics::Metrics,
    workers::{Controller, Queue, Synced},
    writer::Writer,
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
    books: Mutex<Books>,
    queue: Queue,
    writer: Arc<dyn Writer>,
    events: EventSink,
    metrics: Metrics,
    clock: Clock,
    /// Wall time by the server's clock (B-11).
    server_now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    burst: u32,
}

/// What a controller works with.
#[derive(Clone)]
pub struct Context {
    /// What its clock offset is taken from.
    pub client: Client,
    /// What it writes through.
    pub writer: Arc<dyn Writer>,
    /// Where its Events go.
    pub events: EventSink,
    /// Where it counts.
    pub metrics: Metrics,
}

impl<O> ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    /// A controller of the owners at `resource`, listening to informers that are not running yet. One sync
    /// creates or deletes at most `burst` pods (CM-02).
    pub fn new(context: &Context, informers: &mut Informers, resource: &Resource, burst: u32) -> Self {
        let clock = context.client.clock();
        let client = context.client.clone();
        let inner = Arc::new(Inner {
            pods: informers.of::<Pod>(&Resource::pods()).store(),
            owners: informers.of::<O>(resource).store(),
            books: Mutex::new(Books::new(O::IDENTITY)),
            queue: Queue::new(O::IDENTITY.queue, clock, &context.metrics),
            writer: Arc::clone(&context.writer),
            events: context.events.clone(),
            metrics: context.metrics.clone(),
            clock,
            server_now: Box::new(move || client.server_now()),
            burst,
        });
        informers.of::<Pod>(&Resource::pods()).add_handler(PodHandler(Arc::clone(&inner)));
        informers.of::<O>(resource).add_handler(OwnerHandler(Arc::clone(&inner)));
        Self { inner }
    }

    /// Its queue, whose workers are to be run with this controller.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    /// Waits until every cache that it reads has synced (INF-02).
    pub async fn synced(&self) {
        self.inner.pods.synced().await;
        self.inner.owners.synced().await;
    }
}

impl<O> Controller for ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        Box::pin(self.inner.sync(key))
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.books().next_deadline()
    }

    fn expire(&self, now: Moment) {
        let expired = self.inner.books().expired(now);
        for key in expired {
            tracing::warn!(%key, "the caches have not caught up with the last write for long");
            self.inner.queue.add_rate_limited(key, None);
        }
    }
}

impl<O> Inner<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    async fn sync(&self, key: &ObjectKey) -> Synced {
        let snapshot = match self.begin(key).await {
            Begin::Ready(snapshot) => snapshot,
            Begin::Gone => return Synced::Done(Verdict::done(Requeue::None)),
            Begin::Stale { resource, wrote, read, remedy } => {
                self.metrics.stale_sync_skipped(resource.group, resource.plural);
                tracing::debug!(%key, %resource, %wrote, %read, "the cache is behind the last write");
                return match remedy {
                    Remedy::Woken => Synced::PutOff,
                    Remedy::Retry => {
                        let why = format!("the cache of {resource} is at {read}, {wrote} was written");
                        Synced::Done(Verdict::failed(Failure::local(why)))
                    }
                };
            }
            Begin::InvalidSelector(error) => {
                tracing::error!(%key, %error, "invalid selector");
                return Synced::Done(Verdict::done(Requeue::None));
            }
        };
        let mut sync = ReplicaSync::new(snapshot);
        Synced::Done(executor::perform(&mut sync, &*self.writer, self, &self.server_now).await)
    }

    /// Looks at the caches and the books at one moment.
    async fn begin(&self, key: &ObjectKey) -> Begin<O> {
        loop {
            // Handlers write into the books what the caches already show. Both caches are looked at when
            // theirs are done, so that what is settled from them is not observed once more (EX-03).
            {
                let pods = self.pods.read();
                let owners = self.owners.read();
                if self.pods.newest() == pods.newest() && self.owners.newest() == owners.newest() {
                    return self.books().begin(key, &*owners, &pods, self.burst, self.clock.moment());
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what handlers noticed, in its order: what lowers an expectation comes before the key that
    /// will ask for it.
    fn note(&self, effects: Vec<Effect>) {
        let now = self.clock.moment();
        let mut enqueued = Vec::new();
        {
            let mut books = self.books();
            for effect in effects {
                if let Effect::Overlap { pod, owners } = &effect {
                    let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
                    let kind = O::IDENTITY.resource.kind;
                    tracing::error!(%pod, kind, ?owners, "user error! more than one owner selects this pod");
                }
                enqueued.extend(books.note(effect, now));
            }
        }
        if enqueued.is_empty() {
            return;
        }
        self.queue.with(|queue, now| {
            for enqueue in enqueued {
                match enqueue {
                    Enqueue::Now(key) => queue.add(key, now),
                    Enqueue::After(key, delay) => queue.add_after(key, delay, now),
                }
            }
        });
    }

    /// Wakes the owners that waited for this cache to come so far (B-17).
    fn caught_up(&self, resource: PlanResource, version: ResourceVersion) {
        let woken = self.books().caught_up(resource, version);
        if !woken.is_empty() {
            self.queue.add(woken);
        }
    }
}

struct PodHandler<O: Cached>(Arc<Inner<O>>);

impl<O> Handler<Pod> for PodHandler<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn changed(&mut self, changes: &[Change<Pod>]) {
        let mut effects = Vec::with_capacity(changes.len() * 2);
        {
            let owners = self.0.owners.read();
            for change in changes {
                pod_changed(change, &*owners, |effect| effects.push(effect));
            }
        }
        self.0.note(effects);
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.caught_up(PlanResource::PODS, version);
    }
}

struct OwnerHandler<O: Cached>(Arc<Inner<O>>);

impl<O> Handler<O> for OwnerHandler<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn changed(&mut self, changes: &[Change<O>]) {
        let mut effects = Vec::with_capacity(changes.len());
        for change in changes {
            owner_changed(change, |effect| effects.push(effect));
        }
        self.0.note(effects);
    }

    fn reached(&mut self, version: ResourceVersion) {
        self.0.caught_up(O::IDENTITY.resource, version);
    }
}

impl<O> Ledger for Inner<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    fn expect(&self, owner: &Owner, expectation: &Expectation) {
        self.books().expect(owner, expectation, self.clock.moment());
    }

    fn lower_creations(&self, owner: &Owner, count: u32) {
        self.books().lower_creations(owner, count);
    }

    fn lower_deletion(&self, owner: &Owner, key: &ObjectKey) {
        self.books().lower_deletion(owner, key);
    }

    fn wrote(&self, owner: &Owner, resource: &PlanResource, version: ResourceVersion) {
        self.books().wrote(owner, *resource, version);
    }

    fn round_ended(&self, owner: &Owner, outcome: &Outcome) {
        self.books().round_ended(owner, outcome);
        tracing::debug!(
            owner = %owner.key,
            created = outcome.created,
            deleted = outcome.deleted,
            failed = outcome.failed,
            "pods managed"
        );
    }

    fn announce(&self, owner: &Owner, announcement: Announcement) {
        self.events.announce(owner, announcement);
    }

    fn remark(&self, owner: &Owner, remark: &Remark) {
        match remark {
            Remark::DeletionAgeRatio(ratio) => self.metrics.deletion_age_ratio(*ratio),
            other => tracing::debug!(owner = %owner.key, remark = ?other, "remark"),
        }
    }
}

/// The plan that a sync of the owner would follow now, for a reader: `None` where there is no such owner.
impl<O> ReplicaController<O>
where
    O: ReplicaOwner + Cached,
    Cache<O>: Owners<O>,
{
    /// What a sync of `key` would see now, where it could begin.
    pub async fn snapshot(&self, key: &ObjectKey) -> Option<Snapshot<O>> {
        match self.inner.begin(key).await {
            Begin::Ready(snapshot) => Some(snapshot),
            Begin::Gone | Begin::Stale { .. } | Begin::InvalidSelector(_) => None,
        }
    }
}
