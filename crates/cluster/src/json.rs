//! Writing small JSON bodies straight into text: the hot paths build no trees.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, DefaultHasher};

use serde::de::{self, Deserialize, Deserializer};

/// A map for look-ups by key. Its hasher is fixed, so that no history depends on a random seed; it is
/// still never iterated where an order could be seen.
pub(crate) type FixedMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// `"key":"text"`, with a comma before it where `first` is false.
pub(crate) fn push_field(out: &mut String, first: bool, key: &str, text: &str) {
    if !first {
        out.push(',');
    }
    out.push('"');
    out.push_str(key);
    out.push_str("\":");
    push_string(out, text);
}

/// A string borrowed from the JSON wherever it holds no escape.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    /// A copy of its own.
    pub(crate) fn as_box(&self) -> Box<str> {
        Box::from(&*self.0)
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A list that may be absent or null.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A struct that may be absent or null.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-03
    #[test]
    fn a_written_string_reads_back_as_itself() {
        for text in ["", "plain", "a\"b\\c", "line\nfeed\ttab\r", "\u{1}\u{1f}", "späte Ünïcode ☃"] {
            let mut out = String::new();
            push_string(&mut out, text);
            assert_eq!(serde_json::from_str::<String>(&out).expect("JSON"), text);
        }
    }
}
