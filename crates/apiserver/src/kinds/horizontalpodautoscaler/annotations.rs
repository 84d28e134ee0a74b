//! The annotations in which `autoscaling/v1` carries what it has no fields for, as texts of JSON.
//!
//! Metrics, their states and conditions are written in v1's own types, whose fields come in the order in which Go
//! declares them; behavior in the reference server's internal type, whose fields begin with capitals.

use serde_json::{Value, json};

use crate::model::Object;
use crate::model::fields::Fields;
use crate::schema::{self, Validation};

/// Metrics but for the target of cpu.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The state of all metrics.
pub(super) const STATES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The conditions.
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// How fast it scales.
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// All annotations that belong to the conversion.
pub(super) const ALL: [&str; 6] = [
    METRICS,
    STATES,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Every field of the types that are written here, each before those that follow it in any of them.
const ORDER: [&str; 39] = [
    "kind",
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "name",
    "apiVersion",
    "metricName",
    "metricSelector",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetValue",
    "currentValue",
    "targetAverageValue",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// The metrics of the annotation, in v2's form; `None` where it is not such a list.
pub(super) fn metrics(text: &str) -> Option<Vec<Value>> {
    let list = list(text)?.iter().map(|metric| sources(metric, source_from_v1)).collect();
    checked("spec", "metrics", list)
}

/// The text of metrics in v2's form; `None` for no metrics.
pub(super) fn metrics_text(metrics: &[&Object]) -> Option<String> {
    text_of(&metrics.iter().map(|metric| sources(&Value::Object((*metric).clone()), source_to_v1)).collect::<Vec<_>>())
}

/// The states of metrics of the annotation, in v2's form; `None` where it is not such a list.
pub(super) fn states(text: &str) -> Option<Vec<Value>> {
    let list = list(text)?.iter().map(|state| sources(state, state_from_v1)).collect();
    checked("status", "currentMetrics", list)
}

/// The text of states of metrics in v2's form; `None` for no states.
pub(super) fn states_text(states: &[&Object]) -> Option<String> {
    text_of(&states.iter().map(|state| sources(&Value::Object((*state).clone()), state_to_v1)).collect::<Vec<_>>())
}

/// The conditions of the annotation; `None` where it is not such a list.
pub(super) fn conditions(text: &str) -> Option<Value> {
    checked("status", "conditions", list(text)?).map(Value::Array)
}

/// The text of conditions; `None` for no conditions.
pub(super) fn conditions_text(conditions: &[Value]) -> Option<String> {
    text_of(conditions)
}

/// The behavior of the annotation, in v2's form; `None` where it is none, or says nothing.
pub(super) fn behavior(text: &str) -> Option<Value> {
    let read = schema::read_json(text.as_bytes()).ok()?;
    let mut out = Object::new();
    for (field, name) in [("scaleup", "scaleUp"), ("scaledown", "scaleDown")] {
        let Some(Value::Object(rules)) = member(&read, field) else { continue };
        let rules = Value::Object(rules.clone());
        let mut new = Object::new();
        let fields = ["stabilizationWindowSeconds", "selectPolicy", "tolerance"];
        for field in fields {
            if let Some(value) = member(&rules, &field.to_lowercase()).filter(|value| !value.is_null()) {
                new.insert(field.to_owned(), value.clone());
            }
        }
        if let Some(Value::Array(policies)) = member(&rules, "policies") {
            let policies = policies.iter().map(|policy| {
                let of = |field: &str| member(policy, field).cloned();
                json!({
                    "type": of("type").unwrap_or_else(|| "".into()),
                    "value": of("value").unwrap_or_else(|| 0.into()),
                    "periodSeconds": of("periodseconds").unwrap_or_else(|| 0.into()),
                })
            });
            new.insert("policies".to_owned(), policies.collect());
        }
        out.insert(name.to_owned(), Value::Object(new));
    }
    let behavior = Value::Object(out);
    let says = behavior != json!({});
    let probe = json!({"spec": {"behavior": behavior}});
    (says && is_v2(&probe)).then_some(behavior)
}

/// The text of a behavior in v2's form.
pub(super) fn behavior_text(behavior: &Object) -> String {
    let rules = |name: &str| match behavior.object(name) {
        None => Value::Null,
        Some(rules) => {
            let policies = rules.get("policies").and_then(Value::as_array).map(|policies| {
                let each = policies.iter().map(|policy| {
                    json!({"Type": policy["type"], "Value": policy["value"], "PeriodSeconds": policy["periodSeconds"]})
                });
                Value::Array(each.collect())
            });
            json!({
                "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
                "SelectPolicy": rules.get("selectPolicy"),
                "Policies": policies,
                "Tolerance": rules.get("tolerance"),
            })
        }
    };
    let mut out = String::new();
    write(&json!({"ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown")}), true, &mut out);
    out
}

/// A member by its name in lower case: Go reads JSON without regard to case.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_object()?.iter().find(|(key, _)| key.to_lowercase() == name).map(|(_, value)| value)
}

fn list(text: &str) -> Option<Vec<Value>> {
    match schema::read_json(text.as_bytes()) {
        Ok(Value::Array(list)) => Some(list),
        _ => None,
    }
}

/// The list, where it is one that v2 can have in that place.
fn checked(part: &str, field: &str, list: Vec<Value>) -> Option<Vec<Value>> {
    is_v2(&json!({part: {field: list}})).then_some(list)
}

fn is_v2(object: &Value) -> bool {
    schema::round_trip("autoscaling", "v2", "HorizontalPodAutoscaler", object, Validation::Ignore).is_ok()
}

/// A metric, or its state, with the one part that says where it comes from turned into another version's.
fn sources(metric: &Value, turn: impl Fn(&str, &Value) -> Value) -> Value {
    let mut out = Object::new();
    out.insert("type".to_owned(), metric.get("type").cloned().unwrap_or_else(|| "".into()));
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        if let Some(value) = metric.get(source).filter(|value| value.is_object()) {
            out.insert(source.to_owned(), turn(source, value));
        }
    }
    Value::Object(out)
}

/// An object of the members that are there.
fn present<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(members.filter(|(_, value)| !value.is_null()).collect())
}

fn source_to_v1(source: &str, v2: &Value) -> Value {
    let target = |field: &str| v2["target"].get(field).cloned();
    let metric = |field: &str| v2["metric"].get(field).cloned();
    let zero = |value: Option<Value>| Some(value.unwrap_or_else(|| "0".into()));
    match source {
        "object" => present([
            ("target", v2.get("describedObject").cloned()),
            ("metricName", metric("name")),
            ("targetValue", zero(target("value"))),
            ("selector", metric("selector")),
            ("averageValue", target("averageValue")),
        ]),
        "pods" => present([
            ("metricName", metric("name")),
            ("targetAverageValue", zero(target("averageValue"))),
            ("selector", metric("selector")),
        ]),
        "external" => present([
            ("metricName", metric("name")),
            ("metricSelector", metric("selector")),
            ("targetValue", target("value")),
            ("targetAverageValue", target("averageValue")),
        ]),
        _ => present([
            ("name", v2.get("name").cloned()),
            ("targetAverageUtilization", target("averageUtilization")),
            ("targetAverageValue", target("averageValue")),
            ("container", v2.get("container").cloned()),
        ]),
    }
}

fn source_from_v1(source: &str, v1: &Value) -> Value {
    let of = |field: &str| v1.get(field).filter(|value| !value.is_null()).cloned();
    let name = || of("metricName").or_else(|| Some("".into()));
    match source {
        "object" => {
            let average = of("averageValue");
            let value = of("targetValue").or_else(|| Some("0".into()));
            // v1 cannot leave the value out: next to an average, a zero means none.
            let value = value.filter(|value| average.is_none() || value != "0");
            let kind = if average.is_none() { "Value" } else { "AverageValue" };
            let target = present([("type", Some(kind.into())), ("value", value), ("averageValue", average)]);
            let metric = present([("name", name()), ("selector", of("selector"))]);
            json!({"describedObject": of("target").unwrap_or_else(|| json!({})), "target": target, "metric": metric})
        }
        "pods" => {
            let average = of("targetAverageValue").unwrap_or_else(|| "0".into());
            let metric = present([("name", name()), ("selector", of("selector"))]);
            json!({"metric": metric, "target": {"type": "AverageValue", "averageValue": average}})
        }
        "external" => {
            let value = of("targetValue");
            let kind = if value.is_none() { "AverageValue" } else { "Value" };
            let average = of("targetAverageValue");
            let target = present([("type", Some(kind.into())), ("value", value), ("averageValue", average)]);
            json!({"metric": present([("name", name()), ("selector", of("metricSelector"))]), "target": target})
        }
        _ => {
            let utilization = of("targetAverageUtilization");
            let kind = if utilization.is_none() { "AverageValue" } else { "Utilization" };
            let target = present([
                ("type", Some(kind.into())),
                ("averageValue", of("targetAverageValue")),
                ("averageUtilization", utilization),
            ]);
            present([("name", of("name")), ("container", of("container")), ("target", Some(target))])
        }
    }
}

fn state_to_v1(source: &str, v2: &Value) -> Value {
    let current = |field: &str| v2["current"].get(field).cloned();
    let metric = |field: &str| v2["metric"].get(field).cloned();
    let zero = |value: Option<Value>| Some(value.unwrap_or_else(|| "0".into()));
    match source {
        "object" => present([
            ("target", v2.get("describedObject").cloned()),
            ("metricName", metric("name")),
            ("currentValue", zero(current("value"))),
            ("selector", metric("selector")),
            ("averageValue", current("averageValue")),
        ]),
        "pods" => present([
            ("metricName", metric("name")),
            ("currentAverageValue", zero(current("averageValue"))),
            ("selector", metric("selector")),
        ]),
        "external" => present([
            ("metricName", metric("name")),
            ("metricSelector", metric("selector")),
            ("currentValue", zero(current("value"))),
            ("currentAverageValue", current("averageValue")),
        ]),
        _ => present([
            ("name", v2.get("name").cloned()),
            ("currentAverageUtilization", current("averageUtilization")),
            ("currentAverageValue", zero(current("averageValue"))),
            ("container", v2.get("container").cloned()),
        ]),
    }
}

fn state_from_v1(source: &str, v1: &Value) -> Value {
    let of = |field: &str| v1.get(field).filter(|value| !value.is_null()).cloned();
    let or_zero = |field: &str| of(field).or_else(|| Some("0".into()));
    let name = || of("metricName").or_else(|| Some("".into()));
    match source {
        "object" => json!({
            "describedObject": of("target").unwrap_or_else(|| json!({})),
            "metric": present([("name", name()), ("selector", of("selector"))]),
            "current": present([("value", or_zero("currentValue")), ("averageValue", of("averageValue"))]),
        }),
        "pods" => json!({
            "metric": present([("name", name()), ("selector", of("selector"))]),
            "current": present([("averageValue", or_zero("currentAverageValue"))]),
        }),
        "external" => json!({
            "metric": present([("name", name()), ("selector", of("metricSelector"))]),
            "current": present([("value", or_zero("currentValue")), ("averageValue", of("currentAverageValue"))]),
        }),
        _ => {
            let current = present([
                ("averageValue", or_zero("currentAverageValue")),
                ("averageUtilization", of("currentAverageUtilization")),
            ]);
            present([("name", of("name")), ("container", of("container")), ("current", Some(current))])
        }
    }
}

/// The text of a list; `None` for an empty one.
fn text_of(list: &[Value]) -> Option<String> {
    if list.is_empty() {
        return None;
    }
    let mut out = String::new();
    write(&Value::Array(list.to_vec()), true, &mut out);
    Some(out)
}

/// Writes JSON as Go does: a type's fields as they are declared, a map's by key, and without the characters that
/// mean something in HTML.
fn write(value: &Value, is_type: bool, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if is_type {
                members.sort_by_key(|(key, _)| ORDER.iter().position(|name| name == key).unwrap_or(ORDER.len()));
            }
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(&Value::from(key.as_str()), is_type, out);
                out.push(':');
                write(value, is_type && key != "matchLabels", out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, is_type, out);
            }
            out.push(']');
        }
        Value::String(_) => {
            for c in value.to_string().chars() {
                match c {
                    '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                    c => out.push(c),
                }
            }
        }
        other => out.push_str(&other.to_string()),
    }
}
