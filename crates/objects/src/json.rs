//! Reading JSON for the few fields that matter, and passing over the rest at the speed of memory.
//!
//! Nine tenths of a pod's JSON is of no interest here. `serde_json` checks every byte of what it
//! ignores; this reader only balances the brackets and finds the ends of the strings. It understands
//! what an API server writes and gives up on anything else, and then `serde_json` has its say: what
//! it accepts is accepted, and the errors are its own.

mod ends;

use std::fmt;

pub use ends::{end_of_container, end_of_string, is_plain};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Decodes a value, by way of the quick reader.
///
/// # Errors
/// What `serde_json` says of it.
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T, serde_json::Error> {
    quick(json).or_else(|GaveUp| serde_json::from_slice(json))
}

fn quick<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T, GaveUp> {
    let mut reader = Reader { json, at: 0, depth: 0 };
    let value = T::deserialize(&mut reader)?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(GaveUp),
    }
}

/// The quick reader met something that it does not understand.
#[derive(Debug)]
struct GaveUp;

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not understood")
    }
}

impl std::error::Error for GaveUp {}

impl de::Error for GaveUp {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct Reader<'de> {
    json: &'de [u8],
    at: usize,
    /// How deep what is read now stands in what is read whole, whatever it holds.
    depth: usize,
}

/// What nests deeper is left to `serde_json`, which refuses it.
const DEEPEST: usize = 128;

impl<'de> Reader<'de> {
    /// The next byte that is no white space, not taken yet.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.json.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    fn take(&mut self, expected: u8) -> Result<(), GaveUp> {
        if self.peek() != Some(expected) {
            return Err(GaveUp);
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), GaveUp> {
        if !self.json[self.at..].starts_with(word) {
            return Err(GaveUp);
        }
        self.at += word.len();
        Ok(())
    }

    /// Takes a string; answers its inside, and whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<(&'de [u8], bool), GaveUp> {
        if self.peek() != Some(b'"') {
            return Err(GaveUp);
        }
        let (end, escapes) = end_of_string(self.json, self.at).ok_or(GaveUp)?;
        let inside = &self.json[self.at + 1..end - 1];
        self.at = end;
        Ok((inside, escapes))
    }

    fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, GaveUp> {
        let (inside, escapes) = self.string()?;
        if escapes {
            let start = self.at - inside.len() - 2;
            let text: String = serde_json::from_slice(&self.json[start..self.at]).map_err(|_| GaveUp)?;
            return visitor.visit_string(text);
        }
        visitor.visit_borrowed_str(std::str::from_utf8(inside).map_err(|_| GaveUp)?)
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, GaveUp> {
        let rest = &self.json[self.at..];
        let length = rest.iter().position(|byte| !is_of_number(*byte)).unwrap_or(rest.len());
        let text = std::str::from_utf8(&rest[..length]).map_err(|_| GaveUp)?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let canonical = digits == "0" || digits.bytes().next().is_some_and(|first| matches!(first, b'1'..=b'9'));
        if !canonical {
            return Err(GaveUp);
        }
        let number: i64 = text.parse().map_err(|_| GaveUp)?;
        self.at += length;
        visitor.visit_i64(number)
    }

    /// Passes over a value of any kind.
    fn skip(&mut self) -> Result<(), GaveUp> {
        match self.peek().ok_or(GaveUp)? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => {
                self.at = end_of_container(self.json, self.at).ok_or(GaveUp)?;
                Ok(())
            }
            _ => {
                let rest = &self.json[self.at..];
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                self.at += length;
                if length == 0 { Err(GaveUp) } else { Ok(()) }
            }
        }
    }
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = GaveUp;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        match self.peek().ok_or(GaveUp)? {
            b'"' => self.visit_string(visitor),
            _ if self.depth == DEEPEST => Err(GaveUp),
            bracket @ (b'{' | b'[') => {
                self.at += 1;
                self.depth += 1;
                let reader = &mut *self;
                let entries = Entries { reader, first: true };
                let value = if bracket == b'{' { visitor.visit_map(entries) } else { visitor.visit_seq(entries) }?;
                self.depth -= 1;
                Ok(value)
            }
            b'n' => {
                self.word(b"null")?;
                visitor.visit_unit()
            }
            b't' => {
                self.word(b"true")?;
                visitor.visit_bool(true)
            }
            b'f' => {
                self.word(b"false")?;
                visitor.visit_bool(false)
            }
            _ => self.visit_number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        if self.peek() == Some(b'n') {
            self.word(b"null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        self.visit_string(visitor)
    }

    /// The names of fields are compared as bytes, which need not be looked through first.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        match self.string()? {
            (inside, false) => visitor.visit_borrowed_bytes(inside),
            (_, true) => Err(GaveUp),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        self.take(b'{')?;
        visitor.visit_map(Entries { reader: self, first: true })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GaveUp> {
        self.deserialize_map(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        self.peek();
        self.visit_number(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        self.peek();
        self.visit_number(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, GaveUp> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GaveUp> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char string bytes byte_buf
        unit unit_struct seq tuple tuple_struct enum
    }
}

/// The inside of an object or a list.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    first: bool,
}

impl Entries<'_, '_> {
    /// Whether another entry comes; takes the comma before it, or the bracket at the end.
    fn another(&mut self, close: u8) -> Result<bool, GaveUp> {
        let next = self.reader.peek().ok_or(GaveUp)?;
        if next == close {
            self.reader.at += 1;
            return Ok(false);
        }
        if !self.first {
            self.reader.take(b',')?;
        }
        self.first = false;
        Ok(true)
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = GaveUp;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, GaveUp> {
        if !self.another(b'}')? {
            return Ok(None);
        }
        let key = seed.deserialize(&mut *self.reader)?;
        self.reader.take(b':')?;
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, GaveUp> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = GaveUp;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, GaveUp> {
        if self.another(b']')? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// What is read beside what is passed over.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Wanted {
        a: Option<Value>,
        b: Option<i32>,
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\"\\\\\n{}\\[\\]é😀]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab\"\\\\}]{0,3}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Both readers agree on every document, compact and pretty.
        #[test]
        fn reads_what_serde_json_reads(value in values(), wanted in any::<Option<i32>>()) {
            let document = serde_json::json!({ "x": value, "b": wanted, "a": value, "y": [value, value] });
            for text in [document.to_string(), format!(" {document:#}\n")] {
                let slow: Wanted = serde_json::from_str(&text).expect("the document is JSON");
                prop_assert_eq!(&from_slice::<Wanted>(text.as_bytes()).expect("and understood"), &slow);
                if let Ok(quick) = quick::<Wanted>(text.as_bytes()) {
                    prop_assert_eq!(quick, slow);
                }
            }
        }

        /// Cut off anywhere, a document is an error to both.
        #[test]
        fn notices_a_document_that_is_cut_off(value in values(), cut in any::<prop::sample::Index>()) {
            let document = serde_json::json!({ "x": value, "a": value, "b": 1 }).to_string();
            let cut = cut.index(document.len());
            prop_assert!(from_slice::<Wanted>(&document.as_bytes()[..cut]).is_err());
            prop_assert!(quick::<Wanted>(&document.as_bytes()[..cut]).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ant1-u0 \xff".to_vec()), 0..40)) {
            let _ = from_slice::<Wanted>(&bytes);
            let _ = from_slice::<Value>(&bytes);
        }
    }

    #[test]
    fn common_documents_need_no_second_reading() {
        let pod = br#"{"b":-7,"x":{"k:{\"uid\":\"1\"}":{".":{}}},"y":[1.5e3,true,null,"\\"],"a":"\u00e9"}"#;
        assert_eq!(quick::<Wanted>(pod).ok(), Some(Wanted { a: Some(Value::from("é")), b: Some(-7) }));
        let lease = br#"{"metadata":{"name":"l","managedFields":[{"fieldsV1":{"f:spec":{}}}]},"spec":{"leaseDurationSeconds":15,
            "renewTime":"2026-01-02T15:04:05.000001Z","strategy":{"of":["a newer server",true,null]}}}"#;
        let read = quick::<crate::lease::Lease>(lease).expect("it is understood");
        assert_eq!(read, serde_json::from_slice(lease).expect("JSON"));
        assert_eq!((read.metadata.len(), read.spec.other["strategy"]["of"][1].clone()), (1, Value::from(true)));
    }

    #[test]
    fn what_nests_too_deep_is_refused() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(quick::<Wanted>(nested(100).as_bytes()).is_ok());
        assert!(from_slice::<Wanted>(nested(100_000).as_bytes()).is_err());
    }
}
