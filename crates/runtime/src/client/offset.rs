//! The difference between the server's clock and ours, measured from the `Date` header of its answers.
//!
//! A pod's Ready condition is stamped by a node; `minReadySeconds` is counted by the controller (B-11).
//! The header has whole seconds, so one answer bounds the offset to a second plus the round trip. Every
//! further answer narrows the bounds, because the seconds turn over at different phases; what is left
//! after a while is the round trip. Bounds widen slowly with age (clocks drift) and start afresh when a
//! new answer contradicts them (a clock was set).

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;
/// How much the two clocks are trusted to drift apart: parts per million.
const DRIFT_PPM: i64 = 200;

/// The bounds within which the server's offset lies, in nanoseconds to add to the local clock.
#[derive(Debug, Default)]
pub(super) struct ServerOffset {
    bounds: Option<Bounds>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    /// Local wall time at which these bounds were last right, nanoseconds.
    at: i64,
}

impl ServerOffset {
    /// Adds one answer: the server's `Date` in seconds since the epoch, and the local wall time in nanoseconds when the
    /// request was sent and when the answer came.
    pub(super) fn observe(&mut self, date: i64, sent: i64, received: i64) {
        let Some(date) = date.checked_mul(SECOND) else { return };
        if received < sent {
            return; // The local clock was set in between: this answer says nothing.
        }
        let sample = Bounds {
            low: date.saturating_sub(received),
            high: date.saturating_add(SECOND).saturating_sub(sent),
            at: received,
        };
        self.bounds = Some(match self.bounds {
            None => sample,
            Some(known) => {
                let slack = received.saturating_sub(known.at).saturating_abs() / 1_000_000 * DRIFT_PPM;
                let low = known.low.saturating_sub(slack).max(sample.low);
                let high = known.high.saturating_add(slack).min(sample.high);
                if low <= high { Bounds { low, high, at: received } } else { sample }
            }
        });
    }

    /// The smallest offset that agrees with every answer, in nanoseconds; zero before the first.
    ///
    /// If the local clock may be right, it is taken to be right: the header's precision of a second is no reason to
    /// shift it.
    pub(super) fn nanos(&self) -> i64 {
        self.bounds.map_or(0, |bounds| 0.clamp(bounds.low, bounds.high))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Answers of a server whose clock is `offset` ahead, asked at `times` with this round trip.
    fn measured(offset: i64, trip: i64, times: impl IntoIterator<Item = i64>) -> i64 {
        let mut measure = ServerOffset::default();
        for sent in times {
            let date = (sent + trip / 2 + offset).div_euclid(SECOND);
            measure.observe(date, sent, sent + trip);
        }
        measure.nanos()
    }

    /// Contract: B-11
    #[test]
    fn a_clock_that_agrees_is_not_shifted() {
        assert_eq!(measured(0, 2_000_000, (0..50).map(|n| n * 170_000_000)), 0);
        assert_eq!(ServerOffset::default().nanos(), 0);
    }

    /// Contract: B-11
    #[test]
    fn a_server_ahead_or_behind_is_found_to_the_round_trip() {
        for offset in [-90 * SECOND, -7 * SECOND / 2, 13 * SECOND / 4, 3600 * SECOND] {
            let found = measured(offset, 4_000_000, (0..400).map(|n| n * 17_300_000));
            assert!((found - offset).abs() <= 25_000_000, "offset {offset}: found {found}");
        }
    }

    /// Contract: B-11
    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut measure = ServerOffset::default();
        for n in 0..100 {
            measure.observe(n / 10 + 5, n * 100_000_000, n * 100_000_000 + 1_000_000);
        }
        assert!(measure.nanos() > 4 * SECOND);
        measure.observe(100, 100 * SECOND, 100 * SECOND + 1_000_000);
        assert_eq!(measure.nanos(), 0);
    }

    proptest! {
        /// Contract: B-11
        #[test]
        fn the_offset_found_is_never_more_than_a_second_and_a_trip_away(
            offset in -10_000_000_000_000_i64..10_000_000_000_000,
            trip in 0_i64..5_000_000_000,
            times in prop::collection::vec(0_i64..100_000_000_000, 1..20),
        ) {
            let mut times = times;
            times.sort_unstable();
            let found = measured(offset, trip, times);
            prop_assert!((found - offset).abs() <= SECOND + trip);
        }
    }
}
