//! Events of core/v1 (API-17).

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, Path, complain, name};

/// Checks an event. Old events (without `eventTime`) need little; new ones say who reports what.
#[must_use]
pub fn validate(event: &Object) -> Errors {
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
        let path = Path::new("reportingComponent");
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            let errors = validate(event.as_object().expect("object"));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{event}");
        }
    }
}
