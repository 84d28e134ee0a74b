//! Durations as Go writes them: `1h30m`, `500ms`.

use crate::field::go_quote;

/// Checks that a text is a duration.
///
/// # Errors
/// What Go's `time.ParseDuration` has against it, without the `time: ` in front.
pub fn check(text: &str) -> Result<(), String> {
    let invalid = || format!("invalid duration {}", go_quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = number.strip_prefix('.').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        let after = fraction.unwrap_or(number);
        let digits = rest[..rest.len() - after.len()].chars().filter(char::is_ascii_digit).count();
        if digits == 0 {
            return Err(invalid());
        }
        let unit = &after[..after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len())];
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", go_quote(text)));
        }
        if !matches!(unit, "ns" | "us" | "\u{b5}s" | "\u{3bc}s" | "ms" | "s" | "m" | "h") {
            return Err(format!("unknown unit {} in duration {}", go_quote(unit), go_quote(text)));
        }
        rest = &after[unit.len()..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_by_go() {
        for text in ["5s", "-1s", "+1h2m3.5s", "0", "-0", "34.5s", ".5ms", "1.s", "1\u{b5}s", "61s"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("zz", "invalid duration \"zz\""),
            ("-", "invalid duration \"-\""),
            (".s", "invalid duration \".s\""),
            ("5", "missing unit in duration \"5\""),
            ("1h5", "missing unit in duration \"1h5\""),
            ("5x", "unknown unit \"x\" in duration \"5x\""),
            ("5 s", "unknown unit \" s\" in duration \"5 s\""),
        ] {
            assert_eq!(check(text), Err(why.to_owned()), "{text}");
        }
    }
}
