//! The two clocks that controllers are told about: wall time, and a clock that only goes forward.
//!
//! Nothing in this crate reads a clock. A [`Timestamp`] is what objects carry; a [`Moment`] is what
//! queues, rate limits and expectations count with, so that a change of the wall clock moves none.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in wall time, in nanoseconds since the Unix epoch.
///
/// Reaches from 1677 to 2262; times outside are moved to the nearest end. `Display` and `Serialize`
/// write what `metav1.Time` writes (`2026-01-02T15:04:05Z`, whole seconds), [`Timestamp::micro`]
/// what `metav1.MicroTime` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self(0);

    /// The time so many nanoseconds after the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The time so many whole seconds after the Unix epoch; saturates.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SECOND)
    }

    /// This time without its fraction of a second: what survives a trip through `metav1.Time`.
    #[must_use]
    pub const fn truncate_to_seconds(self) -> Self {
        Self::from_seconds(self.as_seconds())
    }

    /// How long `earlier` lies before this time; zero where it lies after it.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Signed nanoseconds from `earlier` to this time; saturates.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This time moved by a signed number of nanoseconds; saturates.
    #[must_use]
    pub const fn plus_nanos(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
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
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (civil, _) = Civil::of(*self);
        write!(f, "{civil}Z")
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
        Self(self.0.saturating_sub(nanos))
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
        let (civil, nanos) = Civil::of(self.0);
        write!(f, "{civil}.{:06}Z", nanos / 1_000)
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

/// A date and time of day in the proleptic Gregorian calendar, UTC.
struct Civil {
    year: i64,
    month: u8,
    day: u8,
    second_of_day: u32,
}

impl Civil {
    /// The calendar's view of a time, and the nanoseconds left over.
    fn of(time: Timestamp) -> (Self, u32) {
        let seconds = time.as_seconds();
        let nanos = time.0.rem_euclid(NANOS_PER_SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let civil = Self { year, month, day, second_of_day: u32::try_from(seconds.rem_euclid(86_400)).unwrap_or(0) };
        (civil, u32::try_from(nanos).unwrap_or(0))
    }
}

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.second_of_day;
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            self.year,
            self.month,
            self.day,
            second / 3_600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|+HH:MM|-HH:MM)`. Written by hand, because every pod that is
/// decoded brings several.
fn parse_rfc3339(text: &[u8]) -> Option<Timestamp> {
    let fixed: &[u8; 19] = text.get(..19)?.try_into().ok()?;
    let separators = [fixed[4], fixed[7], fixed[10], fixed[13], fixed[16]];
    if separators != *b"--T::" {
        return None;
    }
    let year = number(&fixed[0..4])?;
    let month = number(&fixed[5..7])?;
    let day = number(&fixed[8..10])?;
    let (hour, minute, second) = (number(&fixed[11..13])?, number(&fixed[14..16])?, number(&fixed[17..19])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let mut scale = NANOS_PER_SECOND;
        for byte in fraction.iter().take(digits.min(9)) {
            scale /= 10;
            nanos += i64::from(byte - b'0') * scale;
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
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    Some(Timestamp(seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos)))
}

/// A decimal number of nothing but digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date, by eras of 400 years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1))
}
