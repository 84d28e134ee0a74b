//! Schedules in cron's form, as `github.com/robfig/cron/v3` reads its standard one: five fields, or a word such as `@daily`.

use crate::field::go_quote;

use super::{duration, zone};

/// The values of a field, and the names that some of them have, the smallest first.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule.
///
/// # Errors
/// What the reference's parser says of it.
pub fn check(schedule: &str) -> Result<(), String> {
    let mut spec = schedule;
    if let Some(rest) = ["TZ=", "CRON_TZ="].iter().find_map(|prefix| schedule.strip_prefix(prefix)) {
        let Some((name, rest)) = rest.split_once(' ') else {
            // The parser panics, and what it says then is told.
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        zone::check(name).map_err(|why| format!("provided bad location {name}: {why}"))?;
        spec = rest.trim();
    }
    if spec.starts_with('@') {
        return check_word(spec);
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_word(word: &str) -> Result<(), String> {
    if WORDS.contains(&word) {
        return Ok(());
    }
    match word.strip_prefix("@every ") {
        Some(text) => duration::check(text).map_err(|why| format!("failed to parse duration {word}: time: {why}")),
        None => Err(format!("unrecognized descriptor: {word}")),
    }
}

/// `number`, `*`, `number-number`, each with `/step`.
fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let limits: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match limits.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => {
            let number = number_or_name(one, bounds)?;
            (number, number)
        }
        [low, high] => (number_or_name(low, bounds)?, number_or_name(high, bounds)?),
        [low, ..] => {
            number_or_name(low, bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
        [] => return Ok(()),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if limits.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    match bounds.names.iter().zip(bounds.min..).find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        Some((_, value)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let failed = |why| format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", go_quote(text));
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(error) => Err(failed(match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-25
    #[test]
    fn schedules_by_the_table() {
        for fine in [
            "*/5 * * * *",
            "0 0 1 1 *",
            "? ? ? ? ?",
            "1,2,3-5,*/2 0-23/3 1-31 JAN-dec sun,Mon",
            "5/15 * * * *",
            ", * * * *",
            "*-7 * * * *",
            "  0   0 * * 6  ",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Berlin 0 0 * * *",
            "CRON_TZ=UTC @daily",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            ("every day", "expected exactly 5 fields, found 2: [every day]"),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
            (" ", "expected exactly 5 fields, found 0: []"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("-5 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ("* * * * sunday", "failed to parse int from sunday: strconv.Atoi: parsing \"sunday\": invalid syntax"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("@always", "unrecognized descriptor: @always"),
            ("@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
            ("TZ=Mars 0 0 * * *", "provided bad location Mars: unknown time zone Mars"),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ] {
            assert_eq!(check(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}
