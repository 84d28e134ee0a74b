//! RFC 3339 times in JSON, as Go's `time.Parse` reads them and apimachinery writes them; every year that four digits
//! can write is kept.

/// The layout that apimachinery's `Time` parses by.
const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
/// The layout that apimachinery's `MicroTime` parses by.
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time in canonical form: UTC, to the second (or the microsecond); `None` for Go's zero time.
///
/// # Errors
///
/// The text of Go's `time.ParseError`.
pub(crate) fn canonical(text: &str, micro: bool) -> Result<Option<String>, String> {
    // Most times are canonical already: nothing to parse but the ranges.
    Ok(parse(text, micro)?.canonical(micro))
}

/// The same for a time that protobuf gives as seconds and nanoseconds since 1970.
pub(crate) fn from_parts(seconds: i64, nanos: i64, micro: bool) -> Option<String> {
    let seconds = seconds.saturating_add(nanos.div_euclid(1_000_000_000));
    let nanos = u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default();
    Time { seconds, nanos }.canonical(micro)
}

/// A canonical time as seconds since 1970 and nanoseconds, for protobuf; `None` for anything else.
pub(crate) fn parts(text: &str) -> Option<(i64, i64)> {
    // The layout of seconds takes a fraction of any length too.
    parse(text, false).ok().map(|time| (time.seconds, time.nanos.into()))
}

/// Seconds from 1970 to Go's zero time, the first second of the year 1.
const ZERO: i64 = -62_135_596_800;

struct Time {
    /// Since 1970, in UTC.
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// To the second (or the microsecond); `None` for Go's zero time.
    fn canonical(&self, micro: bool) -> Option<String> {
        (self.seconds != ZERO || self.nanos != 0).then(|| self.format(micro))
    }

    fn format(&self, micro: bool) -> String {
        let (days, second) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if micro {
            let micros = self.nanos / 1000;
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
        } else {
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
        }
    }
}

/// Reads one layout element after the other, as Go does.
struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reader<'a> {
    fn cannot(&self, rest: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(self.whole),
            quoted(self.layout),
            quoted(rest),
            quoted(element)
        )
    }

    fn range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quoted(self.whole))
    }

    fn literal(&mut self, c: char) -> Result<(), String> {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(self.rest, &c.to_string())),
        }
    }

    /// Two digits; one will do where the layout does not insist.
    fn two(&mut self, element: &str, fixed: bool) -> Result<i64, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits == 0 || (fixed && digits == 1) {
            return Err(self.cannot(self.rest, element));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(number.parse().unwrap_or(0))
    }

    fn year(&mut self) -> Result<i64, String> {
        let digits = self.rest.get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let Some(year) = digits.and_then(|d| d.parse().ok()) else {
            return Err(self.cannot(self.rest, "2006"));
        };
        self.rest = &self.rest[4..];
        Ok(year)
    }

    /// A fraction of a second that may follow the seconds, as nanoseconds.
    fn fraction(&mut self) -> u32 {
        let Some(tail) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        let (number, rest) = tail.split_at(digits);
        self.rest = rest;
        nanos(number)
    }

    fn micros(&mut self) -> Result<u32, String> {
        let number = self
            .rest
            .get(..7)
            .and_then(|t| t.strip_prefix(['.', ',']))
            .filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = number else { return Err(self.cannot(self.rest, ".000000")) };
        self.rest = &self.rest[7..];
        Ok(nanos(number))
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bad = self.cannot(self.rest, "Z07:00");
        let text = self.rest.get(..6).ok_or_else(|| bad.clone())?;
        let bytes = text.as_bytes();
        let number = |at: usize| text.get(at..at + 2).filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        let (Some(hours), b':', Some(minutes)) = (number(1), bytes[3], number(4)) else { return Err(bad) };
        let (hours, minutes): (i64, i64) = (hours.parse().unwrap_or(0), minutes.parse().unwrap_or(0));
        if hours > 24 {
            return Err(self.range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.range("time zone offset minute"));
        }
        let offset = hours * 3600 + minutes * 60;
        self.rest = &self.rest[6..];
        match bytes[0] {
            b'+' => Ok(offset),
            b'-' => Ok(-offset),
            _ => Err(bad),
        }
    }
}

fn nanos(digits: &str) -> u32 {
    let mut text: String = digits.chars().take(9).collect();
    while text.len() < 9 {
        text.push('0');
    }
    text.parse().unwrap_or(0)
}

fn parse(text: &str, micro: bool) -> Result<Time, String> {
    let layout = if micro { MICROS } else { SECONDS };
    let mut reader = Reader { whole: text, rest: text, layout };
    let year = reader.year()?;
    reader.literal('-')?;
    let month = reader.two("01", true)?;
    if !(1..=12).contains(&month) {
        return Err(reader.range("month"));
    }
    reader.literal('-')?;
    let day = reader.two("02", true)?;
    reader.literal('T')?;
    let hour = reader.two("15", false)?;
    if hour > 23 {
        return Err(reader.range("hour"));
    }
    reader.literal(':')?;
    let minute = reader.two("04", true)?;
    if minute > 59 {
        return Err(reader.range("minute"));
    }
    reader.literal(':')?;
    let second = reader.two("05", true)?;
    if second > 59 {
        return Err(reader.range("second"));
    }
    let nanos = if micro { reader.micros()? } else { reader.fraction() };
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quoted(text), quoted(reader.rest)));
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=days).contains(&day) {
        return Err(reader.range("day"));
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Ok(Time { seconds, nanos })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date that many days from 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A string in double quotes as Go's `time` writes it: byte by byte where it is not plain.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\x7f' => out.push(c),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("\\x{byte:02x}"))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-06
    #[test]
    fn times_become_utc() {
        for (text, micro, expected) in [
            ("2026-01-01T00:00:00Z", false, Some("2026-01-01T00:00:00Z")),
            ("2026-01-01T00:00:00.999Z", false, Some("2026-01-01T00:00:00Z")),
            ("2026-01-01T01:30:00+01:30", false, Some("2026-01-01T00:00:00Z")),
            ("2024-02-29T23:59:59-00:01", false, Some("2024-03-01T00:00:59Z")),
            ("0001-01-01T00:00:00Z", false, None),
            ("2026-01-01T00:00:00.123456Z", true, Some("2026-01-01T00:00:00.123456Z")),
        ] {
            assert_eq!(canonical(text, micro).as_ref().map(Option::as_deref), Ok(expected), "{text}");
        }
    }

    /// Contract: API-06
    #[test]
    fn errors_are_gos() {
        for (text, micro, expected) in [
            ("xyz", false, r#"parsing time "xyz" as "2006-01-02T15:04:05Z07:00": cannot parse "xyz" as "2006""#),
            ("", false, r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            ("2026-13-01T00:00:00Z", false, r#"parsing time "2026-13-01T00:00:00Z": month out of range"#),
            ("2026-02-30T00:00:00Z", false, r#"parsing time "2026-02-30T00:00:00Z": day out of range"#),
            (
                "2026-01-01",
                false,
                r#"parsing time "2026-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2026-01-01T00:00:00Zx", false, r#"parsing time "2026-01-01T00:00:00Zx": extra text: "x""#),
            (
                "2026-01-01T00:00:00Z",
                true,
                r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
        ] {
            assert_eq!(canonical(text, micro), Err(expected.to_owned()), "{text}");
        }
    }
}
