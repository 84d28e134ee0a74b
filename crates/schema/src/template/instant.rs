//! Times as instants, for comparing what is written in different ways.

/// Seconds from 1970 of a time in RFC 3339, and what follows its whole seconds. `None` for what is no
/// such time.
pub(super) fn instant(text: &str) -> Option<(i64, &str)> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<i64>().ok() } else { None }
    };
    let bytes = text.as_bytes();
    let separated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separated.iter().any(|(at, c)| bytes.get(*at) != Some(c)) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone);
    let east = match zone.as_bytes() {
        b"Z" => 0,
        [sign, _, _, b':', _, _] => {
            let at = text.len() - zone.len();
            let east = number(at + 1..at + 3)? * 3600 + number(at + 4..at + 6)? * 60;
            if *sign == b'-' { -east } else { east }
        }
        _ => return None,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - east;
    Some((seconds, fraction))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March put the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
