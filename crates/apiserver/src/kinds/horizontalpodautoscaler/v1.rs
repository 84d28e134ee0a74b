//! HorizontalPodAutoscaler as `autoscaling/v1` shows it: one target of cpu, and annotations for all that it has no
//! fields for.
//!
//! Objects are stored in v2. What v1 cannot say (metrics but for cpu, the state of metrics, behavior, conditions) goes
//! out in annotations and comes back from them, so that an object that a v1 client reads and writes loses nothing.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::annotations;
use super::{DEFAULT_CPU_UTILIZATION, HorizontalPodAutoscaler, cpu_metric, is_cpu};
use crate::field::FieldError;
use crate::kinds::{Kind, formed};
use crate::model::fields::{Fields, metadata};
use crate::model::{Column, Model, Object, Part, Resource, Subresource};

/// The same autoscalers in their first version.
#[derive(Debug)]
pub struct HorizontalPodAutoscalerV1;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .in_all()
        .parts(&[Subresource::Status])
});

const STORED: HorizontalPodAutoscaler = HorizontalPodAutoscaler;

impl Kind for HorizontalPodAutoscalerV1 {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn stored_as(&self) -> Option<Model<'_>> {
        Some(STORED.resource().model())
    }
    fn to_stored(&self, object: &mut Object) {
        *object = from_v1(object);
    }
    fn to_served(&self, object: &mut Object) {
        *object = to_v1(object);
    }
    fn default(&self, object: &mut Object) {
        object.object_or_new("spec").set_if_absent("minReplicas", 1);
    }
    fn prepare_create(&self, object: &mut Object) {
        STORED.prepare_create(object);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        STORED.prepare_update(part, object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        STORED.validate_create(object)
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        STORED.validate_update(part, object, old)
    }
    fn columns(&self) -> &[Column] {
        STORED.columns()
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        STORED.cells(object, now)
    }
}

/// The v2 form of a v1 object.
fn from_v1(object: &Object) -> Object {
    let empty = Object::new();
    let (spec, status) = (object.object("spec").unwrap_or(&empty), object.object("status").unwrap_or(&empty));
    let said = metadata(object).object("annotations").cloned().unwrap_or_default();

    let mut metrics = annotations::metrics(said.text(annotations::METRICS)).unwrap_or_default();
    metrics.extend(spec.maybe_int("targetCPUUtilizationPercentage").map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_CPU_UTILIZATION));
    }
    let mut new_spec = pick(spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    new_spec.insert("metrics".to_owned(), Value::Array(metrics));
    if let Some(behavior) = annotations::behavior(said.text(annotations::BEHAVIOR)) {
        new_spec.insert("behavior".to_owned(), behavior);
    }

    let kept = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];
    let mut new_status = pick(status, &kept);
    let cpu = status.maybe_int("currentCPUUtilizationPercentage").map(|percent| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}])
    });
    let states = annotations::states(said.text(annotations::STATES)).map(Value::Array).or(cpu);
    new_status.insert("currentMetrics".to_owned(), states.unwrap_or_default());
    if let Some(conditions) = annotations::conditions(said.text(annotations::CONDITIONS)) {
        new_status.insert("conditions".to_owned(), conditions);
    }

    let mut meta = metadata(object).clone();
    set_annotations(&mut meta, said, []);
    in_form("v2", meta, new_spec, new_status)
}

/// The v1 form of a v2 object.
fn to_v1(object: &Object) -> Object {
    let empty = Object::new();
    let (spec, status) = (object.object("spec").unwrap_or(&empty), object.object("status").unwrap_or(&empty));
    let utilization = |metric: &Object, part: &str| {
        let resource = metric.object("resource").filter(|_| is_cpu(metric))?;
        resource.object(part)?.maybe_int("averageUtilization")
    };

    let mut new_spec = pick(spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    if let Some(percent) = spec.items("metrics").find_map(|metric| utilization(metric, "target")) {
        new_spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.into());
    }
    let kept = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];
    let mut new_status = pick(status, &kept);
    if let Some(percent) = status.items("currentMetrics").filter_map(|state| utilization(state, "current")).last() {
        new_status.insert("currentCPUUtilizationPercentage".to_owned(), percent.into());
    }

    let others: Vec<&Object> = spec.items("metrics").filter(|metric| utilization(metric, "target").is_none()).collect();
    let states: Vec<&Object> = status.items("currentMetrics").collect();
    let mut meta = metadata(object).clone();
    let said = meta.object("annotations").cloned().unwrap_or_default();
    let carried = [
        (annotations::METRICS, annotations::metrics_text(&others)),
        (annotations::STATES, annotations::states_text(&states)),
        (annotations::BEHAVIOR, spec.object("behavior").map(annotations::behavior_text)),
        (annotations::CONDITIONS, annotations::conditions_text(status.list("conditions"))),
    ];
    set_annotations(&mut meta, said, carried);
    in_form("v1", meta, new_spec, new_status)
}

fn pick(from: &Object, fields: &[&str]) -> Object {
    fields.iter().filter_map(|field| Some(((*field).to_owned(), from.get(*field)?.clone()))).collect()
}

/// Sets the annotations to what was there, without those that carry fields, and with those given.
fn set_annotations<const N: usize>(meta: &mut Object, mut said: Object, carried: [(&str, Option<String>); N]) {
    said.retain(|key, _| !annotations::ALL.contains(&key.as_str()));
    said.extend(carried.into_iter().filter_map(|(key, text)| Some((key.to_owned(), Value::from(text?)))));
    if said.is_empty() {
        meta.remove("annotations");
    } else {
        meta.insert("annotations".to_owned(), Value::Object(said));
    }
}

/// The object as its version writes it: fields that are always there are there.
fn in_form(version: &str, meta: Object, spec: Object, status: Object) -> Object {
    let mut object = Object::new();
    object.insert("kind".to_owned(), Value::from(&*RESOURCE.kind));
    object.insert("apiVersion".to_owned(), Value::from(format!("{}/{version}", RESOURCE.group)));
    object.insert("metadata".to_owned(), Value::Object(meta));
    object.insert("spec".to_owned(), Value::Object(spec));
    object.insert("status".to_owned(), Value::Object(status));
    formed(Model { version, ..RESOURCE.model() }, object)
}
