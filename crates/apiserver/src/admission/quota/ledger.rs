//! Ledgers: what the objects of one kind in one namespace use, kept up with every write to them.
//!
//! A ledger reads the history of its kind as a watch does. It is made of all objects when it is first asked, and again
//! when history has moved on without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::time::Timestamp;

use crate::model::{Object, ResourceList};
use crate::quota::{Evaluator, Scope};
use crate::registry::{Registry, Served};
use crate::storage::{Cursor, Entry, EventKind, Fallen, Range, ResourceId, Storage};

/// As many are kept: more namespaces with quotas than this have theirs made anew when they are asked for.
const MOST: usize = 512;

/// The ledgers of namespaces and kinds that quotas limit.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    kept: BTreeMap<(String, ResourceId), Ledger>,
    /// How often storage had been put back to an earlier version when they were made.
    restores: u64,
}

impl Ledgers {
    /// What the objects of a kind in a namespace use that are in all of some scopes.
    pub(super) fn used(
        &mut self,
        registry: &Registry,
        served: &Served,
        namespace: &str,
        evaluator: &Evaluator,
        scopes: &[Scope],
    ) -> ResourceList {
        let storage = &registry.storage;
        if let Evaluator::Count(names) = evaluator {
            return if scopes.is_empty() {
                count(storage, served.id, namespace, names)
            } else {
                ResourceList::default()
            };
        }
        let restores = storage.restores();
        if std::mem::replace(&mut self.restores, restores) != restores {
            self.kept.clear();
        }
        let now = registry.clock.now();
        let key = (namespace.to_owned(), served.id);
        if let Some(ledger) = self.kept.get_mut(&key)
            && let Some(at) = ledger.sums.iter().position(|sum| sum.scopes == scopes)
            && ledger.catch_up(evaluator, now).is_ok()
        {
            return ledger.sums[at].used.clone();
        }
        let mut sums = self.kept.remove(&key).map(|ledger| ledger.sums).unwrap_or_default();
        if !sums.iter().any(|sum| sum.scopes == scopes) {
            // Scopes that no quota has any more are forgotten when their number grows.
            sums.truncate(31);
            sums.insert(0, Sum { scopes: scopes.to_vec(), used: ResourceList::default() });
        }
        let Some(ledger) = Ledger::new(storage, served.id, namespace, evaluator, sums, now) else {
            return ResourceList::default();
        };
        let used = ledger.sums.iter().find(|sum| sum.scopes == scopes).map(|sum| sum.used.clone());
        if self.kept.len() >= MOST {
            self.kept.clear();
        }
        self.kept.insert(key, ledger);
        used.unwrap_or_default()
    }
}

/// How many objects of a kind a namespace has, under the names by which quotas count them.
fn count(storage: &Storage, resource: ResourceId, namespace: &str, names: &[String]) -> ResourceList {
    let range = Range { namespace, limit: 1, ..Range::default() };
    let count = storage.list(resource, &range, None).map_or(0, |listed| listed.entries.len() + listed.remaining);
    ResourceList::of_counts(names, u64::try_from(count).unwrap_or(u64::MAX))
}

/// What the objects of one kind in one namespace use.
#[derive(Debug)]
struct Ledger {
    cursor: Cursor,
    sums: Vec<Sum>,
    /// What those use that will use less at some time.
    ending: BTreeMap<Arc<str>, Ending>,
}

/// What the objects in some scopes use together.
#[derive(Debug)]
struct Sum {
    scopes: Vec<Scope>,
    used: ResourceList,
}

/// An object that uses less from some time on.
#[derive(Debug)]
struct Ending {
    at: Timestamp,
    object: Object,
    used: ResourceList,
}

impl Ledger {
    fn new(
        storage: &Arc<Storage>,
        resource: ResourceId,
        namespace: &str,
        evaluator: &Evaluator,
        mut sums: Vec<Sum>,
        now: Timestamp,
    ) -> Option<Self> {
        let listed = storage.list(resource, &Range { namespace, ..Range::default() }, None).ok()?;
        sums.iter_mut().for_each(|sum| sum.used = ResourceList::default());
        let cursor = storage.watch(resource, namespace, listed.version).ok()?;
        let mut ledger = Self { cursor, sums, ending: BTreeMap::new() };
        for entry in &listed.entries {
            ledger.enter(entry, evaluator, now);
        }
        Some(ledger)
    }

    fn catch_up(&mut self, evaluator: &Evaluator, now: Timestamp) -> Result<(), Fallen> {
        let mut events = Vec::new();
        loop {
            self.cursor.read(&mut events)?;
            if events.is_empty() {
                break;
            }
            for event in events.drain(..) {
                if let Some(previous) = &event.previous {
                    self.leave(previous, evaluator, now);
                }
                if event.kind != EventKind::Deleted {
                    self.enter(&event.entry, evaluator, now);
                }
            }
        }
        self.end(evaluator, now);
        Ok(())
    }

    fn enter(&mut self, entry: &Entry, evaluator: &Evaluator, now: Timestamp) {
        let object = entry.object();
        let used = evaluator.usage(&object, now);
        self.book(&object, evaluator, |sum| sum.add(&used));
        if let Some(at) = evaluator.ends(&object).filter(|at| now <= *at) {
            self.ending.insert(Arc::clone(&entry.name), Ending { at, object, used });
        }
    }

    fn leave(&mut self, entry: &Entry, evaluator: &Evaluator, now: Timestamp) {
        // What was to end may have used more when it entered than it would by now.
        let (object, used) = match self.ending.remove(&entry.name) {
            Some(ending) => (ending.object, ending.used),
            None => {
                let object = entry.object();
                let used = evaluator.usage(&object, now);
                (object, used)
            }
        };
        self.book(&object, evaluator, |sum| sum.subtract(&used));
    }

    /// Has those use less whose time has come.
    fn end(&mut self, evaluator: &Evaluator, now: Timestamp) {
        let due = self.ending.iter().filter(|(_, ending)| now > ending.at).map(|(name, _)| Arc::clone(name));
        for name in due.collect::<Vec<_>>() {
            let Some(ending) = self.ending.remove(&name) else { continue };
            let rest = evaluator.usage(&ending.object, now);
            self.book(&ending.object, evaluator, |sum| {
                sum.subtract(&ending.used);
                sum.add(&rest);
            });
        }
    }

    fn book(&mut self, object: &Object, evaluator: &Evaluator, change: impl Fn(&mut ResourceList)) {
        for sum in self.sums.iter_mut().filter(|sum| evaluator.is_in(&sum.scopes, object)) {
            change(&mut sum.used);
        }
    }
}
