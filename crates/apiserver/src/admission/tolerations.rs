//! DefaultTolerationSeconds: a pod stays 300 seconds on a node that is not ready or unreachable.

use muster_tree::{Value, json};

use super::Write;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::status::ApiError;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the two tolerations where the pod has none for the taint.
pub(super) fn complete(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let seconds = write.registry.settings.toleration_seconds;
    let spec = pod.object_or_new("spec");
    let tolerated = |taint: &str| {
        spec.items("tolerations").any(|t| {
            matches!(t.text("effect"), "" | "NoExecute") && (t.text("key") == taint || t.text("key").is_empty())
        })
    };
    let missing: Vec<(&str, i64)> = TAINTS.into_iter().zip(seconds).filter(|(taint, _)| !tolerated(taint)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new().into()));
    if !list.is_array() {
        *list = Value::Array(Vec::new().into());
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(missing.into_iter().map(|(taint, seconds)| {
            json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
        }));
    }
    Ok(())
}
