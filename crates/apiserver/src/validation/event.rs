//! Events, as core/v1 and as events.k8s.io/v1 ask for them (API-17, API-26).

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, IMMUTABLE, Path, complain, internal, name};

/// Checks an event. Old events (without `eventTime`) need little; new ones say who reports what. `renamed` says that
/// the one who reports is called the controller.
#[must_use]
pub fn validate(event: &Object, renamed: bool) -> Errors {
    let mut errors = Errors::new();
    let namespace = metadata(event).text("namespace");
    let about = event.object("involvedObject").map_or("", |o| o.text("namespace"));
    let involved = Path::new("involvedObject");
    let mismatch = || FieldError::invalid(involved.child("namespace"), about, "does not match event.namespace");
    if event.text("eventTime").is_empty() {
        if about.is_empty() {
            if !matches!(namespace, "" | "default") {
                errors.push(mismatch());
            }
        } else if namespace != about {
            errors.push(mismatch());
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let controller = event.text("reportingComponent");
        let path = Path::new(if renamed { "reportingController" } else { "reportingComponent" });
        if controller.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
        complain(controller, name::is_qualified_name(controller), &path, &mut errors);
        for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)] {
            let value = event.text(field);
            if value.is_empty() && field != "message" {
                errors.push(FieldError::required(field, ""));
            }
            if value.len() > limit {
                errors.push(FieldError::invalid(field, "", format!("can have at most {limit} characters")));
            }
        }
    }
    complain(namespace, name::is_dns1123_subdomain(namespace), &Path::new("namespace"), &mut errors);
    errors
}

/// Checks a new event of events.k8s.io/v1: the older fields stay empty.
pub fn validate_new(event: &Object, errors: &mut Errors) {
    validate_series(event, errors);
    if event.text("eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let empty = match event.get(field) {
            None | Some(Value::Null) => true,
            Some(Value::Object(source)) => source.text("component").is_empty() && source.text("host").is_empty(),
            Some(other) => other.as_i64() == Some(0),
        };
        if !empty {
            errors.push(FieldError::invalid(field, "", "needs to be unset"));
        }
    }
}

/// Checks a change of an event of events.k8s.io/v1: only its series goes on.
pub fn validate_change(event: &Object, old: &Object, errors: &mut Errors) {
    const FIELDS: [(&str, &str); 14] = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        // Upstream looks at it twice.
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    if event.get("series") != old.get("series") {
        validate_series(event, errors);
    }
    for (field, shown) in FIELDS {
        let value = event.get(field).filter(|value| !value.is_null());
        if value == old.get(field).filter(|value| !value.is_null()) {
            continue;
        }
        let found = match (field, value) {
            ("involvedObject" | "related", Some(Value::Object(about))) => internal::shown("ObjectReference", about),
            ("source", Some(Value::Object(source))) => internal::shown("EventSource", source),
            ("count", None) => Shown::from(0),
            ("involvedObject" | "source" | "related" | "firstTimestamp" | "lastTimestamp" | "eventTime", None) => {
                Shown::Bare("null".to_owned())
            }
            (_, None) => Shown::from(""),
            (_, Some(value)) => Shown::from(value),
        };
        errors.push(FieldError::invalid(shown, found, IMMUTABLE));
    }
}

fn validate_series(event: &Object, errors: &mut Errors) {
    let Some(series) = event.object("series") else { return };
    if series.int("count") < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if series.text("lastObservedTime").is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn events_by_the_table() {
        let cases = [
            (json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "n"}}), vec![]),
            (
                json!({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "m"}}),
                vec!["involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"],
            ),
            (json!({"metadata": {"namespace": "default"}, "involvedObject": {}}), vec![]),
            (
                json!({"metadata": {"namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "n"}, "reportingComponent": "c", "reason": "r", "action": "a", "message": "m".repeat(1025)}),
                vec![
                    "reportingInstance: Required value",
                    "message: Invalid value: \"\": can have at most 1024 characters",
                ],
            ),
        ];
        for (event, want) in cases {
            let errors = validate(event.as_object().expect("object"), false);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{event}");
        }
    }
}
