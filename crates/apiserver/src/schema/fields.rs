//! Sets of field paths, in the form that `managedFields` carries them (`FieldsV1`).
//!
//! A set is a tree of JSON objects: `f:name` is a field, `k:{...}` an element of a keyed list, `v:...`
//! of a set, `i:0` of any list; an empty object means that the path itself is in the set, an object
//! with `.` that it is and something below it as well. (Contract: API-13.)

use muster_tree::{Map, Text, Value};

/// A set of field paths; a node's children.
pub(super) type Set = Map;

/// The path itself, beside paths below it.
const SELF: &str = ".";

/// A node that is in the set, with what is in the set below it.
pub(super) fn member(mut below: Set) -> Value {
    if !below.is_empty() {
        below.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    Value::Object(below)
}

/// A node as (whether it is in the set itself, what is below it).
pub(super) fn open(node: &Value) -> (bool, Option<&Set>) {
    match node {
        Value::Object(below) if !below.is_empty() => (below.contains_key(SELF), Some(below)),
        _ => (true, None),
    }
}

/// The path elements of a level, without the mark of the path itself.
pub(super) fn elements(set: &Set) -> impl Iterator<Item = (&Text, &Value)> {
    set.iter().filter(|(path, _)| *path != SELF)
}

/// What is in both sets.
pub(super) fn intersection(one: &Set, other: &Set) -> Set {
    let mut out = Map::new();
    for (path, node) in elements(one) {
        let Some(found) = other.get(path) else { continue };
        let ((mine, left), (theirs, right)) = (open(node), open(found));
        let below = match (left, right) {
            (Some(left), Some(right)) => intersection(left, right),
            _ => Map::new(),
        };
        if mine && theirs {
            out.insert(path.clone(), member(below));
        } else if !below.is_empty() {
            out.insert(path.clone(), Value::Object(below));
        }
    }
    out
}

/// What is in either set.
pub(super) fn union(into: &mut Set, other: &Set) {
    for (path, node) in other {
        if path == SELF {
            continue;
        }
        match into.get_mut(path) {
            None => {
                into.insert(path.clone(), node.clone());
            }
            Some(known) => {
                let (mine, _) = open(known);
                let (theirs, below) = open(node);
                let mut merged = match known.take() {
                    Value::Object(below) => below,
                    _ => Map::new(),
                };
                merged.remove(SELF);
                if let Some(below) = below {
                    union(&mut merged, below);
                }
                *known = if mine || theirs { member(merged) } else { Value::Object(merged) };
            }
        }
    }
}

/// Takes out of a set what is in another. Gives whether that changed it.
pub(super) fn subtract(from: &mut Set, other: &Set) -> bool {
    let mut changed = false;
    for (path, node) in other {
        if path == SELF {
            continue;
        }
        let Some(known) = from.get_mut(path) else { continue };
        let (mine, _) = open(known);
        let (theirs, below) = open(node);
        let lost = mine && theirs;
        if !lost && below.is_none() {
            continue;
        }
        let mut rest = match known.take() {
            Value::Object(rest) => rest,
            _ => Map::new(),
        };
        rest.remove(SELF);
        if let Some(below) = below {
            changed |= subtract(&mut rest, below);
        }
        changed |= lost;
        if mine && !theirs {
            *known = member(rest);
        } else if rest.is_empty() {
            from.remove(path);
        } else {
            *known = Value::Object(rest);
        }
    }
    changed
}

/// A set that a client sent, in canonical form: path elements of unknown kinds left out, keys of
/// elements sorted. `None` where it is not a set.
pub(super) fn canonical(sent: &Value) -> Option<Set> {
    let mut out = Map::new();
    for (path, node) in sent.as_object()? {
        if path == SELF {
            out.insert(SELF.to_owned(), Value::Object(Map::new()));
            continue;
        }
        let below = canonical(node)?;
        let (kind, rest) = path.split_once(':')?;
        let path = match kind {
            "f" => path.to_string(),
            "k" => {
                let key: Map = serde_json::from_str(rest).ok()?;
                element_key(key.into_iter().collect())
            }
            "v" => format!("v:{}", serde_json::from_str::<Value>(rest).ok()?),
            "i" => format!("i:{}", rest.parse::<i64>().ok()?),
            _ => continue,
        };
        out.insert(path, Value::Object(below));
    }
    Some(out)
}

/// The path element of a keyed list's element.
pub(super) fn element_key(mut keys: Vec<(Text, Value)>) -> String {
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = "k:{".to_owned();
    for (at, (name, value)) in keys.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&Value::String(name.clone()).to_string());
        out.push(':');
        out.push_str(&value.to_string());
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use muster_tree::json;
    use proptest::prelude::*;

    use super::*;

    fn set(value: &Value) -> Set {
        value.as_object().cloned().unwrap_or_default()
    }

    /// Contract: API-13
    #[test]
    fn sets_are_sets() {
        let a = set(&json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {"f:e": {}}}));
        let b = set(&json!({"f:b": {}, "f:d": {"f:f": {}}}));
        let mut both = a.clone();
        union(&mut both, &b);
        assert_eq!(
            Value::Object(both.clone()),
            json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {"f:e": {}, "f:f": {}}})
        );
        assert!(subtract(&mut both, &b));
        assert_eq!(Value::Object(both), json!({"f:a": {}, "f:b": {"f:c": {}}, "f:d": {"f:e": {}}}));
        let mut rest = a.clone();
        assert!(subtract(&mut rest, &a));
        assert!(rest.is_empty());
        let sent = json!({"k:{\"b\":1,\"a\":\"x\"}": {".": {}}, "z:1": {}, "v:\"q\"": {}});
        let canonical = canonical(&sent).map(Value::Object);
        assert_eq!(canonical, Some(json!({"k:{\"a\":\"x\",\"b\":1}": {".": {}}, "v:\"q\"": {}})));
    }

    fn sets() -> impl Strategy<Value = Set> {
        // Paths of at most three elements.
        let path = proptest::collection::vec("[abc]", 1..4);
        proptest::collection::vec(path, 0..8).prop_map(|paths| {
            let mut out = Map::new();
            for path in paths {
                let mut one = member(Map::new());
                for step in path.iter().rev() {
                    one = Value::Object(Map::from_iter([(format!("f:{step}"), one)]));
                }
                union(&mut out, &set(&one));
            }
            out
        })
    }

    proptest! {
        /// Contract: API-13
        #[test]
        fn what_is_added_and_taken_away_is_gone(a in sets(), b in sets()) {
            let mut both = a.clone();
            union(&mut both, &b);
            let mut again = both.clone();
            union(&mut again, &b);
            prop_assert_eq!(&again, &both, "union is idempotent");
            let mut other = b.clone();
            union(&mut other, &a);
            prop_assert_eq!(&other, &both, "union is commutative");
            let (mut left, mut right) = (both, a);
            subtract(&mut left, &b);
            subtract(&mut right, &b);
            prop_assert_eq!(left, right, "(a + b) - b is a - b");
        }
    }
}
