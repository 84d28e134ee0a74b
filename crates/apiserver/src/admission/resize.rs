//! NodeDeclaredFeatureValidator and PodResizeValidator: a pod is given other resources only where its node can do that, and
//! has them.

use muster_schema::quantity::Quantity;
use muster_tree::Value;

use super::Write;
use crate::field::go_quote;
use crate::model::fields::{Fields as _, metadata};
use crate::model::pod::aggregate;
use crate::model::{Object, Part};
use crate::status::ApiError;

const OS_LABEL: &str = "kubernetes.io/os";

pub(super) fn validate(write: &Write<'_>, pod: &Object) -> Result<(), ApiError> {
    let (Some(old), part) = (write.live, write.part) else { return Ok(()) };
    let node_name = pod.part("spec").text("nodeName");
    if node_name.is_empty() || pod.get("spec") == old.get("spec") {
        return Ok(());
    }
    let needed = needed_features(pod.part("spec"), old.part("spec"));
    if part == Part::Main && needed.is_empty() {
        return Ok(());
    }
    let forbidden = |why: &str| write.forbidden(metadata(pod).text("name"), why);
    let nodes = write.registry.find("", "v1", "nodes");
    let Some(node) = nodes.and_then(|nodes| write.registry.storage.get(nodes.id, "", node_name)) else {
        return Err(forbidden(&format!("node {} not found", go_quote(node_name))));
    };
    let node = node.object();
    let status = node.part("status");
    let missing: Vec<&str> = needed
        .into_iter()
        .filter(|feature| !status.strings("declaredFeatures").any(|known| known == *feature))
        .collect();
    if !missing.is_empty() {
        let (missing, node) = (missing.join(", "), go_quote(node_name));
        let why = format!("pod update requires features {missing} which are not available on node {node}");
        return Err(forbidden(&why));
    }
    if part != Part::Resize {
        return Ok(());
    }
    if let Some(os) = metadata(&node).part("labels").maybe_text(OS_LABEL).filter(|os| *os != "linux") {
        let (node, os) = (go_quote(node_name), go_quote(os));
        let why = format!("pod resize is only supported on linux nodes, node {node} is {os}");
        return Err(forbidden(&why).with_cause("UnsupportedPlatform", String::new(), ""));
    }
    let lacks: Vec<String> = [("cpu", NANOS_OF_MILLI), ("memory", NANOS_OF_ONE)]
        .into_iter()
        .filter_map(|(resource, unit)| lack(pod.part("spec"), status.part("allocatable"), resource, unit))
        .collect();
    if lacks.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacks.join("; "));
    Err(forbidden(&why).with_cause("NodeCapacity", String::new(), ""))
}

const NANOS_OF_MILLI: i128 = 1_000_000;
const NANOS_OF_ONE: i128 = 1_000_000_000;

/// What a node must be able to do for this change.
fn needed_features(spec: &Object, before: &Object) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if spec.get("resources") != before.get("resources") {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let mut once = before.items("initContainers").zip(spec.items("initContainers"));
    if once.any(|(old, new)| old.text("restartPolicy") != "Always" && old.get("resources") != new.get("resources")) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

/// Says what a pod needs more than its node has of a resource, in a unit of so many nanos.
fn lack(spec: &Object, allocatable: &Object, resource: &str, unit: i128) -> Option<String> {
    let own = spec.part("resources").part("requests").get(resource).and_then(Value::as_str).map(Quantity::of);
    let mut needs = own.or_else(|| aggregate(spec, "requests").remove(resource)).unwrap_or_else(|| Quantity::of("0"));
    if let Some(overhead) = spec.part("overhead").maybe_text(resource) {
        needs = needs.plus(&Quantity::of(overhead));
    }
    let has = Quantity::of(allocatable.maybe_text(resource).unwrap_or("0"));
    let count = |quantity: &Quantity| quantity.nanos().map_or(0, |nanos| (nanos + unit - 1).div_euclid(unit));
    needs
        .compare(&has)
        .is_gt()
        .then(|| format!("{resource}, requested: {}, allocatable: {}", count(&needs), count(&has)))
}
