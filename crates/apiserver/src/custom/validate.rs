//! The validation of an object by its schema, with the reference's messages and in its order.
//!
//! The reference remembers the message of each error and tells none twice; where alternatives fail, it tells what the
//! one had against the value that had the most checks pass. Both are part of what clients see, so both are here.

use std::collections::HashSet;
use std::sync::LazyLock;

use muster_tree::Value;

use super::Object;
use super::formats;
use super::metadata::child;
use super::structural::{Additional, Checks, Kind, Structural};
use super::was::Was;
use crate::field::{ErrorKind, FieldError, Shown, go_quote};
use crate::validation::Errors;

mod scalars;

use scalars::{check_number, check_text, check_values, is_json_integer};

/// What is wrong with a whole object. With an old one, what was wrong before and has not changed is let be.
#[must_use]
pub fn object(object: &Object, old: Option<&Object>, schema: &Structural) -> Errors {
    let old = old.cloned().map(Value::Object);
    let mut found = Found::default();
    checked_object(object, old.as_ref().map(|old| Was::new(old, schema)), schema, "", &mut found);
    found.errors("")
}

/// What is wrong with a value that stands at a path.
#[must_use]
pub fn value(value: &Value, old: Option<&Value>, schema: &Structural, path: &str) -> Errors {
    let mut found = Found::default();
    found.merge(node(value, old.map(|old| Was::new(old, schema)), schema, ""));
    found.errors(path)
}

/// Errors, and how many checks passed.
#[derive(Default)]
struct Found {
    list: Vec<(String, FieldError)>,
    /// The messages, where there are many.
    told: HashSet<String>,
    passed: u32,
}

/// So many messages are compared one by one.
const FEW: usize = 16;

impl Found {
    fn is_valid(&self) -> bool {
        self.list.is_empty()
    }

    fn add(&mut self, message: String, error: FieldError) {
        if self.list.len() < FEW {
            if self.list.iter().any(|(told, _)| *told == message) {
                return;
            }
        } else {
            if self.told.is_empty() {
                self.told.extend(self.list.iter().map(|(told, _)| told.clone()));
            }
            if !self.told.insert(message.clone()) {
                return;
            }
        }
        self.list.push((message, error));
    }

    /// An error whose value the answer shows.
    fn invalid(&mut self, path: &str, shown: impl Into<Shown>, message: String) {
        let error = FieldError::invalid(path, shown, message.clone());
        self.add(message, error);
    }

    /// An error of no field.
    fn plain(&mut self, message: String) {
        let error = FieldError::invalid("", "", message.clone());
        self.add(message, error);
    }

    fn wrong_type(&mut self, path: &str, expected: &str, actual: &str) {
        let message = format!("{path} in body must be of type {expected}: {}", go_quote(actual));
        let error = FieldError {
            kind: ErrorKind::TypeInvalid,
            field: path.to_owned(),
            value: Some(actual.into()),
            detail: message.clone(),
        };
        self.add(message, error);
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        for (message, error) in other.list {
            self.add(message, error);
        }
    }

    /// The errors, with their fields below a path.
    fn errors(self, path: &str) -> Errors {
        let at = |field: &str| match field.strip_prefix('.').unwrap_or(field) {
            "" if path.is_empty() => "<nil>".to_owned(),
            "" => path.to_owned(),
            field => child(path, field),
        };
        self.list.into_iter().map(|(_, error)| FieldError { field: at(&error.field), ..error }).collect()
    }
}

/// A value of a schema; with an equal old value, whatever is wrong with it may stay.
fn node(value: &Value, old: Option<Was<'_>>, schema: &Structural, path: &str) -> Found {
    let mut found = Found::default();
    match value {
        Value::Object(object) => checked_object(object, old, schema, path, &mut found),
        value => checked(value, old, schema, path, &mut found),
    }
    if !found.is_valid() && old.is_some_and(|old| old.is(value)) {
        return Found { passed: found.passed, ..Found::default() };
    }
    found
}

static NO_CHECKS: LazyLock<Checks> = LazyLock::new(Checks::default);

/// The names of the types that a schema allows.
fn types(schema: &Structural) -> &'static [Kind] {
    if schema.int_or_string {
        return &[Kind::Integer, Kind::String];
    }
    match schema.kind {
        None => &[],
        Some(Kind::Array) => &[Kind::Array],
        Some(Kind::Boolean) => &[Kind::Boolean],
        Some(Kind::Integer) => &[Kind::Integer],
        Some(Kind::Number) => &[Kind::Number],
        Some(Kind::Object) => &[Kind::Object],
        Some(Kind::String) => &[Kind::String],
    }
}

/// The type of a value, and the format that the reference sees in it.
fn actual(value: &Value) -> (Kind, &'static str) {
    match value {
        Value::Bool(_) => (Kind::Boolean, ""),
        Value::Number(number) if number.is_f64() => (Kind::Number, "float64"),
        Value::Number(_) => (Kind::Integer, "int64"),
        Value::String(_) | Value::Null => (Kind::String, ""),
        Value::Array(_) => (Kind::Array, ""),
        Value::Object(_) => (Kind::Object, ""),
    }
}

fn joined(types: &[Kind]) -> String {
    types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
}

fn check_type(value: &Value, kind: (Kind, &str), schema: &Structural, format: &str, path: &str, found: &mut Found) {
    let types = types(schema);
    if types.is_empty() && format.is_empty() {
        return;
    }
    let (kind, own_format) = kind;
    let whole = value.as_f64().is_some_and(is_json_integer);
    let float_as_int = kind == Kind::Number && whole && types.contains(&Kind::Integer);
    let int_as_float = kind == Kind::Integer && types.contains(&Kind::Number);
    let fits = types.contains(&kind) || float_as_int || int_as_float;
    let text_like = matches!(kind, Kind::String | Kind::Array);
    let numeric = types.contains(&Kind::Number) || types.contains(&Kind::Integer);
    if !text_like && !format.is_empty() && !fits && own_format != format {
        found.wrong_type(path, format, own_format);
    } else if (!numeric && !format.is_empty() && text_like) || fits {
        found.passed += 1;
    } else {
        found.wrong_type(path, &joined(types), kind.name());
    }
    found.passed += 1;
}

fn checked_object(object: &Object, old: Option<Was<'_>>, schema: &Structural, path: &str, found: &mut Found) {
    let checks = schema.checks.as_deref().unwrap_or(&NO_CHECKS);
    check_type(&Value::Null, (Kind::Object, ""), schema, &checks.format, path, found);
    alternatives(checks, path, found, |schema| {
        let mut found = Found::default();
        checked_object(object, old, schema, path, &mut found);
        found
    });
    if !checks.values.is_empty() {
        let whole = Value::Object(object.clone());
        check_values(&whole, checks, path, found);
    }
    found.passed += 1;
    members(object, old, schema, checks, path, found);
    found.passed += 2;
}

fn checked(value: &Value, old: Option<Was<'_>>, schema: &Structural, path: &str, found: &mut Found) {
    let checks = schema.checks.as_deref().unwrap_or(&NO_CHECKS);
    if value.is_null() {
        let types = types(schema);
        if !types.is_empty() && !schema.nullable {
            found.wrong_type(path, &joined(types), "null");
        } else {
            found.passed += 1;
        }
        check_values(value, checks, path, found);
        return;
    }
    check_type(value, actual(value), schema, &checks.format, path, found);
    alternatives(checks, path, found, |schema| {
        let mut found = Found::default();
        checked(value, old, schema, path, &mut found);
        found
    });
    match value {
        Value::String(text) => {
            check_text(text, checks, path, found);
            if formats::check(&checks.format, text) == Some(false) {
                found.wrong_type(path, &checks.format, text);
            }
            found.passed += 1 + u32::from(!checks.format.is_empty());
        }
        Value::Number(_) => {
            check_number(value, schema, checks, path, found);
            found.passed += 2;
        }
        Value::Array(list) => {
            elements(list, old, schema, checks, path, found);
            found.passed += 2;
        }
        _ => {}
    }
    check_values(value, checks, path, found);
    found.passed += 2;
}

/// `anyOf`, `oneOf`, `allOf` and `not`, in this order.
fn alternatives(checks: &Checks, path: &str, found: &mut Found, test: impl Fn(&Structural) -> Found) {
    let quoted = || go_quote(path);
    if !checks.any_of.is_empty() {
        let mut best: Option<Found> = None;
        let mut success = None;
        for schema in &checks.any_of {
            let result = test(schema);
            if result.is_valid() {
                success = Some(result);
                break;
            }
            if best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        if success.is_none() {
            found.plain(format!("{} must validate at least one schema (anyOf)", quoted()));
        }
        if let Some(result) = success.or(best) {
            found.merge(result);
        }
    }
    if !checks.one_of.is_empty() {
        let mut best: Option<Found> = None;
        let mut first = None;
        let mut valid = 0;
        for schema in &checks.one_of {
            let result = test(schema);
            if result.is_valid() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        if valid == 1 {
            found.merge(first.unwrap_or_default());
        } else {
            let more =
                if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
            found.plain(format!("{} must validate one and only one schema (oneOf). {more}", quoted()));
            found.merge(best.unwrap_or_default());
        }
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for schema in &checks.all_of {
            let result = test(schema);
            valid += usize::from(result.is_valid());
            found.merge(result);
        }
        if valid != checks.all_of.len() {
            let more = if valid == 0 { ". None validated" } else { "" };
            found.plain(format!("{} must validate all the schemas (allOf){more}", quoted()));
        }
    }
    if let Some(schema) = &checks.not
        && test(schema).is_valid()
    {
        found.plain(format!("{} must not validate the schema (not)", quoted()));
    }
    found.passed += 2;
}

fn elements(list: &[Value], old: Option<Was<'_>>, schema: &Structural, checks: &Checks, path: &str, found: &mut Found) {
    if let Some(items) = &schema.items {
        let before = old.map(Was::elements);
        for (index, value) in list.iter().enumerate() {
            let old = before.as_ref().and_then(|before| before.of(value));
            found.merge(node(value, old, items, &format!("{path}[{index}]")));
        }
    }
    let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if let Some(least) = checks.min_items.filter(|least| size < *least) {
        found.invalid(path, size, format!("{path} in body should have at least {least} items"));
    }
    if let Some(most) = checks.max_items.filter(|most| size > *most) {
        too_many(path, size, most, format!("{path} in body should have at most {most} items"), found);
    }
}

fn too_many(path: &str, size: i64, most: i64, message: String, found: &mut Found) {
    let error = FieldError {
        kind: ErrorKind::TooMany,
        field: path.to_owned(),
        value: Some(size.into()),
        detail: crate::field::at_most(most),
    };
    found.add(message, error);
}

fn members(object: &Object, old: Option<Was<'_>>, schema: &Structural, checks: &Checks, path: &str, found: &mut Found) {
    let size = i64::try_from(object.len()).unwrap_or(i64::MAX);
    if let Some(least) = checks.min_properties.filter(|least| size < *least) {
        found.invalid(path, size, format!("{path} in body should have at least {least} properties"));
    }
    if let Some(most) = checks.max_properties.filter(|most| size > *most) {
        too_many(path, size, most, format!("{path} in body should have at most {most} properties"), found);
    }
    let old_member = |name: &str| {
        let hidden = path.is_empty() && matches!(name, "kind" | "apiVersion");
        old.filter(|_| !hidden).and_then(|old| old.member(name))
    };
    match &schema.additional {
        Additional::Bool(false) => {
            for name in object.keys().filter(|name| schema.property(name).is_none()) {
                let message = format!("{path}.{name} in body is a forbidden property");
                found.invalid(path, name.as_str(), message);
            }
        }
        Additional::Schema(additional) => {
            for (name, value) in object.iter().filter(|(name, _)| schema.property(name).is_none()) {
                found.merge(node(value, old_member(name), additional, &format!("{path}.{name}")));
            }
        }
        Additional::Bool(true) | Additional::Unsaid => {}
    }
    for (name, property) in &schema.properties {
        if let Some(value) = object.get(name) {
            found.merge(node(value, old_member(name), property, &child(path, name)));
        }
    }
    for name in checks.required.iter().filter(|name| !object.contains_key(name)) {
        let at = format!("{path}.{name}");
        let error = FieldError::required(at.as_str(), "");
        found.add(format!("{at} in body is required"), error);
    }
}
