//! JSON as Go's `encoding/json` writes it. The difference to Rust's is in floats: a whole one has no fraction, and only
//! one that is very large or very small has an exponent.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::float;

/// A way to write JSON, with Go's floats.
struct Go<F>(F);

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
        let mut out = Vec::new();
        write(&mut out, &json!([-0.0, {"a": 1e20}, 1.0]));
        assert_eq!(String::from_utf8_lossy(&out), r#"[0,{"a":100000000000000000000},1]"#);
        let mut out = Vec::new();
        write_pretty(&mut out, &json!({"a": [1.0, 2]}));
        assert_eq!(String::from_utf8_lossy(&out), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    }
}
