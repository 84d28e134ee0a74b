//! Informers: one watch for each kind, a shared cache, and handlers of its changes.
//!
//! ```text
//!   reflector --batch--> store (diff) --changes--> handlers --> newest version told --> who waits for it
//! ```
//!
//! Handlers run in the informer's own task, right after the cache has applied a batch, so the cache shows the changes
//! that they get. Only when all handlers have run does the store report the batch's version as its newest: whoever
//! waits for a version finds its handlers done.
//!
//! At each resync, an audit compares the store with the server.

mod audit;
mod audit_state;
mod backoff;
mod once;
mod ranged;
mod reflector;
mod resource;
mod shared_reader;
mod shared_watch;
mod store;
mod subscription;
mod versions;

#[cfg(test)]
mod tests;

use std::{any::Any, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use muster_machinery::{Cached, Change, queue::Priority};
use muster_objects::{HashRange, meta::ResourceVersion};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{sync::watch, time::Instant};

pub(crate) use self::shared_watch::SharedWatches;
use self::{
    audit::Auditor,
    audit_state::AuditState,
    reflector::{BATCH, Delta, Reflector, Target, encoding_of},
};
pub use self::{once::read_once, resource::WatchedResource, store::Store};
use crate::{client::Client, metrics::Metrics};

/// How many of the objects that an audit found to differ are logged by name.
const NAMED: usize = 5;

/// Gets the changes. Must not do I/O or wait, since the watch waits for it.
pub trait Handler<T>: Send + 'static {
    /// These changes have been applied, in this order (INF-03). The events of one object come in their order.
    ///
    /// Their priority is low if they are what the first list added or a resync repeats (SH-07). What a later list finds
    /// to differ has changed.
    fn changed(&mut self, changes: &[Change<T>], priority: Priority);

    /// Everything up to `version` has been applied, and every handler has run.
    fn reached(&mut self, _version: ResourceVersion) {}
}

/// Any function of one change is a handler.
impl<T, F: FnMut(&Change<T>) + Send + 'static> Handler<T> for F {
    fn changed(&mut self, changes: &[Change<T>], _priority: Priority) {
        changes.iter().for_each(self);
    }
}

/// Follows one resource into a store. Make it, add handlers, run it.
pub struct Informer<T: Cached> {
    client: Client,
    resource: WatchedResource,
    sink: Sink<T>,
    random: SmallRng,
    /// Where audits are counted.
    metrics: Option<Metrics>,
}

/// Applies what is read: to the store, then to the handlers.
struct Sink<T: Cached> {
    store: Store<T>,
    handlers: Vec<Box<dyn Handler<T>>>,
    /// The changes of the batch at hand.
    changes: Vec<Change<T>>,
    /// How many relists of the store had been requested when the current list began.
    listing: u64,
    /// What the audit at hand, if there is one, has to know of what happens to the store.
    audit_state: Arc<watch::Sender<AuditState>>,
    min_resync: Duration,
    resync_at: Instant,
    random: SmallRng,
}

impl<T: Cached> Informer<T> {
    /// An informer of `resource` whose timeouts, jitter and resyncs are drawn from `seed`.
    ///
    /// Every `min_resync` times a random factor in [1, 2), each object is reported as updated (INF-06) and the
    /// store is compared with what the server has (B-07); zero never does.
    #[must_use]
    pub fn new(client: Client, resource: WatchedResource, min_resync: Duration, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let sink = Sink {
            store: Store::new(),
            handlers: Vec::new(),
            changes: Vec::new(),
            listing: 0,
            audit_state: Arc::default(),
            min_resync,
            resync_at: Instant::now(),
            random: SmallRng::from_rng(&mut random),
        };
        Self { client, resource, sink, random, metrics: None }
    }

    /// What it will know.
    #[must_use]
    pub fn store(&self) -> Store<T> {
        self.sink.store.clone()
    }

    /// Adds a handler, which runs after the earlier ones.
    pub fn add_handler(&mut self, handler: impl Handler<T>) {
        self.sink.handlers.push(Box::new(handler));
    }

    /// Keeps the store up to date for as long as it is polled.
    pub async fn run(self) {
        let Self { client, resource, mut sink, mut random, metrics } = self;
        sink.plan_resync();
        let (store, audit_state) = (sink.store.clone(), Arc::clone(&sink.audit_state));
        let anew = store.asked();
        let shared =
            resource.range.map(|_| client.watches().of(&client, &resource, encoding_of::<T>(&resource), &mut random));
        if let Some(shared) = &shared {
            store.depends_on(Arc::clone(&shared.state.failing));
        }
        let auditor = Auditor {
            client: client.clone(),
            resource: resource.clone(),
            shared: shared.clone(),
            store,
            audit_state,
            metrics,
        };
        let mut reflector = Reflector::new(client, resource, shared, random);
        tokio::select! {
            biased;
            never = reflector.run(&mut sink, anew) => match never {},
            never = auditor.run() => match never {},
        }
    }
}

impl<T: Cached> Sink<T> {
    fn tell(&mut self, version: ResourceVersion, priority: Priority) {
        // Handlers make several times the size of what they get: piece by piece, so that a long list does not.
        for handler in &mut self.handlers {
            self.changes.chunks(BATCH).for_each(|changes| handler.changed(changes, priority));
        }
        // No room is kept for the next list: batches are small.
        self.changes = Vec::new();
        self.store.tell(version);
        for handler in &mut self.handlers {
            handler.reached(version);
        }
    }

    fn plan_resync(&mut self) {
        // Far enough to be never, near enough to be added to an instant.
        let never = Duration::from_secs(10 * 365 * 24 * 3600);
        let period = if self.min_resync.is_zero() { never } else { self.min_resync };
        self.resync_at = Instant::now() + period.mul_f64(self.random.random_range(1.0..2.0));
    }
}

impl<T: Cached> Target<T> for Sink<T> {
    fn listing(&mut self) {
        self.listing = *self.store.asked().borrow();
    }

    fn replace(&mut self, objects: Vec<Arc<T>>, version: ResourceVersion) {
        let store = self.store.clone();
        let _telling = store.telling();
        self.changes = self.store.replace(objects, version);
        let mut audited = false;
        self.audit_state.send_modify(|audit_state| audited = audit_state.replaced());
        if audited {
            let examples = audit_state::in_words(&self.changes, NAMED);
            tracing::warn!(changes = self.changes.len(), ?examples, "the list after the audit corrected the cache");
        }
        self.tell(version, if self.store.is_synced() { Priority::Normal } else { Priority::Low });
        self.store.set_listed(self.listing);
    }

    fn apply(&mut self, batch: &mut Vec<Delta<T>>) {
        let store = self.store.clone();
        let _telling = store.telling();
        let mut version = ResourceVersion::UNKNOWN;
        self.audit_state.send_if_modified(|audit_state| {
            version = self.store.apply(batch, &mut self.changes, audit_state);
            audit_state.reached(version)
        });
        self.tell(version, Priority::Normal);
    }

    fn watched(&mut self, open: bool) {
        self.store.set_watched(open);
    }

    fn resync_at(&self) -> Instant {
        self.resync_at
    }

    fn resync(&mut self) {
        let objects: Vec<_> = self.store.read().iter().cloned().collect();
        let unchanged = objects.into_iter().map(|object| Change::Updated { old: object.clone(), new: object });
        self.changes.extend(unchanged);
        let version = self.store.newest();
        self.tell(version, Priority::Low);
        self.audit_state.send_if_modified(|audit_state| audit_state.open(&self.store.read()));
        self.plan_resync();
    }
}

/// The informers of a process: one for each resource, however many ask for it (INF-08).
pub struct Informers {
    client: Client,
    min_resync: Duration,
    random: SmallRng,
    entries: Vec<Entry>,
    metrics: Option<Metrics>,
    /// What is read of each resource.
    range: Option<HashRange>,
}

struct Entry {
    resource: WatchedResource,
    /// An `Informer<T>`, until it is run.
    informer: Box<dyn Any + Send>,
    run: fn(Box<dyn Any + Send>) -> BoxFuture<'static, ()>,
    /// Requests a relist of its store.
    ask: Arc<dyn Fn() + Send + Sync>,
}

impl Informers {
    /// No informers yet; all randomness of those to come is drawn from `seed`.
    #[must_use]
    pub fn new(client: Client, min_resync: Duration, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { client, min_resync, random, entries: Vec::new(), metrics: None, range: None }
    }

    /// Has the audits of the informers that are made from here on counted (B-07).
    #[must_use]
    pub fn counted_by(self, metrics: &Metrics) -> Self {
        Self { metrics: Some(metrics.clone()), ..self }
    }

    /// Has the informers that are made from here on read only the namespaces within `range`: their resources must have
    /// namespaces.
    #[must_use]
    pub fn within(self, range: Option<HashRange>) -> Self {
        Self { range, ..self }
    }

    /// The informer of a resource in the form `T`, made at the first call.
    pub fn of<T: Cached>(&mut self, resource: &WatchedResource) -> &mut Informer<T> {
        let resource = &WatchedResource { range: resource.range.or(self.range), ..resource.clone() };
        let known =
            self.entries.iter().position(|entry| entry.resource == *resource && entry.informer.is::<Informer<T>>());
        let at = known.unwrap_or_else(|| {
            let seed = self.random.random();
            let mut informer = Informer::<T>::new(self.client.clone(), resource.clone(), self.min_resync, seed);
            informer.metrics.clone_from(&self.metrics);
            let store = informer.store();
            if let Some(metrics) = &self.metrics {
                metrics.probe_watch(&resource.plural, store.failing_probe());
            }
            self.entries.push(Entry {
                resource: resource.clone(),
                informer: Box::new(informer),
                run: run::<T>,
                ask: Arc::new(move || store.ask()),
            });
            self.entries.len() - 1
        });
        self.entries[at].informer.downcast_mut().expect("the entry was found by this type, or made with it")
    }

    /// To request a relist of every current store, for which [`Store::synced`] waits then.
    pub fn read_anew(&self) -> impl FnOnce() + Send + use<> {
        let asks: Vec<_> = self.entries.iter().map(|entry| Arc::clone(&entry.ask)).collect();
        move || asks.iter().for_each(|ask| ask())
    }

    /// One future for each informer, to be polled for as long as the stores are to be kept up to date.
    #[must_use]
    pub fn into_runs(self) -> Vec<BoxFuture<'static, ()>> {
        self.entries.into_iter().map(|entry| (entry.run)(entry.informer)).collect()
    }
}

fn run<T: Cached>(informer: Box<dyn Any + Send>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if let Ok(informer) = informer.downcast::<Informer<T>>() {
            informer.run().await;
        }
    })
}
