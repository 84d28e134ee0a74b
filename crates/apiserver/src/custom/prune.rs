//! Pruning: fields that a schema does not know are dropped, and told.

use serde_json::Value;

use super::Object;
use super::structural::{Additional, Structural};

/// The fields that every object of Kubernetes has.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the unknown fields of a whole object. Those of its metadata are not its business.
pub fn prune_object(object: &mut Object, schema: &Structural) {
    prune_object_noting(object, schema, &mut None);
}

/// As [`prune_object`]; answers the paths of what was dropped, sorted.
pub fn unknown_fields(object: &mut Object, schema: &Structural) -> Vec<String> {
    let mut notes = Some(Notes::default());
    prune_object_noting(object, schema, &mut notes);
    let mut paths = notes.map(|n| n.paths).unwrap_or_default();
    paths.sort();
    paths
}

/// Drops the unknown fields of any value; `root` says that it is a whole object, whatever its schema says.
pub fn prune(value: &mut Value, schema: &Structural, root: bool) {
    match value {
        Value::Object(object) if root => prune_object(object, schema),
        value => walk(value, Some(schema), &mut None),
    }
}

/// What was dropped, and where the walk is.
#[derive(Default)]
struct Notes {
    at: Vec<String>,
    paths: Vec<String>,
}

impl Notes {
    fn unknown(&mut self, name: &str) {
        self.paths.push(join(&self.at, name));
    }
}

/// A path as strict decoding shows it.
fn join(at: &[String], name: &str) -> String {
    let mut path = String::new();
    for step in at.iter().map(String::as_str).chain([name]) {
        if !path.is_empty() && !step.starts_with('[') {
            path.push('.');
        }
        path.push_str(step);
    }
    path
}

fn below(notes: &mut Option<Notes>, step: impl FnOnce() -> String, walk: impl FnOnce(&mut Option<Notes>)) {
    if let Some(notes) = notes {
        notes.at.push(step());
    }
    walk(notes);
    if let Some(notes) = notes {
        notes.at.pop();
    }
}

fn prune_object_noting(object: &mut Object, schema: &Structural, notes: &mut Option<Notes>) {
    members(object, schema, true, notes);
}

fn walk(value: &mut Value, schema: Option<&Structural>, notes: &mut Option<Notes>) {
    match (value, schema) {
        (value, Some(schema)) if schema.preserve_unknown => keep(value, schema, notes),
        (Value::Object(object), None) => {
            if let Some(notes) = notes {
                object.keys().for_each(|name| notes.unknown(name));
            }
            object.clear();
        }
        (Value::Object(object), Some(schema)) => members(object, schema, schema.embedded, notes),
        (Value::Array(list), schema) => {
            let items = schema.and_then(|s| s.items.as_deref());
            for (index, value) in list.iter_mut().enumerate() {
                below(notes, || format!("[{index}]"), |notes| walk(value, items, notes));
            }
        }
        _ => {}
    }
}

fn members(object: &mut Object, schema: &Structural, whole: bool, notes: &mut Option<Notes>) {
    if schema.preserve_unknown {
        return keep_members(object, schema, whole, notes);
    }
    let at_root = notes.as_ref().is_none_or(|notes| notes.at.is_empty());
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
                if let Some(notes) = notes
                    && (!is_meta || !at_root)
                {
                    notes.unknown(name);
                }
                return false;
            }
        };
        below(notes, || name.clone(), |notes| walk(value, schema, notes));
        true
    });
}

/// Prunes only what is below members that a schema knows, though it keeps the others.
fn keep(value: &mut Value, schema: &Structural, notes: &mut Option<Notes>) {
    match value {
        Value::Object(object) => keep_members(object, schema, schema.embedded, notes),
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref() else { return };
            for (index, value) in list.iter_mut().enumerate() {
                below(notes, || format!("[{index}]"), |notes| keep(value, items, notes));
            }
        }
        _ => {}
    }
}

fn keep_members(object: &mut Object, schema: &Structural, whole: bool, notes: &mut Option<Notes>) {
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
        below(notes, || name.clone(), |notes| walk(value, known, notes));
    }
}
