//! HorizontalPodAutoscaler, stored in `autoscaling/v2`; [`HorizontalPodAutoscalerV1`] is the same objects in the older version.

mod annotations;
mod cells;
mod v1;

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

pub use v1::HorizontalPodAutoscalerV1;

/// How many replicas something has, by what is measured.
#[derive(Debug)]
pub struct HorizontalPodAutoscaler;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .in_all()
        .parts(&[Subresource::Status])
});

static COLUMNS: [Column; 7] = [
    NAME_COLUMN,
    Column::text(
        "Reference",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
    ),
    Column::text(
        "Targets",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
    ),
    Column::text(
        "MinPods",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
    ),
    Column::text(
        "MaxPods",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
    ),
    Column::text(
        "Replicas",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
    ),
    AGE_COLUMN,
];

/// The utilization of cpu, in percent of what is requested, that is aimed at where nothing else is said.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

impl Kind for HorizontalPodAutoscaler {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_absent("minReplicas", 1);
        if spec.list("metrics").is_empty() {
            spec.insert("metrics".to_owned(), json!([cpu_metric(DEFAULT_CPU_UTILIZATION)]));
        }
        if let Some(behavior) = spec.object_mut("behavior") {
            let up = behavior.object_or_new("scaleUp");
            up.set_if_absent("stabilizationWindowSeconds", 0);
            default_rules(up, &[("Pods", 4), ("Percent", 100)]);
            default_rules(behavior.object_or_new("scaleDown"), &[("Percent", 100)]);
        }
        let status = object.object_or_new("status");
        status.set_if_absent("desiredReplicas", 0);
        status.set_if_absent("currentMetrics", Value::Null);
    }
    fn prepare_create(&self, object: &mut Object) {
        object.insert("status".to_owned(), json!({"desiredReplicas": 0, "currentMetrics": null}));
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Status => object.carry("spec", old),
            _ => object.carry("status", old),
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::horizontalpodautoscaler::validate(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Status => validation::horizontalpodautoscaler::validate_status(object, &mut errors),
            _ => {
                validation::horizontalpodautoscaler::validate(object, Some(old), &mut errors);
            }
        }
        errors
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        cells::cells(object, now)
    }
}

/// The metric that aims at so many percent of the requested cpu.
fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// Whether a metric, or a metric's state, is that of cpu as a resource of the pods.
fn is_cpu(metric: &Object) -> bool {
    metric.text("type") == "Resource" && metric.object("resource").is_some_and(|r| r.text("name") == "cpu")
}

/// Each policy changes at most so many pods, or percent of them, in 15 seconds.
fn default_rules(rules: &mut Object, policies: &[(&str, i64)]) {
    rules.set_if_absent("selectPolicy", "Max");
    let each = policies.iter().map(|(kind, value)| json!({"type": kind, "value": value, "periodSeconds": 15}));
    rules.set_if_absent("policies", Value::Array(each.collect()));
}
