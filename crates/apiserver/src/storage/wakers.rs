//! Who is woken by a commit: the watchers of everything, and those of what the object belongs to.
//!
//! A watch is about a namespace, a name, or the objects with one value in a field, such as the pods of a node. A commit
//! looks up the values that its object has and had, so that it costs nothing that others watch something else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::entry::Entry;
use super::watch::Event;

/// What wakes the watchers of the same objects.
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

/// What the objects of a watch have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Common {
    /// The namespace; empty for all.
    namespace: Box<str>,
    /// The value of a field.
    field: Option<(Of, Box<str>)>,
}

/// A field that objects can have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The name.
    Name,
    /// One of the values that field selectors can ask for, by its place.
    Field(usize),
}

impl From<&str> for Common {
    fn from(namespace: &str) -> Self {
        Self { namespace: namespace.into(), field: None }
    }
}

impl Common {
    /// The value of a field as well.
    #[must_use]
    pub fn with(self, field: Option<(Of, &str)>) -> Self {
        Self { field: field.map(|(of, value)| (of, value.into())), ..self }
    }

    /// Whether an event is about such an object, as it is or as it was.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        let mut states = std::iter::once(&event.entry).chain(&event.previous);
        (self.namespace.is_empty() || *self.namespace == *event.entry.namespace)
            && self.field.as_ref().is_none_or(|(of, value)| states.any(|entry| value_of(entry, *of) == &**value))
    }
}

fn value_of(entry: &Entry, of: Of) -> &str {
    match of {
        Of::Name => &entry.name,
        Of::Field(at) => entry.field(at),
    }
}

type ByValue = BTreeMap<Box<str>, Weak<Waker>>;

/// The wakers of one resource's watchers, while somebody holds them.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakers {
    everything: Arc<Waker>,
    namespaces: ByValue,
    names: ByValue,
    /// By the place of the field.
    fields: BTreeMap<usize, ByValue>,
}

impl Wakers {
    /// What wakes a watcher of these objects. Of what was dropped before, up to `dropped`, it knows nothing.
    pub(super) fn of(&mut self, common: &Common, dropped: u64) -> Arc<Waker> {
        let (known, value) = match &common.field {
            Some((Of::Name, name)) => (&mut self.names, &**name),
            Some((Of::Field(at), value)) => (self.fields.entry(*at).or_default(), &**value),
            None if common.namespace.is_empty() => return Arc::clone(&self.everything),
            None => (&mut self.namespaces, &*common.namespace),
        };
        if let Some(known) = known.get(value).and_then(Weak::upgrade) {
            return known;
        }
        known.retain(|_, waker| waker.strong_count() > 0);
        let new = Arc::new(Waker { dropped: AtomicU64::new(dropped), ..Waker::default() });
        known.insert(value.into(), Arc::downgrade(&new));
        new
    }

    /// What an event wakes.
    pub(super) fn watching(&self, event: &Event) -> Vec<Arc<Waker>> {
        let find = |known: &ByValue, value: &str| known.get(value).and_then(Weak::upgrade);
        let mut found = vec![Arc::clone(&self.everything)];
        found.extend(find(&self.namespaces, &event.entry.namespace));
        found.extend(find(&self.names, &event.entry.name));
        for (at, known) in &self.fields {
            let now = event.entry.field(*at);
            found.extend(find(known, now));
            let before = event.previous.as_ref().map(|previous| previous.field(*at)).filter(|before| *before != now);
            found.extend(before.and_then(|before| find(known, before)));
        }
        found
    }

    /// Notes that the history no longer holds an event.
    pub(super) fn note_dropped(&self, event: &Event) {
        self.watching(event).iter().for_each(|waker| waker.dropped.store(event.version, Ordering::Release));
    }

    /// Notes that the history no longer holds anything up to a version.
    pub(super) fn note_all_dropped(&self, version: u64) {
        self.all().for_each(|waker| waker.dropped.store(version, Ordering::Release));
    }

    /// Wakes everybody.
    pub(super) fn wake_all(&self) {
        self.all().for_each(|waker| waker.notify.notify_waiters());
    }

    /// All that somebody holds.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Waker>> {
        let by_value = [&self.namespaces, &self.names].into_iter().chain(self.fields.values());
        let held = by_value.flat_map(BTreeMap::values).filter_map(Weak::upgrade);
        std::iter::once(Arc::clone(&self.everything)).chain(held)
    }
}
