//! JSON as Go's `encoding/json` writes it. The difference to Rust's is in floats: a whole one has no fraction, and only
//! one that is very large or very small has an exponent.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// A way to write JSON, with Go's floats.
struct Go<F>(F);

/// A float as Go writes it.
fn write_float<W: ?Sized + Write>(to: &mut W, number: f64) -> io::Result<()> {
    let size = number.abs();
    if size == 0.0 {
        // A zero below zero does not survive the reference's storage.
        return to.write_all(b"0");
    }
    if (1e-6..1e21).contains(&size) {
        return write!(to, "{number}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => write!(to, "{digits}e+{exponent}"),
        _ => to.write_all(text.as_bytes()),
    }
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
        write_float(to, value)
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

/// Adds a value to a text.
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // A tree of plain values serialises, and writing into memory cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(out, Go(CompactFormatter)));
}

/// As [`write()`], over several lines.
pub fn write_pretty(out: &mut Vec<u8>, value: &Value) {
    let _ = value.serialize(&mut Serializer::with_formatter(out, Go(PrettyFormatter::new())));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: API-29
    #[test]
    fn floats_are_written_as_go_writes_them() {
        for (number, expected) in [
            (1.0, "1"),
            (-0.0, "0"),
            (1.5, "1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.25e23, "-1.25e+23"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (12_345_678_901_234_567_890.0, "12345678901234567000"),
            (123_456_789.125, "123456789.125"),
        ] {
            let mut out = Vec::new();
            write(&mut out, &json!([number, {"a": number}]));
            assert_eq!(String::from_utf8_lossy(&out), format!("[{expected},{{\"a\":{expected}}}]"));
        }
        let mut out = Vec::new();
        write_pretty(&mut out, &json!({"a": [1.0, 2]}));
        assert_eq!(String::from_utf8_lossy(&out), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    }
}
