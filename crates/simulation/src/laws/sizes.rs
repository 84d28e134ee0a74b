//! The sizes that the controller of a ReplicaSet or ReplicationController may be looking at.

/// The sizes since the generation that the controller has observed by the status on the server: a sync decides on that one or
/// on a later one, and the versions of one object never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Each with its generation, oldest first.
    seen: Vec<(i64, i64)>,
}

impl Sizes {
    /// The object has these numbers now, each by its JSON pointer; 0 where it has none.
    pub fn note(&mut self, number: impl Fn(&str) -> i64) {
        let generation = number("/metadata/generation");
        if self.seen.last().is_none_or(|(last, _)| *last < generation) {
            self.seen.push((generation, number("/spec/replicas")));
        }
        let observed = number("/status/observedGeneration");
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
