//! PodDisruptionBudget.

use muster_tree::{Value, json};

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, Subresource, cells};
use crate::model::Fields as _;
use crate::validation::{meta, poddisruptionbudget as rules};

/// How many pods may be evicted at a time.
pub(super) fn kind() -> Row {
    Row {
        metadata: meta::Look::NONE,
        counts_spec: true,
        default,
        validate: rules::validate,
        validate_part: |_, object, _, errors| rules::validate_status(object, errors),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
                .short(&["pdb"])
                .parts(&[Subresource::Status])
                .conditional_update(),
        )
    }
}

static COLUMNS: [Column; 5] = [
    NAME_COLUMN,
    Column::text("Min Available", "The minimum number of pods that must be available.")
        .by(|object, _| cells::amount(object, "/spec/minAvailable", "N/A")),
    Column::text("Max Unavailable", "The maximum number of pods that may be unavailable.")
        .by(|object, _| cells::amount(object, "/spec/maxUnavailable", "N/A")),
    Column::number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.")
        .number_at("/status/disruptionsAllowed"),
    AGE_COLUMN,
];

/// A label by which an older version of the kind told a selector of all pods from one of none.
const V1BETA1_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Drops that label from selectors that a user gave, but not where it stands for a selector of nothing.
fn default(object: &mut Object) {
    let Some(selector) = object.object_mut("spec").and_then(|spec| spec.object_mut("selector")) else { return };
    let nothing = json!({"matchExpressions": [{"key": V1BETA1_LABEL, "operator": "Exists"}]});
    if Some(&*selector) == nothing.as_object() {
        return;
    }
    if let Some(Value::Array(requirements)) = selector.get_mut("matchExpressions") {
        requirements.retain(|requirement| requirement["key"] != V1BETA1_LABEL);
        if requirements.is_empty() {
            selector.remove("matchExpressions");
        }
    }
}
