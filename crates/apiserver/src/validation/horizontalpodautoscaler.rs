//! HorizontalPodAutoscalers, in the form of `autoscaling/v2` (API-17).

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};

use super::pod::resources::validate_container_resource_name;
use super::{Errors, Path, complain, name, non_negative};
use muster_schema::quantity::Quantity;

const SPEC: Path<'_> = Path::new("spec");
const STATUS: Path<'_> = Path::new("status");

/// The longest that a policy looks back, in seconds.
const LONGEST_PERIOD: i64 = 1800;
/// The longest stabilization window, in seconds.
const LONGEST_WINDOW: i64 = 3600;

/// How strictly the `apiVersion` of a reference to an object is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiVersion {
    /// It must name a group.
    Group,
    /// It must be a version, of a group or not.
    AnyGroup,
    /// It was like that before.
    Unchecked,
}

/// Checks an autoscaler's spec.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    let old_spec = old.map(|old| old.object("spec").unwrap_or(&empty));
    let least_bound = i64::from(old_spec.and_then(|s| s.maybe_int("minReplicas")) != Some(0));
    let (least, most) = (spec.maybe_int("minReplicas"), spec.int("maxReplicas"));
    if let Some(least) = least.filter(|least| *least < least_bound) {
        let why = format!("must be greater than or equal to {least_bound}");
        errors.push(FieldError::invalid(SPEC.child("minReplicas"), least, why));
    }
    let path = SPEC.child("maxReplicas");
    if most == 0 {
        errors.push(FieldError::required(path, "must be set and greater than 0"));
    } else if most < 0 {
        errors.push(FieldError::invalid(path, most, "must be greater than or equal to 1"));
    }
    if least.is_some_and(|least| most < least) {
        errors.push(FieldError::invalid(path, most, "must be greater than or equal to `minReplicas`"));
    }

    let target = spec.object("scaleTargetRef").unwrap_or(&empty);
    let old_target = old_spec.map(|s| s.object("scaleTargetRef").unwrap_or(&empty));
    let same = |old: &Object| ["apiVersion", "kind"].iter().all(|field| old.text(field) == target.text(field));
    let rule = match (old_target, target.text("kind")) {
        (Some(old), _) if same(old) => ApiVersion::Unchecked,
        // The only thing of the core group that can be scaled.
        (_, "ReplicationController") => ApiVersion::AnyGroup,
        _ => ApiVersion::Group,
    };
    validate_reference(target, rule, &SPEC.child("scaleTargetRef"), errors);

    let was_wrong = old_spec.is_some_and(|old| {
        let described = old.items("metrics").filter(|metric| metric.text("type") == "Object");
        let mut described = described.filter_map(|metric| metric.object("object")?.object("describedObject"));
        described.any(|reference| !is_version(reference.text("apiVersion")))
    });
    let rule = if was_wrong { ApiVersion::Unchecked } else { ApiVersion::AnyGroup };
    let path = SPEC.child("metrics");
    for (index, metric) in spec.items("metrics").enumerate() {
        validate_metric(metric, rule, &path.index(index), errors);
    }
    let scales_without_pods = |metric: &Object| matches!(metric.text("type"), "Object" | "External");
    if least == Some(0) && !spec.items("metrics").any(scales_without_pods) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(path, why));
    }

    if let Some(behavior) = spec.object("behavior") {
        let path = SPEC.child("behavior");
        for direction in ["scaleUp", "scaleDown"] {
            if let Some(rules) = behavior.object(direction) {
                validate_rules(rules, &path.child(direction), errors);
            }
        }
    }
}

/// Checks an autoscaler's status.
pub fn validate_status(object: &Object, errors: &mut Errors) {
    let Some(status) = object.object("status") else { return };
    for field in ["currentReplicas", "desiredReplicas"] {
        non_negative(status.int(field), &STATUS.child(field), errors);
    }
}

fn is_version(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'/').count() < 2
}

fn validate_reference(reference: &Object, rule: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        segment(reference.text(field), &path.child(field), "", errors);
    }
    let version = reference.text("apiVersion");
    let why = if rule == ApiVersion::Unchecked {
        return;
    } else if !is_version(version) {
        format!("unexpected GroupVersion string: {version}")
    } else if rule == ApiVersion::Group && version.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        "apiVersion must specify API group".to_owned()
    } else {
        return;
    };
    errors.push(FieldError::invalid(path.child("apiVersion"), version, why));
}

/// Checks a text that must be there and that becomes a part of a URL.
fn segment(text: &str, path: &Path<'_>, missing: &str, errors: &mut Errors) {
    if text.is_empty() {
        errors.push(FieldError::required(path, missing));
    } else {
        complain(text, name::is_path_segment(text, false), path, errors);
    }
}

/// What a metric can be of, as a type and as the field that tells more, in the order in which they are looked at.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn validate_metric(metric: &Object, rule: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    let kind = metric.text("type");
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    let unknown = || {
        let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        FieldError::not_supported(path.child("type"), kind, &known)
    };
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), "must specify a metric source type"));
    }
    if expected.is_none() {
        errors.push(unknown());
    }
    let present: Vec<&str> = SOURCES.map(|(_, field)| field).into_iter().filter(|f| metric.contains_key(f)).collect();
    if let Some((field, source)) = present.first().and_then(|field| Some((*field, metric.object(field)?))) {
        validate_source(field, source, rule, &path.child(field), errors);
    }
    match expected {
        Some(field) if !metric.contains_key(field) => {
            let why = "must populate information for the given metric source";
            errors.push(FieldError::required(path.child(field), why));
        }
        Some(_) => {}
        // Said a second time, as the reference server does.
        None => errors.push(unknown()),
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            errors.push(FieldError::forbidden(path.child(field), "must populate the given metric source only"));
        }
    }
}

fn validate_source(field: &str, source: &Object, rule: ApiVersion, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let target = source.object("target").unwrap_or(&empty);
    let measured = source.object("metric").unwrap_or(&empty);
    if field == "object" {
        let described = source.object("describedObject").unwrap_or(&empty);
        validate_reference(described, rule, &path.child("describedObject"), errors);
    }
    match field {
        "containerResource" => {
            let resource = source.text("name");
            if resource.is_empty() {
                errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
            } else {
                validate_container_resource_name(resource, &path.child("name"), errors);
            }
            let container = source.text("container");
            if container.is_empty() {
                errors.push(FieldError::required(path.child("container"), "must specify a container"));
            } else {
                complain(container, name::is_dns1123_label(container), &path.child("container"), errors);
            }
        }
        "resource" if source.text("name").is_empty() => {
            errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
        }
        "resource" => {}
        _ => {
            let path = path.child("metric");
            segment(measured.text("name"), &path.child("name"), "must specify a metric name", errors);
        }
    }
    let path = path.child("target");
    validate_target(target, &path, errors);
    let has = |field: &str| target.contains_key(field);
    let (missing, why, alternatives) = match field {
        "object" => ("averageValue", "must set either a target value or averageValue", ["value", "averageValue"]),
        "external" => {
            ("averageValue", "must set either a target value for metric or a per-pod target", ["value", "averageValue"])
        }
        "pods" => ("averageValue", "must specify a positive target averageValue", ["averageValue", "averageValue"]),
        _ => (
            "averageUtilization",
            "must set either a target raw value or a target utilization",
            ["averageUtilization", "averageValue"],
        ),
    };
    if !alternatives.iter().any(|field| has(field)) {
        errors.push(FieldError::required(path.child(missing), why));
    }
    match field {
        "external" if has("value") && has("averageValue") => errors.push(FieldError::forbidden(
            path.child("value"),
            "may not set both a target value for metric and a per-pod target",
        )),
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            errors.push(FieldError::forbidden(
                path.child("averageValue"),
                "may not set both a target raw value and a target utilization",
            ));
        }
        _ => {}
    }
}

fn validate_target(target: &Object, path: &Path<'_>, errors: &mut Errors) {
    let kind = target.text("type");
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.push(FieldError::invalid(
            path.child("type"),
            kind,
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    for field in ["value", "averageValue"] {
        if let Some(text) = target.maybe_text(field).filter(|text| !Quantity::of(text).is_positive()) {
            errors.push(FieldError::invalid(path.child(field), text, "must be positive"));
        }
    }
    if let Some(percent) = target.maybe_int("averageUtilization").filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(path.child("averageUtilization"), percent, "must be greater than 0"));
    }
}

fn validate_rules(rules: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(window) = rules.maybe_int("stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(path, window, "must be greater than or equal to zero"));
        } else if window > LONGEST_WINDOW {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            errors.push(FieldError::invalid(path, window, why));
        }
    }
    if let Some(policy) = rules.maybe_text("selectPolicy")
        && !matches!(policy, "Max" | "Min" | "Disabled")
    {
        errors.push(FieldError::not_supported(path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"]));
    }
    let list = path.child("policies");
    if rules.list("policies").is_empty() {
        errors.push(FieldError::required(list, "must specify at least one Policy"));
    }
    for (index, policy) in rules.items("policies").enumerate() {
        validate_policy(policy, &list.index(index), errors);
    }
    if let Some(tolerance) = rules.maybe_text("tolerance").filter(|text| Quantity::of(text).is_negative()) {
        errors.push(FieldError::invalid(path.child("tolerance"), tolerance, super::NEGATIVE));
    }
}

fn validate_policy(policy: &Object, path: &Path<'_>, errors: &mut Errors) {
    let kind = policy.text("type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.push(FieldError::not_supported(path.child("type"), kind, &["Percent", "Pods"]));
    }
    let period = policy.int("periodSeconds");
    for (field, value) in [("value", policy.int("value")), ("periodSeconds", period)] {
        if value <= 0 {
            errors.push(FieldError::invalid(path.child(field), value, "must be greater than zero"));
        }
    }
    if period > LONGEST_PERIOD {
        let why = format!("must be less than or equal to {LONGEST_PERIOD}");
        errors.push(FieldError::invalid(path.child("periodSeconds"), period, why));
    }
}
