//! The annotations in which `autoscaling/v1` carries what it has no fields for, as texts of JSON.
//!
//! Metrics, their states and conditions are written in v1's own types, whose fields come in the order in which Go
//! declares them; behavior in the reference server's internal type, whose fields begin with capitals.

use muster_tree::{Value, json};

use super::{GROUP, KIND};
use crate::model::Object;
use crate::model::column::at;
use crate::model::fields::{Fields, metadata};
use crate::schema::go::{in_order, internal_compact, quote};
use crate::schema::{self, Validation};

/// A list that goes out in an annotation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carried {
    /// Metrics but for the target of cpu.
    Metrics,
    /// The state of all metrics.
    States,
    /// The conditions.
    Conditions,
}

impl Carried {
    fn annotation(self) -> &'static str {
        match self {
            Self::Metrics => ALL[0],
            Self::States => ALL[1],
            Self::Conditions => ALL[2],
        }
    }

    /// Where v2 has the list.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Metrics => ("spec", "metrics"),
            Self::States => ("status", "currentMetrics"),
            Self::Conditions => ("status", "conditions"),
        }
    }

    /// The fields of the lists' elements, by where what is measured comes from; none where the versions are the same.
    fn sources(self) -> Option<&'static [(&'static str, &'static [Pair])]> {
        match self {
            Self::Metrics => Some(&METRICS),
            Self::States => Some(&STATES),
            Self::Conditions => None,
        }
    }
}

/// All annotations that belong to the conversion.
pub(super) const ALL: [&str; 6] = [
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Takes them off an object of a version that has fields for what they carry.
pub(super) fn drop_all(object: &mut Object) {
    let carries = |key: &str| ALL.contains(&key);
    if !metadata(object).part("annotations").keys().any(|key| carries(key)) {
        return;
    }
    let meta = object.object_or_new("metadata");
    let said = meta.object_or_new("annotations");
    said.retain(|key, _| !carries(key));
    if said.is_empty() {
        meta.remove("annotations");
    }
}

const BEHAVIOR: &str = ALL[3];

/// A field of v1, where v2 has it, and what it is in v1 where v2 has nothing.
type Pair = (&'static str, &'static str, Absent);

/// What v1 writes where v2 has nothing, and reads where v1 has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// Nothing.
    Nothing,
    /// The quantity 0: v1 cannot leave it out.
    Zero,
    /// The same, but 0 beside an average means none.
    ZeroOrAverage,
    /// Nothing, but v2 has an empty text.
    Empty,
    /// Nothing, but v2 has an empty object.
    Object,
}
use Absent::{Empty, Nothing, Zero, ZeroOrAverage};

const METRIC_NAME: Pair = ("metricName", "/metric/name", Empty);
const SELECTOR: Pair = ("selector", "/metric/selector", Nothing);
const METRIC_SELECTOR: Pair = ("metricSelector", "/metric/selector", Nothing);
const DESCRIBED: Pair = ("target", "/describedObject", Absent::Object);
const NAME: Pair = ("name", "/name", Nothing);
const CONTAINER: Pair = ("container", "/container", Nothing);

const RESOURCE: &[Pair] = &[
    NAME,
    ("targetAverageUtilization", "/target/averageUtilization", Nothing),
    ("targetAverageValue", "/target/averageValue", Nothing),
    CONTAINER,
];
const METRICS: [(&str, &[Pair]); 5] = [
    (
        "object",
        &[
            DESCRIBED,
            METRIC_NAME,
            ("targetValue", "/target/value", ZeroOrAverage),
            SELECTOR,
            ("averageValue", "/target/averageValue", Nothing),
        ],
    ),
    ("pods", &[METRIC_NAME, ("targetAverageValue", "/target/averageValue", Zero), SELECTOR]),
    ("resource", RESOURCE),
    ("containerResource", RESOURCE),
    (
        "external",
        &[
            METRIC_NAME,
            METRIC_SELECTOR,
            ("targetValue", "/target/value", Nothing),
            ("targetAverageValue", "/target/averageValue", Nothing),
        ],
    ),
];

const RESOURCE_STATE: &[Pair] = &[
    NAME,
    ("currentAverageUtilization", "/current/averageUtilization", Nothing),
    ("currentAverageValue", "/current/averageValue", Zero),
    CONTAINER,
];
const STATES: [(&str, &[Pair]); 5] = [
    (
        "object",
        &[
            DESCRIBED,
            METRIC_NAME,
            ("currentValue", "/current/value", Zero),
            SELECTOR,
            ("averageValue", "/current/averageValue", Nothing),
        ],
    ),
    ("pods", &[METRIC_NAME, ("currentAverageValue", "/current/averageValue", Zero), SELECTOR]),
    ("resource", RESOURCE_STATE),
    ("containerResource", RESOURCE_STATE),
    (
        "external",
        &[
            METRIC_NAME,
            METRIC_SELECTOR,
            ("currentValue", "/current/value", Zero),
            ("currentAverageValue", "/current/averageValue", Nothing),
        ],
    ),
];

/// A list out of its annotation, in v2's form; `None` where it is not such a list.
pub(super) fn read(what: Carried, annotations: &Object) -> Option<Vec<Value>> {
    let Ok(Value::Array(list)) = schema::read_json(annotations.text(what.annotation()).as_bytes()) else { return None };
    let list: Vec<Value> = match what.sources() {
        Some(sources) => list.iter().map(|element| convert(element, sources)).collect(),
        None => list.into(),
    };
    let (part, field) = what.place();
    is_v2(&json!({part: {field: list}})).then_some(list)
}

/// The annotation of a list in v2's form; `None` for an empty one.
pub(super) fn write(what: Carried, list: &[&Object]) -> Option<(&'static str, String)> {
    let each: Vec<String> = list
        .iter()
        .map(|element| match what.sources() {
            None => in_order("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition", element),
            Some(sources) => {
                let parts =
                    sources.iter().filter_map(|(source, pairs)| Some((*source, to_v1(pairs, element.object(source)?))));
                members([("type", quote(element.text("type")))].into_iter().chain(parts))
            }
        })
        .collect();
    (!each.is_empty()).then(|| (what.annotation(), format!("[{}]", each.join(","))))
}

fn members(each: impl Iterator<Item = (&'static str, String)>) -> String {
    let each: Vec<String> = each.map(|(field, text)| format!("\"{field}\":{text}")).collect();
    format!("{{{}}}", each.join(","))
}

/// The text of what is measured, or of its state: v1's fields in the order in which Go declares them.
fn to_v1(pairs: &[Pair], v2: &Object) -> String {
    members(pairs.iter().filter_map(|(field, place, absent)| {
        let text = match (at(v2, place), absent) {
            (Some(Value::Object(part)), _) if *field == "target" => {
                in_order("io.k8s.api.autoscaling.v2.CrossVersionObjectReference", part)
            }
            (Some(Value::Object(part)), _) => in_order("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", part),
            (Some(Value::String(text)), _) => quote(text),
            (Some(other), _) if !other.is_null() => other.to_string(),
            (_, Zero | ZeroOrAverage) => quote("0"),
            _ => return None,
        };
        Some((*field, text))
    }))
}

/// A metric, or its state, out of v1's form.
fn convert(element: &Value, sources: &[(&str, &[Pair])]) -> Value {
    let mut out = Object::new();
    out.insert("type", element.get("type").cloned().unwrap_or_else(|| "".into()));
    for (source, pairs) in sources {
        if let Some(value) = element.get(source).filter(|value| value.is_object()) {
            out.insert((*source).to_owned(), from_v1(source, pairs, value));
        }
    }
    Value::Object(out)
}

fn from_v1(source: &str, pairs: &[Pair], v1: &Value) -> Value {
    let of = |field: &str| v1.get(field).filter(|value| !value.is_null()).cloned();
    let mut out = Object::new();
    for (field, place, absent) in pairs {
        let value = match absent {
            Nothing => of(field),
            Zero => of(field).or_else(|| Some("0".into())),
            ZeroOrAverage => {
                of(field).or_else(|| Some("0".into())).filter(|v| *v != "0" || of("averageValue").is_none())
            }
            Empty => of(field).or_else(|| Some("".into())),
            Absent::Object => of(field).or_else(|| Some(json!({}))),
        };
        let Some(value) = value else { continue };
        match place.trim_start_matches('/').split_once('/') {
            Some((part, field)) => out.object_or_new(part).insert(field.to_owned(), value),
            None => out.insert(place.trim_start_matches('/').to_owned(), value),
        };
    }
    // Only v2 says of which sort a target is, and has a target always.
    if pairs.iter().any(|(_, place, _)| place.starts_with("/target/")) {
        let target = out.object_or_new("target");
        let kind = match source {
            "object" if !target.contains_key("averageValue") => "Value",
            "external" if target.contains_key("value") => "Value",
            "resource" | "containerResource" if target.contains_key("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        target.insert("type", kind.into());
    }
    Value::Object(out)
}

/// The behavior of its annotation, in v2's form; `None` where it is none, or says nothing.
pub(super) fn behavior(annotations: &Object) -> Option<Value> {
    let read = schema::read_json(annotations.text(BEHAVIOR).as_bytes()).ok()?;
    let behavior = in_v2_names(&read);
    let says = behavior.as_object().is_some_and(|behavior| !behavior.is_empty());
    (says && is_v2(&json!({"spec": {"behavior": behavior}}))).then_some(behavior)
}

/// The annotation of a behavior in v2's form.
pub(super) fn write_behavior(behavior: &Object) -> (&'static str, String) {
    let behavior = Value::Object(behavior.clone());
    (BEHAVIOR, internal_compact("HorizontalPodAutoscalerBehavior", &behavior).unwrap_or_default())
}

/// What is said by v2's names: Go reads JSON without regard to case, and passes by what it does not know.
fn in_v2_names(value: &Value) -> Value {
    const NAMES: [&str; 9] = [
        "scaleUp",
        "scaleDown",
        "stabilizationWindowSeconds",
        "selectPolicy",
        "policies",
        "tolerance",
        "type",
        "value",
        "periodSeconds",
    ];
    match value {
        Value::Object(members) => {
            let known = members.iter().filter(|(_, value)| !value.is_null()).filter_map(|(key, value)| {
                let name = NAMES.iter().find(|name| name.eq_ignore_ascii_case(key))?;
                Some(((*name).to_owned(), in_v2_names(value)))
            });
            Value::Object(known.collect())
        }
        Value::Array(items) => items.iter().map(in_v2_names).collect(),
        other => other.clone(),
    }
}

fn is_v2(object: &Value) -> bool {
    schema::round_trip(GROUP, "v2", KIND, object, None, Validation::Ignore).is_ok()
}
