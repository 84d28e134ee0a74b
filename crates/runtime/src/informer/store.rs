//! The shared cache of an informer, and the version that it has reached.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
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
    /// Since when no watch could be opened, or read; none while one is.
    failing: Mutex<Option<Instant>>,
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
            failing: Mutex::default(),
            progress: Notify::new(),
            asked: watch::Sender::new(0),
            listed: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
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

    /// For how long the watch has failed, whatever was listed meanwhile; `None` while it is open. A range is not told
    /// that the watch which it shares fails.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.failing().map(|since| since.elapsed())
    }

    fn failing(&self) -> MutexGuard<'_, Option<Instant>> {
        self.inner.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch is open, or has failed.
    pub(super) fn set_watched(&self, watched: bool) {
        let mut failing = self.failing();
        *failing = if watched { None } else { failing.or_else(|| Some(Instant::now())) };
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

    /// Waits for that (INF-02).
    pub async fn synced(&self) {
        self.until(|| self.is_synced()).await;
    }

    /// Requests a relist, and waits until it is read and every handler has run: the cache then shows what the server
    /// had at the moment of the call or later, however far its watch was behind.
    pub async fn read_anew(&self) {
        let mut ask = 0;
        self.inner.asked.send_modify(|asks| {
            *asks += 1;
            ask = *asks;
        });
        self.until(|| self.listed() >= Some(ask)).await;
    }

    /// How often [`Store::read_anew`] was called.
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
