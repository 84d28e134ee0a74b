//! The rules for names, label keys and label values, in apimachinery's own words.
//!
//! Each check answers with the messages that Kubernetes shows; none means that the text is valid.

use std::fmt::{self, Write as _};

/// The longest DNS subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_MAX_LENGTH: usize = 253;
/// The longest label value, and the longest name part of a label key, in bytes.
pub const LABEL_VALUE_MAX_LENGTH: usize = 63;

const LABEL_KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
                                or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                              or '.', and must start and end with an alphanumeric character";

/// What is wrong with a label key: an optional DNS subdomain and a slash, then up to 63 characters.
#[must_use]
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns1123_subdomain_errors(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let rule = format_rule(LABEL_KEY_RULE, LABEL_KEY_FORMAT, &["MyName", "my.name", "123-abc"]);
            errors.push(format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return errors;
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_VALUE_MAX_LENGTH {
        errors.push(format!("name part must be no more than {LABEL_VALUE_MAX_LENGTH} bytes"));
    }
    if !is_label_word(name) {
        let rule = format_rule(LABEL_KEY_RULE, LABEL_KEY_FORMAT, &["MyName", "my.name", "123-abc"]);
        errors.push(format!("name part {rule}"));
    }
    errors
}

/// What is wrong with a label value: empty, or up to 63 characters.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_VALUE_MAX_LENGTH {
        errors.push(format!("must be no more than {LABEL_VALUE_MAX_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_label_word(value) {
        let format = format!("({LABEL_KEY_FORMAT})?");
        errors.push(format_rule(LABEL_VALUE_RULE, &format, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// What is wrong with a DNS subdomain, the form of most objects' names.
#[must_use]
pub fn dns1123_subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(format!("must be no more than {DNS1123_SUBDOMAIN_MAX_LENGTH} bytes"));
    }
    if !name.split('.').all(is_dns1123_word) {
        errors.push(format_rule(SUBDOMAIN_RULE, SUBDOMAIN_FORMAT, &["example.com"]));
    }
    errors
}

/// Whether a name is a DNS subdomain of at most 253 bytes.
#[must_use]
pub fn is_dns1123_subdomain(name: &str) -> bool {
    name.len() <= DNS1123_SUBDOMAIN_MAX_LENGTH && name.split('.').all(is_dns1123_word)
}

/// The `generateName` of the pods of an owner: `<owner>-`, or without the dash where that would be
/// no valid prefix (RS-10).
#[must_use]
pub fn pod_name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    // A prefix is judged as if a last dash, and the character before it, were a letter.
    let judged = match prefix.len() {
        0 | 1 => prefix.clone(),
        length => prefix.get(..length - 2).map_or_else(|| prefix.clone(), |head| format!("{head}a")),
    };
    if is_dns1123_subdomain(&judged) { prefix } else { owner.to_owned() }
}

/// Whether a text has the form of a label key's name part: letters and digits at both ends.
fn is_label_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_dns1123_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

fn format_rule(rule: &str, format: &str, examples: &[&str]) -> String {
    let mut text = format!("{rule} (e.g. ");
    for (at, example) in examples.iter().enumerate() {
        let or = if at == 0 { "" } else { " or " };
        // Writing into a String cannot fail.
        let _ = write!(text, "{or}'{example}', ");
    }
    text + "regex used for validation is '" + format + "')"
}

/// A text in double quotes as Go's `%q` writes it; Kubernetes quotes bad values so.
#[derive(Debug, Clone, Copy)]
pub struct GoQuoted<'a>(pub &'a str);

impl fmt::Display for GoQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{b}' => f.write_str("\\v")?,
                c if c < ' ' || c == '\u{7f}' => write!(f, "\\x{:02x}", u32::from(c))?,
                c if is_unprintable(c) && u32::from(c) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(c))?,
                c if is_unprintable(c) => write!(f, "\\U{:08x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// What Rust's own debug form would escape, bar the quotes: the tables of both languages agree on
/// everything that a user is likely to type.
fn is_unprintable(c: char) -> bool {
    c != '\'' && c.escape_debug().len() > 1
}
