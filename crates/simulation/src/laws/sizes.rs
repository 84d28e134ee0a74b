//! The sizes that the controller of a ReplicaSet or ReplicationController may be looking at.

use serde_json::Value;

use crate::api::number;

/// The sizes since the generation that the controller has observed by the status on the server: a sync decides on that one or
/// on a later one, and the versions of one object never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Each with its generation, oldest first.
    seen: Vec<(i64, i64)>,
}

impl Sizes {
    /// The object is this now.
    pub fn note(&mut self, object: &Value) {
        let generation = number(object, "/metadata/generation");
        if self.seen.last().is_none_or(|(last, _)| *last < generation) {
            self.seen.push((generation, number(object, "/spec/replicas")));
        }
        let observed = number(object, "/status/observedGeneration");
        self.seen.retain(|(seen, _)| *seen >= observed.min(generation));
    }

    /// The largest of them.
    #[must_use]
    pub fn most(&self) -> i64 {
        self.seen.iter().map(|(_, replicas)| *replicas).max().unwrap_or_default()
    }

    /// The smallest of them.
    #[must_use]
    pub fn least(&self) -> i64 {
        self.seen.iter().map(|(_, replicas)| *replicas).min().unwrap_or_default()
    }
}
