//! The two clocks of a process: the wall, and a monotonic one that a test can pause.
//!
//! The crates below this one get `now` as an argument; this is where it comes from. On a real machine the wall clock is
//! the operating system's. In virtual time it is a fixed start plus the time that tokio's clock has advanced, so a
//! paused runtime gives the same timestamps on every run.

use std::sync::atomic::{AtomicI64, Ordering};
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
    /// By how many nanoseconds a virtual wall has been set since.
    set_by: Option<&'static AtomicI64>,
}

/// What sets a virtual wall, as an administrator or NTP sets a real one.
#[derive(Debug)]
pub struct Hands(&'static AtomicI64);

impl Hands {
    /// Sets the wall clock forward by this many nanoseconds, or back if negative. Monotonic time is not affected.
    pub fn turn(&self, nanos: i64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock {
    /// The operating system's wall clock, and tokio's monotonic clock from now on.
    #[must_use]
    pub fn system() -> Self {
        Self { origin: Instant::now(), base: None, set_by: None }
    }

    /// A wall that shows `base` now and moves with tokio's clock, and with nothing else.
    #[must_use]
    pub fn starting_at(base: Timestamp) -> Self {
        Self { origin: Instant::now(), base: Some(base), set_by: None }
    }

    /// The same with hands: a wall that can be set, as clocks are while a process runs. The hands are never freed,
    /// so that a clock can go on being copied: this is for simulations.
    #[must_use]
    pub fn that_is_set(base: Timestamp) -> (Self, Hands) {
        let set_by: &'static AtomicI64 = Box::leak(Box::default());
        (Self { set_by: Some(set_by), ..Self::starting_at(base) }, Hands(set_by))
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
        let set_by = self.set_by.map_or(0, |set_by| set_by.load(Ordering::Relaxed));
        Timestamp::from_nanos(nanos.saturating_add(set_by))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wall_that_is_set_leaves_monotonic_time_alone() {
        let (clock, hands) = Clock::that_is_set(Timestamp::from_seconds(1_000));
        tokio::time::advance(Duration::from_secs(5)).await;
        hands.turn(-3_000_000_000);
        assert_eq!(clock.now(), Timestamp::from_seconds(1_002));
        assert_eq!(clock.moment(), Moment::from_nanos(5_000_000_000));
        hands.turn(10_000_000_000);
        assert_eq!(clock.now(), Timestamp::from_seconds(1_012));
    }
}
