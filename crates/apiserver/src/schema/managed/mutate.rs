//! What an object becomes when a policy applies a configuration to it. Nobody owns what it adds.

use muster_tree::Value;

use super::check::check;
use super::merge::merge;
use super::open::Subject;
use super::place::{Granularity, Place};
use crate::model::{Model, Object};

/// Merges a configuration into an object of a kind. Only parts of which managers own each for itself may be set: what
/// would replace the whole of a list, or a map, is most likely a mistake.
///
/// # Errors
/// Why it cannot be, in the reference's words.
pub fn merged(subject: Subject<'_>, object: &Object, configuration: Object) -> Result<Value, String> {
    let place = subject.root().ok_or_else(|| no_type(subject.model))?.place();
    let mut configuration = configuration;
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.get(field) {
            configuration.insert(field.to_owned(), value.clone());
        }
    }
    let (object, configuration) = (Value::Object(object.clone()), Value::Object(configuration));
    if let Some(why) = check(place, &configuration) {
        return Err(format!("failed to convert patch object to typed object: {why}"));
    }
    let mut wholes = Vec::new();
    find_wholes(place, &configuration, "", &mut wholes);
    if !wholes.is_empty() {
        let wholes = wholes.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {wholes}"));
    }
    Ok(merge(place, Some(&object), Some(&configuration)).unwrap_or_default())
}

/// That nothing is known of a kind, in the reference's words.
#[must_use]
pub fn no_type(model: Model<'_>) -> String {
    let Model { group, version, kind } = model;
    format!("failed to convert patch object to typed object: no corresponding type for {group}/{version}, Kind={kind}")
}

/// The lists and maps of a configuration that are owned only as wholes.
fn find_wholes(place: Place<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    let place = place.seen(Some(value));
    if matches!(value, Value::Object(_) | Value::Array(_)) && place.granularity() == Granularity::Whole {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(member) = place.member(name).filter(|_| place.declares(name)) {
                    find_wholes(member, value, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            let Some(element) = place.element() else { return };
            for (index, item) in items.iter().enumerate() {
                find_wholes(element, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
