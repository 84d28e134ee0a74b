//! JSON patches and merge patches as the real server applies them.
//!
//! Both differ from their RFCs where its library does: `replace` of a missing member adds it, a negative index counts from
//! the end, nulls in a merge patch's new lists are dropped from the objects in them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Which containers of a document a patch has opened: these are written with their members sorted afterwards, all
/// others as they came.
#[derive(Debug, Default)]
pub struct Touched(BTreeMap<String, Touched>);

impl Touched {
    /// What has been opened below a member.
    #[must_use]
    pub fn below(&self, key: &str) -> Option<&Self> {
        self.0.get(key)
    }

    fn open(&mut self, key: &str) -> &mut Self {
        self.0.entry(key.to_owned()).or_default()
    }
}

/// How many bytes of JSON the copies of a patch may add in all, as in the reference.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// A patch that does not apply. Which operation it was is not told to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inapplicable;

/// Applies operations in order.
///
/// # Errors
/// [`Inapplicable`] at the first that does not apply.
pub fn apply(document: &mut Value, operations: &[Value], touched: &mut Touched) -> Result<(), Inapplicable> {
    let mut room = MOST_COPIED;
    for operation in operations {
        let operation = operation.as_object().ok_or(Inapplicable)?;
        let text = |key: &str| operation.get(key).and_then(Value::as_str).ok_or(Inapplicable);
        let value = || operation.get("value").cloned().unwrap_or(Value::Null);
        let op = text("op")?;
        match op {
            "add" => add(document, text("path")?, value(), touched)?,
            "remove" => {
                remove(document, text("path")?, touched)?;
            }
            "replace" => replace(document, text("path")?, value(), touched)?,
            "move" => {
                let moved = remove(document, text("from")?, touched)?;
                add(document, text("path")?, moved, touched)?;
            }
            "copy" => {
                let copied = get(document, text("from")?, touched)?.unwrap_or(Value::Null);
                room = room.checked_sub(copied.to_string().len()).ok_or(Inapplicable)?;
                add(document, text("path")?, copied, touched)?;
            }
            "test" => {
                let path = text("path")?;
                let found = if path.is_empty() { Some(document.clone()) } else { get(document, path, touched)? };
                if found.unwrap_or(Value::Null) != value() {
                    return Err(Inapplicable);
                }
            }
            _ => return Err(Inapplicable),
        }
    }
    Ok(())
}

/// The container that a path's last part is in, and that part.
fn container<'d>(
    document: &'d mut Value,
    path: &str,
    touched: &mut Touched,
) -> Result<(&'d mut Value, String), Inapplicable> {
    let mut parts: Vec<String> =
        path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let last = parts.pop().ok_or(Inapplicable)?;
    let (mut at, mut touched) = (document, touched);
    for part in parts {
        touched = touched.open(&part);
        at = match at {
            Value::Object(members) => members.get_mut(&part),
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(Inapplicable)?;
    }
    if at.is_object() || at.is_array() { Ok((at, last)) } else { Err(Inapplicable) }
}

/// An index into a list of `length`; negative ones count from its end. It may be past the end.
fn index(part: &str, length: usize) -> Result<usize, Inapplicable> {
    let number: i64 = part.parse().map_err(|_| Inapplicable)?;
    match usize::try_from(number) {
        Ok(index) => Ok(index),
        Err(_) => {
            let back = usize::try_from(number.unsigned_abs()).map_err(|_| Inapplicable)?;
            length.checked_sub(back).ok_or(Inapplicable)
        }
    }
}

fn get(document: &mut Value, path: &str, touched: &mut Touched) -> Result<Option<Value>, Inapplicable> {
    let (at, key) = container(document, path, touched)?;
    match at {
        Value::Object(members) => Ok(members.get(&key).cloned()),
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            items.get(index).cloned().map(Some).ok_or(Inapplicable)
        }
        _ => Err(Inapplicable),
    }
}

fn add(document: &mut Value, path: &str, value: Value, touched: &mut Touched) -> Result<(), Inapplicable> {
    let (at, key) = container(document, path, touched)?;
    match at {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&key, items.len() + 1)?;
            if index > items.len() {
                return Err(Inapplicable);
            }
            items.insert(index, value);
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, touched: &mut Touched) -> Result<Value, Inapplicable> {
    let (at, key) = container(document, path, touched)?;
    match at {
        Value::Object(members) => members.remove(&key).ok_or(Inapplicable),
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            if index < items.len() { Ok(items.remove(index)) } else { Err(Inapplicable) }
        }
        _ => Err(Inapplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value, touched: &mut Touched) -> Result<(), Inapplicable> {
    if path.is_empty() {
        if !(value.is_object() || value.is_array()) {
            return Err(Inapplicable);
        }
        *document = value;
        return Ok(());
    }
    let (at, key) = container(document, path, touched)?;
    match at {
        Value::Object(members) => {
            members.insert(key, value);
        }
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            *items.get_mut(index).ok_or(Inapplicable)? = value;
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

/// Merges a patch into a document: members that are null are removed, objects are merged, all else replaces.
pub fn merge(document: &mut Map<String, Value>, patch: Map<String, Value>, touched: &mut Touched) {
    for (key, mut value) in patch {
        if value.is_null() {
            document.remove(&key);
            continue;
        }
        match (document.get_mut(&key), value) {
            (Some(Value::Object(found)), Value::Object(below)) => merge(found, below, touched.open(&key)),
            // What replaces an object is taken as it is, nulls and all.
            (Some(Value::Object(_)), other) => {
                document.insert(key, other);
            }
            (_, other) => {
                value = other;
                prune(&mut value);
                document.insert(key, value);
            }
        }
    }
}

/// Drops null members of objects, however deep; nulls in lists stay.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: API-12
    #[test]
    fn operations_apply_as_on_the_reference_server() {
        let table = [
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), Some(json!({"a": [1, 2, 3], "b": {"c": 1}}))),
            (json!([{"op": "add", "path": "/a/-1", "value": 9}]), Some(json!({"a": [1, 2, 9], "b": {"c": 1}}))),
            (json!([{"op": "add", "path": "/a/3", "value": 9}]), None),
            (json!([{"op": "remove", "path": "/a/0"}]), Some(json!({"a": [2], "b": {"c": 1}}))),
            (json!([{"op": "remove", "path": "/x"}]), None),
            (json!([{"op": "replace", "path": "/x", "value": 1}]), Some(json!({"a": [1, 2], "b": {"c": 1}, "x": 1}))),
            (json!([{"op": "replace", "path": "/x/y", "value": 1}]), None),
            (json!([{"op": "add", "path": "/x"}]), Some(json!({"a": [1, 2], "b": {"c": 1}, "x": null}))),
            (json!([{"op": "move", "from": "/b/c", "path": "/d"}]), Some(json!({"a": [1, 2], "b": {}, "d": 1}))),
            (
                json!([{"op": "copy", "from": "/b", "path": "/a/0"}]),
                Some(json!({"a": [{"c": 1}, 1, 2], "b": {"c": 1}})),
            ),
            (json!([{"op": "test", "path": "/b/c", "value": 1}]), Some(json!({"a": [1, 2], "b": {"c": 1}}))),
            (json!([{"op": "test", "path": "/b/c", "value": 2}]), None),
            (json!([{"op": "test", "path": "/none"}]), Some(json!({"a": [1, 2], "b": {"c": 1}}))),
            (json!([{"op": "fly", "path": "/a"}]), None),
            (json!([{"op": "add", "path": "", "value": 1}]), None),
        ];
        for (operations, expected) in table {
            let mut document = json!({"a": [1, 2], "b": {"c": 1}});
            let list = operations.as_array().cloned().unwrap_or_default();
            let result = apply(&mut document, &list, &mut Touched::default());
            assert_eq!(result.ok().map(|()| document), expected, "{operations}");
        }
    }

    /// Contract: API-12
    #[test]
    fn merge_patches_remove_nulls_and_replace_lists() {
        let Value::Object(mut document) = json!({"a": {"b": 1, "c": 2}, "l": [1]}) else { unreachable!() };
        let Value::Object(patch) = json!({"a": {"b": null, "d": {"e": null}}, "l": [{"x": null}], "z": null}) else {
            unreachable!()
        };
        merge(&mut document, patch, &mut Touched::default());
        assert_eq!(Value::Object(document), json!({"a": {"c": 2, "d": {}}, "l": [{}]}));
    }
}
