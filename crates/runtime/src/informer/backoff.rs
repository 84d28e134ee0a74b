//! How long an informer waits before it asks again (INF-05).

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

/// The first wait, before jitter.
const FIRST: Duration = Duration::from_millis(800);
/// The longest wait, jitter included.
const LONGEST: Duration = Duration::from_secs(30);
/// A wait this long after the last one starts over.
const QUIET: Duration = Duration::from_secs(120);

/// Doubles with each failure, forgets after two quiet minutes.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// The wait after one more failure, seen at `now`: 800 ms doubled per earlier one, times a random
    /// factor in [1, 2), at most 30 s.
    pub(super) fn next(&mut self, now: Instant, random: &mut impl Rng) -> Duration {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= QUIET) {
            self.failures = 0;
        }
        self.last = Some(now);
        // Half of the longest, so that the jitter is left even there: a herd must not form at the cap.
        let base = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST / 2);
        self.failures = self.failures.saturating_add(1);
        base.mul_f64(random.random_range(1.0..2.0))
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    /// Contract: INF-05
    #[tokio::test(start_paused = true)]
    async fn waits_double_with_jitter_to_thirty_seconds_and_start_over_after_two_quiet_minutes() {
        let mut random = SmallRng::seed_from_u64(7);
        let mut backoff = Backoff::default();
        let start = Instant::now();
        let bounds =
            [(800, 1_600), (1_600, 3_200), (3_200, 6_400), (6_400, 12_800), (12_800, 25_600), (15_000, 30_000)];
        for (low, high) in bounds {
            let wait = backoff.next(start, &mut random).as_millis();
            assert!((low..high).contains(&wait), "{wait} not in {low}..{high}");
        }
        let waits: Vec<_> = (0..50).map(|_| backoff.next(start, &mut random)).collect();
        assert!(waits.iter().all(|wait| *wait < LONGEST && *wait >= LONGEST / 2));
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]), "jitter is left at the cap");

        let almost = start + QUIET - Duration::from_millis(1);
        assert!(backoff.next(almost, &mut random) >= LONGEST / 2);
        assert!(backoff.next(almost + QUIET, &mut random) < 2 * FIRST);
    }
}
