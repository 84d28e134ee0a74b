//! Lists whose elements are distinct: sets, and maps by their keys.

use std::collections::{BTreeMap, HashMap};

use muster_tree::Value;

use super::Object;
use super::metadata::child;
use super::structural::{ListType, Structural};
use crate::field::FieldError;
use crate::validation::Errors;

/// The elements that are there twice.
#[must_use]
pub fn validate(object: &Object, schema: &Structural) -> Errors {
    let mut errors = Errors::new();
    members(object, schema, "", &mut errors);
    errors
}

fn members(object: &Object, schema: &Structural, path: &str, errors: &mut Errors) {
    if !schema.holds.distinct {
        return;
    }
    if let Some(additional) = schema.additional() {
        for (name, value) in object {
            walk(value, additional, &format!("{path}[{name}]"), errors);
        }
    }
    for (name, value) in object {
        if let Some(property) = schema.property(name) {
            walk(value, property, &child(path, name), errors);
        }
    }
}

fn walk(value: &Value, schema: &Structural, path: &str, errors: &mut Errors) {
    match value {
        _ if !schema.holds.distinct => {}
        Value::Object(object) => members(object, schema, path, errors),
        Value::Array(list) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(list.iter(), path, errors),
                ListType::Map(keys) => by_keys(list, keys, path, errors),
            }
            if let Some(items) = &schema.items {
                for (index, value) in list.iter().enumerate() {
                    walk(value, items, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn by_keys(list: &[Value], keys: &[Box<str>], path: &str, errors: &mut Errors) {
    for (index, element) in list.iter().enumerate() {
        if !element.is_object() && !element.is_null() {
            let why = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), element, why));
            return;
        }
    }
    let found: Vec<Value> = list.iter().map(|element| Value::Object(key_of(element, keys))).collect();
    duplicates(found.iter(), path, errors);
}

/// The elements of an old list that is a map, for those of a new one to be held against.
pub struct Before<'a> {
    keys: &'a [Box<str>],
    known: HashMap<String, &'a Value>,
}

impl<'a> Before<'a> {
    /// Those of an old value. Of a list that is no map, none can be found again.
    #[must_use]
    pub fn new(old: Option<&'a Value>, list_type: &'a ListType) -> Self {
        let ListType::Map(keys) = list_type else { return Self { keys: &[], known: HashMap::new() } };
        let old = old.and_then(Value::as_array).into_iter().flatten();
        // Of several with one key, the first.
        let known = old.rev().map(|element| (Value::Object(key_of(element, keys)).to_string(), element)).collect();
        Self { keys, known }
    }

    /// The old element with the key of a new one.
    #[must_use]
    pub fn of(&self, element: &Value) -> Option<&'a Value> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&Value::Object(key_of(element, self.keys)).to_string()).copied()
    }
}

/// What an element of a map is told apart by.
#[must_use]
pub fn key_of(element: &Value, keys: &[Box<str>]) -> Object {
    let element = element.as_object();
    keys.iter().filter_map(|key| Some((key.to_string(), element?.get(key)?.clone()))).collect()
}

/// Each value that is there more than once, at its second place.
fn duplicates<'a>(values: impl Iterator<Item = &'a Value>, path: &str, errors: &mut Errors) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), value));
        }
    }
}
