//! The two clocks of a process: the wall, and a monotonic one that a test can pause.
//!
//! Everything below this crate is handed `now`. This is where `now` comes from. On a real machine the wall
//! is the operating system's. In virtual time it is a fixed start plus what tokio's clock has moved, so
//! that a paused runtime gives the same timestamps on every run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_objects::time::{Moment, Timestamp};
use tokio::time::Instant;

/// Where a process reads its time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What [`Moment`]s are counted from.
    origin: Instant,
    /// The wall's reading at `origin`, where the wall is virtual; none asks the operating system.
    base: Option<Timestamp>,
}

impl Clock {
    /// The operating system's wall clock, and tokio's monotonic clock from now on.
    #[must_use]
    pub fn system() -> Self {
        Self { origin: Instant::now(), base: None }
    }

    /// A wall that shows `base` now and moves with tokio's clock, and with nothing else.
    #[must_use]
    pub fn starting_at(base: Timestamp) -> Self {
        Self { origin: Instant::now(), base: Some(base) }
    }

    /// Wall time by this machine.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let nanos = match self.base {
            Some(base) => base.as_nanos().saturating_add(nanos(self.origin.elapsed())),
            None => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => nanos(since),
                Err(before) => -nanos(before.duration()),
            },
        };
        Timestamp::from_nanos(nanos)
    }

    /// Monotonic time, counted from this clock's making.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The tokio instant of a moment of this clock: what to sleep until.
    #[must_use]
    pub fn instant(&self, moment: Moment) -> Instant {
        // An unreachable moment is as good as one in thirty years, and those can be added.
        const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
        self.origin + Duration::from_nanos(moment.as_nanos()).min(FAR)
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
