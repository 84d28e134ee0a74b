//! Node.

use std::sync::LazyLock;

use std::borrow::Cow;
use std::collections::BTreeSet;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, defaults,
    keep_generation,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors, Path};

/// A machine that runs pods.
#[derive(Debug)]
pub struct Node;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::cluster("", "v1", "Node", "nodes")
        .short(&["no"])
        .parts(&[Subresource::Status])
        .labels(&["spec.unschedulable"])
        .stored_under("minions")
});

const ADDRESSES_DOC: &str = "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).";

static COLUMNS: [Column; 10] = [
    NAME_COLUMN,
    Column::text("Status", "The status of the node"),
    Column::text("Roles", "The roles of the node"),
    AGE_COLUMN,
    Column::text("Version", "Kubelet Version reported by the node."),
    Column::wide_text("Internal-IP", ADDRESSES_DOC),
    Column::wide_text("External-IP", ADDRESSES_DOC),
    Column::wide_text(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    ),
    Column::wide_text(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    ),
    Column::wide_text(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

impl Kind for Node {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        pod_cidrs(spec);
        let status = object.object_or_new("status");
        if let Some(capacity) = status.get("capacity").filter(|c| !c.is_null()).cloned() {
            status.set_if_absent("allocatable", capacity);
        }
        defaults::resource_list(status, "capacity");
        defaults::resource_list(status, "allocatable");
    }
    fn prepare_create(&self, object: &mut Object) {
        // Nodes may be born with a status, but not with the kubelet configuration of old.
        object.object_or_new("spec").remove("configSource");
        object.object_or_new("status").remove("config");
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Status => {
                object.carry("spec", old);
                if !old.part("status").contains_key("config") {
                    object.object_or_new("status").remove("config");
                }
            }
            _ => {
                object.carry("status", old);
                if old.object("spec").is_none_or(|spec| !spec.contains_key("configSource")) {
                    object.object_or_new("spec").remove("configSource");
                }
            }
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), false, NameRule::Subdomain, &mut errors);
        validation::node::validate(object, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = match part {
            Part::Status => Errors::new(),
            _ => self.validate_create(object),
        };
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        validation::node::validate_change(object, old, &mut errors);
        errors
    }
    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let Some(spec) = object.object("spec") else { return Vec::new() };
        let mut warnings = Vec::new();
        if spec.contains_key("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.text("externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = Path::new("spec");
        let list = path.child("podCIDRs");
        for (i, cidr) in spec.strings("podCIDRs").enumerate() {
            warnings.extend(validation::ip::cidr_warnings(&list.index(i), cidr));
        }
        warnings
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        (label == "spec.unschedulable").then(|| {
            let unschedulable = object.object("spec").is_some_and(|spec| spec.flag("unschedulable"));
            Cow::Borrowed(if unschedulable { "true" } else { "false" })
        })
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let empty = Object::new();
        let spec = object.object("spec").unwrap_or(&empty);
        let status = object.object("status").unwrap_or(&empty);
        let info = status.object("nodeInfo").unwrap_or(&empty);
        let ready = status.items("conditions").filter(|c| c.text("type") == "Ready").last();
        let mut state = match ready {
            Some(condition) if condition.text("status") == "True" => "Ready".to_owned(),
            Some(_) => "NotReady".to_owned(),
            None => "Unknown".to_owned(),
        };
        if spec.flag("unschedulable") {
            state.push_str(",SchedulingDisabled");
        }
        let mut kernel = cells::or(info.text("kernelVersion"), "<unknown>").to_owned();
        if !info.text("architecture").is_empty() {
            kernel.push_str(&format!(" ({})", info.text("architecture")));
        }
        let address = |kind: &str| {
            let found = status.items("addresses").find(|a| a.text("type") == kind);
            Value::from(found.map_or("<none>", |a| a.text("address")))
        };
        vec![
            cells::name(object),
            state.into(),
            roles(object).into(),
            cells::age(object, now),
            info.text("kubeletVersion").into(),
            address("InternalIP"),
            address("ExternalIP"),
            cells::or(info.text("osImage"), "<unknown>").into(),
            kernel.into(),
            cells::or(info.text("containerRuntimeVersion"), "<unknown>").into(),
        ]
    }
}

/// `podCIDR` is always the first of `podCIDRs`; where both are given and differ, the old field wins.
fn pod_cidrs(spec: &mut Object) {
    let one = spec.text("podCIDR").to_owned();
    let first = spec.strings("podCIDRs").next().unwrap_or_default().to_owned();
    if one.is_empty() {
        if !first.is_empty() {
            spec.insert("podCIDR", first.into());
        }
    } else if one != first {
        spec.insert("podCIDRs", Value::from(vec![one]));
    }
}

fn roles(object: &Object) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in metadata(object).pairs("labels") {
        if let Some(role) = key.strip_prefix(ROLE_PREFIX) {
            if !role.is_empty() {
                roles.insert(role);
            }
        } else if key == ROLE_LABEL && !value.is_empty() {
            roles.insert(value);
        }
    }
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-05
    #[test]
    fn a_nodes_row() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "x"}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2", "kernelVersion": "6.1", "architecture": "amd64"},
                "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}]
            }
        });
        let row = Node.cells(node.as_object().expect("object"), Timestamp::UNIX_EPOCH);
        assert_eq!(
            Value::from(row),
            json!([
                "n",
                "NotReady,SchedulingDisabled",
                "control-plane,worker,x",
                "<unknown>",
                "v1.36.2",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "6.1 (amd64)",
                "<unknown>"
            ])
        );
    }
}
