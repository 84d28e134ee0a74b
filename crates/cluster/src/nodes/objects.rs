//! The objects of a simulated node: the Node itself with its status, and its Lease (SIM-01).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use muster_objects::Timestamp;
use muster_objects::time::Micro;

use crate::json::{push_field, push_string};
use crate::kubelet::Place;

/// The version that simulated nodes say they run.
pub const KUBELET_VERSION: &str = "v1.36.0+muster";
/// The namespace of the nodes' Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long a node's Lease is good for, in seconds.
pub const LEASE_SECONDS: u32 = 40;

/// How much a simulated node has to give. The default takes 5120 pods, so that three nodes take 10,000
/// with room to spare, with 64 cores and 256 GiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Cores.
    pub cpu: u32,
    /// Gibibytes of memory.
    pub memory_gib: u32,
    /// Pods.
    pub pods: u32,
    /// In how many zones the nodes are, one after the other in each; in none where it is 0.
    pub zones: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { cpu: 64, memory_gib: 256, pods: 5120, zones: 0 }
    }
}

impl Capacity {
    /// The prefix length of a pod range that holds as many addresses.
    fn prefix(&self) -> u8 {
        let bits = 32 - self.pods.saturating_add(2).leading_zeros();
        // At least 64 addresses, at most 2^24.
        32 - u8::try_from(bits).unwrap_or(24).clamp(6, 24)
    }
}

/// The name of the simulated node of that ordinal, counted from 0.
#[must_use]
pub fn node_name(ordinal: u32) -> String {
    format!("node-{ordinal}")
}

/// The ordinal of a simulated node's name.
#[must_use]
pub fn node_ordinal(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("node-")?;
    let ordinal = digits.parse().ok()?;
    (node_name(ordinal) == name).then_some(ordinal)
}

/// Where the node of that ordinal is on the network: its own address counts on from 172.18.0.2, its pods'
/// ranges follow one another from 10.128.0.0.
#[must_use]
pub fn place(ordinal: u32, capacity: &Capacity) -> Place {
    let prefix = capacity.prefix();
    let host = u32::from(Ipv4Addr::new(172, 18, 0, 2)).wrapping_add(ordinal);
    let pods = u32::from(Ipv4Addr::new(10, 128, 0, 0)).wrapping_add(ordinal.wrapping_shl(u32::from(32 - prefix)));
    Place { host: host.into(), pods: pods.into(), prefix }
}

/// A Node as its agent registers it, ready at once.
#[must_use]
pub fn node_body(name: &str, place: &Place, capacity: &Capacity, now: Timestamp) -> Vec<u8> {
    let mut out = String::with_capacity(3000);
    out.push_str(r#"{"apiVersion":"v1","kind":"Node","metadata":{"#);
    push_field(&mut out, true, "name", name);
    out.push_str(r#","labels":{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux""#);
    push_field(&mut out, false, "kubernetes.io/hostname", name);
    if let Some(zone) = node_ordinal(name).and_then(|ordinal| ordinal.checked_rem(capacity.zones)) {
        push_field(&mut out, false, "topology.kubernetes.io/zone", &format!("zone-{}", zone + 1));
    }
    out.push_str(r#"},"annotations":{"muster.dev/simulated":"true","node.alpha.kubernetes.io/ttl":"0"}},"spec":{"#);
    // Writing to a String cannot fail, here and below.
    let _ = write!(out, r#""podCIDR":"{0}/{1}","podCIDRs":["{0}/{1}"],"#, place.pods, place.prefix);
    let _ = write!(out, r#""providerID":"muster://{name}"}},"status":"#);
    push_status(&mut out, name, place, capacity, now);
    out.push('}');
    out.into_bytes()
}

/// The patch (strategic merge) by which an agent reports that its node is ready.
#[must_use]
pub fn node_status_patch(name: &str, place: &Place, capacity: &Capacity, now: Timestamp) -> Vec<u8> {
    let mut out = String::from(r#"{"status":"#);
    push_status(&mut out, name, place, capacity, now);
    out.push('}');
    out.into_bytes()
}

/// The patch (strategic merge) by which an agent gives out the extended resources that its node is said to have.
#[must_use]
pub(super) fn allocatable_patch(resources: &[(Arc<str>, Option<Box<str>>)]) -> Vec<u8> {
    let amounts: BTreeMap<&str, Option<&str>> =
        resources.iter().map(|(name, amount)| (&**name, amount.as_deref())).collect();
    serde_json::json!({ "status": { "allocatable": amounts } }).to_string().into_bytes()
}

/// The patch (strategic merge) by which an agent shows that it lives: the conditions' heartbeats alone.
#[must_use]
pub(super) fn heartbeat_patch(now: Timestamp) -> Vec<u8> {
    let mut out = String::from(r#"{"status":{"conditions":["#);
    for (at, (kind, ..)) in CONDITIONS.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, r#"{comma}{{"type":"{kind}","lastHeartbeatTime":"{now}"}}"#);
    }
    out.push_str("]}}");
    out.into_bytes()
}

/// The patch (strategic merge) by which the control plane says that a node has not been heard of.
#[must_use]
pub(super) fn lost_patch(never: bool, now: Timestamp) -> Vec<u8> {
    let (reason, message) = if never {
        ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
    } else {
        ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    };
    let mut out = String::from(r#"{"status":{"conditions":["#);
    for (at, (kind, ..)) in CONDITIONS.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            out,
            r#"{comma}{{"type":"{kind}","status":"Unknown","reason":"{reason}","message":"{message}","lastTransitionTime":"{now}"}}"#
        );
    }
    out.push_str("]}}");
    out.into_bytes()
}

/// A node's new Lease. `owner` is the uid of the Node.
#[must_use]
pub(super) fn lease_body(name: &str, owner: &str, now: Timestamp) -> Vec<u8> {
    let mut out = String::from(r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"#);
    push_field(&mut out, true, "name", name);
    push_field(&mut out, false, "namespace", LEASE_NAMESPACE);
    out.push_str(r#","ownerReferences":[{"apiVersion":"v1","kind":"Node""#);
    push_field(&mut out, false, "name", name);
    push_field(&mut out, false, "uid", owner);
    out.push_str(r#"}]},"spec":{"holderIdentity":"#);
    push_string(&mut out, name);
    let _ = write!(out, r#","leaseDurationSeconds":{LEASE_SECONDS},"renewTime":"{}"}}}}"#, Micro(now));
    out.into_bytes()
}

/// The patch (merge) that renews a Lease.
#[must_use]
pub(super) fn renew_patch(now: Timestamp) -> Vec<u8> {
    format!(r#"{{"spec":{{"renewTime":"{}"}}}}"#, Micro(now)).into_bytes()
}

/// The conditions of a healthy node.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

fn push_status(out: &mut String, name: &str, place: &Place, capacity: &Capacity, now: Timestamp) {
    let Capacity { cpu, memory_gib, pods, zones: _ } = capacity;
    let resources = format!(
        r#"{{"cpu":"{cpu}","ephemeral-storage":"1Ti","hugepages-1Gi":"0","hugepages-2Mi":"0","memory":"{memory_gib}Gi","pods":"{pods}"}}"#
    );
    let _ = write!(out, r#"{{"capacity":{resources},"allocatable":{resources},"conditions":["#);
    for (at, (kind, status, reason, message)) in CONDITIONS.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            out,
            r#"{comma}{{"type":"{kind}","status":"{status}","lastHeartbeatTime":"{now}","lastTransitionTime":"{now}","reason":"{reason}","message":"{message}"}}"#
        );
    }
    let _ = write!(out, r#"],"addresses":[{{"type":"InternalIP","address":"{}"}},{{"type":"Hostname""#, place.host);
    push_field(out, false, "address", name);
    out.push_str(r#"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"nodeInfo":{"#);
    let mut first = true;
    for (key, value) in [
        ("machineID", name),
        ("systemUUID", name),
        ("bootID", name),
        ("kernelVersion", "6.12.0-muster"),
        ("osImage", "Muster (simulated)"),
        ("containerRuntimeVersion", "muster://1.0.0"),
        ("kubeletVersion", KUBELET_VERSION),
        ("kubeProxyVersion", ""),
        ("operatingSystem", "linux"),
        ("architecture", "amd64"),
    ] {
        push_field(out, first, key, value);
        first = false;
    }
    out.push_str("}}");
}

#[cfg(test)]
mod tests {
    use muster_objects::{Interner, Object};

    use super::*;
    use crate::node::{Node, Readiness};

    /// Contract: SIM-01
    #[test]
    fn a_simulated_node_reads_back_ready_with_its_capacity() {
        let capacity = Capacity::default();
        let body = node_body("node-1", &place(1, &capacity), &capacity, Timestamp::from_seconds(1_700_000_000));
        let node = Node::decode(&body, &mut Interner::new()).expect("it is a node");
        assert_eq!((node.ready, node.pods, node.allocatable.milli_cpu), (Readiness::True, 5120, 64_000));
        assert_eq!(node.allocatable.memory, 256 << 30);
        assert_eq!(node.meta.labels.get("kubernetes.io/hostname"), Some("node-1"));
        assert_eq!(node.meta.labels.get("topology.kubernetes.io/zone"), None);
        let in_zones = Capacity { zones: 2, ..Capacity::default() };
        for (ordinal, zone) in [(0, "zone-1"), (1, "zone-2"), (2, "zone-1")] {
            let place = place(ordinal, &in_zones);
            let body = node_body(&node_name(ordinal), &place, &in_zones, Timestamp::UNIX_EPOCH);
            let node = Node::decode(&body, &mut Interner::new()).expect("it is a node");
            assert_eq!(node.meta.labels.get("topology.kubernetes.io/zone"), Some(zone));
        }
        assert_eq!(node.address.as_deref(), Some("172.18.0.3"));
        assert!(node.simulated && !node.unreachable && node.taints.is_empty());
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(json["spec"]["podCIDR"], "10.128.32.0/19");
        assert!(json["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|v| v.starts_with("v1.36.")));
        for patch in [
            node_status_patch("node-1", &place(1, &capacity), &capacity, Timestamp::UNIX_EPOCH),
            heartbeat_patch(Timestamp::UNIX_EPOCH),
            lost_patch(true, Timestamp::UNIX_EPOCH),
            lease_body("node-1", "uid", Timestamp::UNIX_EPOCH),
            renew_patch(Timestamp::UNIX_EPOCH),
        ] {
            serde_json::from_slice::<serde_json::Value>(&patch).expect("every patch is JSON");
        }
    }

    /// Contract: SIM-01
    #[test]
    fn pod_ranges_hold_every_pod_and_do_not_overlap() {
        for pods in [1, 62, 63, 110, 5000, 8190, 8191, 100_000] {
            let capacity = Capacity { pods, ..Capacity::default() };
            let (a, b) = (place(0, &capacity), place(1, &capacity));
            let size = 1_u32 << (32 - a.prefix);
            assert!(size - 2 >= pods, "{pods} pods in /{}", a.prefix);
            assert_eq!(u32::from(b.pods) - u32::from(a.pods), size);
        }
    }

    /// Contract: SIM-01
    #[test]
    fn names_and_ordinals_are_one_to_one() {
        assert_eq!(node_ordinal(&node_name(17)), Some(17));
        for name in ["node-", "node-01", "node-x", "worker-1", "node--1", "node-+1"] {
            assert_eq!(node_ordinal(name), None, "{name}");
        }
    }
}
