//! The cells that several kinds' tables have in common.

use muster_objects::time::Timestamp;
use serde_json::Value;

pub use crate::model::column::{human_duration, since};
use crate::model::{Fields, Object, metadata};
use crate::validation::selector;

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

/// The names and the images of a template's containers, each joined by commas.
#[must_use]
pub fn containers(template: Option<&Object>) -> [Value; 2] {
    let join = |field: &str| {
        let each: Vec<&str> = template
            .and_then(|t| t.object("spec"))
            .map(|spec| spec.items("containers").map(|c| c.text(field)).collect())
            .unwrap_or_default();
        Value::from(each.join(","))
    };
    [join("name"), join("image")]
}

/// A selector as `metav1.FormatLabelSelector` shows it.
#[must_use]
pub fn label_selector(selector: Option<&Object>) -> String {
    match selector::parse(selector) {
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
