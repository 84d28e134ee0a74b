//! The webhooks and policies that are configured, read from storage when they have changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::mutating::Mutations;
use super::plugins::{Plugin, Plugins};
use super::policy::{Policy, Work};
use super::validating::Validations;
use super::webhook::Webhook;
use crate::kinds::admissionregistration::GROUP;
use crate::registry::Catalogue;
use crate::storage::{Entry, Range, ResourceId, Storage};

/// What is configured at one time, each in the order of names.
#[derive(Debug, Default)]
pub struct Configuration {
    /// Webhooks that may change a write.
    pub(super) mutating: Vec<Arc<Webhook>>,
    /// Policies that may change a write, with what binds them.
    pub(super) mutators: Vec<Arc<Policy<Mutations>>>,
    /// Policies that may refuse one, with what binds them.
    pub(super) policies: Vec<Arc<Policy<Validations>>>,
    /// Webhooks that may refuse one.
    pub(super) validating: Vec<Arc<Webhook>>,
}

impl Configuration {
    fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.mutators.is_empty() && self.policies.is_empty() && self.validating.is_empty()
    }
}

/// What was read, and how many changes there had been by then.
type Read = (u64, Option<Arc<Configuration>>);

/// What is configured. To ask where nothing ever was costs a few loads.
#[derive(Debug)]
pub struct Configured {
    tables: [Option<Table>; TABLES.len()],
    read: RwLock<Read>,
}

#[derive(Debug)]
struct Table {
    id: ResourceId,
    changes: Arc<AtomicU64>,
}

const TABLES: [(&str, Plugin); 6] = [
    ("mutatingadmissionpolicies", Plugin::MutatingAdmissionPolicy),
    ("mutatingadmissionpolicybindings", Plugin::MutatingAdmissionPolicy),
    ("mutatingwebhookconfigurations", Plugin::MutatingAdmissionWebhook),
    ("validatingadmissionpolicies", Plugin::ValidatingAdmissionPolicy),
    ("validatingadmissionpolicybindings", Plugin::ValidatingAdmissionPolicy),
    ("validatingwebhookconfigurations", Plugin::ValidatingAdmissionWebhook),
];

impl Configured {
    /// What is configured in a storage, for the plug-ins that run.
    #[must_use]
    pub fn new(catalogue: &Catalogue, storage: &Storage, plugins: &Plugins) -> Self {
        let table = |(plural, plugin)| {
            if !plugins.run(plugin) {
                return None;
            }
            let id = catalogue.find(GROUP, "v1", plural)?.id;
            Some(Table { id, changes: storage.changes(id) })
        };
        Self { tables: TABLES.map(table), read: RwLock::default() }
    }

    /// What is configured now; `None` where nothing is.
    #[must_use]
    pub fn now(&self, storage: &Storage) -> Option<Arc<Configuration>> {
        let changes = self.tables.iter().flatten().map(|table| table.changes.load(Ordering::Acquire)).sum();
        if changes == 0 {
            return None;
        }
        {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            if read.0 == changes {
                return read.1.clone();
            }
        }
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if read.0 < changes {
            let next = self.all(storage, read.1.as_deref());
            *read = (changes, (!next.is_empty()).then(|| Arc::new(next)));
        }
        read.1.clone()
    }

    /// Everything that is stored. What has not changed is taken from what was known: it has been compiled, and its
    /// connections are open.
    fn all(&self, storage: &Storage, known: Option<&Configuration>) -> Configuration {
        let list = |table: usize| {
            let Some(table) = &self.tables[table] else { return Vec::new() };
            storage.list(table.id, &Range::default(), None).map(|listed| listed.entries).unwrap_or_default()
        };
        let [mutators, mutator_bindings, mutating, validators, bindings, validating] = std::array::from_fn(list);
        let none = Configuration::default();
        let known = known.unwrap_or(&none);
        Configuration {
            mutating: webhooks(&mutating, &known.mutating),
            mutators: policies(&mutators, &mutator_bindings, &known.mutators),
            policies: policies(&validators, &bindings, &known.policies),
            validating: webhooks(&validating, &known.validating),
        }
    }
}

fn policies<W: Work>(entries: &[Arc<Entry>], bindings: &[Arc<Entry>], known: &[Arc<Policy<W>>]) -> Vec<Arc<Policy<W>>> {
    entries.iter().filter_map(|entry| Policy::new(entry, bindings, known)).collect()
}

fn webhooks(entries: &[Arc<Entry>], known: &[Arc<Webhook>]) -> Vec<Arc<Webhook>> {
    let mut all = Vec::new();
    for entry in entries {
        let before = all.len();
        all.extend(known.iter().filter(|hook| hook.is_of(entry)).cloned());
        if all.len() == before {
            all.extend(Webhook::all(entry).into_iter().map(Arc::new));
        }
    }
    all
}
