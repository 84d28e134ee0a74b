//! The sums of one quota, and what its status says of them.

use muster_apiserver::quota::{Evaluator, ResourceList, Scope, scopes};
use muster_tree::{Map, Value, json};

use super::{Quota, Spec};
use crate::control::Slim;

/// What is used of what a quota limits.
#[derive(Debug)]
pub(super) struct Sums {
    /// Of which objects.
    pub(super) scopes: Vec<Scope>,
    /// What is limited.
    hard: ResourceList,
    /// The sums so far, of what is measured at all.
    used: ResourceList,
}

impl Sums {
    /// None yet.
    pub(super) fn of(spec: &Spec) -> Self {
        let hard = ResourceList::read(spec.hard());
        Self { scopes: scopes(&spec.0), hard, used: ResourceList::default() }
    }

    /// Whether an evaluator measures anything that is limited. If so, that is zero until something is added.
    pub(super) fn begins(&mut self, evaluator: &Evaluator) -> bool {
        let tracked: Vec<String> = self.hard.names().filter(|name| evaluator.tracks(name)).map(str::to_owned).collect();
        let begins = !tracked.is_empty();
        for name in tracked {
            if self.used.get(&name).is_none() {
                self.used.insert(name, Default::default());
            }
        }
        begins
    }

    /// Adds what was measured.
    pub(super) fn add(&mut self, used: &ResourceList) {
        let mut limited = used.clone();
        limited.retain(|name| self.used.get(name).is_some());
        self.used.add(&limited);
    }

    /// What an evaluator measures is not known.
    pub(super) fn exclude(&mut self, evaluator: &Evaluator) {
        self.used.retain(|name| !evaluator.tracks(name));
    }
}

/// A merge patch of the status; none where it says what is so already.
pub(super) fn decide(quota: &Slim<Quota>, sums: &Sums) -> Option<Value> {
    let status = &quota.body.status;
    let (old_hard, old_used) = (ResourceList::read(status.hard.as_ref()), ResourceList::read(status.used.as_ref()));
    // What could not be measured stays as it was.
    let mut used = old_used.clone();
    sums.used.iter().for_each(|(name, amount)| used.insert(name.to_owned(), amount.clone()));
    used.retain(|name| sums.hard.get(name).is_some());
    let known = status.hard.is_some() && status.used.is_some();
    if known && sums.hard.equals(&old_hard) && used.equals(&old_used) {
        return None;
    }
    let empty = Map::new();
    let hard = quota.body.spec.hard().cloned().unwrap_or_default();
    Some(json!({
        "metadata": {"uid": quota.meta.uid, "resourceVersion": quota.meta.resource_version},
        "status": {
            "hard": replacing(status.hard.as_ref().unwrap_or(&empty), hard),
            "used": replacing(status.used.as_ref().unwrap_or(&empty), used.to_json()),
        },
    }))
}

/// A merge patch that makes a map another one.
fn replacing(old: &Map, mut new: Map) -> Map {
    for name in old.keys() {
        new.entry(name.clone()).or_insert(Value::Null);
    }
    new
}
