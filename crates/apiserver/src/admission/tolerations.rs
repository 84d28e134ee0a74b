//! DefaultTolerationSeconds: a pod stays 300 seconds on a node that is not ready or unreachable.

use serde_json::{Value, json};

use crate::model::Object;
use crate::model::fields::Fields as _;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the two tolerations where the pod has none for the taint.
pub(super) fn complete(pod: &mut Object) {
    let spec = pod.object_or_new("spec");
    let tolerated = |taint: &str| {
        spec.items("tolerations").any(|t| {
            matches!(t.text("effect"), "" | "NoExecute") && (t.text("key") == taint || t.text("key").is_empty())
        })
    };
    let missing: Vec<&str> = TAINTS.into_iter().filter(|taint| !tolerated(taint)).collect();
    if missing.is_empty() {
        return;
    }
    let list = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(
            missing.into_iter().map(
                |taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            ),
        );
    }
}
