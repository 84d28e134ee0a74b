//! Pause: status counts that change within moments of each other are written together.
//!
//! The pods of one step are created, turn ready and go within moments. Writing each change to the status would cost a
//! request, and a sync of every controller that watches the owner. Anything but counts (a condition, a revision) is
//! never deferred.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Moment;
use muster_objects::meta::ObjectKey;

use crate::plan::{Requeue, StatusWrite};

/// How long counts may change after a write before they are written again.
pub const COUNTS_PAUSE: Duration = Duration::from_millis(20);
/// The longest that counts are deferred in all, however many rounds follow, so that the growth of a large ReplicaSet
/// can be seen.
pub const LONGEST_COUNTS_WAIT: Duration = Duration::from_secs(1);

/// How long changed counts may still be deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountsWait {
    /// For how long, if nothing is written before; `None` if they are due.
    pub left: Option<Duration>,
    /// How long they have been deferred already.
    pub waited: Duration,
}

impl CountsWait {
    /// What is left after a round of writes that took `took`; `None` if they are due.
    #[must_use]
    pub fn after_a_round(self, took: Duration) -> Option<Duration> {
        (self.waited + took + COUNTS_PAUSE <= LONGEST_COUNTS_WAIT).then_some(COUNTS_PAUSE)
    }
}

/// When each owner was last written for.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    written: BTreeMap<ObjectKey, Written>,
    /// The latest time passed to `tell`: writes are recorded without a time.
    latest: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    last: Moment,
    /// When the first write came since which counts are deferred.
    waiting_since: Option<Moment>,
}

impl Pauses {
    /// Sets the time to `now`.
    pub(crate) fn tell(&mut self, now: Moment) {
        self.latest = now;
    }

    /// The owner's status was just written, or something that will change its counts.
    pub(crate) fn wrote(&mut self, owner: &ObjectKey) {
        let before = self.written.get(owner).and_then(|written| written.waiting_since);
        let waiting_since = Some(before.unwrap_or(self.latest));
        self.written.insert(owner.clone(), Written { last: self.latest, waiting_since });
    }

    /// A sync of the owner ended with a status whose counts are all up to date.
    pub(crate) fn up_to_date(&mut self, owner: &ObjectKey) {
        if let Some(written) = self.written.get_mut(owner) {
            written.waiting_since = None;
        }
    }

    /// How long counts may still be deferred.
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

    /// A copy with the record of one owner only.
    pub(crate) fn only(&self, owner: &ObjectKey) -> Self {
        let written = self.written.get_key_value(owner).map(|(owner, at)| (owner.clone(), *at));
        Self { written: written.into_iter().collect(), latest: self.latest }
    }

    /// The owner is gone.
    pub(crate) fn forget(&mut self, owner: &ObjectKey) {
        self.written.remove(owner);
    }
}

/// Defers a write that [can wait](StatusWrite::can_wait) for as long as `wait` allows, and requeues the owner instead.
/// Returns whether it did.
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
        Requeue::RateLimited { .. } => requeue,
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
