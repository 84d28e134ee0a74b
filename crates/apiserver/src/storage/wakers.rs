//! Who is woken by a commit: the watchers of all namespaces, and those of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// What wakes the watchers of one namespace, or of all.
#[derive(Debug, Default)]
pub(super) struct Waker {
    pub(super) notify: Notify,
    /// The version of the newest event that concerned them and that the history no longer holds.
    dropped: AtomicU64,
}

impl Waker {
    /// The version of the newest event that concerned its watchers and is gone.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Acquire)
    }
}

/// The wakers of one resource's watchers.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakers {
    everywhere: Arc<Waker>,
    /// By namespace, while somebody holds one.
    within: BTreeMap<Arc<str>, Weak<Waker>>,
}

impl Wakers {
    /// What wakes a watcher of a namespace; an empty one stands for all. Of what was dropped before, up to `dropped`, it
    /// knows nothing.
    pub(super) fn of(&mut self, namespace: &str, dropped: u64) -> Arc<Waker> {
        if namespace.is_empty() {
            return Arc::clone(&self.everywhere);
        }
        if let Some(known) = self.within.get(namespace).and_then(Weak::upgrade) {
            return known;
        }
        self.within.retain(|_, waker| waker.strong_count() > 0);
        let new = Arc::new(Waker { dropped: AtomicU64::new(dropped), ..Waker::default() });
        self.within.insert(namespace.into(), Arc::downgrade(&new));
        new
    }

    /// What an event in a namespace wakes.
    pub(super) fn watching(&self, namespace: &str) -> [Option<Arc<Waker>>; 2] {
        [Some(Arc::clone(&self.everywhere)), self.within.get(namespace).and_then(Weak::upgrade)]
    }

    /// Notes that the history no longer holds an event in a namespace.
    pub(super) fn note_dropped(&self, namespace: &str, version: u64) {
        for waker in self.watching(namespace).iter().flatten() {
            waker.dropped.store(version, Ordering::Release);
        }
    }

    /// Notes that the history no longer holds anything up to a version.
    pub(super) fn note_all_dropped(&self, version: u64) {
        self.everywhere.dropped.store(version, Ordering::Release);
        self.within
            .values()
            .filter_map(Weak::upgrade)
            .for_each(|waker| waker.dropped.store(version, Ordering::Release));
    }

    /// Wakes everybody.
    pub(super) fn wake_all(&self) {
        self.everywhere.notify.notify_waiters();
        self.within.values().filter_map(Weak::upgrade).for_each(|waker| waker.notify.notify_waiters());
    }
}
