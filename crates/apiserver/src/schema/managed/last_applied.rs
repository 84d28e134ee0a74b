//! From the annotation of kubectl's own apply to managed fields: an object that was applied that way can be applied
//! by the server without conflicts, and the annotation is kept up to date.

use muster_tree::Value;

use super::apply::Configuration;
use super::check::check;
use super::compare::difference;
use super::conflict::Conflict;
use super::owned::field_set;
use super::place::Place;
use crate::schema::{Object, fields, read_json};

/// The manager for which all this is done.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations together may be this many bytes long.
const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// The conflicts that are left when the fields are not counted that were applied by the annotation and have not
/// been changed since.
pub(super) fn unexpected(
    place: Place<'_>,
    configuration: &Configuration<'_>,
    live: &Value,
    conflicts: Vec<Conflict>,
) -> Vec<Conflict> {
    match unchanged_since(place, configuration, live) {
        Some(allowed) => conflicts.into_iter().filter(|conflict| !conflict.is_in(&allowed)).collect(),
        None => conflicts,
    }
}

fn unchanged_since(place: Place<'_>, configuration: &Configuration<'_>, live: &Value) -> Option<fields::Set> {
    let applied = annotation(live)?;
    let applied = read_json(applied.as_bytes()).ok()?;
    if applied["apiVersion"] != live["apiVersion"]
        || applied["kind"] != configuration.subject.model.kind
        || check(place, &applied).is_some()
    {
        return None;
    }
    let mut set = field_set(place, &applied);
    let (changed, removed) = difference(place, &applied, live)?;
    fields::subtract(&mut set, &changed);
    fields::subtract(&mut set, &removed);
    Some(set)
}

/// Writes what is applied into the annotation, where the object has one.
pub(super) fn refresh(object: &mut Object, applied: &Value) {
    let Some(annotations) =
        object.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    else {
        return;
    };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(said)) = applied.pointer_mut("/metadata/annotations") {
        said.remove(ANNOTATION);
    }
    let text = format!("{}\n", escaped(&applied.to_string()));
    annotations.insert(ANNOTATION.to_owned(), Value::from(text));
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > LARGEST_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}

/// JSON as Go writes it, fit for HTML.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}
