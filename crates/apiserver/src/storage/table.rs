//! One resource's objects in key order, and what happened to them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Release;

use super::Refused;
use super::entry::Entry;
use super::wakers::{Common, Wakers};
use super::watch::{Event, EventKind};

/// Which objects a list wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range<'a> {
    /// Only this namespace; empty for all.
    pub namespace: &'a str,
    /// Only keys after this one: a namespace and a name.
    pub after: Option<(&'a str, &'a str)>,
    /// At most this many; 0 for all.
    pub limit: usize,
    /// How many there are from `after` on, where the page before has told: then nobody has to count them.
    pub known: Option<usize>,
}

/// So many of a table's last events are new: watchers are about to read them.
const NEW: usize = 1024;

/// The objects of one namespace, by name.
type Names = BTreeMap<Arc<str>, Arc<Entry>>;

/// The objects of one resource.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The name by which it is kept.
    pub(super) name: Arc<str>,
    /// By namespace, in the order of the keys `namespace/name`; by name within.
    namespaces: Vec<(Arc<str>, Names)>,
    len: usize,
    /// What happened, oldest first.
    history: VecDeque<Arc<Event>>,
    /// The version of the newest event that `history` no longer holds.
    dropped: u64,
    /// How many times it was changed.
    pub(super) changes: Arc<AtomicU64>,
    /// Counts the times that its watches were ended.
    pub(super) era: u64,
    /// Its watchers.
    pub(super) wakers: Wakers,
}

impl Table {
    /// A table that begins at a version.
    pub(super) fn since(name: Arc<str>, version: u64) -> Self {
        Self { name, dropped: version, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        let at = self.find(namespace).ok()?;
        self.namespaces[at].1.get(name)
    }

    pub(super) fn insert(&mut self, entry: Arc<Entry>) {
        let at = match self.find(&entry.namespace) {
            Ok(at) => at,
            Err(at) => {
                self.namespaces.insert(at, (Arc::clone(&entry.namespace), Names::new()));
                at
            }
        };
        entry.set_present(true);
        match self.namespaces[at].1.insert(Arc::clone(&entry.name), entry) {
            Some(before) => before.set_present(false),
            None => self.len += 1,
        }
    }

    /// Puts what `make` makes of an object in its place; answers what was there, and what is.
    pub(super) fn replace(
        &mut self,
        namespace: &str,
        name: &str,
        make: impl FnOnce(&Entry) -> Result<Arc<Entry>, Refused>,
    ) -> Result<(Arc<Entry>, Arc<Entry>), Refused> {
        let at = self.find(namespace).map_err(|_| Refused::Missing)?;
        let place = self.namespaces[at].1.get_mut(name).ok_or(Refused::Missing)?;
        let entry = make(place)?;
        entry.set_present(true);
        place.set_present(false);
        Ok((std::mem::replace(place, Arc::clone(&entry)), entry))
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Ok(at) = self.find(namespace) else { return };
        if let Some(gone) = self.namespaces[at].1.remove(name) {
            gone.set_present(false);
            self.len -= 1;
        }
        if self.namespaces[at].1.is_empty() {
            self.namespaces.remove(at);
        }
    }

    /// Adds what happened last. Answers the object whose version is thereby no longer new, if it is still there.
    pub(super) fn append(&mut self, event: Arc<Event>) -> Option<Arc<Entry>> {
        self.history.push_back(event);
        let aged = self.history.get(self.history.len().checked_sub(NEW + 1)?)?;
        present(&aged.entry)
    }

    /// Forgets the oldest event; answers its version, and the object that it made, if it is still there.
    pub(super) fn drop_oldest(&mut self) -> Option<(u64, Option<Arc<Entry>>)> {
        let event = self.history.pop_front()?;
        if self.history.capacity() > 1024 && self.history.len() < self.history.capacity() / 4 {
            self.history.shrink_to(self.history.len() * 2);
        }
        self.dropped = event.version;
        self.wakers.note_dropped(&event);
        Some((event.version, present(&event.entry)))
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The version of the newest event.
    pub(super) fn newest(&self) -> u64 {
        self.history.back().map_or(self.dropped, |event| event.version)
    }

    /// Copies into `out` the events after `after` and up to `until`, `most` at most; answers the version up to which all
    /// has been looked at.
    pub(super) fn events_after(
        &self,
        after: u64,
        until: u64,
        common: &Common,
        most: usize,
        out: &mut Vec<Arc<Event>>,
    ) -> Option<u64> {
        let start = self.history.partition_point(|e| e.version <= after);
        let mut seen = None;
        for event in self.history.range(start..).take(most).take_while(|event| event.version <= until) {
            seen = Some(event.version);
            if common.is_of(event) {
                out.push(Arc::clone(event));
            }
        }
        seen
    }

    /// The present objects of a range, and how many there are beyond its limit. Costs what it answers with, unless a range
    /// in the middle does not know how much follows.
    pub(super) fn range(&self, range: &Range<'_>) -> (Vec<Arc<Entry>>, usize) {
        self.page(range, self.keys(range).cloned(), 0)
    }

    /// The objects of a range as they were at `version`: the present with all later events undone. Costs what it answers
    /// with, and what has happened since.
    pub(super) fn range_at(&self, range: &Range<'_>, version: u64) -> (Vec<Arc<Entry>>, usize) {
        let mut undone: BTreeMap<(Ordered, Arc<str>), Option<Arc<Entry>>> = BTreeMap::new();
        let mut more = 0;
        for event in self.history.iter().rev().take_while(|e| e.version > version) {
            let entry = &event.entry;
            if range.is_in(&entry.namespace) {
                more += match event.kind {
                    EventKind::Added => -1,
                    EventKind::Modified => 0,
                    EventKind::Deleted => 1,
                };
            }
            if range.holds(&entry.namespace, &entry.name) {
                let key = (Ordered(Arc::clone(&entry.namespace)), Arc::clone(&entry.name));
                undone.insert(key, event.previous.clone());
            }
        }
        if undone.is_empty() {
            return self.page(range, self.keys(range).cloned(), more);
        }
        let mut present = self.keys(range).peekable();
        let mut undone = undone.into_iter().peekable();
        let then = std::iter::from_fn(|| {
            loop {
                let order = match (present.peek(), undone.peek()) {
                    (None, None) => return None,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(entry), Some(((namespace, name), _))) => {
                        key_order(&entry.namespace, &namespace.0).then_with(|| entry.name.cmp(name))
                    }
                };
                if order.is_lt() {
                    return present.next().cloned();
                }
                if order.is_eq() {
                    present.next();
                }
                if let Some((_, Some(before))) = undone.next() {
                    return Some(before);
                }
            }
        });
        self.page(range, then, more)
    }

    /// The first of a range's entries, and how many follow; `more` is how many more there are than at present.
    fn page(
        &self,
        range: &Range<'_>,
        mut entries: impl Iterator<Item = Arc<Entry>>,
        more: i64,
    ) -> (Vec<Arc<Entry>>, usize) {
        if range.limit == 0 {
            return (entries.collect(), 0);
        }
        let taken: Vec<_> = entries.by_ref().take(range.limit).collect();
        if taken.len() < range.limit {
            return (taken, 0);
        }
        let all = match (range.known, range.after) {
            (Some(known), _) => Some(known),
            (None, None) => Some(self.size(range.namespace).saturating_add_signed(isize::try_from(more).unwrap_or(0))),
            (None, Some(_)) => None,
        };
        let remaining = all.map_or_else(|| entries.count(), |all| all.saturating_sub(taken.len()));
        (taken, remaining)
    }

    /// How many objects a namespace has, or all have.
    fn size(&self, namespace: &str) -> usize {
        if namespace.is_empty() {
            return self.len;
        }
        self.find(namespace).map_or(0, |at| self.namespaces[at].1.len())
    }

    /// Takes all objects out, and leaves what happened.
    pub(super) fn clear(&mut self) {
        self.keys(&Range::default()).for_each(|entry| entry.set_present(false));
        (self.namespaces, self.len) = (Vec::new(), 0);
    }

    /// All objects.
    pub(super) fn objects(&self) -> Vec<Arc<Entry>> {
        self.keys(&Range::default()).cloned().collect()
    }

    /// Undoes what happened last, as if it had not.
    pub(super) fn undo_last(&mut self) -> Option<Arc<Event>> {
        let event = self.history.pop_back()?;
        match &event.previous {
            Some(before) => self.insert(Arc::clone(before)),
            None => self.remove(&event.entry.namespace, &event.entry.name),
        }
        self.changes.fetch_add(1, Release);
        Some(event)
    }

    /// Whether nothing of what happened is left.
    pub(super) fn is_forgotten(&self) -> bool {
        self.history.is_empty() && self.len == 0
    }

    /// A table of what there was at `version`, which has seen nothing happen.
    pub(super) fn as_it_was(&self, version: u64) -> Self {
        let (entries, _) = self.range_at(&Range::default(), version);
        self.wakers.note_all_dropped(version);
        self.changes.fetch_add(1, Release);
        let (wakers, changes) = (self.wakers.clone(), Arc::clone(&self.changes));
        // Whoever has read what is given again ends, however far that has gone when it looks.
        let name = Arc::clone(&self.name);
        let mut then = Self { name, dropped: version, wakers, changes, era: self.era + 1, ..Self::default() };
        for entry in entries {
            then.insert(entry);
        }
        then
    }

    fn keys<'a>(&'a self, range: &Range<'a>) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let (first, last) = if range.namespace.is_empty() {
            let from = range.after.map_or(0, |(ns, _)| self.find(ns).unwrap_or_else(|at| at));
            (from, self.namespaces.len())
        } else {
            match self.find(range.namespace) {
                Ok(at) => (at, at + 1),
                Err(_) => (0, 0),
            }
        };
        let after = range.after;
        self.namespaces[first..last].iter().flat_map(move |(namespace, names)| {
            let from = match after {
                Some((ns, name)) if ns == &**namespace => Bound::Excluded(name),
                _ => Bound::Unbounded,
            };
            names.range::<str, _>((from, Bound::Unbounded)).map(|(_, entry)| entry)
        })
    }

    fn find(&self, namespace: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|(ns, _)| key_order(ns, namespace))
    }
}

impl Range<'_> {
    fn is_in(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || self.namespace == namespace
    }

    fn holds(&self, namespace: &str, name: &str) -> bool {
        self.is_in(namespace)
            && self.after.is_none_or(|(ns, n)| key_order(namespace, ns).then_with(|| name.cmp(n)).is_gt())
    }
}

/// The entry, if it is its object's present state.
fn present(entry: &Arc<Entry>) -> Option<Arc<Entry>> {
    entry.is_present().then(|| Arc::clone(entry))
}

/// How namespaces compare as the first part of `namespace/name`: `a-b/...` comes before `a/...`.
fn key_order(a: &str, b: &str) -> Ordering {
    a.bytes().chain([b'/']).cmp(b.bytes().chain([b'/']))
}

/// A namespace that compares as part of a key.
#[derive(PartialEq, Eq)]
struct Ordered(Arc<str>);

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        key_order(&self.0, &other.0)
    }
}
