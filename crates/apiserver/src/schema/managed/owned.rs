//! Which fields a tree has, and a tree without some of its fields.

use std::collections::BTreeMap;

use muster_tree::{Map, Value};

use super::place::{Form, Granularity, Place};
use crate::schema::fields::{self, Set};

/// The set of the fields that a tree has: what a manager owns that applies it.
pub(super) fn field_set(place: Place<'_>, value: &Value) -> Set {
    owned(place, value).1
}

/// Whether a place is in the set itself, and what below it is.
fn owned(place: Place<'_>, value: &Value) -> (bool, Set) {
    let mut out = Map::new();
    let place = place.seen(Some(value));
    match (place.granularity(), value) {
        (Granularity::Whole, _) => return (true, out),
        (Granularity::Members, Value::Object(members)) => {
            for (name, value) in members {
                let Some(member) = place.member(name) else { continue };
                let (mut itself, below) = owned(member, value);
                // What is there though it holds nothing, and what the type does not name.
                itself |= !place.declares(name) || value.is_null() || value.as_object().is_some_and(Map::is_empty);
                put(&mut out, format!("f:{name}"), itself, below);
            }
        }
        (Granularity::Elements, Value::Array(items)) => {
            let Some(element) = place.element() else { return (false, out) };
            let mut found: BTreeMap<String, Option<&Value>> = BTreeMap::new();
            for item in items {
                let Ok(path) = place.element_path(item) else { continue };
                found.entry(path).and_modify(|known| *known = None).or_insert(Some(item));
            }
            for (path, item) in found {
                // Elements that share a path are owned as one, without what is in them.
                let below = item.map(|item| owned(element, item).1).unwrap_or_default();
                put(&mut out, path, true, below);
            }
        }
        _ => {}
    }
    (false, out)
}

fn put(set: &mut Set, path: String, itself: bool, below: Set) {
    if itself {
        set.insert(path, fields::member(below));
    } else if !below.is_empty() {
        set.insert(path, Value::Object(below));
    }
}

/// The set, and every named field that has something of it below.
pub(super) fn with_named_fields(set: &Set, place: Option<Place<'_>>) -> Set {
    let mut out = Map::new();
    for (path, node) in fields::elements(set) {
        let (itself, below) = fields::open(node);
        let name = path.strip_prefix("f:");
        let inner = place.and_then(|place| match name {
            Some(name) => place.member(name),
            None if path.starts_with("k:") => place.element(),
            None => None,
        });
        let below = below.map(|below| with_named_fields(below, inner)).unwrap_or_default();
        let named = !below.is_empty() && name.zip(place).is_some_and(|(name, place)| place.declares(name));
        put(&mut out, path.to_string(), itself || named, below);
    }
    out
}

/// A tree without the fields of a set. What becomes empty by that stays, empty; what was empty becomes null.
pub(super) fn without(place: Place<'_>, value: &Value, set: &Set) -> Value {
    let place = place.seen(Some(value));
    match (place.form(), value) {
        (Form::Map, Value::Object(members)) => {
            if members.is_empty() || place.granularity() == Granularity::Whole {
                return Value::Null;
            }
            let (mut out, mut touched) = (Map::new(), false);
            for (name, value) in members {
                let stays = match kept(place.member(name), &format!("f:{name}"), value, set) {
                    Kept::Not => continue,
                    Kept::Whole => value.clone(),
                    Kept::Part(part) => {
                        touched = true;
                        part
                    }
                };
                out.insert(name.clone(), stays);
            }
            if out.is_empty() && !touched { Value::Null } else { Value::Object(out) }
        }
        (Form::List, Value::Array(items)) => {
            if items.is_empty() || place.granularity() == Granularity::Whole {
                return Value::Null;
            }
            let (mut out, mut touched) = (Vec::new(), false);
            for item in items {
                let path = place.element_path(item).unwrap_or_default();
                match kept(place.element(), &path, item, set) {
                    Kept::Not => {}
                    Kept::Whole => out.push(item.clone()),
                    Kept::Part(part) => {
                        touched = true;
                        out.push(part);
                    }
                }
            }
            if out.is_empty() && !touched { Value::Null } else { Value::Array(out.into()) }
        }
        (Form::Map | Form::List, _) => Value::Null,
        _ => value.clone(),
    }
}

/// What stays of a member or an element.
enum Kept {
    Not,
    Whole,
    Part(Value),
}

fn kept(place: Option<Place<'_>>, path: &str, value: &Value, set: &Set) -> Kept {
    let Some((itself, below)) = set.get(path).map(fields::open) else { return Kept::Whole };
    if itself {
        return Kept::Not;
    }
    let (Some(below), Some(place)) = (below, place) else { return Kept::Whole };
    Kept::Part(match (without(place, value, below), value) {
        (Value::Null, Value::Object(_)) => Value::Object(Map::new()),
        (Value::Null, Value::Array(_)) => Value::Array(Vec::new().into()),
        (part, _) => part,
    })
}
