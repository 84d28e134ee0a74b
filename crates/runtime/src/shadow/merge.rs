//! Merge: the changes of all kinds in the order in which the server made them.
//!
//! Each kind has a watch of its own, and one may be slower than another: a pod that was created for a ReplicaSet's new
//! size may arrive before that size. All kinds share one counter of versions, which gives the order. A change is passed
//! on once every kind has reached a newer version, or after a delay that older changes hardly exceed. Older changes
//! that come even later are passed on at once.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_inspect::shadow::Seen;
use muster_objects::{Timestamp, meta::ResourceVersion};

use super::handlers::Kind;

/// Changes that wait for older ones.
pub(super) struct Merge {
    settle: Duration,
    waiting: BTreeMap<(ResourceVersion, u64), Seen>,
    /// How many have come, to order changes of the same version.
    count: u64,
    /// How far each kind has come.
    reached: BTreeMap<Kind, ResourceVersion>,
}

impl Merge {
    /// Nothing waits; a change waits `settle` at most.
    pub(super) fn new(settle: Duration) -> Self {
        let reached = Kind::ALL.iter().map(|kind| (*kind, ResourceVersion::UNKNOWN)).collect();
        Self { settle, waiting: BTreeMap::new(), count: 0, reached }
    }

    /// Adds a change.
    pub(super) fn push(&mut self, seen: Seen) {
        self.count += 1;
        self.waiting.insert((seen.version, self.count), seen);
    }

    /// A kind has reached `version`.
    pub(super) fn reached(&mut self, kind: Kind, version: ResourceVersion) {
        self.reached.insert(kind, version);
    }

    /// The oldest change, once it is settled, or `anyway`.
    pub(super) fn pop(&mut self, now: Timestamp, anyway: bool) -> Option<Seen> {
        let entry = self.waiting.first_entry()?;
        let passed = self.reached.values().all(|reached| *reached >= entry.key().0);
        let waited = now.saturating_since(entry.get().at) >= self.settle;
        (passed || waited || anyway).then(|| entry.remove())
    }

    /// Up to when everything that happened is handed on.
    pub(super) fn settled(&self, now: Timestamp) -> Timestamp {
        let oldest = self.waiting.values().map(|seen| seen.at).min();
        let settled = now - self.settle;
        oldest.map_or(settled, |oldest| settled.min(oldest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_inspect::shadow::Watched;
    use muster_machinery::Change;
    use muster_objects::intern::Interner;
    use muster_objects::{Object, Pod};

    use super::*;

    fn seen(version: u64, at_millis: i64) -> Seen {
        let json = format!(r#"{{"metadata":{{"name":"p","namespace":"n","resourceVersion":"{version}"}}}}"#);
        let pod = Pod::decode(json.as_bytes(), &mut Interner::default()).unwrap();
        let at = Timestamp::from_nanos(at_millis * 1_000_000);
        Seen { version: ResourceVersion(version), at, change: Watched::Pod(Change::Added(Arc::new(pod))) }
    }

    fn popped(merge: &mut Merge, now_millis: i64, anyway: bool) -> Vec<u64> {
        let now = Timestamp::from_nanos(now_millis * 1_000_000);
        std::iter::from_fn(|| merge.pop(now, anyway)).map(|seen| seen.version.0).collect()
    }

    #[test]
    fn versions_decide_the_order_and_not_arrival() {
        let mut merge = Merge::new(Duration::from_secs(1));
        for (version, at) in [(7, 0), (5, 300), (9, 400), (6, 900)] {
            merge.push(seen(version, at));
        }
        assert!(popped(&mut merge, 999, false).is_empty(), "older ones may still come");
        assert_eq!(popped(&mut merge, 1_300, false), [5], "6 has waited for less than a second");
        assert_eq!(popped(&mut merge, 1_900, false), [6, 7, 9]);
    }

    #[test]
    fn nothing_is_waited_for_that_cannot_come() {
        let mut merge = Merge::new(Duration::from_secs(1));
        merge.push(seen(7, 0));
        for kind in Kind::ALL {
            assert!(popped(&mut merge, 1, false).is_empty(), "{kind:?} may have something older");
            merge.reached(*kind, ResourceVersion(7));
        }
        assert_eq!(popped(&mut merge, 1, false), [7]);
    }

    #[test]
    fn time_does_not_pass_what_waits() {
        let mut merge = Merge::new(Duration::from_secs(1));
        let millis = |time: Timestamp| time.as_nanos() / 1_000_000;
        assert_eq!(millis(merge.settled(Timestamp::from_seconds(10))), 9_000);
        merge.push(seen(7, 8_500));
        assert_eq!(millis(merge.settled(Timestamp::from_seconds(10))), 8_500);
        assert_eq!(popped(&mut merge, 8_600, true), [7], "at the end nothing is left behind");
    }
}
