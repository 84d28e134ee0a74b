//! The shared cache of an informer, and the version that it has reached.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use muster_machinery::{Cache, Cached, Change};
use muster_objects::meta::ResourceVersion;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{audit_state::AuditState, reflector::Delta};

/// The objects of one kind as last seen by the watch. Cloning shares it.
pub struct Store<T: Cached> {
    inner: Arc<Inner<T>>,
}

struct Inner<T: Cached> {
    cache: RwLock<Cache<T>>,
    /// Held by the informer from a change of the cache until every handler has run for it.
    telling: RwLock<()>,
    /// The newest version for which every handler has run.
    told: AtomicU64,
    /// When something was last read into the cache; none before the first list.
    changed: Mutex<Option<Instant>>,
    failing: Failing,
    /// The same of the watch that a range shares with others.
    shared: OnceLock<Arc<Failing>>,
    /// That version has changed, or `listed` has. It wakes those who wait in the order in which they began to, which a
    /// `watch` does not: the same seed would give another history.
    progress: Notify,
    /// How many relists have been requested.
    asked: watch::Sender<u64>,
    /// How often it had been asked to when the last list that was read began; none before the first.
    listed: Mutex<Option<u64>>,
}

impl<T: Cached> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: Cached> Default for Store<T> {
    fn default() -> Self {
        let inner = Inner {
            cache: RwLock::new(Cache::new()),
            telling: RwLock::default(),
            told: AtomicU64::new(ResourceVersion::UNKNOWN.0),
            changed: Mutex::default(),
            failing: Failing::default(),
            shared: OnceLock::new(),
            progress: Notify::new(),
            asked: watch::Sender::new(0),
            listed: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }
}

/// Since when no watch could be opened, or read; none while one is.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<Option<Instant>>);

impl Failing {
    pub(super) fn set(&self, fails: bool) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if fails { since.or_else(|| Some(Instant::now())) } else { None };
    }

    fn elapsed(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }
}

impl<T: Cached> Inner<T> {
    fn failing_for(&self) -> Option<Duration> {
        self.failing.elapsed().max(self.shared.get().and_then(|shared| shared.elapsed()))
    }
}

impl<T: Cached> Store<T> {
    /// An empty store that nothing has been read into.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The cache, locked for reading. Not to be kept across an await: the informer waits for it.
    pub fn read(&self) -> RwLockReadGuard<'_, Cache<T>> {
        self.inner.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every handler has run for what the cache shows, and holds back further changes while the guard lives:
    /// what handlers note and what the cache shows are then of one moment. To be taken before [`Store::read`], and not
    /// by a handler, nor to be kept across an await.
    ///
    /// It waits for the handlers of one batch, which take less than a millisecond.
    pub(crate) fn settled(&self) -> RwLockReadGuard<'_, ()> {
        self.inner.telling.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What [`Store::settled`] waits for.
    pub(super) fn telling(&self) -> RwLockWriteGuard<'_, ()> {
        self.inner.telling.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether [`Store::settled`] would not wait.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.inner.telling.try_read().is_ok()
    }

    /// The newest version that the cache has reached and for which every handler has run (INF-09).
    #[must_use]
    pub fn newest(&self) -> ResourceVersion {
        ResourceVersion(self.inner.told.load(Ordering::Acquire))
    }

    /// How long ago a list, events or a bookmark were last read into the cache; `None` before the first list.
    #[must_use]
    pub fn changed_ago(&self) -> Option<Duration> {
        self.inner.changed.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// For how long the watch has failed, or that which a range shares with others, whatever was listed meanwhile; `None` while
    /// it is open.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.inner.failing_for()
    }

    /// The same for whoever must not keep the store: `None` when it is gone, and no time while the watch is open.
    pub(super) fn failing_probe(&self) -> impl Fn() -> Option<Duration> + Send + use<T> {
        let inner = Arc::downgrade(&self.inner);
        move || inner.upgrade().map(|inner| inner.failing_for().unwrap_or_default())
    }

    /// The watch is open, or has failed.
    pub(super) fn set_watched(&self, watched: bool) {
        self.inner.failing.set(!watched);
    }

    /// It depends on this watch too.
    pub(super) fn depends_on(&self, shared: Arc<Failing>) {
        let _ = self.inner.shared.set(shared);
    }

    /// Waits until the cache has reached `version` and every handler has run for it: what was written at that version
    /// can then be seen.
    pub async fn reached(&self, version: ResourceVersion) {
        self.until(|| self.newest() >= version).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            // Before the look, so that what comes after it is not missed.
            let progress = self.inner.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if is_so() {
                return;
            }
            progress.await;
        }
    }

    fn listed(&self) -> Option<u64> {
        *self.inner.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first list has been read and every handler has run for it.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.listed().is_some()
    }

    /// Waits for that (INF-02), and for every relist that was requested before.
    pub async fn synced(&self) {
        let asked = *self.inner.asked.borrow();
        self.until(|| self.listed() >= Some(asked)).await;
    }

    /// Requests a relist, and waits until it is read and every handler has run: the cache then shows what the server
    /// had at the moment of the call or later, however far its watch was behind.
    pub async fn read_anew(&self) {
        self.ask();
        self.synced().await;
    }

    /// Requests a relist.
    pub(super) fn ask(&self) {
        self.inner.asked.send_modify(|asks| *asks += 1);
    }

    /// Requests a relist, unless one that was requested is still to come.
    pub(crate) fn doubt(&self) {
        self.inner.asked.send_if_modified(|asks| {
            let idle = self.listed() >= Some(*asks);
            *asks += u64::from(idle);
            idle
        });
    }

    /// How many relists were requested.
    pub(super) fn asked(&self) -> watch::Receiver<u64> {
        self.inner.asked.subscribe()
    }

    pub(super) fn replace(&self, objects: Vec<Arc<T>>, version: ResourceVersion) -> Vec<Change<T>> {
        self.write(|cache| cache.replace_shared(objects, version))
    }

    /// Applies a batch in its order; returns the changes and the newest version.
    pub(super) fn apply(
        &self,
        batch: &mut Vec<Delta<T>>,
        changes: &mut Vec<Change<T>>,
        audit_state: &mut AuditState,
    ) -> ResourceVersion {
        self.write(|cache| {
            for delta in batch.drain(..) {
                audit_state.note(cache, &delta);
                match delta {
                    Delta::Put(object) => changes.extend(cache.apply(object)),
                    Delta::Gone(last) => changes.extend(cache.delete(last)),
                    Delta::Reached(version) => cache.saw(version),
                }
            }
            cache.newest()
        })
    }

    /// Every handler has run for everything up to `version`.
    pub(super) fn tell(&self, version: ResourceVersion) {
        self.inner.told.store(version.0, Ordering::Release);
        self.inner.progress.notify_waiters();
    }

    /// A list has been read that began after this many requests, and every handler has run.
    pub(super) fn set_listed(&self, asks: u64) {
        *self.inner.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(asks);
        self.inner.progress.notify_waiters();
    }

    fn write<R>(&self, change: impl FnOnce(&mut Cache<T>) -> R) -> R {
        let result = change(&mut self.inner.cache.write().unwrap_or_else(PoisonError::into_inner));
        *self.inner.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        result
    }
}
