//! The cells that several kinds' tables have in common.

use muster_objects::time::Timestamp;
use muster_tree::Value;

pub use crate::model::column::since;
use crate::model::{Column, Fields, Object, column, metadata};
use crate::validation;

/// The object's name.
#[must_use]
pub fn name(object: &Object) -> Value {
    metadata(object).text("name").into()
}

/// The object's age in words.
#[must_use]
pub fn age(object: &Object, now: Timestamp) -> Value {
    since(metadata(object).text("creationTimestamp"), now).into()
}

/// The column of the names of a template's containers.
pub const CONTAINERS: Column = Column::wide_text("Containers", "Names of each container in the template.")
    .by(|object, _| joined(template(object), "name"));
/// The column of the images of a template's containers.
pub const IMAGES: Column = Column::wide_text("Images", "Images referenced by each container in the template.")
    .by(|object, _| joined(template(object), "image"));

/// The pod template of an object, wherever its kind has it.
fn template(object: &Object) -> Option<&Object> {
    const PLACES: [&str; 3] = ["/spec/template", "/spec/jobTemplate/spec/template", "/template"];
    PLACES.iter().find_map(|place| column::at(object, place)?.as_object())
}

/// A field of each of a template's containers, joined by commas.
fn joined(template: Option<&Object>, field: &str) -> Value {
    let spec = template.map(|template| template.part("spec"));
    let each: Vec<&str> =
        spec.map(|spec| spec.items("containers").map(|c| c.text(field)).collect()).unwrap_or_default();
    each.join(",").into()
}

/// How many replicas are ready of those that are wanted: `1/3`.
pub fn ready(object: &Object, _: Timestamp) -> Value {
    format!("{}/{}", object.part("status").int("readyReplicas"), object.part("spec").int("replicas")).into()
}

/// The selector of an object's spec, as `metav1.FormatLabelSelector` shows it.
pub fn selector(object: &Object, _: Timestamp) -> Value {
    label_selector(object.part("spec").object("selector")).into()
}

/// A number or a percentage at a place of an object, as text; `other` where there is none.
#[must_use]
pub fn amount(object: &Object, place: &str, other: &str) -> Value {
    match column::at(object, place) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
        None => other.into(),
    }
}

/// A selector as `metav1.FormatLabelSelector` shows it.
#[must_use]
pub fn label_selector(selector: Option<&Object>) -> String {
    match validation::selector::parse(selector) {
        Ok(parsed) => {
            let text = parsed.to_string();
            if text.is_empty() { "<none>".to_owned() } else { text }
        }
        Err(_) => "<error>".to_owned(),
    }
}

/// Labels as `labels.FormatLabels` shows them.
#[must_use]
pub fn labels(map: Option<&Object>) -> String {
    let mut each: Vec<String> = map
        .map(|m| m.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect())
        .unwrap_or_default();
    each.sort_unstable();
    if each.is_empty() { "<none>".to_owned() } else { each.join(",") }
}

/// The first few of a list, and how many more there are.
#[must_use]
pub fn first(each: &[String], most: usize) -> String {
    let shown = each.iter().take(most).cloned().collect::<Vec<_>>().join(",");
    if each.len() > most { format!("{shown} + {} more...", each.len() - most) } else { shown }
}

/// A text, or `other` where it is empty.
#[must_use]
pub fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The object's name, and that it is the default one where one of the annotations says so.
#[must_use]
pub fn name_of_default(object: &Object, annotations: &[&str]) -> Value {
    let default = is_default(object, annotations);
    format!("{}{}", metadata(object).text("name"), if default { " (default)" } else { "" }).into()
}

/// Whether one of the annotations says that the object is the default one.
#[must_use]
pub fn is_default(object: &Object, annotations: &[&str]) -> bool {
    let own = metadata(object).object("annotations");
    annotations.iter().any(|annotation| own.is_some_and(|own| own.text(annotation) == "true"))
}

/// Ways of access in short, each once.
#[must_use]
pub fn access_modes(parent: Option<&Object>) -> Value {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| parent.is_some_and(|parent| parent.strings("accessModes").any(|m| m == mode));
    let each: Vec<&str> = SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect();
    each.join(",").into()
}

/// The text at a place, or `<unset>`.
#[must_use]
pub fn or_unset(parent: Option<&Object>, field: &str) -> Value {
    parent.and_then(|parent| parent.maybe_text(field)).unwrap_or("<unset>").into()
}
