//! How informers tell the loops of this crate: each batch of changes once, shared by all who listen.

use std::sync::Arc;

use muster_machinery::{Cached, Change, queue::Priority};
use muster_runtime::informer::{Handler, Informer};

/// Changes that were applied together, in their order.
pub(crate) type Batch<T> = Arc<[Change<T>]>;

/// Hands every batch of an informer to several listeners, in the order in which they were added.
pub(crate) struct Fan<T> {
    listeners: Vec<Box<dyn Fn(Batch<T>) + Send>>,
}

impl<T> Default for Fan<T> {
    fn default() -> Self {
        Self { listeners: Vec::new() }
    }
}

impl<T: Cached> Fan<T> {
    /// Adds a listener. It must not wait: unbounded channels are what it is meant for, whose readers
    /// only take things in.
    pub(crate) fn to(&mut self, listener: impl Fn(Batch<T>) + Send + 'static) {
        self.listeners.push(Box::new(listener));
    }

    /// Whether nobody listens.
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Starts to listen to `informer`.
    pub(crate) fn attach(self, informer: &mut Informer<T>) {
        informer.add_handler(self);
    }
}

impl<T: Cached> Handler<T> for Fan<T> {
    fn changed(&mut self, changes: &[Change<T>], _priority: Priority) {
        let batch: Batch<T> = changes.into();
        for listener in &self.listeners {
            listener(Arc::clone(&batch));
        }
    }
}

/// A change taken apart: what is gone, and what is there now. An update under another uid is both.
pub(crate) fn parts<T: Cached>(change: &Change<T>) -> (Option<&Arc<T>>, Option<&Arc<T>>) {
    match change {
        Change::Added(new) => (None, Some(new)),
        Change::Updated { old, new } if old.meta().uid != new.meta().uid => (Some(old), Some(new)),
        Change::Updated { new, .. } => (None, Some(new)),
        Change::Deleted { last, .. } => (Some(last), None),
    }
}
