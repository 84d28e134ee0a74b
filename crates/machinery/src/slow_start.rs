//! Slow start: creations in batches of 1, 2, 4, ... that end with the first failure (RS-09).
//!
//! A namespace that is out of quota then refuses one request, not five hundred.

/// The size of the first batch.
pub const INITIAL_BATCH_SIZE: usize = 1;

/// One round: take a batch, try all of it at once, report how many failed, repeat.
///
/// ```
/// use muster_machinery::SlowStart;
///
/// let mut round = SlowStart::new(10);
/// assert_eq!(round.next_batch(), Some(1));
/// round.finish_batch(0);
/// assert_eq!(round.next_batch(), Some(2));
/// round.finish_batch(1);
/// assert_eq!(round.next_batch(), None);
/// assert_eq!((round.successes(), round.shortfall()), (2, 8));
/// ```
#[derive(Debug, Clone)]
pub struct SlowStart {
    count: usize,
    attempted: usize,
    successes: usize,
    next: usize,
    /// The batch that was handed out and not finished yet.
    open: usize,
    failed: bool,
}

impl SlowStart {
    /// A round of `count` attempts that starts with a single one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self::with_initial_batch(count, INITIAL_BATCH_SIZE)
    }

    /// A round of `count` attempts that starts with `initial` of them, at least one.
    #[must_use]
    pub fn with_initial_batch(count: usize, initial: usize) -> Self {
        Self { count, attempted: 0, successes: 0, next: initial.max(1), open: 0, failed: false }
    }

    /// How many to attempt at once now; `None` if the round is over, or a batch is not finished.
    pub fn next_batch(&mut self) -> Option<usize> {
        let left = self.count - self.attempted;
        if self.failed || self.open > 0 || left == 0 {
            return None;
        }
        let batch = self.next.min(left);
        self.open = batch;
        self.attempted += batch;
        self.next = self.next.saturating_mul(2);
        Some(batch)
    }

    /// Finishes the current batch, with the number of its failures. One failure ends the round.
    pub fn finish_batch(&mut self, failures: usize) {
        let failures = failures.min(self.open);
        self.successes += self.open - failures;
        self.failed |= failures > 0;
        self.open = 0;
    }

    /// How many attempts succeeded.
    #[must_use]
    pub fn successes(&self) -> usize {
        self.successes
    }

    /// How many were attempted, including those of an unfinished batch.
    #[must_use]
    pub fn attempted(&self) -> usize {
        self.attempted
    }

    /// How many of the round failed or were never tried: the expectation is to be lowered by this count (EX-05).
    #[must_use]
    pub fn shortfall(&self) -> usize {
        self.count - self.successes
    }

    /// How many were never tried.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.count - self.attempted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batches(count: usize, fail_in: Option<usize>) -> (Vec<usize>, SlowStart) {
        let mut round = SlowStart::new(count);
        let mut sizes = Vec::new();
        while let Some(size) = round.next_batch() {
            round.finish_batch(usize::from(fail_in == Some(sizes.len())));
            sizes.push(size);
        }
        (sizes, round)
    }

    /// The cases of upstream's `TestSlowStartBatch`, and the burst of 500.
    ///
    /// Contract: RS-09
    #[test]
    fn batches_double_until_one_fails() {
        type Case = (usize, Option<usize>, &'static [usize], usize, usize);
        let cases: [Case; 6] = [
            (0, None, &[], 0, 0),
            (1, None, &[1], 1, 0),
            (10, None, &[1, 2, 4, 3], 10, 0),
            (10, Some(0), &[1], 0, 9),
            (10, Some(3), &[1, 2, 4, 3], 9, 0),
            (500, None, &[1, 2, 4, 8, 16, 32, 64, 128, 245], 500, 0),
        ];
        for (count, fail_in, sizes, successes, skipped) in cases {
            let (found, round) = batches(count, fail_in);
            assert_eq!(found, sizes, "{count} failing in {fail_in:?}");
            assert_eq!((round.successes(), round.skipped()), (successes, skipped), "{count} failing in {fail_in:?}");
            assert_eq!(round.shortfall(), count - successes);
        }
    }

    #[test]
    fn no_batch_while_one_is_out() {
        let mut round = SlowStart::new(3);
        assert_eq!(round.next_batch(), Some(1));
        assert_eq!(round.next_batch(), None);
        round.finish_batch(0);
        assert_eq!(round.next_batch(), Some(2));
    }

    proptest! {
        /// Contract: RS-09, EX-05
        #[test]
        fn every_attempt_is_accounted_for(count in 0_usize..2_000, initial in 0_usize..50, fail_in in 0_usize..12) {
            let mut round = SlowStart::with_initial_batch(count, initial);
            let mut attempted = 0;
            let mut batch_number = 0;
            while let Some(size) = round.next_batch() {
                attempted += size;
                round.finish_batch(if batch_number == fail_in { size } else { 0 });
                batch_number += 1;
            }
            prop_assert!(batch_number <= fail_in + 1);
            prop_assert_eq!(round.attempted(), attempted);
            prop_assert_eq!(round.successes() + round.shortfall(), count);
            prop_assert_eq!(round.attempted() + round.skipped(), count);
            if batch_number <= fail_in {
                prop_assert_eq!(round.shortfall(), 0);
            }
        }
    }
}
