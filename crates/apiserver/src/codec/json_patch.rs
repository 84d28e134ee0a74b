//! JSON patches and merge patches as the real server applies them.
//!
//! Both differ from their RFCs where its library does: `replace` of a missing member adds it, a negative index counts from
//! the end, nulls in a merge patch's new lists are dropped from the objects in them.

use std::collections::BTreeMap;

use muster_tree::{Map, Value};

use crate::schema::DEEPEST;

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

/// A patch that does not apply: what the reference's library says of it. Clients who send patches are not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inapplicable(pub String);

/// Applies operations in order.
///
/// # Errors
/// [`Inapplicable`] at the first that does not apply.
pub fn apply(document: &mut Value, operations: &[Value], touched: &mut Touched) -> Result<(), Inapplicable> {
    let mut room = MOST_COPIED;
    // What was stored or sent is no deeper.
    let mut deepest = DEEPEST;
    operations.iter().try_for_each(|one| {
        step(document, one, touched, &mut room).map_err(Inapplicable)?;
        keep_shallow(document, one, &mut deepest).map_err(Inapplicable)
    })
}

/// Refuses a document that an operation has made too deep for those who go through it by recursion. `deepest` is how deep it may have
/// been: only where it may be too deep now is that looked at.
fn keep_shallow(document: &Value, operation: &Value, deepest: &mut usize) -> Result<(), String> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).unwrap_or_default();
    let steps = |path: &str| path.matches('/').count();
    let put = match text("op") {
        "add" | "replace" => operation.get("value").map_or(0, depth),
        "move" | "copy" => deepest.saturating_sub(steps(text("from"))),
        _ => return Ok(()),
    };
    *deepest = (*deepest).max(steps(text("path")) + put);
    if *deepest > DEEPEST {
        *deepest = depth(document);
    }
    if *deepest > DEEPEST { Err("exceeded max depth".to_owned()) } else { Ok(()) }
}

/// How many containers stand in one another.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn step(document: &mut Value, operation: &Value, touched: &mut Touched, room: &mut usize) -> Result<(), String> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let op = text("op").unwrap_or("unknown");
    let named = |key: &str| {
        let why = match (key, op) {
            ("from", _) => "operation, missing from field: ",
            ("path", "replace" | "move" | "test") => "operation missing path field: ",
            _ => "",
        };
        text(key).ok_or_else(|| format!("{op} operation failed to decode {key}: {why}missing value"))
    };
    let not_there = |what: &str, path: &str| {
        let shown = if matches!(op, "add" | "remove") { format!("\"{path}\"") } else { path.to_owned() };
        format!("{op} operation does not apply: {what}: {shown}: missing value")
    };
    match op {
        "add" => {
            let path = named("path")?;
            let place = container(document, path, touched).ok_or_else(|| not_there("doc is missing path", path))?;
            place.add(value()).map_err(|why| format!("error in add for path: '{path}': {why}"))
        }
        "remove" => {
            let path = named("path")?;
            let place = container(document, path, touched).ok_or_else(|| not_there("doc is missing path", path))?;
            place.remove().map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
        }
        "replace" => {
            let (path, value) = (named("path")?, value());
            if path.is_empty() {
                if !(value.is_object() || value.is_array()) {
                    return Err("replace operation value must be object or array".to_owned());
                }
                *document = value;
                return Ok(());
            }
            let place = container(document, path, touched).ok_or_else(|| not_there("doc is missing path", path))?;
            let gone = |_| format!("replace operation does not apply: doc is missing key: {path}: missing value");
            place.get().map_err(gone)?;
            place.set(value).map_err(gone)
        }
        "move" => {
            let from = named("from")?;
            let from = container(document, from, touched).ok_or_else(|| not_there("doc is missing from path", from))?;
            let key = from.key.clone();
            let moved = from.remove().map_err(|why| format!("error in move for path: '{key}': {why}"))?;
            let path = named("path")?;
            let to =
                container(document, path, touched).ok_or_else(|| not_there("doc is missing destination path", path))?;
            to.add(moved).map_err(|why| format!("error in move for path: '{path}': {why}"))
        }
        "copy" => {
            let (from, path) = (named("from")?, named("path")?);
            let source =
                container(document, from, touched).ok_or_else(|| not_there("doc is missing from path", from))?;
            let copied = source.get().map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
            let copied = copied.cloned().unwrap_or(Value::Null);
            let to =
                container(document, path, touched).ok_or_else(|| not_there("doc is missing destination path", path))?;
            let size = length(&copied);
            *room = room.checked_sub(size).ok_or_else(|| {
                let all = MOST_COPIED - *room + size;
                format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {all}, exceeding the limit {MOST_COPIED}"
                )
            })?;
            to.add(copied).map_err(|why| format!("error while adding value during copy: {why}"))
        }
        "test" => {
            let path = named("path")?;
            let same = if path.is_empty() {
                *document == value()
            } else {
                let place = container(document, path, touched).ok_or_else(|| not_there("is missing path", path))?;
                let found = place.get().map_err(|why| format!("error in test for path: '{path}': {why}"))?;
                *found.unwrap_or(&Value::Null) == value()
            };
            if same { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
        }
        unknown => Err(format!("Unexpected kind: {unknown}")),
    }
}

/// Where a path leads: a container, and the last part of the path, which names something in it.
struct Place<'d> {
    at: At<'d>,
    key: String,
}

enum At<'d> {
    Object(&'d mut Map),
    List(&'d mut Vec<Value>),
}

fn container<'d>(document: &'d mut Value, path: &str, touched: &mut Touched) -> Option<Place<'d>> {
    let mut parts: Vec<String> =
        path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let key = parts.pop()?;
    let (mut at, mut touched) = (document, touched);
    for part in parts {
        touched = touched.open(&part);
        at = match at {
            Value::Object(members) => members.get_mut(&part),
            Value::Array(items) => {
                let index = index(&part, items.len()).ok()?;
                items.get_mut(index)
            }
            _ => None,
        }?;
    }
    let at = match at {
        Value::Object(members) => At::Object(members),
        Value::Array(items) => At::List(items),
        _ => return None,
    };
    Some(Place { at, key })
}

/// An index into a list of `length`; negative ones count from its end. It may be past the end.
fn index(part: &str, length: usize) -> Result<usize, String> {
    let number: i64 = part
        .parse()
        .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", muster_objects::names::GoQuoted(part)))?;
    let back = || usize::try_from(number.unsigned_abs()).ok().and_then(|back| length.checked_sub(back));
    usize::try_from(number).ok().or_else(back).ok_or_else(|| out_of_bounds(part))
}

fn out_of_bounds(part: &str) -> String {
    format!("Unable to access invalid index: {part}: invalid index referenced")
}

impl Place<'_> {
    /// What is there; nothing, where an object has no such member.
    fn get(&self) -> Result<Option<&Value>, String> {
        match &self.at {
            At::Object(members) => Ok(members.get(&self.key)),
            At::List(items) => {
                let index = index(&self.key, items.len())?;
                items.get(index).map(Some).ok_or_else(|| out_of_bounds(&self.key))
            }
        }
    }

    fn set(self, value: Value) -> Result<(), String> {
        match self.at {
            At::Object(members) => {
                members.insert(self.key, value);
            }
            At::List(items) => {
                let index = index(&self.key, items.len())?;
                *items.get_mut(index).ok_or_else(|| out_of_bounds(&self.key))? = value;
            }
        }
        Ok(())
    }

    fn add(self, value: Value) -> Result<(), String> {
        match self.at {
            At::Object(members) => {
                members.insert(self.key, value);
            }
            At::List(items) if self.key == "-" => items.push(value),
            At::List(items) => {
                let key = &self.key;
                let index = index(key, items.len() + 1).map_err(|why| {
                    let number = key.parse::<i64>().is_ok();
                    if number { why } else { format!("value was not a proper array index: '{key}': {why}") }
                })?;
                if index > items.len() {
                    return Err(out_of_bounds(key));
                }
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn remove(self) -> Result<Value, String> {
        match self.at {
            At::Object(members) => members
                .remove(&self.key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {}: missing value", self.key)),
            At::List(items) => {
                let index = index(&self.key, items.len())?;
                if index < items.len() { Ok(items.remove(index)) } else { Err(out_of_bounds(&self.key)) }
            }
        }
    }
}

/// How long a value's JSON is.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Neither a counter nor a value of strings, numbers and lists fails.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Merges a patch into a document: members that are null are removed, objects are merged, all else replaces. Notes in
/// `touched`, where it is wanted, what has been opened.
pub fn merge(document: &mut Map, patch: Map, mut touched: Option<&mut Touched>) {
    for (key, mut value) in patch {
        if value.is_null() {
            document.remove(&key);
            continue;
        }
        let below = touched.as_deref_mut().map(|touched| touched.open(&key));
        match (document.get_mut(&key), value) {
            (Some(Value::Object(found)), Value::Object(members)) => merge(found, members, below),
            // What replaces an object is taken as it is, nulls and all.
            (Some(Value::Object(_)), other) => {
                document.insert(key, other);
            }
            (_, other) => {
                value = other;
                prune(&mut value, below);
                document.insert(key, value);
            }
        }
    }
}

/// Drops null members of objects, however deep; nulls in lists stay. All of it is opened by that.
pub fn prune(value: &mut Value, mut touched: Option<&mut Touched>) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            for (name, member) in members {
                prune(member, touched.as_deref_mut().map(|touched| touched.open(name)));
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                prune(item, touched.as_deref_mut().map(|touched| touched.open(&at.to_string())));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

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

    /// Contract: API-12, API-33
    #[test]
    fn what_does_not_apply_is_told_as_by_the_reference() {
        let table = [
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                r#"add operation does not apply: doc is missing path: "/x/y": missing value"#,
            ),
            (
                json!({"op": "add", "path": "", "value": 1}),
                r#"add operation does not apply: doc is missing path: "": missing value"#,
            ),
            (
                json!({"op": "add", "path": "/a/9", "value": 1}),
                "error in add for path: '/a/9': Unable to access invalid index: 9: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/a/b", "value": 1}),
                "error in add for path: '/a/b': value was not a proper array index: 'b': strconv.Atoi: parsing \"b\": invalid syntax",
            ),
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (json!({"op": "remove"}), "remove operation failed to decode path: missing value"),
            (
                json!({"op": "replace", "path": "/x/y", "value": 1}),
                "replace operation does not apply: doc is missing path: /x/y: missing value",
            ),
            (
                json!({"op": "move", "from": "/b/x", "path": "/d"}),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "copy", "path": "/d"}),
                "copy operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                json!({"op": "test"}),
                "test operation failed to decode path: operation missing path field: missing value",
            ),
            (
                json!({"op": "copy", "from": "/x/y", "path": "/d"}),
                "copy operation does not apply: doc is missing from path: /x/y: missing value",
            ),
            (json!({"op": "test", "path": "/b/c", "value": 2}), "testing value /b/c failed: test failed"),
            (json!({"op": "fly", "path": "/a"}), "Unexpected kind: fly"),
            (json!({}), "Unexpected kind: unknown"),
        ];
        for (operation, expected) in table {
            let mut document = json!({"a": [1, 2], "b": {"c": 1}});
            let result = apply(&mut document, std::slice::from_ref(&operation), &mut Touched::default());
            assert_eq!(result, Err(Inapplicable(expected.to_owned())), "{operation}");
        }
    }

    /// Contract: API-12
    #[test]
    fn merge_patches_remove_nulls_and_replace_lists() {
        let Value::Object(mut document) = json!({"a": {"b": 1, "c": 2}, "l": [1]}) else { unreachable!() };
        let Value::Object(patch) = json!({"a": {"b": null, "d": {"e": null}}, "l": [{"x": null}], "z": null}) else {
            unreachable!()
        };
        merge(&mut document, patch, None);
        assert_eq!(Value::Object(document), json!({"a": {"c": 2, "d": {}}, "l": [{}]}));
    }

    /// Contract: API-12
    #[test]
    fn what_a_patch_brings_is_shown_sorted() {
        let model = crate::model::Model { group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRole" };
        let rules = json!([{"verbs": ["get"], "apiGroups": [""]}]);
        let mut document = Map::from_iter([("rules".to_owned(), rules.clone())]);
        let mut touched = Touched::default();
        let shown =
            |document: &Map, touched: &Touched| crate::codec::shown(&model, &Value::Object(document.clone()), touched);
        merge(&mut document, Map::new(), Some(&mut touched));
        assert_eq!(shown(&document, &touched), r#"{"rules":[{"verbs":["get"],"apiGroups":[""]}]}"#);
        merge(&mut document, Map::from_iter([("rules".to_owned(), rules)]), Some(&mut touched));
        assert_eq!(shown(&document, &touched), r#"{"rules":[{"apiGroups":[""],"verbs":["get"]}]}"#);
    }

    /// What goes through a document goes down by recursion.
    ///
    /// Contract: API-12, API-22
    #[test]
    fn no_patch_makes_a_document_deeper_than_a_body_may_be() {
        let chain = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        let path = |levels: usize| "/a".repeat(levels);
        let patch = |mut document: Value, operations: &[Value]| {
            apply(&mut document, operations, &mut Touched::default()).map(|()| depth(&document)).map_err(|why| why.0)
        };
        let add = |at: usize| json!({"op": "add", "path": path(at), "value": chain(99)});
        let four: Vec<Value> = (1..=4).map(|number| add(number * 100)).collect();
        assert_eq!(patch(chain(100), &four), Ok(500));
        assert_eq!(patch(chain(101), &[&four[..], &[add(401)]].concat()), Err("exceeded max depth".to_owned()));
        // Each copy into itself doubles it.
        let copies: Vec<Value> =
            (0..12).map(|power| json!({"op": "copy", "from": "/a", "path": path(1 + (1 << power))})).collect();
        assert_eq!(patch(chain(1), &copies), Err("exceeded max depth".to_owned()));
        // Down and up again is no deeper than it was.
        let moves = [
            json!({"op": "move", "from": "/b", "path": "/a/a/b"}),
            json!({"op": "move", "from": "/a/a/b", "path": "/b"}),
        ];
        let mut document = chain(3);
        document["b"] = chain(490);
        let moves: Vec<Value> = moves.into_iter().cycle().take(2_000).collect();
        assert_eq!(patch(document, &moves), Ok(492));
    }
}
