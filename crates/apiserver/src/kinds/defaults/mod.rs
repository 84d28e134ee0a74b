//! Defaults (API-16): what the reference server's versioned defaulting and conversion fill in.
//!
//! Everything here is idempotent and works on objects in their `v1` form. Conversions are part of it:
//! the deprecated `serviceAccount` follows `serviceAccountName`, a quantity becomes canonical, and so on.

mod disabled;
mod pod;
mod spec;
mod volume;

use muster_tree::Value;

use super::Object;
use crate::model::fields::Fields;
use muster_schema::quantity::Quantity;

pub use disabled::{drop_disabled, drop_disabled_status, drop_disabled_template};
pub use pod::{pod, pod_status};
pub use spec::{pod_spec, template};
pub use volume::{claim_spec, sources};

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
    let text = match &*value {
        Value::String(text) if is_plain(text) => return,
        Value::String(text) => text.as_str(),
        Value::Number(n) => {
            number = n.to_string();
            number.as_str()
        }
        _ => return,
    };
    let Ok(mut quantity) = Quantity::parse(text) else { return };
    if to_milli {
        quantity.round_up_to_milli();
    }
    let canonical = quantity.to_string();
    if value.as_str() != Some(canonical.as_str()) {
        *value = Value::String(canonical.into());
    }
}

/// Whether a quantity is of the plain sort that most are (`2`, `500m`, `64Mi`): it stays as it is.
fn is_plain(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if !(1..=15).contains(&digits) || number.starts_with('0') {
        return text == "0";
    }
    match suffix {
        "" | "m" | "k" | "M" | "G" => !number.ends_with("000"),
        // Whole multiples are written with the next suffix.
        "Ki" | "Mi" | "Gi" => digits <= 9 && number.parse::<u64>().is_ok_and(|n| n % 1024 != 0),
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-16
    #[test]
    fn what_is_plain_is_what_stays() {
        for text in ["0", "1", "500m", "64Mi", "1Gi", "1023Ki", "100k", "1500", "123456789012345"] {
            let mut quantity = Quantity::parse(text).expect(text);
            quantity.round_up_to_milli();
            assert!(is_plain(text) && quantity.to_string() == text, "{text}");
        }
        for text in ["", "00", "1000m", "1024Mi", "0.5", "-1", "1e3", "1000", "1n", "4096Ki"] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
