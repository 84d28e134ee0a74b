//! Finding fields that JSON gives twice, which a tree cannot show.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// `duplicate field "spec.replicas"` for each field that is there twice, in the order found.
pub(super) fn find(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = String::new();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // The JSON has been parsed before; what cannot be read here has been told there.
    let _ = At { path: &mut path, found: &mut found }.deserialize(&mut deserializer);
    found
}

/// A place in the document.
struct At<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut index = 0;
        loop {
            self.path.push_str(&format!("[{index}]"));
            let more = seq.next_element_seed(At { path: self.path, found: self.found })?;
            self.path.truncate(length);
            if more.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if seen.insert(key) {
                map.next_value_seed(At { path: self.path, found: self.found })?;
            } else {
                self.found.push(format!("duplicate field \"{}\"", self.path));
                map.next_value::<IgnoredAny>()?;
            }
            self.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_fields_are_found_with_their_paths() {
        let json = br#"{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}"#;
        assert_eq!(find(json), ["duplicate field \"b.c[0].d\"", "duplicate field \"a\""]);
        assert!(find(br#"{"a":[1,"x",null,true,1.5,-1]}"#).is_empty());
    }
}
