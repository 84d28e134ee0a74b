//! Writing JSON as Go's `encoding/json` does, without its care for HTML. The difference to Rust's is in floats: a whole one has
//! no fraction, and only one that is very large or very small has an exponent.

use std::io::Write as _;

use memchr::memchr2;
use serde_json::Number;

use crate::{List, Map, Value, float};

impl Value {
    /// Adds the JSON to a text. What was read from a text and not changed is copied from it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => write_number(out, number),
            Self::String(text) => write_text(out, text),
            Self::Array(list) => list.write(out),
            Self::Object(map) => map.write(out),
        }
    }
}

impl List {
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.node().text() {
            out.extend_from_slice(text);
            return;
        }
        out.push(b'[');
        for (at, item) in self.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            item.write(out);
        }
        out.push(b']');
    }
}

impl Map {
    /// As [`Value::write`].
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.node().text() {
            out.extend_from_slice(text);
            return;
        }
        out.push(b'{');
        for (at, (key, value)) in self.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_text(out, key);
            out.push(b':');
            value.write(out);
        }
        out.push(b'}');
    }
}

/// Adds a string to a text, with its quotes.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let plain = memchr2(b'"', b'\\', text.as_bytes()).is_none() && text.bytes().all(|byte| byte >= b' ');
    if plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

fn write_number(out: &mut Vec<u8>, number: &Number) {
    // Writing into memory cannot fail.
    let _ = match number.as_f64().filter(|_| number.is_f64()) {
        // A zero below zero does not survive the reference's storage.
        Some(float) => out.write_all(float::json(if float == 0.0 { 0.0 } else { float }).as_bytes()),
        None => write!(out, "{number}"),
    };
}
