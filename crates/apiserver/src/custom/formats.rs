//! The formats of texts and numbers that schemas may name, as the reference checks them.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

use super::props::Props;
use crate::cel::duration;
use crate::validation::ip::{cidr_is_ipv6, parse_sloppy};
use crate::validation::name;

/// A check of a text.
type Check = fn(&str) -> bool;

/// The formats of texts, without the dashes of their names.
const FORMATS: &[(&str, Check)] = &[
    ("bsonobjectid", is_object_id),
    ("uri", is_request_uri),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", |text| parse_sloppy(text).is_some() && text.contains('.')),
    ("ipv6", |text| text.contains(':') && parse_sloppy(text).is_some()),
    ("cidr", |text| cidr_is_ipv6(text).is_some()),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some('3'))),
    ("uuid4", |text| is_uuid(text, Some('4'))),
    ("uuid5", |text| is_uuid(text, Some('5'))),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| PATTERNS.ssn.is_match(text)),
    ("hexcolor", |text| PATTERNS.hex_color.is_match(text)),
    ("rgbcolor", |text| PATTERNS.rgb_color.is_match(text)),
    ("byte", |text| PATTERNS.base64.is_match(text)),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |text| name::is_dns1123_label(text).is_empty()),
    ("k8slongname", |text| name::is_dns1123_subdomain(text).is_empty()),
];

/// Whether a text is of a format; `None` for an unknown format.
#[must_use]
pub fn check(format: &str, text: &str) -> Option<bool> {
    let plain = format.replace('-', "");
    FORMATS.iter().find(|(name, _)| *name == plain).map(|(_, check)| check(text))
}

/// Whether a schema's format is one that is checked.
#[must_use]
pub fn is_known(props: &Props) -> bool {
    if props.format.is_empty() {
        return true;
    }
    let kind = if props.int_or_string { "" } else { props.kind.as_str() };
    match kind {
        "" | "string" => check(&props.format, "").is_some(),
        "integer" => matches!(props.format.as_str(), "int32" | "int64"),
        "number" => matches!(props.format.as_str(), "float" | "double"),
        _ => false,
    }
}

struct Patterns {
    credit_card: Regex,
    ssn: Regex,
    hex_color: Regex,
    rgb_color: Regex,
    base64: Regex,
    host: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    let compiled = |text: &str| Regex::new(text).expect("an expression of this program");
    Patterns {
        credit_card: compiled(
            "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
        ),
        ssn: compiled("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
        hex_color: compiled("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
        rgb_color: compiled(&format!(r"^rgb\({part},{part},{part}\)$")),
        base64: compiled("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
        host: compiled(
            r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\p{S}\p{L}-]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
        ),
    }
});

fn is_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A path from the root, or an absolute URI.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b.is_ascii_control()) {
        return false;
    }
    crate::cel::url::parse(text).is_some()
}

/// An address as Go's `net/mail` reads one: bare, or in angle brackets behind a name.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.rsplit_once('<') {
        Some((name, rest)) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-/=?^_`{|}~\"".contains(c) || !c.is_ascii();
            match rest.strip_suffix('>') {
                Some(address) if name.chars().all(plain) => address,
                _ => return false,
            }
        }
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii())
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']'));
    (quoted || local.split('.').all(atom))
        && literal.map_or_else(|| domain.split('.').all(atom), |ip| ip.parse::<IpAddr>().is_ok())
}

fn is_hostname(text: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && part.len() <= 63;
    PATTERNS.host.is_match(text) && text.len() <= 255 && text.split('.').all(fits)
}

/// Six, eight or twenty bytes, by colons, dashes or dots.
fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let groups = |separator: char, digits: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, digits))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, more)) = rest.split_at_checked(length) else { return false };
        let first = part.chars().next().unwrap_or_default();
        let right = match (at, version) {
            (2, Some(version)) => first == version,
            (3, Some('4' | '5')) => matches!(first, '8' | '9' | 'a' | 'b' | 'A' | 'B'),
            _ => true,
        };
        if !right || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = more;
    }
    rest.is_empty()
}

/// The digits of a number that may be written with spaces and dashes.
fn digits(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = digits(text);
    let value = |(at, c): (usize, char)| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let Some(values) = text.chars().enumerate().map(value).collect::<Option<Vec<u32>>>() else { return false };
    values.len() == 10 && values.iter().zip(1_u32..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = digits(text);
    let Some(values) = text.chars().map(|c| c.to_digit(10)).collect::<Option<Vec<u32>>>() else { return false };
    let weighed = |(at, value): (usize, &u32)| if at % 2 == 0 { *value } else { value * 3 };
    values.len() == 13 && values.iter().enumerate().map(weighed).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(at, value): (usize, u32)| match (at % 2, value * 2) {
        (0, _) => value,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    };
    PATTERNS.credit_card.is_match(&text)
        && text.chars().rev().filter_map(|c| c.to_digit(10)).enumerate().map(doubled).sum::<u32>() % 10 == 0
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && muster_objects::time::Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// A duration of Go, or one with the units of Scala.
fn is_duration(text: &str) -> bool {
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-z\u{b5}]+)").expect("an expression of this program"));
    const EXACT: &[&str] = &["ns", "us", "\u{b5}s", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const PREFIXES: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if duration::parse(text).is_ok() {
        return true;
    }
    let mut found = false;
    for part in PART.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        found |= EXACT.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
    }
    found
}

fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
            .expect("an expression of this program")
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}
