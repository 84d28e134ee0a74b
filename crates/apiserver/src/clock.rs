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
}

impl Clock {
    /// A clock that starts at the machine's time.
    #[must_use]
    pub fn system() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::starting_at(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    /// A clock that now shows `base`, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn starting_at(base: i64) -> Self {
        Self { base, origin: Instant::now() }
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
        self.base.saturating_add(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fixed_base_and_paused_time_give_exact_times() {
        let clock = Clock::starting_at(1_700_000_000_000_000_000);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.nanos(), 1_700_000_090_000_000_000);
    }
}
