//! Lengths of time as Go writes and reads them: `1h2m3.5s`.

use crate::field::go_quote;

/// Reads a duration, in nanoseconds.
///
/// # Errors
/// What Go's `time.ParseDuration` says, without its `time: `.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("invalid duration {}", go_quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let after_whole = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let whole = &rest[..rest.len() - after_whole.len()];
        let (fraction, after) = match after_whole.strip_prefix('.') {
            Some(digits) => {
                let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
                (&digits[..digits.len() - after.len()], after)
            }
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit = &after[..after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len())];
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", go_quote(text)));
        }
        let Some(scale) = scale(unit) else {
            return Err(format!("unknown unit {} in duration {}", go_quote(unit), go_quote(text)));
        };
        let number = |digits: &str| -> Result<i128, String> {
            if digits.is_empty() { Ok(0) } else { digits.parse::<i128>().map_err(|_| invalid()) }
        };
        total += number(whole)?.saturating_mul(scale);
        // More digits than nanoseconds have do not count.
        let fraction = &fraction[..fraction.len().min(18)];
        let below = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or_default());
        total += number(fraction)? * scale / below;
        if total > i128::from(i64::MAX) + 1 {
            return Err(invalid());
        }
        rest = &after[unit.len()..];
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

fn scale(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A duration as cel-go turns it into a text: seconds.
#[must_use]
pub fn seconds(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "as the reference, which divides floats")]
    let seconds = nanos as f64 / 1e9;
    format!("{seconds}s")
}
