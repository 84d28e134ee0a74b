//! Strategic merge patches: merge patches that know lists.
//!
//! Lists whose schema has a merge key are merged element by element; `$patch` deletes, replaces or
//! merges, `$setElementOrder/<list>` says in which order, `$retainKeys` what is kept of a union,
//! `$deleteFromPrimitiveList/<list>` what goes from a list of scalars. The rules, the order of the
//! outcome and the errors are those of apimachinery's `strategicpatch`. (Contract: API-12.)

use std::fmt;

use muster_tree::{Map, Text, Value};

use super::Object;
use super::go::sprint;
use super::table::{Field, Kind, Shape, Table, TypeId};
use crate::field::go_quote;

mod lists;

use lists::{check_order, element_type, in_order, merge_lists, partition};

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
pub fn merge(group: &str, version: &str, kind: &str, original: Value, patch: &mut Value) -> Result<Value, PatchError> {
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
            PatchError::Other(format!(
                "unable to find api field in struct {name} for the json field {}",
                go_quote(json)
            ))
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
    let keys: Vec<Text> = patch.keys().cloned().collect();
    for key in keys {
        let Some(value) = patch.get_mut(&key) else { continue };
        let deleting = key.starts_with(DELETE_FROM_LIST);
        let key = if deleting {
            without_prefix(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?.to_owned()
        } else {
            key.to_string()
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
                let merged = merge_lists(before.into(), change, inner, field, deleting)?;
                original.insert(key, Value::Array(merged.into()));
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
    let directives: Vec<Text> = patch.keys().filter(|k| k.starts_with(SET_ORDER)).cloned().collect();
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
            (Some(before), Some(change)) => merge_lists(before, &change, inner, field, false)?,
            (None, None) => continue,
        };
        let before = before.unwrap_or_default();
        let maps = element_type(&[&before, change.as_deref().unwrap_or_default()])? == "map[string]interface {}";
        let (mine, others) = partition(merged, &order, merge_key)?;
        let sorted = in_order(mine, others, &order, &before, if maps { merge_key } else { "" }, maps)?;
        original.insert(key, Value::Array(sorted.into()));
        patch.remove(key);
    }
    Ok(())
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
        Value::Array(items) => Ok(items.into()),
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
        Value::String(s) => s.to_string(),
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
