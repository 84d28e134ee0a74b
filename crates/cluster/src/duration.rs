//! Ranges of durations, and what is drawn from them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use muster_runtime::duration::{DurationError, parse_duration};

/// A range of delays, of which each pod gets one, uniformly. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DelayRange {
    min: Duration,
    max: Duration,
}

impl DelayRange {
    /// No delay at all.
    pub const ZERO: Self = Self { min: Duration::ZERO, max: Duration::ZERO };

    /// From `min` to `max`, in either order.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min: min.min(max), max: max.max(min) }
    }

    /// Whether no delay is possible but none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.max.is_zero()
    }

    /// From the shortest to the longest, which is one of them.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<Duration> {
        self.min..self.max
    }

    /// The longest of them.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The delay for a uniformly distributed 64-bit `draw`.
    #[must_use]
    pub fn pick(&self, draw: u64) -> Duration {
        let span = (self.max - self.min).as_nanos();
        // Multiply-shift is uniform to within 2^-64, and span < 2^94 leaves the product inside u128
        // only for spans below 2^64 ns (584 years), hence the clamp.
        let span = u64::try_from(span).unwrap_or(u64::MAX);
        let nanos = (u128::from(draw) * (u128::from(span) + 1)) >> 64;
        // The high half of the product is at most span.
        self.min + Duration::from_nanos(u64::try_from(nanos).unwrap_or(span))
    }
}

impl From<Duration> for DelayRange {
    fn from(delay: Duration) -> Self {
        Self::new(delay, delay)
    }
}

/// What is wrong with a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// One of its ends is no duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// The longer one comes first.
    #[error("found {0:?}, expected the shorter duration first")]
    Order(String),
}

impl FromStr for DelayRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let Some((min, max)) = text.split_once("..") else { return Ok(parse_duration(text)?.into()) };
        match (parse_duration(min)?, parse_duration(max)?) {
            (min, max) if min <= max => Ok(Self { min, max }),
            _ => Err(RangeError::Order(text.to_owned())),
        }
    }
}

/// A duration as Go prints it, for the messages in which Kubernetes has one: `10s`, `1m20s`, `5m0s`.
pub(crate) struct GoDuration(pub(crate) Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_secs();
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
        let millis = self.0.subsec_millis();
        if total == 0 && millis > 0 {
            return write!(f, "{millis}ms");
        }
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if total >= 60 {
            write!(f, "{minutes}m")?;
        }
        match millis {
            0 => write!(f, "{seconds}s"),
            _ => {
                let fraction = format!("{millis:03}");
                write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
            }
        }
    }
}

/// A well mixed 64-bit number out of a seed and what it is drawn for. Drawing by name rather than from
/// a stream makes a draw independent of everything that was drawn before it.
#[must_use]
pub(crate) fn draw(seed: u64, salt: &str, what: &str) -> u64 {
    // FNV-1a over the names, then two rounds of splitmix64's finaliser.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in salt.bytes().chain([0]).chain(what.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    for _ in 0..2 {
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-03
    #[test]
    fn ranges_are_read() {
        assert_eq!("200ms..800ms".parse(), Ok(DelayRange::new(Duration::from_millis(200), Duration::from_millis(800))));
        assert_eq!("3s".parse(), Ok(DelayRange::from(Duration::from_secs(3))));
        assert!("1s..".parse::<DelayRange>().is_err());
        let swapped = "5s..1s".parse::<DelayRange>().expect_err("the longer one comes first").to_string();
        assert_eq!(swapped, "found \"5s..1s\", expected the shorter duration first");
    }

    /// Contract: SIM-03
    #[test]
    fn a_pick_spans_the_whole_range_and_never_leaves_it() {
        let range = DelayRange::new(Duration::from_millis(200), Duration::from_millis(800));
        assert_eq!(range.pick(0), Duration::from_millis(200));
        assert_eq!(range.pick(u64::MAX), Duration::from_millis(800));
        let mut low = 0;
        for pod in 0..1000 {
            let delay = range.pick(draw(7, "startup", &pod.to_string()));
            assert!(delay >= range.min && delay <= range.max);
            low += usize::from(delay < Duration::from_millis(500));
        }
        assert!((420..580).contains(&low), "half the pods start in the lower half, give or take: {low}");
    }

    /// Contract: SIM-04
    #[test]
    fn back_off_durations_print_as_go_prints_them() {
        for (seconds, text) in [(10, "10s"), (20, "20s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s")] {
            assert_eq!(GoDuration(Duration::from_secs(seconds)).to_string(), text);
        }
        assert_eq!(GoDuration(Duration::from_millis(250)).to_string(), "250ms");
        assert_eq!(GoDuration(Duration::from_millis(1500)).to_string(), "1.5s");
    }
}
