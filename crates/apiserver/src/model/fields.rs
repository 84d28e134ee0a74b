//! Reading and writing JSON objects the way Go's structs are read: an absent field is its zero value.

use std::sync::LazyLock;

use muster_tree::{List, Map, Value};

static EMPTY: LazyLock<Map> = LazyLock::new(Map::new);

/// Access to the fields of a decoded object. The schema has already made every field the type that the
/// kind declares, so a field of another type reads as absent.
pub trait Fields {
    /// A string field; empty where absent.
    fn text(&self, name: &str) -> &str;
    /// A string field; `None` where absent (an optional string may be set and empty).
    fn maybe_text(&self, name: &str) -> Option<&str>;
    /// An integer field; 0 where absent.
    fn int(&self, name: &str) -> i64;
    /// An integer field; `None` where absent.
    fn maybe_int(&self, name: &str) -> Option<i64>;
    /// A boolean field; false where absent.
    fn flag(&self, name: &str) -> bool;
    /// A boolean field; `None` where absent.
    fn maybe_flag(&self, name: &str) -> Option<bool>;
    /// An object field.
    fn object(&self, name: &str) -> Option<&Map>;
    /// An object field; an empty object where absent.
    fn part(&self, name: &str) -> &Map;
    /// A list field; empty where absent.
    fn list(&self, name: &str) -> &[Value];
    /// The objects of a list field.
    fn items(&self, name: &str) -> Items<'_>;
    /// The strings of a list field.
    fn strings(&self, name: &str) -> Strings<'_>;
    /// The entries of a map field whose values are strings.
    fn pairs(&self, name: &str) -> Pairs<'_>;
    /// An object field, to change.
    fn object_mut(&mut self, name: &str) -> Option<&mut Map>;
    /// An object field, to change; made where absent.
    fn object_or_new(&mut self, name: &str) -> &mut Map;
    /// The objects of a list field, to change.
    fn items_mut(&mut self, name: &str) -> ItemsMut<'_>;
    /// Sets a field where it is absent.
    fn set_if_absent(&mut self, name: &str, value: impl Into<Value>);
    /// Sets a string field where it is absent or empty.
    fn set_if_empty(&mut self, name: &str, value: &str);
    /// Replaces a field by another object's, or removes it where that has none.
    fn carry(&mut self, name: &str, from: &Map);
}

impl Fields for Map {
    fn text(&self, name: &str) -> &str {
        self.maybe_text(name).unwrap_or_default()
    }
    fn maybe_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }
    fn int(&self, name: &str) -> i64 {
        self.maybe_int(name).unwrap_or_default()
    }
    fn maybe_int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }
    fn flag(&self, name: &str) -> bool {
        self.maybe_flag(name).unwrap_or_default()
    }
    fn maybe_flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }
    fn object(&self, name: &str) -> Option<&Map> {
        self.get(name).and_then(Value::as_object)
    }
    fn part(&self, name: &str) -> &Map {
        self.object(name).unwrap_or(&EMPTY)
    }
    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], List::as_slice)
    }
    fn items(&self, name: &str) -> Items<'_> {
        Items(self.list(name).iter())
    }
    fn strings(&self, name: &str) -> Strings<'_> {
        Strings(self.list(name).iter())
    }
    fn pairs(&self, name: &str) -> Pairs<'_> {
        Pairs(self.object(name).map(Map::iter))
    }
    fn object_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.get_mut(name).and_then(Value::as_object_mut)
    }
    fn object_or_new(&mut self, name: &str) -> &mut Map {
        let slot = self.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        slot.as_object_mut().expect("it was made an object on the line above")
    }
    fn items_mut(&mut self, name: &str) -> ItemsMut<'_> {
        let list: &mut [Value] = self.get_mut(name).and_then(Value::as_array_mut).map_or(&mut [], List::as_mut_slice);
        ItemsMut(list.iter_mut())
    }
    fn set_if_absent(&mut self, name: &str, value: impl Into<Value>) {
        if self.get(name).is_none_or(Value::is_null) {
            self.insert(name.to_owned(), value.into());
        }
    }
    fn set_if_empty(&mut self, name: &str, value: &str) {
        if self.text(name).is_empty() {
            self.insert(name.to_owned(), Value::from(value));
        }
    }
    fn carry(&mut self, name: &str, from: &Map) {
        match from.get(name) {
            Some(value) => {
                if self.get(name) != Some(value) {
                    self.insert(name.to_owned(), value.clone());
                }
            }
            None => {
                self.remove(name);
            }
        }
    }
}

/// The objects of a list.
#[derive(Debug, Clone)]
pub struct Items<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for Items<'a> {
    type Item = &'a Map;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().find_map(Value::as_object)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// The strings of a list.
#[derive(Debug, Clone)]
pub struct Strings<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for Strings<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().find_map(Value::as_str)
    }
}

/// The string entries of a map, by key.
#[derive(Debug, Clone)]
pub struct Pairs<'a>(Option<muster_tree::Iter<'a>>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);
    fn next(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.find_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
    }
}

/// The objects of a list, to change.
#[derive(Debug)]
pub struct ItemsMut<'a>(std::slice::IterMut<'a, Value>);

impl<'a> Iterator for ItemsMut<'a> {
    type Item = &'a mut Map;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().find_map(Value::as_object_mut)
    }
}

/// The object's metadata.
pub fn metadata(object: &Map) -> &Map {
    object.part("metadata")
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Map, generation: i64) {
    object.object_or_new("metadata").insert("generation", generation.into());
}
