//! A PodDisruptionBudget, as far as its controller reads and writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_objects::int_or_percent::IntOrPercent;
use muster_objects::selector::LabelSelector;
use muster_objects::{Selector, Timestamp};
use serde::{Deserialize, Serialize};

use crate::control::{Body, ByNamespace};
use crate::json::{list, or_default};

/// A budget.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Wire")]
pub(super) struct Budget {
    /// Its pods, or why that cannot be said.
    pub(super) selector: Result<Selector, String>,
    /// The selector as Go prints it.
    pub(super) selector_text: String,
    pub(super) min_available: Option<IntOrPercent>,
    pub(super) max_unavailable: Option<IntOrPercent>,
    pub(super) status: Status,
}

/// What was last written of it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    pub(super) disruptions_allowed: i32,
    pub(super) current_healthy: i32,
    pub(super) desired_healthy: i32,
    pub(super) expected_pods: i32,
    #[serde(deserialize_with = "or_default")]
    pub(super) disrupted_pods: BTreeMap<String, Timestamp>,
    #[serde(deserialize_with = "list")]
    pub(super) conditions: Vec<Condition>,
}

/// `metav1.Condition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) observed_generation: i64,
    #[serde(default)]
    pub(super) last_transition_time: Option<Timestamp>,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
}

fn is_zero(generation: &i64) -> bool {
    *generation == 0
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default, deserialize_with = "or_default")]
    spec: WireSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    selector: Option<LabelSelector>,
    min_available: Option<IntOrPercent>,
    max_unavailable: Option<IntOrPercent>,
}

impl From<Wire> for Budget {
    fn from(wire: Wire) -> Self {
        let selector = match &wire.spec.selector {
            // None selects nothing, an empty one everything.
            None => Ok(Selector::nothing()),
            Some(selector) => Selector::try_from(selector).map_err(|error| error.to_string()),
        };
        Self {
            selector,
            selector_text: wire.spec.selector.as_ref().map_or_else(|| "nil".to_owned(), go_text),
            min_available: wire.spec.min_available,
            max_unavailable: wire.spec.max_unavailable,
            status: wire.status,
        }
    }
}

impl Budget {
    /// Whether what is expected depends on the scale of what controls the pods.
    pub(super) fn needs_scale(&self) -> bool {
        self.max_unavailable.is_some() || !matches!(self.min_available, None | Some(IntOrPercent::Int(_)))
    }
}

impl Body for Budget {
    const API_VERSION: &'static str = "policy/v1";
    const KIND: &'static str = "PodDisruptionBudget";
    type Indexes = ByNamespace;
}

/// A selector as Go's `%v` prints a pointer to it.
fn go_text(selector: &LabelSelector) -> String {
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    // Writing to a String cannot fail.
    for (key, value) in selector.match_labels.iter() {
        let _ = write!(out, "{key}: {value},");
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for requirement in &selector.match_expressions {
        let values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
        let (key, operator) = (&requirement.key, &requirement.operator);
        let values = values.join(" ");
        let _ = write!(out, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    out.push_str("},}");
    out
}
