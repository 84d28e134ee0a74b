//! Whether a configuration that is to be applied has the form that its type has.

use std::collections::BTreeSet;

use muster_tree::Value;

use super::Object;
use super::open::Scalar;
use super::place::{Form, Place, shown};
use crate::field::path::Path;
use crate::schema::go;
use crate::schema::table::{Kind, Topology};

/// What is wrong with a configuration, in the reference's words; `None` where nothing is.
pub(super) fn check(place: Place<'_>, value: &Value) -> Option<String> {
    let mut found = Found { list: Vec::new(), may_repeat: false };
    visit(place, value, &Path::new(""), &mut found);
    found.told()
}

/// What is wrong with an object, of which elements may share their keys: it was written as a whole.
pub(super) fn check_object(place: Place<'_>, object: &Object) -> Option<String> {
    let mut found = Found { list: Vec::new(), may_repeat: true };
    let place = place.seen(Some(&Value::Object(Object::new())));
    if matches!(place.form(), Form::Map) {
        members(place, object, &Path::new(""), &mut found);
    }
    found.told()
}

/// What was found to be wrong.
struct Found {
    list: Vec<String>,
    /// Whether elements may share their keys.
    may_repeat: bool,
}

impl Found {
    fn told(self) -> Option<String> {
        match self.list.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("errors:\n  {}", many.join("\n  "))),
        }
    }

    fn push(&mut self, what: String) {
        self.list.push(what);
    }
}

fn visit(place: Place<'_>, value: &Value, path: &Path<'_>, found: &mut Found) {
    // Nothing is a valid value of anything.
    if value.is_null() {
        return;
    }
    let place = place.seen(Some(value));
    match (place.form(), value) {
        (Form::Map, Value::Object(object)) => members(place, object, path, found),
        (Form::Map, other) => found.push(format!("{}expected map, got &{{{}}}", at(path), go::sprint(other))),
        (Form::List, Value::Array(items)) => elements(place, items, path, found),
        (Form::List, other) => found.push(format!("{}expected list, got &{{{}}}", at(path), go::sprint(other))),
        (Form::Leaf(kind), value) => leaf(sort_of(kind), value, path, found),
        (Form::Scalar(scalar), value) => leaf(Some(scalar), value, path, found),
        (Form::Any, _) => {}
    }
}

/// What begins the words about a place.
fn at(path: &Path<'_>) -> String {
    let path = path.to_string();
    if path.is_empty() { path } else { format!("{path}: ") }
}

fn members(place: Place<'_>, object: &Object, path: &Path<'_>, found: &mut Found) {
    for (name, value) in object {
        let Some(member) = place.member(name) else {
            found.push(format!("{path}.{name}: field not declared in schema"));
            // The others of the same object are not looked at.
            return;
        };
        visit(member, value, &path.child(name), found);
    }
}

/// What a scalar of the table is; `None` where it may be anything.
fn sort_of(kind: &Kind) -> Option<Scalar> {
    match kind {
        Kind::String | Kind::Bytes => Some(Scalar::Text),
        Kind::Bool => Some(Scalar::Boolean),
        Kind::Int32 | Kind::Int64 | Kind::Float => Some(Scalar::Number),
        Kind::Quantity | Kind::Time | Kind::MicroTime | Kind::IntOrString => Some(Scalar::Any),
        _ => None,
    }
}

fn leaf(sort: Option<Scalar>, value: &Value, path: &Path<'_>, found: &mut Found) {
    let told = match (sort, value) {
        (Some(Scalar::Text), Value::String(_))
        | (Some(Scalar::Boolean), Value::Bool(_))
        | (Some(Scalar::Number), Value::Number(_))
        | (None, _) => return,
        (Some(Scalar::Text), other) => format!("string, got &value.valueUnstructured{{Value:{}}}", literal(other)),
        (Some(Scalar::Boolean), other) => format!("boolean, got &{{{}}}", go::sprint(other)),
        (Some(Scalar::Number), other) => format!("numeric (int or float), got {}", type_of(other)),
        (Some(Scalar::Any), Value::Object(_) | Value::Array(_)) => {
            format!("any scalar, got &{{{}}}", go::sprint(value))
        }
        (Some(Scalar::Any), _) => return,
    };
    found.push(format!("{}expected {told}", at(path)));
}

fn elements(place: Place<'_>, items: &[Value], path: &Path<'_>, found: &mut Found) {
    let Some(element) = place.element() else { return };
    let keyed = matches!(place.topology(), Topology::Keyed | Topology::Set);
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = if keyed {
            match place.element_path(item) {
                Ok(step) => step,
                Err(why) => {
                    found.push(format!("{path}: element {index}: {why}"));
                    return;
                }
            }
        } else {
            format!("i:{index}")
        };
        let name = shown(&step);
        if !seen.insert(step) && !found.may_repeat {
            found.push(format!("{path}: duplicate entries for key {name}"));
        }
        visit(element, item, &path.text(&name), found);
    }
}

/// What Go calls the type of a decoded value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A decoded value as Go's source would spell it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => crate::field::go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let parts: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{}:{}", crate::field::go_quote(name), literal(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", parts.join(", "))
        }
        scalar => go::sprint(scalar),
    }
}
