//! The server's clock: wall time that follows tokio's, so that paused time is virtual time.
//!
//! Wall time is a base plus what has elapsed on tokio's monotonic clock since the clock was made.
//! With tokio's time paused and a fixed base, a whole run has the same timestamps every time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_objects::time::Timestamp;
use tokio::time::Instant;

/// A source of wall time. Cheap to copy; all copies agree.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Nanoseconds since the Unix epoch at `origin`.
    base: i64,
    /// The monotonic instant that `base` belongs to.
    origin: Instant,
    /// Whether it keeps up with the machine's time.
    follows: bool,
}

/// A clock that follows the machine's is put forward once it is so many nanoseconds slow.
const SLOW: i64 = 1_000_000_000;

impl Clock {
    /// A clock that starts at the machine's time.
    #[must_use]
    pub fn system() -> Self {
        Self::starting_at(machine())
    }

    /// A clock that shows the machine's time also after the machine has slept, or its time was put forward: the
    /// monotonic one stands still meanwhile. Where the machine's time is put back it is by no more than that. Not for where
    /// time is paused.
    #[must_use]
    pub fn following() -> Self {
        Self { follows: true, ..Self::system() }
    }

    /// A clock that now shows `base`, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn starting_at(base: i64) -> Self {
        Self { base, origin: Instant::now(), follows: false }
    }

    /// Wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos())
    }

    /// Wall time in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn nanos(&self) -> i64 {
        let elapsed = i64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let told = self.base.saturating_add(elapsed);
        if self.follows {
            let machine = machine();
            if machine.saturating_sub(told) > SLOW {
                return machine;
            }
        }
        told
    }
}

/// The machine's time.
fn machine() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clock_that_follows_the_machine_is_put_forward_where_it_is_slow() {
        // As after a sleep of an hour.
        let slept = Clock { base: machine() - 3_600_000_000_000, ..Clock::following() };
        let (before, told, after) = (machine(), slept.nanos(), machine());
        assert!((before..=after).contains(&told), "{before} {told} {after}");
        let still = Clock { follows: false, ..slept };
        assert!(machine() - still.nanos() > 3_500_000_000_000);
        // It is not put back by more.
        let ahead = Clock { base: machine() + 3_600_000_000_000, ..slept };
        assert!(ahead.nanos() - machine() > 3_500_000_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_base_and_paused_time_give_exact_times() {
        let clock = Clock::starting_at(1_700_000_000_000_000_000);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.nanos(), 1_700_000_090_000_000_000);
    }
}
