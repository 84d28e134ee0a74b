//! Defaults (API-16): what the reference server's versioned defaulting and conversion fill in.
//!
//! Everything here is idempotent and works on objects in their `v1` form. Conversions are part of it:
//! the deprecated `serviceAccount` follows `serviceAccountName`, a quantity becomes canonical, and so on.

mod disabled;
mod pod;
mod spec;
mod volume;

use serde_json::Value;

use super::Object;
use super::fields::Fields;
use crate::validation::quantity::Quantity;

pub use disabled::{drop_disabled, drop_disabled_template};
pub use pod::{aggregate, pod, pod_status};
pub use spec::{pod_spec, template};

/// Rounds the quantities of a resource list up to thousandths and makes their texts canonical.
pub fn resource_list(parent: &mut Object, field: &str) {
    if let Some(list) = parent.object_mut(field) {
        for value in list.values_mut() {
            quantity_value(value, true);
        }
    }
}

/// `limits` and `requests` of a container or pod.
pub fn resources(parent: &mut Object, field: &str) {
    if let Some(resources) = parent.object_mut(field) {
        resource_list(resources, "limits");
        resource_list(resources, "requests");
    }
}

/// Makes a quantity's text canonical.
pub fn quantity(parent: &mut Object, field: &str) {
    if let Some(value) = parent.get_mut(field) {
        quantity_value(value, false);
    }
}

fn quantity_value(value: &mut Value, to_milli: bool) {
    let number;
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Number(n) => {
            number = n.to_string();
            number.as_str()
        }
        _ => return,
    };
    // By far the most are plain: digits with at most one suffix letter, which stay as they are.
    let Ok(mut quantity) = Quantity::parse(text) else { return };
    if to_milli {
        quantity.round_up_to_milli();
    }
    let canonical = quantity.to_string();
    if value.as_str() != Some(canonical.as_str()) {
        *value = Value::String(canonical);
    }
}

/// Removes annotations that once carried init containers.
pub fn drop_init_container_annotations(parent: &mut Object) {
    const OLD: [&str; 4] = [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ];
    let Some(metadata) = parent.object_mut("metadata") else { return };
    let Some(annotations) = metadata.object_mut("annotations") else { return };
    let before = annotations.len();
    for key in OLD {
        annotations.remove(key);
    }
    if before > 0 && annotations.is_empty() {
        metadata.remove("annotations");
    }
}
