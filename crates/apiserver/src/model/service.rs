//! What the spec of a Service asks for.

use super::{Fields as _, Object};

/// Whether a Service of this spec has addresses of its own.
pub fn needs_cluster_ip(spec: &Object) -> bool {
    spec.text("type") != "ExternalName"
}

/// Whether a Service of this spec is reached on a port of each node.
pub fn needs_node_ports(spec: &Object) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// Whether a load balancer asks nodes whether they have a pod.
pub fn needs_health_check(spec: &Object) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

/// Whether its name leads to the pods themselves.
pub fn is_headless(spec: &Object) -> bool {
    spec.list("clusterIPs").len() == 1 && spec.strings("clusterIPs").next() == Some("None")
}

/// Whether it has addresses that are not the cluster's.
pub fn is_reached_from_outside(spec: &Object) -> bool {
    needs_node_ports(spec) || (spec.text("type") == "ClusterIP" && !spec.list("externalIPs").is_empty())
}
