//! HorizontalPodAutoscaler as `autoscaling/v1` shows it: one target of cpu, and annotations for all that it has no
//! fields for.
//!
//! Objects are stored in v2. What v1 cannot say (metrics but for cpu, the state of metrics, behavior, conditions) goes
//! out in annotations and comes back from them, so that an object that a v1 client reads and writes loses nothing.

use muster_tree::{Value, json};

use super::annotations::{self, Carried};
use super::{DEFAULT_CPU_UTILIZATION, GROUP, KIND, cpu_metric, resource};
use crate::kinds::{Row, formed};
use crate::model::fields::{Fields, metadata};
use crate::model::{Model, Object};

/// The same autoscalers in their first version.
pub(in crate::kinds) fn v1() -> Row {
    Row {
        resource: resource("v1"),
        stored_as: Some(Model { group: GROUP, version: "v2", kind: KIND }),
        to_stored: |object| *object = from_v1(object),
        to_served: |object| *object = to_v1(object),
        default: |object| object.object_or_new("spec").set_if_absent("minReplicas", 1),
        ..super::kind()
    }
}

/// What both versions say alike.
const SPEC: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS: [&str; 4] = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];

/// The v2 form of a v1 object.
fn from_v1(object: &Object) -> Object {
    let (spec, status) = (object.part("spec"), object.part("status"));
    let said = metadata(object).part("annotations");

    let mut metrics = annotations::read(Carried::Metrics, said).unwrap_or_default();
    metrics.extend(spec.maybe_int("targetCPUUtilizationPercentage").map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_CPU_UTILIZATION));
    }
    let mut new_spec = pick(spec, &SPEC);
    new_spec.insert("metrics", Value::Array(metrics.into()));
    if let Some(behavior) = annotations::behavior(said) {
        new_spec.insert("behavior", behavior);
    }

    let mut new_status = pick(status, &STATUS);
    let cpu = status.maybe_int("currentCPUUtilizationPercentage").map(|percent| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}])
    });
    let states = annotations::read(Carried::States, said).map(Value::from).or(cpu);
    new_status.insert("currentMetrics", states.unwrap_or_default());
    if let Some(conditions) = annotations::read(Carried::Conditions, said) {
        new_status.insert("conditions", Value::Array(conditions.into()));
    }
    in_form("v2", object, &[], new_spec, new_status)
}

/// The v1 form of a v2 object.
fn to_v1(object: &Object) -> Object {
    let (spec, status) = (object.part("spec"), object.part("status"));
    let utilization = |metric: &Object, part: &str| {
        let resource = metric.part("resource");
        let is_cpu = metric.text("type") == "Resource" && resource.text("name") == "cpu";
        resource.part(part).maybe_int("averageUtilization").filter(|_| is_cpu)
    };

    let mut new_spec = pick(spec, &SPEC);
    if let Some(percent) = spec.items("metrics").find_map(|metric| utilization(metric, "target")) {
        new_spec.insert("targetCPUUtilizationPercentage", percent.into());
    }
    let mut new_status = pick(status, &STATUS);
    if let Some(percent) = status.items("currentMetrics").filter_map(|state| utilization(state, "current")).last() {
        new_status.insert("currentCPUUtilizationPercentage", percent.into());
    }

    let others: Vec<&Object> = spec.items("metrics").filter(|metric| utilization(metric, "target").is_none()).collect();
    let carried = [
        annotations::write(Carried::Metrics, &others),
        annotations::write(Carried::States, &status.items("currentMetrics").collect::<Vec<_>>()),
        annotations::write(Carried::Conditions, &status.items("conditions").collect::<Vec<_>>()),
        spec.object("behavior").map(annotations::write_behavior),
    ];
    in_form("v1", object, &carried, new_spec, new_status)
}

fn pick(from: &Object, fields: &[&str]) -> Object {
    fields.iter().filter_map(|field| Some(((*field).to_owned(), from.get(field)?.clone()))).collect()
}

/// The object as a version writes it: fields that are always there are there, and of the annotations that carry fields
/// those given.
fn in_form(version: &str, from: &Object, carried: &[Option<(&str, String)>], spec: Object, status: Object) -> Object {
    let mut meta = metadata(from).clone();
    let mut said = meta.part("annotations").clone();
    said.retain(|key, _| !annotations::ALL.contains(&key.as_str()));
    said.extend(carried.iter().flatten().map(|(key, text)| ((*key).to_owned(), Value::from(text.as_str()))));
    meta.remove("annotations");
    if !said.is_empty() {
        meta.insert("annotations", Value::Object(said));
    }
    let object = [
        ("kind", KIND.into()),
        ("apiVersion", format!("{GROUP}/{version}").into()),
        ("metadata", meta.into()),
        ("spec", spec.into()),
        ("status", status.into()),
    ];
    let object = object.into_iter().map(|(field, value): (&str, Value)| (field.to_owned(), value));
    formed(Model { group: GROUP, version, kind: KIND }, object.collect())
}
