//! Pause: counts that a moment will change again are written together.
//!
//! The pods of one step come, turn ready and go within moments of each other. Nobody needs to read each of them in
//! a status: it would be one more request, and one more sync of whoever watches. What a person or another controller
//! acts on (a condition, a revision) is never held back.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Moment;
use muster_objects::meta::ObjectKey;

use crate::plan::{Requeue, StatusWrite};

/// How long after a write counts are let change before they are written again.
pub const COUNTS_PAUSE: Duration = Duration::from_millis(20);
/// The longest that counts wait in all, where round after round puts them off again: a large ReplicaSet that grows is
/// seen to grow.
pub const LONGEST_COUNTS_WAIT: Duration = Duration::from_secs(1);

/// How long counts that have changed may wait to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountsWait {
    /// For how long, where nothing is written before; none where they are due.
    pub left: Option<Duration>,
    /// How long they have waited already.
    pub waited: Duration,
}

impl CountsWait {
    /// For how long after a round of writes that took so long; none where they have waited long enough.
    #[must_use]
    pub fn after_a_round(self, took: Duration) -> Option<Duration> {
        (self.waited + took + COUNTS_PAUSE <= LONGEST_COUNTS_WAIT).then_some(COUNTS_PAUSE)
    }
}

/// When something was last written for each owner.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    written: BTreeMap<ObjectKey, Written>,
    /// The latest time that was told: writes are noted without one.
    latest: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    last: Moment,
    /// When the first of the writes came after which counts wait.
    waiting_since: Option<Moment>,
}

impl Pauses {
    /// The time is `now`.
    pub(crate) fn tell(&mut self, now: Moment) {
        self.latest = now;
    }

    /// The owner's status was written just now, or something that it will tell of.
    pub(crate) fn wrote(&mut self, owner: &ObjectKey) {
        let before = self.written.get(owner).and_then(|written| written.waiting_since);
        let waiting_since = Some(before.unwrap_or(self.latest));
        self.written.insert(owner.clone(), Written { last: self.latest, waiting_since });
    }

    /// A sync of the owner has ended with a status in which every count is as it was found to be.
    pub(crate) fn up_to_date(&mut self, owner: &ObjectKey) {
        if let Some(written) = self.written.get_mut(owner) {
            written.waiting_since = None;
        }
    }

    /// How long counts may still wait.
    pub(crate) fn wait(&mut self, owner: &ObjectKey) -> CountsWait {
        let Some(Written { last, waiting_since }) = self.written.get(owner).copied() else {
            return CountsWait::default();
        };
        let pause = last + COUNTS_PAUSE;
        let until = waiting_since.map_or(pause, |since| pause.min(since + LONGEST_COUNTS_WAIT));
        if until <= self.latest && waiting_since.is_none() {
            self.written.remove(owner);
        }
        CountsWait {
            left: (until > self.latest).then(|| until.saturating_since(self.latest)),
            waited: waiting_since.map_or(Duration::ZERO, |since| self.latest.saturating_since(since)),
        }
    }

    /// A copy of what is known of one owner, and nothing of the others.
    pub(crate) fn only(&self, owner: &ObjectKey) -> Self {
        let written = self.written.get_key_value(owner).map(|(owner, at)| (owner.clone(), *at));
        Self { written: written.into_iter().collect(), latest: self.latest }
    }

    /// The owner is gone.
    pub(crate) fn forget(&mut self, owner: &ObjectKey) {
        self.written.remove(owner);
    }
}

/// Puts a write off that [can wait](StatusWrite::can_wait), where `wait` says for how long; the owner is then looked
/// at again instead. Says whether it did.
pub(crate) fn put_off(
    write: Option<StatusWrite>,
    requeue: Requeue,
    wait: Option<Duration>,
) -> (Option<StatusWrite>, Requeue, bool) {
    let (Some(StatusWrite { can_wait: true, .. }), Some(wait)) = (&write, wait) else {
        return (write, requeue, false);
    };
    let requeue = match requeue {
        Requeue::None => Requeue::After(wait),
        Requeue::After(delay) => Requeue::After(delay.min(wait)),
        Requeue::Now | Requeue::RateLimited { .. } => requeue,
    };
    (None, requeue, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is long over is not kept of an owner that is looked at.
    ///
    /// Contract: RS-17
    #[test]
    fn an_owner_that_does_not_wait_takes_no_room() {
        let (owner, mut pauses) = (ObjectKey::new("default", "web"), Pauses::default());
        pauses.wrote(&owner);
        pauses.up_to_date(&owner);
        pauses.wait(&owner);
        assert_eq!(pauses.written.len(), 1);
        pauses.tell(Moment::ORIGIN + COUNTS_PAUSE);
        assert_eq!(pauses.wait(&owner), CountsWait::default());
        assert!(pauses.written.is_empty());
    }
}
