//! Pruning: fields that a schema does not know are dropped, and told.

use muster_tree::Value;

use super::Object;
use super::structural::{Additional, Structural};
use crate::field::path::Path;

/// The fields that every object of Kubernetes has.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the unknown fields of a whole object. Those of its metadata are not its business.
pub fn prune_object(object: &mut Object, schema: &Structural) {
    prune_object_noting(object, schema, &mut None);
}

/// As [`prune_object`]; answers the paths of what was dropped, sorted.
pub fn unknown_fields(object: &mut Object, schema: &Structural) -> Vec<String> {
    let mut notes = Some(Vec::new());
    prune_object_noting(object, schema, &mut notes);
    let mut paths = notes.unwrap_or_default();
    paths.sort();
    paths
}

/// Drops the unknown fields of any value; `root` says that it is a whole object, whatever its schema says.
pub fn prune(value: &mut Value, schema: &Structural, root: bool) {
    match value {
        Value::Object(object) if root => prune_object(object, schema),
        value => walk(value, Some(schema), &Path::ROOT, &mut None),
    }
}

/// The paths of what was dropped, where somebody wants to know.
type Notes = Option<Vec<String>>;

fn note(notes: &mut Notes, at: &Path<'_>, name: &str) {
    if let Some(paths) = notes {
        paths.push(at.child(name).to_string());
    }
}

fn prune_object_noting(object: &mut Object, schema: &Structural, notes: &mut Notes) {
    members(object, schema, true, &Path::ROOT, notes);
}

fn walk(value: &mut Value, schema: Option<&Structural>, at: &Path<'_>, notes: &mut Notes) {
    match (value, schema) {
        (value, Some(schema)) if schema.preserve_unknown => keep(value, schema, at, notes),
        (Value::Object(object), None) => {
            object.keys().for_each(|name| note(notes, at, name));
            object.clear();
        }
        (Value::Object(object), Some(schema)) => members(object, schema, schema.embedded, at, notes),
        (Value::Array(list), schema) => {
            let items = schema.and_then(|s| s.items.as_deref());
            for (index, value) in list.iter_mut().enumerate() {
                walk(value, items, &at.index(index), notes);
            }
        }
        _ => {}
    }
}

fn members(object: &mut Object, schema: &Structural, whole: bool, at: &Path<'_>, notes: &mut Notes) {
    if schema.preserve_unknown {
        return keep_members(object, schema, whole, at, notes);
    }
    object.retain(|name, value| {
        let is_meta = META_FIELDS.contains(&name.as_str());
        if whole && is_meta {
            return true;
        }
        let schema = match (schema.property(name), &schema.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(&**schema),
            (None, Additional::Bool(_)) => None,
            (None, Additional::Unsaid) => {
                if !is_meta || !at.is_root() {
                    note(notes, at, name);
                }
                return false;
            }
        };
        walk(value, schema, &at.child(name), notes);
        true
    });
}

/// Prunes only what is below members that a schema knows, though it keeps the others.
fn keep(value: &mut Value, schema: &Structural, at: &Path<'_>, notes: &mut Notes) {
    match value {
        Value::Object(object) => keep_members(object, schema, schema.embedded, at, notes),
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for (index, value) in list.iter_mut().enumerate() {
                keep(value, items, &at.index(index), notes);
            }
        }
        _ => {}
    }
}

fn keep_members(object: &mut Object, schema: &Structural, whole: bool, at: &Path<'_>, notes: &mut Notes) {
    for (name, value) in object.iter_mut() {
        if whole && META_FIELDS.contains(&name.as_str()) {
            continue;
        }
        let known = match (schema.property(name), &schema.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(&**schema),
            (None, Additional::Bool(_)) => None,
            (None, Additional::Unsaid) => continue,
        };
        walk(value, known, &at.child(name), notes);
    }
}
