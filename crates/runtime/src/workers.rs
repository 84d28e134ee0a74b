//! A work queue with workers: keys come from handlers on one side, syncs run on the other.
//!
//! [`WorkQueue`] is the state machine, handed the time. Here are its lock, its timers and its workers. A key
//! is never in two of them at once, because the queue never hands it out twice (WQ-01).

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture, pin_mut};
use muster_controllers::plan::{Requeue, Verdict};
use muster_inspect::{history::Ended, inside::Looked};
use muster_machinery::{WorkQueue, queue::Place};
use muster_objects::{meta::ObjectKey, time::Moment};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    clock::Clock,
    metrics::{Metrics, QueueMetrics},
    process::{of_the_same, pass_on_panic, watch_over},
    shutdown::Shutdown,
};

#[cfg(test)]
mod tests;

/// The work queue of one controller. Cloning shares it.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    keys: Mutex<WorkQueue<ObjectKey, QueueMetrics>>,
    /// Something may be ready sooner than a waiting worker thinks.
    changed: Notify,
    /// Whether workers have begun.
    begun: AtomicBool,
    clock: Clock,
}

/// How a sync ended, for its queue.
#[derive(Debug)]
pub enum Synced {
    /// It ended.
    Done(Verdict),
    /// It was deferred, and the key will be added again: its backoff is kept (B-17).
    PutOff,
}

/// What a worker does with a key.
pub trait Controller: Send + Sync + 'static {
    /// Syncs one key. Never called for a key that is being synced.
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced>;

    /// When [`Controller::expire`] is due; none for never.
    fn deadline(&self) -> Option<Moment> {
        None
    }

    /// The deadline may have passed.
    fn expire(&self, _now: Moment) {}

    /// A sync of the key has ended. Called before it can begin again, with the queue locked.
    fn ended(&self, _key: &ObjectKey, _ended: Ended<'_>) {}

    /// Everything that there is to sync as workers begin. Of a controller that adds no key before that.
    fn everything(&self) -> Vec<ObjectKey> {
        Vec::new()
    }
}

impl<C: Controller> Controller for Arc<C> {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        (**self).sync(key)
    }

    fn deadline(&self) -> Option<Moment> {
        (**self).deadline()
    }

    fn expire(&self, now: Moment) {
        (**self).expire(now);
    }

    fn ended(&self, key: &ObjectKey, ended: Ended<'_>) {
        (**self).ended(key, ended);
    }

    fn everything(&self) -> Vec<ObjectKey> {
        (**self).everything()
    }
}

impl Queue {
    /// An empty queue whose metrics carry `name`.
    #[must_use]
    pub fn new(name: &'static str, clock: Clock, metrics: &Metrics) -> Self {
        let observer = metrics.queue(name);
        let keys = Mutex::new(WorkQueue::observed(observer));
        let inner = Inner { keys, changed: Notify::new(), begun: AtomicBool::new(false), clock };
        let queue = Self { inner: Arc::new(inner) };
        let probed = Arc::downgrade(&queue.inner);
        metrics.probe_queue(name, move |now| {
            let inner = probed.upgrade()?;
            let mut keys = inner.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.advance(now);
            let (unfinished, longest) = keys.unfinished_work(now);
            Some((keys.depth(), unfinished, longest))
        });
        queue
    }

    /// Adds keys at once.
    pub fn add(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.with(|queue, now| keys.into_iter().for_each(|key| queue.add(key, now)));
    }

    /// Adds a key after a delay.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        self.with(|queue, now| queue.add_after(key, delay, now));
    }

    /// Adds a key after its backoff, which is `at_most` so long.
    pub fn add_rate_limited(&self, key: ObjectKey, at_most: Option<Duration>) {
        self.with(|queue, now| {
            let cap = at_most.unwrap_or(muster_machinery::queue::MAX_DELAY);
            queue.add_rate_limited_at_most(key, cap, now);
        });
    }

    /// How often a key has been added with a rate limit since it last succeeded.
    #[must_use]
    pub fn num_requeues(&self, key: &ObjectKey) -> u32 {
        self.lock().num_requeues(key)
    }

    /// The state of a key.
    #[must_use]
    pub fn place(&self, key: &ObjectKey) -> Place {
        self.lock().place(key, self.inner.clock.moment())
    }

    /// How many keys there are in each state, and at most `most` of them.
    #[must_use]
    pub fn look(&self, most: usize) -> Looked {
        let now = self.inner.clock.moment();
        let mut queue = self.lock();
        queue.advance(now);
        let (ready, working, delayed) = (queue.len(), queue.in_work(), queue.delayed());
        Looked { ready, working, delayed, first: queue.first(most, now) }
    }

    /// Whether workers have begun. Until then nobody takes a key, for days where the process stands by.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.inner.begun.load(Ordering::SeqCst)
    }

    /// Several changes at once, and one wake-up for all of them.
    pub fn with<R>(&self, change: impl FnOnce(&mut WorkQueue<ObjectKey, QueueMetrics>, Moment) -> R) -> R {
        let result = change(&mut self.lock(), self.inner.clock.moment());
        self.inner.changed.notify_one();
        result
    }

    /// Runs `workers` workers, a task each, until `shutdown`, and then until the syncs in progress have ended (WQ-05,
    /// CM-07). Dropping the future stops the workers.
    ///
    /// # Panics
    /// If a worker does. A sync that panics only counts as a failed sync.
    pub async fn work<C: Controller + Clone>(&self, controller: C, workers: usize, mut shutdown: Shutdown) {
        // What changes from here on is added by its handlers; before that, the caches had it already.
        self.inner.begun.store(true, Ordering::SeqCst);
        self.add(controller.everything());
        // All of it was added by a start (SH-07).
        self.lock().lower_all();
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let (queue, controller) = (self.clone(), controller.clone());
            tasks.spawn(of_the_same(async move { queue.worker(&controller).await }));
        }
        tokio::select! {
            biased;
            () = shutdown.stopped() => {}
            never = watch_over(&mut tasks) => match never {},
        }
        self.shut_down();
        while let Some(ended) = tasks.join_next().await {
            pass_on_panic(ended);
        }
    }

    /// One worker; [`Queue::shut_down`] ends it.
    async fn worker(&self, controller: &impl Controller) {
        while let Some(key) = self.next(controller).await {
            self.serve(controller, key).await;
            // A sync may have nothing to wait for: many of them must leave room for the other tasks of their thread.
            tokio::task::consume_budget().await;
        }
    }

    /// Waits for a key to be taken; none after a shutdown.
    ///
    /// Only an idle worker is registered for wake-ups. A registration that was notified and is dropped hands the
    /// notification on, so a worker that leaves with a key takes no wake-up along that another could use.
    async fn next(&self, controller: &impl Controller) -> Option<ObjectKey> {
        loop {
            // Before the look, so that what comes after it is not missed.
            let changed = self.inner.changed.notified();
            pin_mut!(changed);
            changed.as_mut().enable();

            let now = self.inner.clock.moment();
            if controller.deadline().is_some_and(|deadline| deadline <= now) {
                controller.expire(now);
            }
            let (key, wakeup) = {
                let mut queue = self.lock();
                if queue.is_shutting_down() {
                    return None;
                }
                let key = queue.get(now);
                (key, queue.next_wakeup(now))
            };
            let next = [wakeup, controller.deadline()].into_iter().flatten().min();
            if key.is_some() {
                if next.is_some() {
                    // An idle worker must wait in this worker's place: several adds may have woken only one worker, and
                    // only the one that waits for a delay knows of it.
                    self.inner.changed.notify_one();
                }
                return key;
            }
            match next {
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(self.inner.clock.instant(at)) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Refuses new keys and hands out none; the workers end with what they are at.
    fn shut_down(&self) {
        self.lock().shut_down();
        self.inner.changed.notify_waiters();
    }

    async fn serve(&self, controller: &impl Controller, key: ObjectKey) {
        // A sync that panics is one that failed: the worker and the other keys must not go with it.
        let synced = AssertUnwindSafe(controller.sync(&key)).catch_unwind().await;
        self.with(|queue, now| {
            let controller_name = queue.observer().name();
            match synced {
                Ok(Synced::Done(verdict)) => {
                    match &verdict.error {
                        // The object went while it was being synced: the next sync will find that out.
                        Some(error) if error.is_not_found() => {
                            tracing::debug!(controller = controller_name, %key, %error, "sync failed");
                        },
                        Some(error) => {
                            tracing::warn!(controller = controller_name, %key, %error, "sync failed");
                            queue.observer().failed();
                        }
                        None => {}
                    }
                    match verdict.requeue {
                        Requeue::RateLimited { at_most } => {
                            let cap = at_most.unwrap_or(muster_machinery::queue::MAX_DELAY);
                            // What the server asks for counts before what we would do by ourselves (CM-03).
                            let floor = verdict.error.as_ref().and_then(|error| error.retry_after).unwrap_or_default();
                            let pause = queue.add_rate_limited_between(key.clone(), floor, cap, now);
                            controller.ended(&key, Ended::Backoff(pause, verdict.error.as_ref()));
                        }
                        Requeue::None => {
                            queue.forget(&key);
                            controller.ended(&key, Ended::Done);
                        }
                        Requeue::After(delay) => {
                            queue.forget(&key);
                            queue.add_after(key.clone(), delay, now);
                            controller.ended(&key, Ended::Again(delay));
                        }
                    }
                }
                Ok(Synced::PutOff) => controller.ended(&key, Ended::PutOff),
                Err(panic) => {
                    tracing::error!(controller = controller_name, %key, panic = panic_message(&*panic), "sync panicked");
                    queue.observer().failed();
                    let pause = queue.add_rate_limited(key.clone(), now);
                    controller.ended(&key, Ended::Panicked(pause));
                }
            }
            queue.done(&key, now);
        });
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueue<ObjectKey, QueueMetrics>> {
        self.inner.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}
