//! Strategic merge patches: merge patches that know lists.
//!
//! Lists whose schema has a merge key are merged element by element; `$patch` deletes, replaces or
//! merges, `$setElementOrder/<list>` says in which order, `$retainKeys` what is kept of a union,
//! `$deleteFromPrimitiveList/<list>` what goes from a list of scalars. The rules, the order of the
//! outcome and the errors are those of apimachinery's `strategicpatch`. (Contract: API-12.)

use std::fmt;

use serde_json::{Map, Value};

use super::Object;
use super::go::sprint;
use super::table::{Field, Kind, Shape, Table, TypeId};
use crate::field::go_quote;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchError {
    /// The patch is malformed: 400 `BadRequest`.
    Bad(String),
    /// The patch cannot be done: 422 with the generic server response.
    Unprocessable(String),
    /// Anything else; the reference answers 500 `InternalError`.
    Other(String),
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(m) | Self::Unprocessable(m) | Self::Other(m) => f.write_str(m),
        }
    }
}

impl std::error::Error for PatchError {}

/// Applies a patch to an object of a kind. What comes out has not been decoded again:
/// [`super::from_unstructured`] does that.
///
/// # Errors
///
/// The message, as the reference words it.
pub fn strategic_merge(
    group: &str,
    version: &str,
    kind: &str,
    original: &Value,
    patch: &Value,
) -> Result<Value, String> {
    merge(group, version, kind, original.clone(), &mut patch.clone()).map_err(|e| e.to_string())
}

/// As [`strategic_merge`], with the kind of error told. The patch loses what has been applied of it,
/// as it does in the reference, which shows the rest in later messages.
///
/// # Errors
///
/// See [`PatchError`].
pub fn merge(
    group: &str,
    version: &str,
    kind: &str,
    original: Value,
    patch: &mut Value,
) -> Result<Value, PatchError> {
    let id = Table::get()
        .kind(group, version, kind)
        .ok_or_else(|| PatchError::Other(format!("no kind {} is registered", go_quote(kind))))?;
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(PatchError::Bad("invalid JSON document".to_owned()));
    };
    merge_map(original, patch, Schema::of(id)).map(Value::Object)
}

type Outcome<T> = Result<T, PatchError>;

/// The schema at a place of the object: what Go's type there is.
#[derive(Clone, Copy)]
enum Schema<'a> {
    Struct(TypeId),
    Shape(&'a Shape),
}

impl Schema<'static> {
    fn of(id: TypeId) -> Self {
        Self::Struct(id)
    }
}

impl<'a> Schema<'a> {
    fn new(shape: &'a Shape) -> Self {
        match shape.kind {
            Kind::Struct(id) => Self::Struct(id),
            _ => Self::Shape(shape),
        }
    }

    /// What Go's reflection calls it.
    fn go_kind(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Shape(shape) => match shape.kind {
                Kind::String => "string",
                Kind::Int32 => "int32",
                Kind::Int64 => "int64",
                Kind::Bool => "bool",
                Kind::Float => "float64",
                Kind::Bytes | Kind::List(_) => "slice",
                Kind::Map(_) => "map",
                _ => "struct",
            },
        }
    }

    fn field(self, json: &str) -> Outcome<&'static Field> {
        let missing = |name: &str| {
            PatchError::Other(format!("unable to find api field in struct {name} for the json field {}", go_quote(json)))
        };
        match self {
            Self::Struct(id) => {
                let ty = Table::get().ty(id);
                // The exact name first, any case after that.
                let loose = || ty.fields.iter().find(|f| f.json.eq_ignore_ascii_case(json));
                ty.field(json).or_else(loose).ok_or_else(|| missing(ty.go))
            }
            Self::Shape(shape) if shape.is_struct() => {
                let name = shape.go_type();
                Err(missing(name.rsplit('.').next().unwrap_or_default()))
            }
            Self::Shape(_) => Err(PatchError::Other(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.go_kind()
            ))),
        }
    }

    /// The schema of a list's elements, and how the list merges.
    fn list(self, json: &str) -> Outcome<(Schema<'static>, &'static Field)> {
        let field = self.field(json)?;
        match &field.shape.kind {
            Kind::List(inner) if matches!(inner.kind, Kind::List(_)) => {
                Err(PatchError::Other("unexpected slice of slice".to_owned()))
            }
            Kind::List(inner) => Ok((Schema::new(inner), field)),
            _ if field.pointer => Ok((Schema::new(&field.shape), field)),
            _ => Err(PatchError::Other(format!("expected slice or array type, but got: {}", self.go_kind()))),
        }
    }
}

/// The strategy of a field beside `retainKeys`.
fn strategy(field: &Field) -> Outcome<&'static str> {
    let parts: Vec<&'static str> = field.patch_strategy.split(',').collect();
    match parts.as_slice() {
        ["retainKeys"] => Ok(""),
        [one] => Ok(one),
        ["retainKeys", other] | [other, "retainKeys"] => Ok(other),
        _ => Err(PatchError::Other(format!("unexpected patch strategy: [{}]", parts.join(" ")))),
    }
}

fn merge_map(mut original: Object, patch: &mut Object, schema: Schema<'_>) -> Outcome<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        if directive == "replace" {
            patch.remove(DIRECTIVE);
            return Ok(patch.clone());
        }
        if directive == "delete" {
            return Ok(Map::new());
        }
        let message = format!("unknown patch type: {} in map: {}", string_verb(directive), sprint_map(patch));
        return Err(PatchError::Other(message));
    }
    retain_keys(&mut original, patch)?;
    set_order(&mut original, patch, schema)?;
    let keys: Vec<String> = patch.keys().cloned().collect();
    for key in keys {
        let Some(value) = patch.get_mut(&key) else { continue };
        let deleting = key.starts_with(DELETE_FROM_LIST);
        let key = if deleting {
            without_prefix(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?.to_owned()
        } else {
            key
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let Some(before) = original.get_mut(&key) else {
            if !deleting {
                take(&mut original, key, value);
            }
            continue;
        };
        if !same_type(before, value) {
            if !deleting {
                take(&mut original, key, value);
            }
            continue;
        }
        match (before.take(), &mut *value) {
            (Value::Object(before), Value::Object(change)) => {
                let field = schema.field(&key)?;
                let merged = if strategy(field)? == "replace" {
                    change.clone()
                } else {
                    merge_map(before, change, Schema::new(&field.shape))?
                };
                original.insert(key, Value::Object(merged));
            }
            (Value::Array(before), Value::Array(change)) => {
                let (inner, field) = schema.list(&key)?;
                let merged = merge_lists(before, change, inner, field, deleting)?;
                original.insert(key, Value::Array(merged));
            }
            _ => {
                original.insert(key, value.clone());
            }
        }
    }
    Ok(original)
}

/// Takes a value from a patch as it is, without nulls and directives.
fn take(original: &mut Object, key: String, value: &mut Value) {
    discard_nulls(value);
    match without_directives(value) {
        Some(value) => original.insert(key, value),
        None => original.remove(&key),
    };
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, v| !v.is_null());
            entries.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A value without what is only there to direct; `None` where nothing is left of it.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => {
            let kept = entries.iter().filter_map(|(k, v)| Some((k.clone(), without_directives(v)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(without_directives).collect())),
        other => Some(other.clone()),
    }
}

/// Clears what `$retainKeys` does not name.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Outcome<()> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::Bad("invalid patch format of retainKeys".to_owned());
    let Value::Array(retained) = retained else { return Err(bad()) };
    let named = |key: &str| retained.iter().any(|r| r.as_str() == Some(key));
    let misplaced = patch.iter().any(|(key, value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM_LIST) && !key.starts_with(SET_ORDER) && !named(key)
    });
    if misplaced {
        return Err(bad());
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// Merges and orders the lists that the patch gives an order for.
fn set_order(original: &mut Object, patch: &mut Object, schema: Schema<'_>) -> Outcome<()> {
    let bad = "invalid patch format of setElementOrder list";
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = array(order)?;
        let key = without_prefix(&directive, SET_ORDER, bad)?;
        let before = original.get(key).cloned().map(array).transpose()?;
        let change = patch.get(key).cloned().map(array).transpose()?;
        let (inner, field) = schema.list(key)?;
        strategy(field)?;
        let merge_key = field.merge_key;
        check_order(change.as_deref(), &order, merge_key)?;
        let merged = match (before.clone(), change.clone()) {
            (Some(before), None) => before,
            (None, Some(change)) => change.iter().filter_map(without_directives).collect(),
            (Some(before), Some(mut change)) => merge_lists(before, &mut change, inner, field, false)?,
            (None, None) => continue,
        };
        let before = before.unwrap_or_default();
        let maps = element_type(&[&before, change.as_deref().unwrap_or_default()])? == "map[string]interface {}";
        let (mine, others) = partition(merged, &order, merge_key)?;
        let sorted = in_order(mine, others, &order, &before, if maps { merge_key } else { "" }, maps)?;
        original.insert(key.to_owned(), Value::Array(sorted));
        patch.remove(key);
    }
    Ok(())
}

/// Whether the patch's elements come in the order that the patch gives.
fn check_order(change: Option<&[Value]>, order: &[Value], merge_key: &str) -> Outcome<()> {
    let Some(change) = change else {
        return Ok(());
    };
    if order.is_empty() || change.is_empty() {
        return Ok(());
    }
    let mut kept: Vec<&Value> = Vec::new();
    for item in change {
        let deleted = if merge_key.is_empty() { false } else { object(item)?.get(DIRECTIVE).is_some_and(|d| d == "delete") };
        if !deleted {
            kept.push(item);
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < kept.len() && place < order.len() {
        if kept[at].as_object().is_some_and(|o| o.contains_key(DIRECTIVE)) {
            at += 1;
            continue;
        }
        let equal = if merge_key.is_empty() {
            kept[at] == &order[place]
        } else {
            key_of(kept[at], merge_key)? == key_of(&order[place], merge_key)?
        };
        if equal {
            at += 1;
        }
        place += 1;
    }
    if at < kept.len() && place >= order.len() {
        return Err(PatchError::Other(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            sprint(&Value::Array(change.to_vec())),
            sprint(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

fn merge_lists(
    before: Vec<Value>,
    change: &mut Vec<Value>,
    inner: Schema<'_>,
    field: &Field,
    deleting: bool,
) -> Outcome<Vec<Value>> {
    if strategy(field)? != "merge" && !deleting {
        return Ok(change.clone());
    }
    if before.is_empty() && change.is_empty() {
        return Ok(before);
    }
    let maps = element_type(&[&before, change])? == "map[string]interface {}";
    let merge_key = field.merge_key;
    if !maps {
        if deleting {
            return Ok(before.into_iter().filter(|v| !change.contains(v)).collect());
        }
        let merged = distinct(before.iter().chain(change.iter()).cloned().collect());
        let (mine, others) = partition(merged, change, merge_key)?;
        return in_order(mine, others, change, &before, merge_key, false);
    }
    if merge_key.is_empty() {
        let name = inner.go_kind();
        return Err(PatchError::Other(format!("cannot merge lists without merge key for {name}")));
    }
    let (before, change) = special_elements(before, change, merge_key)?;
    let mut merged = before.clone();
    for mut item in change.iter().cloned() {
        let Value::Object(entries) = &mut item else { continue };
        let Some(wanted) = entries.get(merge_key).cloned() else { return Err(no_merge_key(entries, merge_key)) };
        match find(&merged, merge_key, &wanted)? {
            Some(at) => {
                if let Value::Object(known) = merged[at].take() {
                    merged[at] = Value::Object(merge_map(known, entries, inner)?);
                }
            }
            None => merged.push(item),
        }
    }
    let (mine, others) = partition(merged, &change, merge_key)?;
    in_order(mine, others, &change, &before, merge_key, true)
}

/// Does what elements with `$patch` say; gives the list without what goes and the patch without them.
fn special_elements(mut before: Vec<Value>, change: &[Value], merge_key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in change {
        let entries = object(item)?;
        let Some(directive) = entries.get(DIRECTIVE) else {
            plain.push(item.clone());
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = entries.get(merge_key).ok_or_else(|| no_merge_key(entries, merge_key))?;
                while let Some(at) = find(&before, merge_key, wanted)? {
                    before.remove(at);
                }
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let message =
                    format!("unknown patch type: {} in map: {}", string_verb(directive), sprint_map(entries));
                return Err(PatchError::Other(message));
            }
        }
    }
    // A replaced list is the patch's alone.
    Ok(if replace { (plain, Vec::new()) } else { (before, plain) })
}

/// Splits a list into what another list has and what it has not.
fn partition(items: Vec<Value>, by: &[Value], merge_key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let (mut mine, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let found = if merge_key.is_empty() {
            by.contains(&item)
        } else {
            let entries = object(&item)?;
            let wanted = entries.get(merge_key).ok_or_else(|| no_merge_key(entries, merge_key))?;
            find(by, merge_key, wanted)?.is_some()
        };
        if found {
            mine.push(item);
        } else {
            others.push(item);
        }
    }
    Ok((mine, others))
}

/// Merges the patch's elements, in the patch's order, with the others, in the live order: an element of
/// the others goes before the first of the patch's that comes after it in the live list.
fn in_order(
    mine: Vec<Value>,
    others: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: &str,
    maps: bool,
) -> Outcome<Vec<Value>> {
    let mine = sorted(mine, order, merge_key, maps)?;
    let others = sorted(others, live, merge_key, maps)?;
    let mut out = Vec::with_capacity(mine.len() + others.len());
    let (mut mine, mut others) = (mine.into_iter().peekable(), others.into_iter().peekable());
    while let Some(other) = others.peek() {
        let Some(own) = mine.peek() else { break };
        let (left, right) = (index(live, other, merge_key, maps), index(live, own, merge_key, maps));
        let before = matches!((left, right), (Some(left), Some(right)) if left < right);
        out.extend(if before { others.next() } else { mine.next() });
    }
    out.extend(others);
    out.extend(mine);
    Ok(out)
}

fn sorted(items: Vec<Value>, order: &[Value], merge_key: &str, maps: bool) -> Outcome<Vec<Value>> {
    let mut deleted = Vec::new();
    let mut kept = Vec::new();
    if maps {
        for item in items.iter().chain(order) {
            key_of(item, merge_key)?;
        }
        for item in items {
            let gone = item.get(DIRECTIVE).is_some_and(|d| d == "delete");
            if gone { deleted.push(item) } else { kept.push(item) }
        }
    } else {
        kept = items;
    }
    kept.sort_by_key(|item| index(order, item, merge_key, maps));
    kept.append(&mut deleted);
    Ok(kept)
}

/// The place in a list of the element that is the same as this one, by its key.
fn index(list: &[Value], item: &Value, merge_key: &str, maps: bool) -> Option<usize> {
    if maps {
        let wanted = item.get(merge_key);
        list.iter().position(|v| v.get(merge_key) == wanted)
    } else {
        list.iter().position(|v| v == item)
    }
}

/// Scalars without repetitions. A repeated one gives its place to the last, as in the reference.
fn distinct(mut items: Vec<Value>) -> Vec<Value> {
    let mut at = 0;
    while at < items.len() {
        let mut next = at + 1;
        while next < items.len() {
            if items[at] == items[next] {
                items.swap_remove(next);
            } else {
                next += 1;
            }
        }
        at += 1;
    }
    items
}

fn find(list: &[Value], key: &str, wanted: &Value) -> Outcome<Option<usize>> {
    for (at, item) in list.iter().enumerate() {
        let Value::Object(entries) = item else {
            return Err(PatchError::Other(format!("value for key {at} is not a map")));
        };
        if entries.get(key) == Some(wanted) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// What Go calls the type of the elements of some lists, which must all be of one.
fn element_type(lists: &[&[Value]]) -> Outcome<&'static str> {
    let mut found = None;
    for item in lists.iter().flat_map(|l| l.iter()) {
        let ty = dynamic_type(item);
        match found {
            None if ty == "[]interface {}" => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => found = Some(ty),
            Some(known) if known != ty => {
                let all: Vec<String> = lists.iter().map(|l| sprint(&Value::Array(l.to_vec()))).collect();
                let message = format!("list element types are not identical: [{}]", all.join(" "));
                return Err(PatchError::Other(message));
            }
            Some(_) => {}
        }
    }
    found.ok_or_else(|| PatchError::Other("no elements in any of the given slices".to_owned()))
}

/// What Go calls the type of a decoded JSON value.
fn dynamic_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn same_type(a: &Value, b: &Value) -> bool {
    dynamic_type(a) == dynamic_type(b)
}

fn array(value: Value) -> Outcome<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type("[]interface {}", &other)),
    }
}

fn object(value: &Value) -> Outcome<&Object> {
    value.as_object().ok_or_else(|| wrong_type("map[string]interface {}", value))
}

fn key_of<'a>(value: &'a Value, merge_key: &str) -> Outcome<&'a Value> {
    let entries = object(value)?;
    entries.get(merge_key).ok_or_else(|| no_merge_key(entries, merge_key))
}

fn wrong_type(expected: &str, found: &Value) -> PatchError {
    PatchError::Other(format!("expected a {expected}, but received a {}", dynamic_type(found)))
}

fn no_merge_key(entries: &Object, merge_key: &str) -> PatchError {
    PatchError::Other(format!("map: {} does not contain declared merge key: {merge_key}", sprint_map(entries)))
}

fn sprint_map(entries: &Object) -> String {
    sprint(&Value::Object(entries.clone()))
}

/// A value as Go's `%s` prints it.
fn string_verb(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format!("%!s({}={})", dynamic_type(other), sprint(other)),
    }
}

fn without_prefix<'a>(key: &'a str, prefix: &str, error: &str) -> Outcome<&'a str> {
    match key.split_once('/') {
        Some((found, rest)) if found == prefix => Ok(rest),
        _ => Err(PatchError::Bad(error.to_owned())),
    }
}

#[cfg(test)]
mod tests;
