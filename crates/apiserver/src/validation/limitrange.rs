//! Limit ranges (API-17).

use std::collections::BTreeSet;

use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object};
use muster_schema::quantity::Quantity;
use muster_tree::float;

use super::pod::resources::{
    is_huge_page_resource, is_native_resource, validate_container_resource_name, validate_resource_name,
};
use super::{Errors, Path, complain, name};

/// Quantities up to this are compared by thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// Checks a LimitRange.
pub fn validate(range: &Object, errors: &mut Errors) {
    let spec = Path::new("spec");
    let list = spec.child("limits");
    let empty = Object::new();
    let mut types = BTreeSet::new();
    for (i, limit) in range.object("spec").unwrap_or(&empty).items("limits").enumerate() {
        let path = list.index(i);
        let kind = limit.text("type");
        validate_type(kind, &path.child("type"), errors);
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(path.child("type"), kind));
        }
        validate_item(limit, kind, &path, errors);
    }
}

fn validate_type(kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let complaints = name::is_qualified_name(kind);
    if complaints.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        errors.push(FieldError::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
    complain(kind, complaints, path, errors);
}

fn validate_item(limit: &Object, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut check = |field: &'static str, errors: &mut Errors| {
        let list = path.child(field);
        let mut sorted: Vec<&str> = limit.pairs(field).map(|(resource, _)| resource).collect();
        sorted.sort_unstable();
        for resource in sorted {
            if matches!(kind, "Pod" | "Container") {
                validate_container_resource_name(resource, &list.key(resource), errors);
            } else {
                validate_resource_name(resource, &list.key(resource), errors);
            }
            names.insert(resource);
        }
    };
    check("max", errors);
    check("min", errors);
    let is_pod = kind == "Pod";
    for field in ["default", "defaultRequest"] {
        if !is_pod {
            check(field, errors);
        } else if limit.object(field).is_some_and(|list| !list.is_empty()) {
            errors.push(FieldError::forbidden(path.child(field), "may not be specified when `type` is 'Pod'"));
        }
    }
    if kind == "PersistentVolumeClaim" {
        let has = |field: &str| limit.object(field).is_some_and(|list| list.contains_key("storage"));
        if !has("min") && !has("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(path.child("limits"), why));
        }
    }
    check("maxLimitRequestRatio", errors);
    for resource in names {
        validate_resource(limit, is_pod, resource, path, errors);
    }
}

/// Checks what is said of one resource against each other.
fn validate_resource(limit: &Object, is_pod: bool, resource: &str, path: &Path<'_>, errors: &mut Errors) {
    let of = |field: &str| -> Option<Quantity> {
        Some(Quantity::of(
            limit.object(field).filter(|_| !is_pod || !field.starts_with("default"))?.maybe_text(resource)?,
        ))
    };
    let (min, max) = (of("min"), of("max"));
    let (default, request, ratio) = (of("default"), of("defaultRequest"), of("maxLimitRequestRatio"));
    let mut wrong = |field: &str, shown: &Quantity, why: String| {
        let list = path.child(field);
        errors.push(FieldError::invalid(list.key(resource), Shown::Str(shown.to_string()), why));
    };
    let above = |a: &Option<Quantity>, b: &Option<Quantity>| match (a, b) {
        (Some(a), Some(b)) if a.compare(b).is_gt() => Some((a.clone(), b.clone())),
        _ => None,
    };
    if let Some((min, max)) = above(&min, &max) {
        wrong("min", &min, format!("min value {min} is greater than max value {max}"));
    }
    if let Some((min, request)) = above(&min, &request) {
        wrong("defaultRequest", &request, format!("min value {min} is greater than default request value {request}"));
    }
    if let Some((request, max)) = above(&request, &max) {
        wrong("defaultRequest", &request, format!("default request value {request} is greater than max value {max}"));
    }
    if let Some((request, default)) = above(&request, &default) {
        let why = format!("default request value {request} is greater than default limit value {default}");
        wrong("defaultRequest", &request, why);
    }
    if let Some((min, default)) = above(&min, &default) {
        wrong("default", &min, format!("min value {min} is greater than default value {default}"));
    }
    if let Some((default, max)) = above(&default, &max) {
        wrong("default", &max, format!("default value {default} is greater than max value {max}"));
    }
    if let Some(ratio) = &ratio {
        if ratio.compare(&Quantity::of("1")).is_lt() {
            wrong("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (&min, &max) {
            let (own, bound) = ratios(ratio, min, max);
            if own > bound {
                let why = format!("ratio {ratio} is greater than max/min = {}", go_float(bound));
                wrong("maxLimitRequestRatio", ratio, why);
            }
        }
    }
    let overcommit = is_native_resource(resource) && !is_huge_page_resource(resource);
    if let (Some(default), Some(request)) = (&default, &request)
        && !overcommit
        && default.compare(request).is_ne()
    {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {resource}");
        wrong("defaultRequest", request, why);
    }
}

/// The ratio, and that of max to min.
#[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
fn ratios(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    let small = [ratio, min, max].iter().all(|q| q.value() < MAX_MILLI);
    if small {
        (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
    } else {
        (ratio.value() as f64, max.value() as f64 / min.value() as f64)
    }
}

/// A float as Go's `%f` prints it.
#[must_use]
pub fn go_float(number: f64) -> String {
    if number.is_finite() { format!("{number:.6}") } else { float::shown(number) }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    /// Contract: API-25
    #[test]
    fn ranges_by_the_table() {
        let container = |fields: Value| {
            let mut item = json!({"type": "Container"});
            for (key, value) in fields.as_object().into_iter().flatten() {
                item[key] = value.clone();
            }
            json!([item])
        };
        let cases = [
            (
                container(json!({"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}})),
                vec![],
            ),
            (
                container(json!({"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}})),
                vec![
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
                ],
            ),
            (
                container(json!({"min": {"cpu": "3"}, "default": {"cpu": "2"}, "max": {"cpu": "1"}})),
                vec![
                    "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 1",
                    "spec.limits[0].default[cpu]: Invalid value: \"3\": min value 3 is greater than default value 2",
                    "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 2 is greater than max value 1",
                ],
            ),
            (
                container(json!({"default": {"a.io/gpu": "2"}, "defaultRequest": {"a.io/gpu": "1"}})),
                vec![
                    "spec.limits[0].defaultRequest[a.io/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in a.io/gpu",
                ],
            ),
            (
                json!([{"type": "Odd"}]),
                vec!["spec.limits[0].type: Invalid value: \"Odd\": must be a standard limit type or fully qualified"],
            ),
            (
                json!([{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}]),
                vec![
                    "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                ],
            ),
            (
                json!([{"type": "Pod", "default": {"cpu": "1"}}]),
                vec!["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
        ];
        for (limits, want) in cases {
            let range = json!({"spec": {"limits": limits}});
            let mut errors = Errors::new();
            validate(range.as_object().expect("an object"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{range}");
        }
    }
}
