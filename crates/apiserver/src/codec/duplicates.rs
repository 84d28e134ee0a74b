//! Reading JSON as a tree while finding the fields that it gives twice, which the tree cannot show.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The tree, and `duplicate field "spec.replicas"` for each field that is there twice, in the order found. The last
/// value counts.
pub(super) fn read(json: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut path = String::new();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = At { path: &mut path, found: &mut found }.deserialize(&mut deserializer)?;
    Ok((value, found))
}

/// A place in the document.
struct At<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let length = self.path.len();
        let mut items = Vec::new();
        loop {
            self.path.push_str(&format!("[{}]", items.len()));
            let item = seq.next_element_seed(At { path: self.path, found: self.found })?;
            self.path.truncate(length);
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let length = self.path.len();
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if members.contains_key(&key) {
                self.found.push(format!("duplicate field \"{}\"", self.path));
            }
            let value = map.next_value_seed(At { path: self.path, found: self.found })?;
            members.insert(key, value);
            self.path.truncate(length);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: API-06
    #[test]
    fn doubled_fields_are_found_with_their_paths() {
        let (value, found) = read(br#"{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}"#).expect("JSON");
        assert_eq!(found, ["duplicate field \"b.c[0].d\"", "duplicate field \"a\""]);
        assert_eq!(value, json!({"a": 3, "b": {"c": [{"d": 2}]}}));
        let plain = br#"{"a":[1,"x",null,true,1.5,-1]}"#;
        let (value, found) = read(plain).expect("JSON");
        assert_eq!((value, found), (serde_json::from_slice(plain).expect("JSON"), Vec::new()));
    }
}
