//! Objects that go by themselves: events, an hour after they were last written.
//!
//! There is no timer. Each write of such an object is noted, and each later write looks at the oldest notes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::{Registry, Served};
use crate::storage::{Entry, Range, ResourceId};

/// How many notes one write looks at, at most.
const AT_ONCE: usize = 16;

/// Notes of writes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Expiry(Mutex<VecDeque<Note>>);

#[derive(Debug)]
struct Note {
    due: Instant,
    resource: ResourceId,
    namespace: Arc<str>,
    name: Arc<str>,
    version: u64,
}

impl Registry {
    /// Goes on with objects that were there before: kinds come back with their definitions, and what goes by itself goes
    /// after a whole lifetime from now, as leases of etcd do.
    pub fn resume(&self) {
        for served in self.catalogue().served().iter().filter(|served| served.resource().lifetime.is_some()) {
            let listed = self.storage.list(served.id, &Range::default(), None);
            listed.into_iter().flat_map(|listed| listed.entries).for_each(|entry| self.note_expiry(served, &entry));
        }
        let definitions = self.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        definitions.into_iter().for_each(|definitions| self.settle(&definitions, None));
    }

    /// Notes a write of an object that goes by itself, and removes some whose time has come. One that was written again has
    /// another version than its note, and a later note.
    pub(super) fn note_expiry(&self, served: &Served, entry: &Entry) {
        let Some(lifetime) = served.resource().lifetime else { return };
        let lifetime = self.settings.event_lifetime.unwrap_or(lifetime);
        let now = Instant::now();
        let mut notes = self.expiry.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push_back(Note {
            due: now + lifetime,
            resource: served.id,
            namespace: Arc::clone(&entry.namespace),
            name: Arc::clone(&entry.name),
            version: entry.version,
        });
        for _ in 0..AT_ONCE {
            if notes.front().is_none_or(|note| note.due > now) {
                return;
            }
            let Some(note) = notes.pop_front() else { return };
            // Refused when it is another version, or gone.
            let _ = self.storage.delete(note.resource, &note.namespace, &note.name, note.version);
        }
    }
}
