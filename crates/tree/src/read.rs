//! Reading one level of JSON that is known to be right: as [`crate::Value::write`] wrote it, without a space.

use std::str;

use bytes::Bytes;
use muster_objects::json::{end_of_container, end_of_string};
use serde_json::Number;

use crate::members::Members;
use crate::node::{Content, Node};
use crate::{List, Map, Text, Value};

/// So deep below what was stored each level is read by itself, and passes over all that is below it; deeper ones are read at once.
const DEEP: usize = 24;

impl Content for Vec<Value> {
    const NOTHING: &'static Self = &Self::new();

    fn read(text: &Bytes, depth: usize) -> Self {
        Reader::new(text, 0, depth).elements()
    }

    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

impl Content for Members {
    const NOTHING: &'static Self = &Self::Few(Vec::new());

    fn read(text: &Bytes, depth: usize) -> Self {
        Reader::new(text, 0, depth).sorted()
    }

    fn is_nothing(&self) -> bool {
        self.len() == 0
    }
}

/// Where a level is read. What is not as it should be reads as null, and to the end.
pub(crate) struct Reader<'a> {
    text: &'a Bytes,
    /// The same.
    chars: &'a str,
    at: usize,
    /// How deep the level is.
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a Bytes, at: usize, depth: usize) -> Self {
        // To look through a whole text takes less than to look through each of its strings.
        Self { text, chars: str::from_utf8(text).unwrap_or_default(), at, depth }
    }

    /// Of an object's text: its members, in the order in which they stand there.
    pub(crate) fn members(text: &'a Bytes, depth: usize) -> impl Iterator<Item = (Text, Value)> + use<'a> {
        let mut reader = Self::new(text, 1, depth);
        std::iter::from_fn(move || reader.is_before_another(b'}').then(|| reader.member()))
    }

    /// The members of the object that begins here.
    fn sorted(&mut self) -> Members {
        let mut out = Vec::new();
        self.at += 1;
        while self.is_before_another(b'}') {
            out.push(self.member());
        }
        self.at += 1;
        Members::of(out)
    }

    /// The elements of the array that begins here.
    fn elements(&mut self) -> Vec<Value> {
        let mut out = Vec::new();
        self.at += 1;
        while self.is_before_another(b']') {
            out.push(self.value());
        }
        self.at += 1;
        out
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Whether there is one more before the end; stands at it then.
    fn is_before_another(&mut self, end: u8) -> bool {
        match self.peek() {
            b',' => {
                self.at += 1;
                true
            }
            other => other != end && self.at < self.text.len(),
        }
    }

    fn member(&mut self) -> (Text, Value) {
        let key = self.string();
        // The colon.
        self.at += 1;
        (key, self.value())
    }

    fn value(&mut self) -> Value {
        match self.peek() {
            b'"' => Value::String(self.string()),
            b'{' if self.depth < DEEP => Value::Object(Map::of(Node::of_text(self.container(), self.depth + 1))),
            b'[' if self.depth < DEEP => Value::Array(List::of(Node::of_text(self.container(), self.depth + 1))),
            b'{' => Value::Object(Map::of(Node::of(self.sorted()))),
            b'[' => Value::Array(List::of(Node::of(self.elements()))),
            b't' => self.word(4, Value::Bool(true)),
            b'f' => self.word(5, Value::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(4, Value::Null),
        }
    }

    fn word(&mut self, length: usize, value: Value) -> Value {
        self.at += length;
        value
    }

    fn number(&mut self) -> Value {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}')).unwrap_or(rest.len());
        self.at += length;
        let text = str::from_utf8(&rest[..length]).unwrap_or_default();
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
        let number = whole.ok().or_else(|| text.parse().ok().and_then(Number::from_f64));
        number.map_or(Value::Null, Value::Number)
    }

    fn string(&mut self) -> Text {
        let begin = self.at;
        let (end, escaped) = end_of_string(self.text, begin).unwrap_or((self.text.len(), false));
        self.at = end;
        if escaped {
            return serde_json::from_slice(&self.text[begin..end]).unwrap_or_default();
        }
        // Between the quotes.
        Text::from(self.chars.get(begin + 1..end.max(begin + 2) - 1).unwrap_or_default())
    }

    /// The text of a container, up to its end.
    fn container(&mut self) -> Bytes {
        let begin = self.at;
        self.at = end_of_container(self.text, begin).unwrap_or(self.text.len());
        self.text.slice(begin..self.at)
    }
}
