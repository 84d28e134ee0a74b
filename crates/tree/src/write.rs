//! Writing JSON as Go's `encoding/json` does, without its care for HTML. The difference to Rust's is in floats: a whole one has
//! no fraction, and only one that is very large or very small has an exponent.

use std::io::Write as _;

use muster_objects::json::is_plain;
use serde_json::Number;

use crate::{Map, Value, float};

impl Value {
    /// Adds the JSON to a text. What was read from a text and not changed is copied from it. Says whether a float was written: it
    /// may read as a whole number.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        let mut floats = false;
        value(out, self, &mut |out, number| {
            floats |= number.is_f64();
            as_go(out, number);
        });
        floats
    }
}

impl Map {
    /// As [`Value::write`].
    pub fn write(&self, out: &mut Vec<u8>) {
        map(out, self, &mut as_go);
    }
}

pub(crate) fn value(out: &mut Vec<u8>, from: &Value, number: &mut impl FnMut(&mut Vec<u8>, &Number)) {
    match from {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(from) => number(out, from),
        Value::String(text) => write_text(out, text),
        Value::Object(from) => map(out, from, number),
        Value::Array(list) => {
            if let Some(text) = list.node().text() {
                out.extend_from_slice(text);
                return;
            }
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                value(out, item, number);
            }
            out.push(b']');
        }
    }
}

fn map(out: &mut Vec<u8>, from: &Map, number: &mut impl FnMut(&mut Vec<u8>, &Number)) {
    if let Some(text) = from.node().text() {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'{');
    for (at, (key, member)) in from.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_text(out, key);
        out.push(b':');
        value(out, member, number);
    }
    out.push(b'}');
}

/// Adds a string to a text, with its quotes.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string into memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

fn as_go(out: &mut Vec<u8>, number: &Number) {
    match number.as_f64().filter(|_| number.is_f64()) {
        // A zero below zero does not survive the reference's storage.
        Some(float) => out.extend_from_slice(float::json(if float == 0.0 { 0.0 } else { float }).as_bytes()),
        None => as_rust(out, number),
    }
}

pub(crate) fn as_rust(out: &mut Vec<u8>, number: &Number) {
    // Writing into memory cannot fail.
    let _ = write!(out, "{number}");
}
