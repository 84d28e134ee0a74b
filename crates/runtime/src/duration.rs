//! Durations as Kubernetes users write them: `200ms`, `1m30s`, `0`.

use std::time::Duration;

/// What is wrong with a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: expected a number with a unit, such as 200ms, 1.5s or 1m30s")]
pub struct DurationError(pub String);

/// Reads a duration in Go's notation: `1h2m3.5s`, `200ms`, `0`. Never negative.
///
/// # Errors
///
/// Where the text is something else.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit_end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        rest = &rest[unit_end..];
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-03
    #[test]
    fn durations_are_read_and_nonsense_is_not() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("200ms", 200), ("1.5s", 1500), ("1m30s", 90_000), ("2h", 7_200_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1 s", "1d", "abc", "1..2s", "1e400s"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }
}
