//! What the shells of all controllers share: books, queue and the clients that they write with, behind locks.
//!
//! ```text
//!   handler --effects--> note --> books --> queue
//!   cache   --version--> caught_up -+          |
//!                                              v
//!                      books <-- ledger <-- perform(begin)
//! ```
//!
//! Locks are short and none is held across an await. Caches are locked before the books, never after them,
//! and the queue's own lock is taken last and alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_controllers::{
    begin::Begin,
    deployment,
    plan::{Announcement, Expectation, Failure, Outcome, Owner, Remark, Requeue, Resource, SyncSteps, Verdict},
    replicaset::{self, Enqueue},
};
use muster_machinery::Remedy;
use muster_objects::{
    meta::{ObjectKey, ResourceVersion},
    time::{Moment, Timestamp},
};

use crate::{
    client::Client,
    clock::Clock,
    events::EventSink,
    executor::{self, Ledger},
    metrics::Metrics,
    workers::{Queue, Synced},
    writer::Writer,
};

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

/// What a controller remembers between syncs, as far as its shell writes into it and asks of it.
pub(crate) trait Books: Send + 'static {
    /// What its handlers notice.
    type Effect;

    /// Applies a handler's effect; returns what to queue.
    fn note(&mut self, effect: Self::Effect, now: Moment) -> Option<Enqueue>;

    /// What the watch is to show of the round that begins (EX-01). Nothing, for a controller that does not count.
    fn expect(&mut self, _owner: &Owner, _expectation: &Expectation, _now: Moment) {}

    /// This many creations will not be seen (EX-05).
    fn lower_creations(&mut self, _owner: &Owner, _count: u32) {}

    /// This deletion will not be seen (EX-05).
    fn lower_deletion(&mut self, _owner: &Owner, _key: &ObjectKey) {}

    /// A round of writes is over.
    fn round_ended(&mut self, _owner: &Owner, _outcome: &Outcome) {}

    /// A write for this owner left an object of `resource` at this version (RS-19).
    fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion);

    /// A sync of the owner has ended with a status in which every count is as it was found to be.
    fn status_is_up_to_date(&mut self, owner: &ObjectKey);

    /// The cache of `resource` has reached `newest`: returns the owners that waited for this (B-17).
    fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey>;

    /// Who waited too long for a cache.
    fn expired(&mut self, now: Moment) -> Vec<ObjectKey>;

    /// When [`Books::expired`] is to be called next.
    fn next_deadline(&self) -> Option<Moment>;

    /// Counts a sync that was deferred because the cache of `resource` was behind.
    fn count_skip(metrics: &Metrics, resource: Resource);
}

/// The part of a controller that does not depend on what it controls.
pub(crate) struct Shell<B> {
    books: Mutex<B>,
    queue: Queue,
    writer: Arc<dyn Writer>,
    events: EventSink,
    metrics: Metrics,
    clock: Clock,
    /// Wall time by the server's clock (B-11).
    server_now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl<B: Books> Shell<B> {
    /// A shell around `books` with a queue of that name.
    pub(crate) fn new(context: &Context, name: &'static str, books: B) -> Self {
        let clock = context.client.clock();
        let client = context.client.clone();
        Self {
            books: Mutex::new(books),
            queue: Queue::new(name, clock, &context.metrics),
            writer: Arc::clone(&context.writer),
            events: context.events.clone(),
            metrics: context.metrics.clone(),
            clock,
            server_now: Box::new(move || client.server_now()),
        }
    }

    /// The queue, whose workers are to be run with the controller.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Wall time by the server's clock (B-11).
    pub(crate) fn server_now(&self) -> Timestamp {
        (self.server_now)()
    }

    /// The books, and the time that they are asked at.
    pub(crate) fn books(&self) -> (MutexGuard<'_, B>, Moment) {
        (self.lock(), self.clock.moment())
    }

    /// Runs one sync from its beginning to its end.
    pub(crate) async fn sync<S, D: SyncSteps>(
        &self,
        key: &ObjectKey,
        begin: Begin<S>,
        decide: impl FnOnce(S) -> D,
    ) -> Synced {
        match begin {
            Begin::Ready(snapshot) => {
                let mut sync = decide(snapshot);
                let verdict = executor::perform(&mut sync, &*self.writer, self, &self.server_now).await;
                if verdict.error.is_none() && !sync.puts_counts_off() {
                    self.lock().status_is_up_to_date(key);
                }
                Synced::Done(verdict)
            }
            Begin::Gone => Synced::Done(Verdict::done(Requeue::None)),
            Begin::Stale { resource, wrote, read, remedy } => {
                B::count_skip(&self.metrics, resource);
                tracing::debug!(%key, %resource, %wrote, %read, "the cache is behind the last write");
                match remedy {
                    Remedy::Woken => Synced::PutOff,
                    Remedy::Retry => {
                        let why = format!("the cache of {resource} is at {read}, {wrote} was written");
                        Synced::Done(Verdict::failed(Failure::unanswered(why)))
                    }
                }
            }
            Begin::InvalidSelector(error) => {
                tracing::error!(%key, %error, "invalid selector");
                Synced::Done(Verdict::done(Requeue::None))
            }
        }
    }

    /// Applies the effects of handlers in their order: an expectation is lowered before the key is queued whose sync
    /// checks it.
    pub(crate) fn note(&self, effects: Vec<B::Effect>) {
        let enqueued: Vec<Enqueue> = {
            let (mut books, now) = self.books();
            effects.into_iter().filter_map(|effect| books.note(effect, now)).collect()
        };
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

    /// Wakes the owners that waited for this cache to reach `version` (B-17).
    pub(crate) fn caught_up(&self, resource: Resource, version: ResourceVersion) {
        let woken = self.lock().caught_up(resource, version);
        if !woken.is_empty() {
            self.queue.add(woken);
        }
    }

    /// When [`Shell::expire`] is due.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        self.lock().next_deadline()
    }

    /// Queues those who waited too long for a cache, as failures.
    pub(crate) fn expire(&self, now: Moment) {
        let expired = self.lock().expired(now);
        for key in expired {
            tracing::warn!(%key, "the caches have not caught up with the last write for long");
            self.queue.add_rate_limited(key, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, B> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Books> Ledger for Shell<B> {
    fn expect(&self, owner: &Owner, expectation: &Expectation) {
        let (mut books, now) = self.books();
        books.expect(owner, expectation, now);
    }

    fn lower_creations(&self, owner: &Owner, count: u32) {
        self.lock().lower_creations(owner, count);
    }

    fn lower_deletion(&self, owner: &Owner, key: &ObjectKey) {
        self.lock().lower_deletion(owner, key);
    }

    fn wrote(&self, owner: &Owner, resource: &Resource, version: ResourceVersion) {
        self.lock().wrote(owner, *resource, version);
    }

    fn round_ended(&self, owner: &Owner, outcome: &Outcome) {
        self.lock().round_ended(owner, outcome);
        tracing::debug!(
            owner = %owner.key,
            kind = owner.resource.kind,
            created = outcome.created,
            deleted = outcome.deleted,
            patched = outcome.patched,
            failed = outcome.failed,
            "round ended"
        );
    }

    fn announce(&self, owner: &Owner, announcement: Announcement) {
        self.events.announce(owner, announcement);
    }

    fn remark(&self, owner: &Owner, remark: &Remark) {
        match remark {
            Remark::DeletionAgeRatio(ratio) => self.metrics.deletion_age_ratio(*ratio),
            Remark::InexactHash => tracing::warn!(
                owner = %owner.key,
                "the new ReplicaSet's name is not the one that kube-controller-manager would choose: \
                 its template has something whose effect on the hash is not known"
            ),
            other => tracing::debug!(owner = %owner.key, remark = ?other, "remark"),
        }
    }
}

impl Books for replicaset::Books {
    type Effect = replicaset::Effect;

    fn note(&mut self, effect: Self::Effect, now: Moment) -> Option<Enqueue> {
        self.note(effect, now)
    }

    fn expect(&mut self, owner: &Owner, expectation: &Expectation, now: Moment) {
        self.expect(owner, expectation, now);
    }

    fn lower_creations(&mut self, owner: &Owner, count: u32) {
        self.lower_creations(owner, count);
    }

    fn lower_deletion(&mut self, owner: &Owner, key: &ObjectKey) {
        self.lower_deletion(owner, key);
    }

    fn round_ended(&mut self, owner: &Owner, outcome: &Outcome) {
        self.round_ended(owner, outcome);
    }

    fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion) {
        self.wrote(owner, resource, version);
    }

    fn status_is_up_to_date(&mut self, owner: &ObjectKey) {
        self.status_is_up_to_date(owner);
    }

    fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey> {
        self.caught_up(resource, newest)
    }

    fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        self.expired(now)
    }

    fn next_deadline(&self) -> Option<Moment> {
        self.next_deadline()
    }

    fn count_skip(metrics: &Metrics, resource: Resource) {
        metrics.replicaset_sync_skipped(resource.group, resource.plural);
    }
}

impl Books for deployment::Books {
    type Effect = deployment::Effect;

    fn note(&mut self, effect: Self::Effect, _now: Moment) -> Option<Enqueue> {
        self.note(effect).map(Enqueue::Now)
    }

    fn wrote(&mut self, owner: &Owner, resource: Resource, version: ResourceVersion) {
        self.wrote(owner, resource, version);
    }

    fn status_is_up_to_date(&mut self, owner: &ObjectKey) {
        self.status_is_up_to_date(owner);
    }

    fn caught_up(&mut self, resource: Resource, newest: ResourceVersion) -> Vec<ObjectKey> {
        self.caught_up(resource, newest)
    }

    fn expired(&mut self, now: Moment) -> Vec<ObjectKey> {
        self.expired(now)
    }

    fn next_deadline(&self) -> Option<Moment> {
        self.next_deadline()
    }

    fn count_skip(metrics: &Metrics, resource: Resource) {
        metrics.deployment_sync_skipped(resource.group, resource.plural);
    }
}
