//! HorizontalPodAutoscaler, stored in `autoscaling/v2`; [`v1()`] is the same objects in the older version.

mod annotations;
mod targets;
mod v1;

use muster_tree::{Value, json};

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, Subresource};
use crate::model::Fields as _;
use crate::validation::horizontalpodautoscaler as rules;

pub(super) use v1::v1;

/// How many replicas something has, by what is measured.
pub(super) fn kind() -> Row {
    Row {
        default: |object| {
            annotations::drop_all(object);
            default(object);
        },
        validate: rules::validate,
        validate_part: |_, object, _, errors| rules::validate_status(object, errors),
        columns: &COLUMNS,
        ..Row::new(resource("v2"))
    }
}

fn resource(version: &'static str) -> Resource {
    Resource::namespaced(GROUP, version, KIND, "horizontalpodautoscalers")
        .short(&["hpa"])
        .in_all()
        .parts(&[Subresource::Status])
}

const GROUP: &str = "autoscaling";
const KIND: &str = "HorizontalPodAutoscaler";

static COLUMNS: [Column; 7] = [
    NAME_COLUMN,
    Column::text(
        "Reference",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
    )
    .by(|object, _| {
        let target = object.part("spec").part("scaleTargetRef");
        format!("{}/{}", target.text("kind"), target.text("name")).into()
    }),
    Column::text(
        "Targets",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
    )
    .by(|object, _| {
        targets::metrics(object.part("spec").list("metrics"), object.part("status").list("currentMetrics")).into()
    }),
    Column::text(
        "MinPods",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
    )
    .by(|object, _| {
        object.part("spec").maybe_int("minReplicas").map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into()
    }),
    Column::text(
        "MaxPods",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
    )
    .number_at("/spec/maxReplicas"),
    Column::text(
        "Replicas",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
    )
    .number_at("/status/currentReplicas"),
    AGE_COLUMN,
];

/// The utilization of cpu, in percent of what is requested, that is aimed at where nothing else is said.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_absent("minReplicas", 1);
    if spec.list("metrics").is_empty() {
        spec.insert("metrics", json!([cpu_metric(DEFAULT_CPU_UTILIZATION)]));
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

/// The metric that aims at so many percent of the requested cpu.
fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// Each policy changes at most so many pods, or percent of them, in 15 seconds.
fn default_rules(rules: &mut Object, policies: &[(&str, i64)]) {
    rules.set_if_absent("selectPolicy", "Max");
    let each = policies.iter().map(|(kind, value)| json!({"type": kind, "value": value, "periodSeconds": 15}));
    rules.set_if_absent("policies", Value::Array(each.collect()));
}
