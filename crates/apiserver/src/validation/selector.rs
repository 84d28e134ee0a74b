//! Label selectors in their wire form: what is wrong with one, and whether it matches (API-17).

use muster_objects::{LabelSelector, Selector, SelectorError};
use muster_tree::{Text, Value};
use serde::Deserialize;

use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields};

use super::labels::validate_labels;
use super::{Errors, Path, complain, name};

/// Checks a label selector. `lenient` leaves values alone that an older version stored.
pub fn validate(selector: &Object, lenient: bool, path: &Path<'_>, errors: &mut Errors) {
    validate_labels(selector, "matchLabels", &path.child("matchLabels"), errors);
    for (i, requirement) in selector.items("matchExpressions").enumerate() {
        validate_requirement(requirement, false, lenient, &path.child("matchExpressions").index(i), errors);
    }
}

/// Checks one requirement on a label; `unknown` lets an operator be that a later version may know.
pub fn validate_requirement(requirement: &Object, unknown: bool, lenient: bool, path: &Path<'_>, errors: &mut Errors) {
    validate_operator(requirement, unknown, path, errors);
    let key = requirement.text("key");
    complain(key, name::is_qualified_name(key), &path.child("key"), errors);
    if !lenient {
        for (j, value) in requirement.strings("values").enumerate() {
            complain(value, name::is_label_value(value), &path.child("values").index(j), errors);
        }
    }
}

/// Checks that a requirement has the values that its operator needs.
pub fn validate_operator(requirement: &Object, unknown: bool, path: &Path<'_>, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => errors
            .push(FieldError::required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'")),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            path.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if unknown => {}
        other => errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator")),
    }
}

/// Whether the selector has no requirement.
#[must_use]
pub fn is_empty(selector: &Object) -> bool {
    selector.object("matchLabels").is_none_or(Object::is_empty) && selector.list("matchExpressions").is_empty()
}

/// The selector, ready to match; an absent one matches nothing.
///
/// # Errors
/// Where it is invalid: [`validate`] says what is wrong.
pub fn parse(selector: Option<&Object>) -> Result<Selector, SelectorError> {
    let Some(selector) = selector else { return Ok(Selector::nothing()) };
    let wire = LabelSelector::deserialize(selector).unwrap_or_default();
    Selector::try_from(&wire)
}

/// Whether the selector matches the labels in `parent["labels"]`.
#[must_use]
pub fn matches(selector: &Selector, parent: &Object) -> bool {
    let labels = parent.object("labels");
    selector.matches_fn(|key| labels.and_then(|l| l.maybe_text(key)))
}

/// Checks that the selector matches the labels of a pod template.
pub fn matches_template(selector: &Selector, template: &Object, path: &Path<'_>, errors: &mut Errors) {
    let meta = template.part("metadata");
    if !matches(selector, meta) {
        let meta_path = path.child("metadata");
        let labels = shown_labels(meta.object("labels"));
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(meta_path.child("labels"), labels, why));
    }
}

/// A selector as a message shows it: JSON, its fields in the order of Kubernetes' own type.
#[must_use]
pub fn shown(selector: Option<&Object>) -> Shown {
    let Some(selector) = selector else { return Shown::Bare("null".to_owned()) };
    let mut parts = Vec::new();
    if let Some(labels) = selector.object("matchLabels").filter(|l| !l.is_empty()) {
        parts.push(format!("\"matchLabels\":{}", sorted(labels)));
    }
    if !selector.list("matchExpressions").is_empty() {
        let each: Vec<String> = selector.items("matchExpressions").map(requirement_text).collect();
        parts.push(format!("\"matchExpressions\":[{}]", each.join(",")));
    }
    Shown::Bare(format!("{{{}}}", parts.join(",")))
}

/// A map of strings as a message shows it.
#[must_use]
pub fn shown_labels(labels: Option<&Object>) -> Shown {
    Shown::Bare(labels.map_or_else(|| "null".to_owned(), sorted))
}

/// A selector as Go prints it.
#[must_use]
pub fn go_string(selector: &Object) -> String {
    let mut labels: Vec<(&str, &str)> = selector.pairs("matchLabels").collect();
    labels.sort_unstable();
    let labels: String = labels.into_iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let each: String = selector
        .items("matchExpressions")
        .map(|r| {
            let values: Vec<&str> = r.strings("values").collect();
            let (key, operator) = (r.text("key"), r.text("operator"));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{each}}},}}"
    )
}

fn requirement_text(requirement: &Object) -> String {
    let mut out = format!(
        "{{\"key\":{},\"operator\":{}",
        Value::from(requirement.text("key")),
        Value::from(requirement.text("operator"))
    );
    if !requirement.list("values").is_empty() {
        out.push_str(&format!(",\"values\":{}", Value::from(requirement.list("values").to_vec())));
    }
    out.push('}');
    out
}

fn sorted(labels: &Object) -> String {
    let mut pairs: Vec<(&Text, &Value)> = labels.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = pairs.iter().map(|(k, v)| format!("{}:{v}", Value::from(k.as_str()))).collect();
    format!("{{{}}}", texts.join(","))
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn a_selector_is_shown_in_its_types_order() {
        let selector = json!({"matchExpressions": [{"values": ["b"], "operator": "In", "key": "k"}], "matchLabels": {"b": "2", "a": "1"}});
        let selector = selector.as_object();
        assert_eq!(
            shown(selector).to_string(),
            r#"{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"k","operator":"In","values":["b"]}]}"#
        );
        assert_eq!(parse(selector).expect("valid").to_string(), "a=1,b=2,k in (b)");
        assert!(parse(None).expect("valid").is_nothing());
    }
}
