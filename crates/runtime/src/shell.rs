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

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use muster_controllers::{
    begin::Begin,
    deployment,
    plan::{
        Announcement, Expectation, Failure, Outcome, Owner, Remark, Requeue, Resource, StatusWrite, SyncSteps as _,
        Verdict, Written,
    },
    replicaset::{self, Enqueue},
};
use muster_inspect::{
    explain::Source,
    history::{Account, Accountable, Answered, Ended, History, Last, Waits, Woken},
    inside::{Inside, LastSync, MOST_EXPECTED, MOST_KEYS, MOST_SYNCS, Queue as QueueInside},
};
use muster_machinery::{Remedy, expectations::Unmet, queue::Priority};
use muster_objects::{
    meta::{ObjectKey, ResourceVersion},
    time::{Moment, Timestamp},
};

use crate::{
    client::Client,
    clock::Clock,
    events::EventSink,
    executor::{self, Ledger, Request},
    history::{Recording, Told},
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
    /// Where it tells what it does.
    pub recording: Recording,
}

/// The versions of caches, each with its kind.
pub(crate) type Caches<const N: usize> = [(&'static str, ResourceVersion); N];

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

    /// The owners whose round is not seen yet, `most` at most and the oldest rounds first, and how many there are.
    fn unmet(&self, _most: usize, _now: Moment) -> (Vec<Unmet>, usize) {
        (Vec::new(), 0)
    }

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
    recording: Recording,
    /// The kind of what it controls.
    kind: &'static str,
    clock: Clock,
    /// Wall time by the server's clock (B-11).
    server_now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl<B: Books> Shell<B> {
    /// A shell around the `books` of owners of `kind`, with a queue of that name.
    pub(crate) fn new(context: &Context, kind: &'static str, name: &'static str, books: B) -> Self {
        let clock = context.client.clock();
        let client = context.client.clone();
        Self {
            books: Mutex::new(books),
            queue: Queue::new(name, clock, &context.metrics),
            writer: Arc::clone(&context.writer),
            events: context.events.clone(),
            metrics: context.metrics.clone(),
            recording: context.recording.clone(),
            kind,
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

    /// Runs one sync from its beginning to its end. `caches` are the versions of the caches that it begins with.
    pub(crate) async fn sync<S, D: Accountable, const N: usize>(
        &self,
        key: &ObjectKey,
        (begin, caches): (Begin<S>, Caches<N>),
        decide: impl FnOnce(S) -> D,
    ) -> Synced {
        self.tell_beginning(key, &begin, &caches);
        match begin {
            Begin::Ready(snapshot) => {
                let mut sync = Told::new(decide(snapshot), &self.recording, (self.kind, key));
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

    fn tell_beginning<S>(&self, key: &ObjectKey, begin: &Begin<S>, caches: &[(&'static str, ResourceVersion)]) {
        if !self.recording.is_on() {
            return;
        }
        let (wall, subject) = (self.server_now(), (self.kind, key));
        self.recording.with(|recorder, now| {
            recorder.began(subject, caches, now, wall);
            let account = match begin {
                Begin::Ready(_) => return,
                Begin::Gone => Account::gone(),
                Begin::Stale { resource, wrote, read, remedy } => Account::behind(*resource, *wrote, *read, *remedy),
                Begin::InvalidSelector(error) => Account::unselecting(error),
            };
            recorder.found(subject, None, account);
        });
    }

    /// A sync has ended, and its key is queued again as this says.
    pub(crate) fn ended(&self, key: &ObjectKey, ended: Ended<'_>) {
        self.recording.with(|recorder, now| recorder.ended((self.kind, key), ended, now));
    }

    /// What the recorder knows of an object.
    pub(crate) fn history(&self, key: &ObjectKey, since: Option<Duration>, source: Source) -> Option<History> {
        let look = self.recording.with(|recorder, now| recorder.look((self.kind, key), now))?;
        Some(look.told(since, source, self.server_now()))
    }

    /// What it tells of all objects.
    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What all controllers of the manager have done.
    pub(crate) fn begin_inside(&self, source: Source) -> Inside {
        let mut inside = Inside::new(source, self.server_now());
        inside.writes = self.recording.tally(|tally, _| tally.writes());
        inside
    }

    /// The last syncs of all controllers that share the recorder.
    pub(crate) fn last_syncs(&self) -> Vec<LastSync> {
        self.recording.with(|recorder, _| recorder.last(MOST_SYNCS)).map(Last::told).unwrap_or_default()
    }

    /// Adds the queue and the expectations of the controller of that name. What the recorder knows of keys that are in no
    /// queue is told by the `first` of those that share it.
    pub(crate) fn add_to(&self, inside: &mut Inside, controller: &'static str, first: bool) {
        let looked = self.queue.look(MOST_KEYS);
        let keys = looked.first.iter().map(|(key, _)| key);
        let waits = self.recording.with(|recorder, now| recorder.waits(self.kind, keys, MOST_KEYS, now));
        let waits = waits.unwrap_or_default();
        let waits = if first { waits } else { Waits { of: waits.of, ..Waits::default() } };
        inside.queues.push(QueueInside::of(controller, self.kind, looked, waits));
        let (unmet, now) = {
            let (books, now) = self.books();
            (books.unmet(MOST_EXPECTED, now), now)
        };
        inside.expect(self.kind, unmet, now);
    }

    /// Applies the effects of handlers in their order: an expectation is lowered before the key is queued whose sync
    /// checks it. None is queued before the workers begin, which begin with everything. With each effect comes the place
    /// of its change, of which `cause` says what it was.
    pub(crate) fn note(&self, effects: Vec<(usize, B::Effect)>, priority: Priority, cause: impl Fn(usize) -> Woken) {
        let enqueued: Vec<(usize, Enqueue)> = {
            let (mut books, now) = self.books();
            effects.into_iter().filter_map(|(at, effect)| Some((at, books.note(effect, now)?))).collect()
        };
        if enqueued.is_empty() || !self.queue.has_begun() {
            return;
        }
        self.recording.with(|recorder, now| {
            for (at, enqueue) in &enqueued {
                match enqueue {
                    Enqueue::Now(key) => recorder.woken((self.kind, key), cause(*at), now),
                    Enqueue::After(key, delay) => recorder.due((self.kind, key), Woken::Timer, now + *delay),
                }
            }
        });
        self.queue.with(|queue, now| {
            for (_, enqueue) in enqueued {
                match enqueue {
                    Enqueue::Now(key) => queue.add_with(key, priority, now),
                    Enqueue::After(key, delay) => queue.add_after(key, delay, now),
                }
            }
        });
    }

    /// Tells that all these objects are synced since its workers begin.
    pub(crate) fn begins(&self, keys: &[ObjectKey]) {
        self.recording.with(|recorder, now| {
            keys.iter().for_each(|key| recorder.woken((self.kind, key), Woken::Start, now));
        });
    }

    /// Wakes the owners that waited for this cache to reach `version` (B-17).
    pub(crate) fn caught_up(&self, resource: Resource, version: ResourceVersion) {
        self.recording.tally(|tally, now| tally.reached(resource.kind, version, now));
        let woken = self.lock().caught_up(resource, version);
        if !woken.is_empty() {
            self.recording.with(|recorder, now| {
                let cause = Woken::Cache { kind: resource.kind, version };
                woken.iter().for_each(|key| recorder.woken((self.kind, key), cause.clone(), now));
            });
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
            self.recording.with(|recorder, now| recorder.woken((self.kind, &key), Woken::Expired, now));
            self.queue.add_rate_limited(key, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, B> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Books> Ledger for Shell<B> {
    fn moment(&self) -> Moment {
        self.recording.moment()
    }

    fn answered(&self, owner: &Owner, request: Request<'_>, began: Moment, answer: Result<Option<&Written>, &Failure>) {
        let Request { action, resource, name } = request;
        let name = answer.ok().flatten().map_or(name, |written| &written.name);
        let answer = answer.map(|written| written.and_then(|written| written.resource_version));
        self.recording.tally(|tally, now| tally.answered((action, resource.kind), answer, now));
        self.recording.with(|recorder, now| {
            let answered = Answered { action, kind: resource.kind, name, took: now.saturating_since(began), answer };
            recorder.answered((self.kind, &owner.key), answered, now);
        });
    }

    fn wrote_status(&self, owner: &Owner, write: &StatusWrite) {
        self.recording.with(|recorder, _| recorder.status((self.kind, &owner.key), write.status.to_string()));
    }

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

    fn unmet(&self, most: usize, now: Moment) -> (Vec<Unmet>, usize) {
        self.expectations().unmet(most, now)
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
