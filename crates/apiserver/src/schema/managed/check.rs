//! Whether a configuration that is to be applied has the form that its type has.

use std::collections::BTreeSet;

use serde_json::Value;

use super::place::{Place, shown};
use crate::schema::go;
use crate::schema::table::{Kind, Topology};

/// What is wrong with a configuration, in the reference's words; `None` where nothing is.
pub(super) fn check(place: Place<'_>, value: &Value) -> Option<String> {
    let mut found = Vec::new();
    visit(place, value, "", &mut found);
    match found.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn visit(place: Place<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    let at = if path.is_empty() { String::new() } else { format!("{path}: ") };
    // Nothing is a valid value of anything.
    if value.is_null() {
        return;
    }
    match (&place.shape.kind, value) {
        (Kind::Struct(_) | Kind::Map(_), Value::Object(members)) => {
            for (name, value) in members {
                let Some(member) = place.member(name) else {
                    found.push(format!("{path}.{name}: field not declared in schema"));
                    // The others of the same object are not looked at.
                    return;
                };
                visit(member, value, &format!("{path}.{name}"), found);
            }
        }
        (Kind::Struct(_) | Kind::Map(_), other) => {
            found.push(format!("{at}expected map, got &{{{}}}", go::sprint(other)));
        }
        (Kind::List(_), Value::Array(items)) => elements(place, items, path, found),
        (Kind::List(_), other) => found.push(format!("{at}expected list, got &{{{}}}", go::sprint(other))),
        (Kind::String | Kind::Bytes, Value::String(_))
        | (Kind::Bool, Value::Bool(_))
        | (Kind::Int32 | Kind::Int64 | Kind::Float, Value::Number(_))
        | (Kind::Fields | Kind::Raw | Kind::Json | Kind::Either(_), _) => {}
        (Kind::String | Kind::Bytes, other) => {
            found.push(format!("{at}expected string, got &value.valueUnstructured{{Value:{}}}", literal(other)));
        }
        (Kind::Bool, other) => found.push(format!("{at}expected boolean, got &{{{}}}", go::sprint(other))),
        (Kind::Int32 | Kind::Int64 | Kind::Float, other) => {
            found.push(format!("{at}expected numeric (int or float), got {}", type_of(other)));
        }
        (Kind::Quantity | Kind::Time | Kind::MicroTime | Kind::IntOrString, Value::Object(_) | Value::Array(_)) => {
            found.push(format!("{at}expected any scalar, got &{{{}}}", go::sprint(value)));
        }
        (Kind::Quantity | Kind::Time | Kind::MicroTime | Kind::IntOrString, _) => {}
    }
}

fn elements(place: Place<'_>, items: &[Value], path: &str, found: &mut Vec<String>) {
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
        if !seen.insert(step) {
            found.push(format!("{path}: duplicate entries for key {name}"));
        }
        visit(element, item, &format!("{path}{name}"), found);
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
