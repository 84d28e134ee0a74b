//! EndpointSlices (API-17).

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::ip::{ip_warnings, parse_sloppy, validate_endpoint_ip, validate_legacy_ip, validate_strict_ip};
use super::labels::validate_labels;
use super::service::{PROTOCOLS, app_protocol};
use super::{Errors, IMMUTABLE, Path, complain, name};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MOST_PORTS: usize = 20_000;
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_TOPOLOGY_LABELS: usize = 16;
const MOST_HINTS: usize = 8;

/// Checks a slice, its metadata aside. Endpoints that are as they were pass: older rules let them in.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let kind = object.text("addressType");
    let path = Path::new("addressType");
    if kind.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !ADDRESS_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path, kind, &ADDRESS_TYPES));
    }
    validate_ports(object, errors);
    if old.is_none_or(|old| old.get("endpoints") != object.get("endpoints")) {
        validate_endpoints(object, kind, errors);
    }
}

/// The type of the addresses never changes.
pub fn validate_type_unchanged(object: &Object, old: &Object, errors: &mut Errors) {
    let kind = object.text("addressType");
    if kind != old.text("addressType") {
        errors.push(FieldError::invalid("addressType", kind, IMMUTABLE));
    }
}

fn validate_ports(object: &Object, errors: &mut Errors) {
    let list = Path::new("ports");
    let count = object.list("ports").len();
    if count > MOST_PORTS {
        return errors.push(FieldError::too_many(list, count, MOST_PORTS));
    }
    let mut names = BTreeSet::new();
    for (index, port) in object.items("ports").enumerate() {
        let path = list.index(index);
        let own = port.text("name");
        if !own.is_empty() {
            complain(own, name::is_dns1123_label(own), &path.child("name"), errors);
        }
        if !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
        match port.maybe_text("protocol") {
            None => errors.push(FieldError::required(path.child("protocol"), "")),
            Some(known) if PROTOCOLS.contains(&known) => {}
            Some(other) => errors.push(FieldError::not_supported(path.child("protocol"), other, &PROTOCOLS)),
        }
        app_protocol(port, &path, errors);
    }
}

fn validate_endpoints(object: &Object, kind: &str, errors: &mut Errors) {
    let list = Path::new("endpoints");
    let count = object.list("endpoints").len();
    if count > MOST_ENDPOINTS {
        return errors.push(FieldError::too_many(list, count, MOST_ENDPOINTS));
    }
    for (index, endpoint) in object.items("endpoints").enumerate() {
        let path = list.index(index);
        let addresses = path.child("addresses");
        match endpoint.list("addresses").len() {
            0 => errors.push(FieldError::required(addresses, "must contain at least 1 address")),
            count if count > MOST_ADDRESSES => errors.push(FieldError::too_many(addresses, count, MOST_ADDRESSES)),
            _ => {}
        }
        for (index, address) in endpoint.strings("addresses").enumerate() {
            validate_address(address, kind, &addresses, index, errors);
        }
        if let Some(node) = endpoint.maybe_text("nodeName") {
            complain(node, name::is_dns1123_subdomain(node), &path.child("nodeName"), errors);
        }
        let topology = path.child("deprecatedTopology");
        let labels = endpoint.object("deprecatedTopology").map_or(0, Object::len);
        if labels > MOST_TOPOLOGY_LABELS {
            errors.push(FieldError::too_many(topology, labels, MOST_TOPOLOGY_LABELS));
        }
        validate_labels(endpoint, "deprecatedTopology", &topology, errors);
        if let Some(host) = endpoint.maybe_text("hostname") {
            complain(host, name::is_dns1123_label(host), &path.child("hostname"), errors);
        }
        if let Some(hints) = endpoint.object("hints") {
            validate_hints(hints, &path.child("hints"), errors);
        }
    }
}

fn validate_address(address: &str, kind: &str, list: &Path<'_>, index: usize, errors: &mut Errors) {
    let path = list.index(index);
    let found = errors.len();
    match kind {
        "IPv4" => validate_legacy_ip(address, &[], &path, errors),
        "IPv6" => validate_strict_ip(address, &path, errors),
        "FQDN" => return validate_domain(address, &path, errors),
        _ => return,
    }
    if errors.len() > found {
        return;
    }
    if parse_sloppy(address).is_some_and(|ip| ip.is_ipv4() != (kind == "IPv4")) {
        errors.push(FieldError::invalid(list, address, format!("must be an {kind} address")));
    }
    validate_endpoint_ip(address, &path, errors);
}

/// A fully qualified name: two labels at least, and a dot at the end or not.
fn validate_domain(domain: &str, path: &Path<'_>, errors: &mut Errors) {
    if domain.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let bare = domain.strip_suffix('.').unwrap_or(domain);
    let complaints = name::is_dns1123_subdomain(bare);
    if !complaints.is_empty() {
        complain(bare, complaints, path, errors);
    } else if !bare.contains('.') {
        errors.push(FieldError::invalid(path, bare, "should be a domain with at least two segments separated by dots"));
    }
}

fn validate_hints(hints: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (field, rule) in [
        ("forZones", name::is_label_value as fn(&str) -> Vec<String>),
        ("forNodes", name::is_dns1123_subdomain as fn(&str) -> Vec<String>),
    ] {
        let list = path.child(field);
        let count = hints.list(field).len();
        if count > MOST_HINTS {
            return errors.push(FieldError::too_many(list, count, MOST_HINTS));
        }
        let mut names = BTreeSet::new();
        for (index, own) in hints.items(field).map(|hint| hint.text("name")).enumerate() {
            let path = list.index(index);
            if !names.insert(own) {
                errors.push(FieldError::duplicate(path.child("name"), own));
            }
            complain(own, rule(own), &path.child("name"), errors);
        }
    }
}

/// What a slice is warned of, but for those of the controllers that mend what they are given.
#[must_use]
pub fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut out = Vec::new();
    if old.is_none() && object.text("addressType") == "FQDN" {
        out.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let labels = metadata(object).object("labels");
    let manager = labels.map_or("", |labels| labels.text("endpointslice.kubernetes.io/managed-by"));
    if manager.starts_with("endpointslice") && manager.ends_with("controller.k8s.io") {
        return out;
    }
    let list = Path::new("endpoints");
    for (index, endpoint) in object.list("endpoints").iter().filter_map(Value::as_object).enumerate() {
        let path = list.index(index);
        let list = path.child("addresses");
        for (index, address) in endpoint.strings("addresses").enumerate() {
            out.extend(ip_warnings(&list.index(index), address));
        }
    }
    out
}
