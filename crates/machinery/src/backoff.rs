//! A delay for each key that doubles with every failure and is reset by a success (B-08, B-09).

use std::hash::Hash;
use std::time::Duration;

use muster_objects::Moment;

use crate::hash::FixedMap;

/// Exponential backoff by key. A failure while the key is still delayed does not count: five hundred pods that fail
/// together are one failure.
#[derive(Debug)]
pub struct Backoff<K> {
    min: Duration,
    max: Duration,
    waits: FixedMap<K, Wait>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    delay: Duration,
    until: Moment,
}

impl<K: Hash + Eq + Clone> Backoff<K> {
    /// Delays of `min` that double up to `max`.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), waits: FixedMap::default() }
    }

    /// Records a failure; returns how long the key has to wait from now.
    pub fn fail(&mut self, key: &K, now: Moment) -> Duration {
        let delay = match self.waits.get(key) {
            Some(wait) if now < wait.until => return wait.until.saturating_since(now),
            Some(wait) => wait.delay.saturating_mul(2).min(self.max),
            None => self.min,
        };
        self.waits.insert(key.clone(), Wait { delay, until: now + delay });
        delay
    }

    /// How long the key still has to wait; `None` if it has not.
    #[must_use]
    pub fn remaining(&self, key: &K, now: Moment) -> Option<Duration> {
        let wait = self.waits.get(key)?;
        (now < wait.until).then(|| wait.until.saturating_since(now))
    }

    /// Records a success, or that the key is gone: the next failure starts again from `min`.
    pub fn reset(&mut self, key: &K) {
        self.waits.remove(key);
    }

    /// A copy of the backoff of one key. Its use has no effect on this one.
    #[must_use]
    pub fn only(&self, key: &K) -> Self {
        let mut copy = Self::new(self.min, self.max);
        if let Some(wait) = self.waits.get(key) {
            copy.waits.insert(key.clone(), *wait);
        }
        copy
    }

    /// How many keys have failed and not yet succeeded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// Whether no key has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN + Duration::from_secs(seconds)
    }

    /// Contract: B-08
    #[test]
    fn doubles_from_min_to_max_and_starts_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        let mut now = 0;
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(backoff.fail(&"rs", at(now)), Duration::from_secs(expected));
            assert_eq!(backoff.remaining(&"rs", at(now)), Some(Duration::from_secs(expected)));
            now += expected;
            assert_eq!(backoff.remaining(&"rs", at(now)), None);
        }
        assert_eq!(backoff.remaining(&"other", at(0)), None);
        backoff.reset(&"rs");
        assert!(backoff.is_empty());
        assert_eq!(backoff.fail(&"rs", at(now)), Duration::from_secs(1));
    }

    /// Contract: B-08
    #[test]
    fn a_copy_has_one_key_and_changes_apart() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        backoff.fail(&"rs", at(0));
        backoff.fail(&"other", at(0));
        let mut copy = backoff.only(&"rs");
        assert_eq!((copy.len(), copy.remaining(&"rs", at(0))), (1, Some(Duration::from_secs(1))));
        assert_eq!(copy.fail(&"rs", at(1)), Duration::from_secs(2), "it goes on where the other is");
        assert_eq!(backoff.remaining(&"rs", at(1)), None);
    }

    /// Contract: B-08
    #[test]
    fn failures_while_waiting_are_one_failure() {
        let mut backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60));
        backoff.fail(&"rs", at(0));
        for _ in 0..500 {
            assert_eq!(backoff.fail(&"rs", at(4)), Duration::from_secs(6));
        }
        assert_eq!(backoff.fail(&"rs", at(10)), Duration::from_secs(20));
    }
}
