//! Services (API-17).

pub mod addresses;
pub mod change;
pub mod cluster_ips;

use std::collections::BTreeSet;

use muster_tree::{Value, json};

use crate::field::{FieldError, Shown};
use crate::model::service::{is_headless, is_reached_from_outside, needs_health_check};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::labels::validate_labels;
use super::{Errors, Path, complain, name};

const SPEC: Path<'_> = Path::new("spec");

/// The longest that a client stays with its pod, in seconds.
const LONGEST_AFFINITY: i64 = 86_400;
/// The transport protocols of ports.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks a Service, its metadata aside.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    let old_spec = old.map(|old| old.object("spec").unwrap_or(&empty));
    validate_topology_annotations(metadata(object), errors);
    let kind = spec.text("type");
    if spec.list("ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(FieldError::required(SPEC.child("ports"), ""));
    }
    if is_headless(spec) && matches!(kind, "LoadBalancer" | "NodePort") {
        let list = SPEC.child("clusterIPs");
        let why = format!("may not be set to 'None' for {kind} services");
        errors.push(FieldError::invalid(list.index(0), "None", why));
    }
    if kind == "ExternalName" {
        validate_external_name(spec, errors);
    }
    validate_ports(spec, errors);
    validate_labels(spec, "selector", &SPEC.child("selector"), errors);
    validate_affinity(spec, errors);
    cluster_ips::validate_cluster_ips(spec, old_spec, errors);
    addresses::validate_external_ips(spec, old_spec, errors);
    supported(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    validate_node_ports(spec, errors);
    addresses::validate_source_ranges(object, spec, old, errors);

    let balanced = kind == "LoadBalancer";
    let allocates = spec.contains_key("allocateLoadBalancerNodePorts");
    if allocates && !balanced {
        let path = SPEC.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(path, ONLY_LOAD_BALANCERS));
    }
    if balanced && !allocates {
        errors.push(FieldError::required("allocateLoadBalancerNodePorts", ""));
    }
    validate_class(spec, errors);
    validate_traffic(spec, errors);
}

fn validate_class(spec: &Object, errors: &mut Errors) {
    let Some(class) = spec.maybe_text("loadBalancerClass") else { return };
    let path = SPEC.child("loadBalancerClass");
    if spec.text("type") == "LoadBalancer" {
        complain(class, name::is_qualified_name(class), &path, errors);
    } else {
        errors.push(FieldError::forbidden(path, ONLY_LOAD_BALANCERS));
    }
}

/// What is said of a field that only load balancers have.
const ONLY_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

fn validate_topology_annotations(meta: &Object, errors: &mut Errors) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let Some(annotations) = meta.object("annotations") else { return };
    if let (Some(hints), Some(mode)) = (annotations.maybe_text(HINTS), annotations.maybe_text(MODE))
        && hints != mode
    {
        let path = Path::new("metadata");
        let path = path.child("annotations");
        let why = format!("must match annotations[{HINTS}] when both are specified");
        errors.push(FieldError::invalid(path.key(MODE), mode, why));
    }
}

fn validate_external_name(spec: &Object, errors: &mut Errors) {
    let nothing = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies"] {
        if !spec.list(field).is_empty() {
            errors.push(FieldError::forbidden(SPEC.child(field), nothing));
        }
    }
    if spec.contains_key("ipFamilyPolicy") {
        errors.push(FieldError::forbidden(SPEC.child("ipFamilyPolicy"), nothing));
    }
    let given = spec.text("externalName");
    let path = SPEC.child("externalName");
    match given.strip_suffix('.').unwrap_or(given) {
        "" => errors.push(FieldError::required(path, "")),
        domain => complain(domain, name::is_dns1123_subdomain(domain), &path, errors),
    }
}

fn validate_ports(spec: &Object, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let several = spec.list("ports").len() > 1;
    for (index, port) in spec.items("ports").enumerate() {
        let path = list.index(index);
        let own = port.text("name");
        if own.is_empty() {
            if several {
                errors.push(FieldError::required(path.child("name"), ""));
            }
        } else {
            complain(own, name::is_dns1123_label(own), &path.child("name"), errors);
            if !names.insert(own) {
                errors.push(FieldError::duplicate(path.child("name"), own));
            }
        }
        port_number(port.int("port"), &path.child("port"), errors);
        protocol(port, &path, errors);
        let target = path.child("targetPort");
        match port.get("targetPort") {
            Some(Value::String(text)) => complain(text, name::is_port_name(text), &target, errors),
            other => port_number(other.and_then(Value::as_i64).unwrap_or_default(), &target, errors),
        }
        app_protocol(port, &path, errors);
    }
}

/// Checks the number of a port.
pub fn port_number(number: i64, path: &Path<'_>, errors: &mut Errors) {
    for why in name::is_port_number(number) {
        errors.push(FieldError::invalid(path, number, why));
    }
}

/// Checks that a port has a protocol that there is.
pub fn protocol(port: &Object, path: &Path<'_>, errors: &mut Errors) {
    match port.text("protocol") {
        "" => errors.push(FieldError::required(path.child("protocol"), "")),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.push(FieldError::not_supported(path.child("protocol"), other, &PROTOCOLS)),
    }
}

/// Checks the name of what is spoken on a port.
pub fn app_protocol(port: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(spoken) = port.maybe_text("appProtocol") {
        complain(spoken, name::is_qualified_name(spoken), &path.child("appProtocol"), errors);
    }
}

/// Checks a field that must be one of a few words.
fn supported(spec: &Object, field: &str, known: &[&str], errors: &mut Errors) {
    match spec.text(field) {
        "" => errors.push(FieldError::required(SPEC.child(field), "")),
        word if known.contains(&word) => {}
        other => errors.push(FieldError::not_supported(SPEC.child(field), other, known)),
    }
}

fn validate_affinity(spec: &Object, errors: &mut Errors) {
    supported(spec, "sessionAffinity", &["ClientIP", "None"], errors);
    let path = SPEC.child("sessionAffinityConfig");
    let config = spec.object("sessionAffinityConfig");
    match (spec.text("sessionAffinity"), config) {
        ("None", Some(_)) => {
            errors.push(FieldError::forbidden(path, "must not be set when session affinity is None"));
        }
        ("ClientIP", config) => {
            let missing = "when session affinity type is ClientIP";
            let client = path.child("clientIP");
            let timeout = client.child("timeoutSeconds");
            let Some(config) = config else { return errors.push(FieldError::required(path, missing)) };
            let Some(config) = config.object("clientIP") else {
                return errors.push(FieldError::required(client, missing));
            };
            match config.maybe_int("timeoutSeconds") {
                None => errors.push(FieldError::required(timeout, missing)),
                Some(seconds) if (1..=LONGEST_AFFINITY).contains(&seconds) => {}
                Some(seconds) => {
                    let why = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
                    errors.push(FieldError::invalid(timeout, seconds, why));
                }
            }
        }
        _ => {}
    }
}

fn validate_node_ports(spec: &Object, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let ports = || spec.items("ports").enumerate();
    if spec.text("type") == "ClusterIP" {
        for (index, _) in ports().filter(|(_, port)| port.int("nodePort") != 0) {
            let path = list.index(index);
            errors.push(FieldError::forbidden(path.child("nodePort"), "may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports().filter(|(_, port)| port.int("nodePort") != 0) {
        if !seen.insert((port.text("protocol"), port.int("nodePort"))) {
            let path = list.index(index);
            errors.push(FieldError::duplicate(path.child("nodePort"), port.int("nodePort")));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports() {
        if !seen.insert((port.text("protocol"), port.int("port"))) {
            // The message shows the reference's own structure, with its own names.
            let protocol = json!(port.text("protocol"));
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port.int("port")
            );
            errors.push(FieldError::duplicate(list.index(index), Shown::Bare(shown)));
        }
    }
}

fn validate_traffic(spec: &Object, errors: &mut Errors) {
    let external = spec.text("externalTrafficPolicy");
    if is_reached_from_outside(spec) {
        supported(spec, "externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if !external.is_empty() {
        errors.push(FieldError::invalid(
            SPEC.child("externalTrafficPolicy"),
            external,
            "may only be set for externally-accessible services",
        ));
    }
    let port = spec.int("healthCheckNodePort");
    let path = SPEC.child("healthCheckNodePort");
    match (needs_health_check(spec), port) {
        (false, 0) => {}
        (false, _) => errors.push(FieldError::invalid(
            path,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
        (true, 0) => errors.push(FieldError::required(path, "")),
        (true, _) => port_number(port, &path, errors),
    }
    let path = SPEC.child("internalTrafficPolicy");
    match spec.maybe_text("internalTrafficPolicy") {
        None if matches!(spec.text("type"), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.push(FieldError::required(path, ""));
        }
        None | Some("Cluster" | "Local") => {}
        Some(other) => errors.push(FieldError::not_supported(path, other, &["Cluster", "Local"])),
    }
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(other) = spec.maybe_text("trafficDistribution").filter(|word| !known.contains(word)) {
        errors.push(FieldError::not_supported(SPEC.child("trafficDistribution"), other, &known));
    }
}
