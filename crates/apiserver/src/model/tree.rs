//! Trees of JSON that is known to be right, such as what is stored.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads an object; `None` where it is none, or too deep for `serde_json`.
///
/// An object's members are gathered before they become a map, which is then made at once: where they are sorted, as
/// stored ones nearly are, none is looked for.
#[must_use]
pub fn read(json: &[u8]) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let Ok(Value::Object(object)) = Tree.deserialize(&mut reader) else { return None };
    reader.end().ok().map(|()| object)
}

/// What reads one value.
struct Tree;

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Tree)? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            out.push((key, members.next_value_seed(Tree)?));
        }
        Ok(Value::Object(out.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::vec((".{0,2}", inner), 0..16).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_read_as_serde_json_reads_it(member in value()) {
            let text = json!({"a": member}).to_string();
            let expected: Map<String, Value> = serde_json::from_str(&text).expect("it was written from a tree");
            prop_assert_eq!(read(text.as_bytes()), Some(expected));
        }
    }

    #[test]
    fn of_a_key_that_is_there_twice_the_last_counts_and_what_is_no_object_is_not_read() {
        let read = |text: &str| read(text.as_bytes()).map(Value::Object);
        assert_eq!(read(r#"{"b":1,"a":2,"b":3}"#), Some(json!({"a": 2, "b": 3})));
        assert_eq!([read("[]"), read("{} x"), read("{"), read(&"[".repeat(200))], [None, None, None, None]);
    }
}
