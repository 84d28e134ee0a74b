//! Random numbers from a seed.

use std::ops::Range;
use std::time::Duration;

/// Pseudo-random numbers (splitmix64).
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// The same numbers for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..below`; 0 if that is empty.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(below).unwrap_or_default()
    }

    /// True this many times of a thousand.
    pub(super) fn strikes(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// A duration in the range, in whole milliseconds.
    pub(super) fn within(&mut self, range: &Range<Duration>) -> Duration {
        let width = u64::try_from(range.end.saturating_sub(range.start).as_millis()).unwrap_or(u64::MAX);
        range.start + Duration::from_millis(self.below(width))
    }
}
