//! JSON as Go's `encoding/json` writes answers: with its floats, and safe inside HTML.

use std::io::{self, Write};

use muster_tree::float;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// A way to write JSON.
struct Go<F>(F);

/// What Go escapes so that JSON may stand inside HTML.
const HTML: [(char, &str); 5] =
    [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// Where the first character stands that Go escapes.
fn first_of_html(text: &str) -> Option<(usize, (char, &'static str))> {
    text.char_indices().find_map(|(at, c)| Some((at, *HTML.iter().find(|(plain, _)| *plain == c)?)))
}

macro_rules! same_as_inner {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $name<W: ?Sized + Write>(&mut self, to: &mut W, $($argument: $type),*) -> io::Result<()> {
            self.0.$name(to, $($argument),*)
        }
    )*};
}

impl<F: Formatter> Formatter for Go<F> {
    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        // A zero below zero does not survive the reference's storage.
        let value = if value == 0.0 { 0.0 } else { value };
        to.write_all(float::json(value).as_bytes())
    }
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, (plain, escaped))) = first_of_html(rest) {
            to.write_all(&rest.as_bytes()[..at])?;
            to.write_all(escaped.as_bytes())?;
            rest = &rest[at + plain.len_utf8()..];
        }
        to.write_all(rest.as_bytes())
    }
    same_as_inner! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

/// Adds a value to a text; over several lines where it is to be read.
pub fn write_for_html<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T, pretty: bool) {
    // A tree of plain values serialises, and writing into memory cannot fail.
    let _ = match pretty {
        true => value.serialize(&mut Serializer::with_formatter(out, Go(PrettyFormatter::new()))),
        false => value.serialize(&mut Serializer::with_formatter(out, Go(CompactFormatter))),
    };
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-29
    #[test]
    fn floats_are_written_as_go_writes_them() {
        let mut out = Vec::new();
        write_for_html(&mut out, &json!([-0.0, {"a": 1e20}, 1.0]), false);
        assert_eq!(String::from_utf8_lossy(&out), r#"[0,{"a":100000000000000000000},1]"#);
        let mut out = Vec::new();
        write_for_html(&mut out, &json!({"a": [1.0, 2]}), true);
        assert_eq!(String::from_utf8_lossy(&out), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    }

    #[test]
    fn what_html_would_read_is_escaped() {
        let text = "a<b>&amp;\u{2028}\u{2029}\"";
        let mut escaped = Vec::new();
        write_for_html(&mut escaped, text, false);
        assert_eq!(String::from_utf8_lossy(&escaped), r#""a\u003cb\u003e\u0026amp;\u2028\u2029\"""#);
    }

    /// A search of all that is left at each character would take hours.
    #[test]
    fn a_long_text_of_what_is_escaped_is_read_once() {
        let mut escaped = Vec::new();
        write_for_html(&mut escaped, &"<".repeat(2 << 20), false);
        assert_eq!(escaped.len(), 6 * (2 << 20) + 2);
    }
}
