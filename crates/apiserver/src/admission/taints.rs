//! TaintNodesByCondition: a new node takes no pods until it has been seen to be ready.
//!
//! The reference server taints every new node, and its node controller takes the taint away. There is no such controller
//! here, so a node that is created saying that it is ready is believed.

use muster_tree::{Value, json};

use super::Write;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::status::ApiError;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) fn complete(_: &Write<'_>, node: &mut Object) -> Result<(), ApiError> {
    let ready = node.object("status").is_some_and(|status| {
        status.items("conditions").any(|c| c.text("type") == "Ready" && c.text("status") == "True")
    });
    let spec = node.object_or_new("spec");
    let tainted = spec.items("taints").any(|t| t.text("key") == NOT_READY && t.text("effect") == "NoSchedule");
    if ready || tainted {
        return Ok(());
    }
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    match spec.get_mut("taints") {
        Some(Value::Array(taints)) => taints.push(taint),
        _ => {
            spec.insert("taints", Value::Array(vec![taint].into()));
        }
    }
    Ok(())
}
