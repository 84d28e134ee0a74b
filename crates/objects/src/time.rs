//! The two clocks that controllers are told about: wall time, and a clock that only goes forward.
//!
//! Nothing in this crate reads a clock. A [`Timestamp`] is what objects carry; a [`Moment`] is what
//! queues, rate limits and expectations count with, so that a change of the wall clock moves none.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

const UNIX_EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// A point in wall time, in nanoseconds since the Unix epoch.
///
/// Reaches from 1677 to 2262; times outside are moved to the nearest end. `Display` and `Serialize`
/// write what `metav1.Time` writes (`2026-01-02T15:04:05Z`, whole seconds), [`Timestamp::micro`]
/// what `metav1.MicroTime` writes.
///
/// An `Option` of one takes eight bytes too: a cached pod has four.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

/// What is added to the nanoseconds, so that they are in order without a sign. The sum is never zero.
const OFFSET: u64 = 1 << 63;

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timestamp").field(&self.as_nanos()).finish()
    }
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self::from_nanos(0);

    /// The time so many nanoseconds after the Unix epoch; the least number of all is taken for the next one.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        match NonZeroU64::new(nanos.cast_unsigned() ^ OFFSET) {
            Some(sum) => Self(sum),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// The time so many whole seconds after the Unix epoch; saturates.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_nanos(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        (self.0.get() ^ OFFSET).cast_signed()
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.as_nanos().div_euclid(NANOS_PER_SECOND)
    }

    /// This time without its fraction of a second: what survives a trip through `metav1.Time`.
    #[must_use]
    pub const fn truncate_to_seconds(self) -> Self {
        Self::from_seconds(self.as_seconds())
    }

    /// How long `earlier` lies before this time; zero where it lies after it.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let nanos = i128::from(self.as_nanos()) - i128::from(earlier.as_nanos());
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Signed nanoseconds from `earlier` to this time; saturates.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.as_nanos().saturating_sub(earlier.as_nanos())
    }

    /// This time moved by a signed number of nanoseconds; saturates.
    #[must_use]
    pub const fn plus_nanos(self, nanos: i64) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(nanos))
    }

    /// Parses an RFC 3339 time, with or without a fraction and with any offset, as Go's
    /// `time.Parse(time.RFC3339, ..)` does.
    ///
    /// # Errors
    ///
    /// Where the text is no such time.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        parse_rfc3339(text.as_bytes()).ok_or_else(|| TimestampError { text: text.into() })
    }

    /// The form with six digits of a fraction that `metav1.MicroTime` is written in:
    /// `2026-01-02T15:04:05.000000Z`.
    #[must_use]
    pub const fn micro(self) -> Micro {
        Micro(self)
    }

    fn calendar(self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(i128::from(self.as_nanos())).expect("jiff reaches from year -9999 to 9999")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.calendar())
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        self.plus_nanos(nanos)
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self::from_nanos(self.as_nanos().saturating_sub(nanos))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rfc3339;
        impl Visitor<'_> for Rfc3339 {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Rfc3339)
    }
}

/// A [`Timestamp`] shown, and serialised, with microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micro(pub Timestamp);

impl fmt::Display for Micro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0.calendar())
    }
}

impl Serialize for Micro {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Micro {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self)
    }
}

/// A text that is no RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time")]
pub struct TimestampError {
    /// The text.
    pub text: Box<str>,
}

/// A point on a clock that only goes forward, in nanoseconds since an origin that its owner chose.
///
/// Arithmetic with [`Duration`] saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// The moment so many nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long `earlier` lies before this moment; zero where it lies after it.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM|-HH:MM)`. The calendar is jiff's; the text is read here, because Go takes
/// less than jiff does (no leap second, no lower case, no space for the `T`) and more (offsets up to `24:60`), and
/// because every pod that is decoded brings several.
fn parse_rfc3339(text: &[u8]) -> Option<Timestamp> {
    let fixed: &[u8; 19] = text.get(..19)?.try_into().ok()?;
    let separators = [fixed[4], fixed[7], fixed[10], fixed[13], fixed[16]];
    if separators != *b"--T::" {
        return None;
    }
    let year = i16::try_from(number(&fixed[0..4])?).ok()?;
    let part = |at: usize| i8::try_from(number(&fixed[at..at + 2])?).ok();
    let (month, day, hour, minute, second) = (part(5)?, part(8)?, part(11)?, part(14)?, part(17)?);
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let mut scale = 1_000_000_000;
        for byte in fraction.iter().take(digits.min(9)) {
            scale /= 10;
            nanos += i32::from(byte - b'0') * scale;
        }
        rest = &fraction[digits..];
    }
    let offset = match rest {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let hours = number(&[*h1, *h2])?;
            let minutes = number(&[*m1, *m2])?;
            if hours > 24 || minutes > 60 {
                return None;
            }
            let seconds = hours * 3_600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let civil = DateTime::new(year, month, day, hour, minute, second, nanos).ok()?;
    let nanos = (civil.duration_since(UNIX_EPOCH) - SignedDuration::from_secs(offset)).as_nanos();
    Some(Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })))
}

/// A decimal number of nothing but digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_order_and_takes_eight_bytes_where_it_may_be_missing() {
        assert_eq!(size_of::<Option<Timestamp>>(), 8);
        let nanos = [i64::MIN + 1, -1, 0, 1, i64::MAX];
        assert_eq!(nanos.map(|nanos| Timestamp::from_nanos(nanos).as_nanos()), nanos);
        assert!(nanos.map(Timestamp::from_nanos).is_sorted());
        assert_eq!(Timestamp::from_nanos(i64::MIN).as_nanos(), i64::MIN + 1, "the nearest end");
        assert_eq!(format!("{:?}", Timestamp::from_nanos(-7)), "Timestamp(-7)");
    }
}
