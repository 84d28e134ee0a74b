//! What YAML 1.1 takes a text for that is not quoted.

/// Whether a plain scalar of this text would be read as a string by YAML 1.1.
pub(super) fn resolves_to_string(text: &str) -> bool {
    const WORDS: [&str; 36] = [
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n",
        "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf",
        ".INF", "+.inf", "+.Inf", "+.INF",
    ];
    if WORDS.contains(&text) || matches!(text, "-.inf" | "-.Inf" | "-.INF") {
        return false;
    }
    match text.as_bytes().first() {
        Some(b'.') => !is_yaml_float(text),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            !(is_timestamp(text) || is_go_int(&plain) || is_yaml_float(&plain) || is_base_60(text))
        }
        _ => true,
    }
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if let Some(exponent) = exponent
        && !digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
    {
        return false;
    }
    match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    }
}

/// What Go's `strconv.ParseInt(s, 0, 64)` or `ParseUint` reads, underscores aside.
fn is_go_int(text: &str) -> bool {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (digits, radix) = if let Some(digits) = lower.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (digits, 8)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (&lower[1..], 8)
    } else {
        (lower.as_str(), 10)
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(number) if negative => number <= 1 << 63,
        // `+` is read by the signed reader only.
        Ok(number) if text.starts_with('+') => i64::try_from(number).is_ok(),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let sexagesimal = |part: &str| match part.as_bytes() {
        [a] => a.is_ascii_digit(),
        [a, b] => matches!(a, b'0'..=b'5') && b.is_ascii_digit(),
        _ => false,
    };
    match rest.split_last() {
        None => false,
        Some((last, middle)) => {
            let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
            middle.iter().all(|part| sexagesimal(part))
                && sexagesimal(last)
                && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        }
    }
}

/// A date, or a date and time, in the four forms that the real server's YAML reads.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, rest) = rest.split_at(day_end);
    let within = |part: &str, low: u32, high: u32| {
        (1..=2).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|n| (low..=high).contains(&n))
    };
    let days = |month: u32, year: u32| match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    };
    if !within(month, 1, 12) {
        return false;
    }
    let last = days(month.parse().unwrap_or(1), year.parse().unwrap_or(1));
    if !within(day, 1, last) {
        return false;
    }
    let (time, zoned) = match rest.as_bytes().first() {
        None => return true,
        Some(b'T' | b't') => (&rest[1..], true),
        Some(b' ') => (&rest[1..], false),
        Some(_) => return false,
    };
    let time = if zoned {
        match time.strip_suffix('Z') {
            Some(time) => time,
            None => {
                let Some(at) = time.rfind(['+', '-']) else { return false };
                let (time, zone) = time.split_at(at);
                let bytes = zone.as_bytes();
                let fits =
                    bytes.len() == 6 && bytes[3] == b':' && within(&zone[1..3], 0, 24) && within(&zone[4..6], 0, 60);
                if !fits {
                    return false;
                }
                time
            }
        }
    } else {
        time
    };
    let (time, fraction) = time.split_once(['.', ',']).unwrap_or((time, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let parts: Vec<&str> = time.split(':').collect();
    matches!(parts.as_slice(), [h, m, s] if within(h, 0, 23) && within(m, 0, 59) && within(s, 0, 59))
}
