//! A token bucket on a clock that only goes forward.
//!
//! Counts in whole nanoseconds, so that the same calls give the same answers on every machine.

use std::time::Duration;

use muster_objects::Moment;

/// Allows a burst, then one in every interval. It starts full.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    interval: Duration,
    /// How far ahead of the present tokens may be taken without a wait.
    tolerance: Duration,
    /// The moment up to which tokens are taken. If it is not in the future, the bucket is full.
    booked_until: Moment,
}

impl TokenBucket {
    /// A bucket of `burst` tokens (at least one) that gains one in every `interval`.
    #[must_use]
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, tolerance: interval.saturating_mul(burst.saturating_sub(1)), booked_until: Moment::ORIGIN }
    }

    /// A bucket of `burst` tokens that gains `per_second` of them in a second.
    ///
    /// A rate that is not a positive number means no limit.
    #[must_use]
    pub fn per_second(per_second: f64, burst: u32) -> Self {
        let interval = Duration::try_from_secs_f64(per_second.recip()).unwrap_or(Duration::ZERO);
        Self::new(if per_second > 0.0 { interval } else { Duration::ZERO }, burst)
    }

    /// Takes the next token, even if it is not there yet, and returns how long to wait for it.
    pub fn reserve(&mut self, now: Moment) -> Duration {
        let start = self.booked_until.max(now);
        self.booked_until = start + self.interval;
        start.saturating_since(now + self.tolerance)
    }

    /// The first moment at which there is a token.
    #[must_use]
    pub fn next(&self) -> Moment {
        self.booked_until - self.tolerance
    }

    /// Whether it has all its tokens.
    #[must_use]
    pub fn is_full(&self, now: Moment) -> bool {
        self.booked_until <= now
    }

    /// Takes a token if there is one now.
    pub fn try_take(&mut self, now: Moment) -> bool {
        let start = self.booked_until.max(now);
        let there = start <= now + self.tolerance;
        if there {
            self.booked_until = start + self.interval;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    /// Contract: WQ-03
    #[test]
    fn ten_a_second_after_a_burst_of_a_hundred() {
        let mut bucket = TokenBucket::per_second(10.0, 100);
        for _ in 0..100 {
            assert_eq!(bucket.reserve(at(0)), Duration::ZERO);
        }
        for waiting in 1..=5 {
            assert_eq!(bucket.reserve(at(0)), Duration::from_millis(100 * waiting));
        }
        // The bucket is five tokens short; after 600 ms it has one.
        assert_eq!(bucket.reserve(at(600)), Duration::ZERO);
        assert_eq!(bucket.reserve(at(600)), Duration::from_millis(100));
        // A long pause fills the bucket up to the burst.
        let free = (0..200).filter(|_| bucket.reserve(at(3_600_000)).is_zero()).count();
        assert_eq!(free, 100);
    }

    /// Contract: EV-03
    #[test]
    fn a_refusal_takes_no_token() {
        let mut bucket = TokenBucket::new(Duration::from_secs(300), 25);
        assert_eq!((0..40).filter(|_| bucket.try_take(at(0))).count(), 25);
        assert!(!bucket.try_take(at(299_999)));
        assert!(bucket.try_take(at(300_000)));
        assert!(!bucket.try_take(at(300_000)));
    }

    #[test]
    fn no_rate_is_no_limit() {
        for rate in [0.0, -1.0, f64::NAN] {
            let mut bucket = TokenBucket::per_second(rate, 1);
            assert!((0..1_000).all(|_| bucket.try_take(at(7))));
        }
    }
}
