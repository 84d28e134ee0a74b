//! PodTopologyLabels: a pod on a node has the labels that say in which zone and region the node is.

use super::{Write, find};
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::Registry;
use crate::status::ApiError;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Labels a new pod that names its node.
pub(super) fn create(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let node = pod.part("spec").text("nodeName").to_owned();
    label(write.registry, &node, pod);
    Ok(())
}

/// Labels a binding to a node: its labels become the pod's.
pub(super) fn bind(registry: &Registry, binding: &mut Object) {
    let target = binding.part("target");
    if target.text("kind") == "Node" {
        let node = target.text("name").to_owned();
        label(registry, &node, binding);
    }
}

/// Copies the labels of a node. One that is not there has none.
fn label(registry: &Registry, node: &str, object: &mut Object) {
    if node.is_empty() {
        return;
    }
    let Some(node) = find(registry, "", "nodes", node) else { return };
    let of_node = metadata(&node).part("labels");
    for name in LABELS {
        if let Some(value) = of_node.get(name) {
            object.object_or_new("metadata").object_or_new("labels").insert(name, value.clone());
        }
    }
}
