//! What a name may be: DNS labels and subdomains, qualified names, environment variables, ports, and
//! the sentences that say what is wrong with one.
//!
//! Each function gives the complaints about a value, none where it is fine. Upstream: apimachinery's
//! `util/validation` and `api/validate/content`.

use super::Path;
use super::ip::validate_strict_ip;
use crate::model::NameRule;

/// Complaints about a value; none where it is fine.
pub type Complaints = Vec<String>;

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_MESSAGE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// What the Common Expression Language keeps for itself.
pub const CEL_WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name can stand in an expression for a variable.
#[must_use]
pub fn is_cel_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !CEL_WORDS.contains(&name)
}

/// Complaints about an object's name. A prefix (`generateName`) may end in a dash.
#[must_use]
pub fn by_rule(rule: NameRule, name: &str, prefix: bool) -> Complaints {
    let masked;
    let masks = !matches!(rule, NameRule::PathSegment | NameRule::Ip);
    let name = if prefix && masks && name.len() > 1 && name.ends_with('-') {
        // Upstream drops two characters and puts one: a known slip that clients can see.
        let mut cut = name.len() - 2;
        while !name.is_char_boundary(cut) {
            cut -= 1;
        }
        masked = format!("{}a", &name[..cut]);
        masked.as_str()
    } else {
        name
    };
    match rule {
        NameRule::Subdomain => is_dns1123_subdomain(name),
        NameRule::Label => is_dns1123_label(name),
        NameRule::Label1035 => is_dns1035_label(name),
        NameRule::PathSegment => is_path_segment(name, prefix),
        NameRule::Ip => {
            let mut errors = Vec::new();
            validate_strict_ip(name, &Path::new("name"), &mut errors);
            errors.into_iter().map(|error| error.detail).collect()
        }
    }
}

/// A lowercase RFC 1123 label of at most 63 bytes.
#[must_use]
pub fn is_dns1123_label(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push(max_characters(63));
    }
    if !is_label(value) {
        if is_subdomain(value) {
            out.push("must not contain dots".to_owned());
        } else {
            out.push(regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            ));
        }
    }
    out
}

/// A lowercase RFC 1123 subdomain of at most 253 bytes.
#[must_use]
pub fn is_dns1123_subdomain(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    if !is_subdomain(value) {
        out.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_FMT, &["example.com"]));
    }
    out
}

/// A subdomain behind `*.`, as hosts with a wildcard are written.
#[must_use]
pub fn is_wildcard_subdomain(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        out.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN_FMT}"),
            &["*.example.com"],
        ));
    }
    out
}

/// A subdomain that may also hold underscores (DNS search paths).
#[must_use]
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    let good = value.split('.').all(|part| {
        let part = part.strip_prefix('_').unwrap_or(part);
        bounded(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == b'-' || c == b'_')
    });
    if !good {
        out.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    out
}

/// An RFC 1035 label of at most 63 bytes: it starts with a letter.
#[must_use]
pub fn is_dns1035_label(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push(max_characters(63));
    }
    if !(is_label(value) && value.as_bytes().first().is_some_and(u8::is_ascii_lowercase)) {
        out.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    out
}

/// One segment of a URL's path, or the beginning of one.
#[must_use]
pub fn is_path_segment(value: &str, prefix: bool) -> Complaints {
    if !prefix && (value == "." || value == "..") {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"].iter().filter(|bad| value.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// A label's key: a name with an optional DNS prefix.
#[must_use]
pub fn is_qualified_name(value: &str) -> Complaints {
    let mut out = Vec::new();
    let mut parts = value.split('/');
    let first = parts.next().unwrap_or_default();
    let name = match (parts.next(), parts.next()) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                if first.len() > 253 {
                    out.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain(first) {
                    out.push(format!(
                        "prefix part {}",
                        regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_FMT, &["example.com"])
                    ));
                }
            }
            name
        }
        _ => {
            out.push(format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_error(QUALIFIED_MESSAGE, QUALIFIED_FMT, &["MyName", "my.name", "123-abc"])
            ));
            return out;
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        out.push(format!(
            "name part {}",
            regex_error(QUALIFIED_MESSAGE, QUALIFIED_FMT, &["MyName", "my.name", "123-abc"])
        ));
    }
    out
}

/// A label's value: empty, or at most 63 bytes of the qualified alphabet.
#[must_use]
pub fn is_label_value(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified(value) {
        out.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    out
}

/// A C identifier.
#[must_use]
pub fn is_c_identifier(value: &str) -> Complaints {
    let bytes = value.as_bytes();
    let good = bytes.first().is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_')
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
    if good {
        return Vec::new();
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable, by the relaxed rule (printable ASCII but for `=`).
#[must_use]
pub fn is_relaxed_env_name(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.is_empty() {
        out.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|c| !(0x20..0x7f).contains(&c) || c == b'=') {
        out.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    out
}

/// The key of a ConfigMap's or Secret's data.
#[must_use]
pub fn is_config_map_key(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    if value.is_empty() || !value.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_')) {
        out.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match value {
        "." => out.push("must not be '.'".to_owned()),
        ".." => out.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
    out
}

/// The name of an HTTP header.
#[must_use]
pub fn is_http_header_name(value: &str) -> Complaints {
    if !value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// The name of a container's port.
#[must_use]
pub fn is_port_name(value: &str) -> Complaints {
    let mut out = Vec::new();
    if value.len() > 15 {
        out.push(max_characters(15));
    }
    if value.is_empty() || !value.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-') {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

/// A port number, 1 to 65535.
#[must_use]
pub fn is_port_number(value: i64) -> Complaints {
    if (1..=65535).contains(&value) { Vec::new() } else { vec![inclusive_range(1, 65535)] }
}

/// A percentage such as `25%`.
#[must_use]
pub fn is_percent(value: &str) -> Complaints {
    if value.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit())) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// A user or group id, 0 to 2^31 - 1.
#[must_use]
pub fn is_unix_id(value: i64) -> Complaints {
    if (0..=i64::from(i32::MAX)).contains(&value) { Vec::new() } else { vec![inclusive_range(0, i64::from(i32::MAX))] }
}

/// `must be between lo and hi, inclusive`
#[must_use]
pub fn inclusive_range(lo: i64, hi: i64) -> String {
    format!("must be between {lo} and {hi}, inclusive")
}

/// `must be no more than n characters`
#[must_use]
pub fn max_characters(n: usize) -> String {
    format!("must be no more than {n} characters")
}

/// A message with examples and the expression that was used.
#[must_use]
pub fn regex_error(message: &str, expression: &str, examples: &[&str]) -> String {
    let mut out = message.to_owned();
    out.push_str(" (");
    for (i, example) in examples.iter().enumerate() {
        out.push_str(if i == 0 { "e.g. " } else { " or " });
        out.push('\'');
        out.push_str(example);
        out.push_str("', ");
    }
    out.push_str("regex used for validation is '");
    out.push_str(expression);
    out.push_str("')");
    out
}

/// Whether the value has the form of an RFC 1123 label, of any length.
fn is_label(value: &str) -> bool {
    bounded(value, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == b'-')
}

/// Whether the value has the form of an RFC 1123 subdomain, of any length.
fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
    bounded(value, |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.'))
}

/// Not empty, of the two alphabets, and both ends of the first.
fn bounded(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [one] => edge(*one),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|c| edge(*c) || inner(*c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-14
    #[test]
    fn names_that_are_fine_and_names_that_are_not() {
        let longest = "a".repeat(253);
        for good in ["a", "a-b", "1", "a.b-c.d", longest.as_str()] {
            assert!(is_dns1123_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a..b", "a_b", ".a", "a b", "ä"] {
            assert_eq!(is_dns1123_subdomain(bad).len(), 1, "{bad}");
        }
        assert_eq!(is_dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        assert!(is_dns1035_label("1a").len() == 1 && is_dns1035_label("a1").is_empty());
        assert_eq!(is_path_segment("..", false), ["may not be '..'"]);
        assert_eq!(is_path_segment("a/b%", false), ["may not contain '/'", "may not contain '%'"]);
    }

    /// Contract: API-14
    #[test]
    fn a_generated_names_prefix_may_end_in_a_dash() {
        assert!(by_rule(NameRule::Subdomain, "gen-", true).is_empty());
        assert_eq!(by_rule(NameRule::Subdomain, "gen-", false).len(), 1);
        assert_eq!(by_rule(NameRule::Subdomain, "-", true).len(), 1);
        assert!(by_rule(NameRule::Subdomain, "ä-", true).len() <= 1);
    }

    /// Contract: API-14
    #[test]
    fn label_keys_and_values() {
        for good in ["a", "A.b_c-1", "example.com/x", "a.b/c"] {
            assert!(is_qualified_name(good).is_empty(), "{good}");
        }
        assert_eq!(
            is_qualified_name(""),
            [
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        );
        assert_eq!(is_qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(is_qualified_name("a/b/c").len(), 1);
        assert!(is_label_value("").is_empty());
        assert_eq!(is_label_value(&"x".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(is_label_value("a/b").len(), 1);
    }

    /// Contract: API-17
    #[test]
    fn port_names() {
        let cases: &[(&str, &[&str])] = &[
            ("http", &[]),
            ("a", &[]),
            ("8080", &["must contain at least one letter (a-z)"]),
            ("a--b", &["must not contain consecutive hyphens"]),
            ("-a", &["must not begin or end with a hyphen"]),
            ("abcdefghijklmnop", &["must be no more than 15 characters"]),
            (
                "HTTP",
                &[
                    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "must contain at least one letter (a-z)",
                ],
            ),
        ];
        for (name, want) in cases {
            assert_eq!(is_port_name(name), *want, "{name}");
        }
    }
}
