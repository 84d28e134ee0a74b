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

/// When something was last written for each owner.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    written: BTreeMap<ObjectKey, Moment>,
    /// The latest time that was told: writes are noted without one.
    latest: Moment,
}

impl Pauses {
    /// The time is `now`.
    pub(crate) fn tell(&mut self, now: Moment) {
        self.latest = now;
    }

    /// Something was written for the owner just now.
    pub(crate) fn begin(&mut self, owner: &ObjectKey) {
        self.written.insert(owner.clone(), self.latest);
    }

    /// How long counts may still wait; none where they are to be written now.
    pub(crate) fn left(&mut self, owner: &ObjectKey) -> Option<Duration> {
        let until = *self.written.get(owner)? + COUNTS_PAUSE;
        if until <= self.latest {
            self.written.remove(owner);
            return None;
        }
        Some(until.saturating_since(self.latest))
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
/// at again instead.
pub(crate) fn put_off(
    write: Option<StatusWrite>,
    requeue: Requeue,
    wait: Option<Duration>,
) -> (Option<StatusWrite>, Requeue) {
    let (Some(StatusWrite { can_wait: true, .. }), Some(wait)) = (&write, wait) else { return (write, requeue) };
    let requeue = match requeue {
        Requeue::None => Requeue::After(wait),
        Requeue::After(delay) => Requeue::After(delay.min(wait)),
        Requeue::Now | Requeue::RateLimited { .. } => requeue,
    };
    (None, requeue)
}
