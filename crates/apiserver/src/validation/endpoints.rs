//! Endpoints (API-17).

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::ip::{ip_warnings, validate_endpoint_ip, validate_legacy_ip};
use super::service::{app_protocol, port_number, protocol};
use super::{Errors, Path, complain, name};

const LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];

/// Checks the subsets. Those that are as they were pass: older rules let them in.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    if old.is_some_and(|old| old.get("subsets") == object.get("subsets")) {
        return;
    }
    let list = Path::new("subsets");
    for (index, subset) in object.items("subsets").enumerate() {
        let path = list.index(index);
        if LISTS.iter().all(|field| subset.list(field).is_empty()) {
            errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in LISTS {
            let list = path.child(field);
            for (index, address) in subset.items(field).enumerate() {
                validate_address(address, &list.index(index), errors);
            }
        }
        let list = path.child("ports");
        let several = subset.list("ports").len() > 1;
        for (index, port) in subset.items("ports").enumerate() {
            validate_port(port, several, &list.index(index), errors);
        }
    }
}

fn validate_address(address: &Object, path: &Path<'_>, errors: &mut Errors) {
    let ip = address.text("ip");
    validate_legacy_ip(ip, &[], &path.child("ip"), errors);
    let host = address.text("hostname");
    if !host.is_empty() {
        complain(host, name::is_dns1123_label(host), &path.child("hostname"), errors);
    }
    if let Some(node) = address.maybe_text("nodeName") {
        complain(node, name::is_dns1123_subdomain(node), &path.child("nodeName"), errors);
    }
    validate_endpoint_ip(ip, &path.child("ip"), errors);
}

fn validate_port(port: &Object, named: bool, path: &Path<'_>, errors: &mut Errors) {
    match port.text("name") {
        "" if named => errors.push(FieldError::required(path.child("name"), "")),
        "" => {}
        own => complain(own, name::is_dns1123_label(own), &path.child("name"), errors),
    }
    port_number(port.int("port"), &path.child("port"), errors);
    protocol(port, path, errors);
    app_protocol(port, path, errors);
}

/// What Endpoints are warned of, but for those of the controller that mends what it is given.
#[must_use]
pub fn warnings(object: &Object) -> Vec<String> {
    let labels = metadata(object).object("labels");
    if labels.is_some_and(|labels| labels.text("endpoints.kubernetes.io/managed-by") == "endpoint-controller") {
        return Vec::new();
    }
    let mut out = Vec::new();
    let list = Path::new("subsets");
    for (index, subset) in object.items("subsets").enumerate() {
        let path = list.index(index);
        for field in LISTS {
            let list = path.child(field);
            for (index, address) in subset.items(field).enumerate() {
                let path = list.index(index);
                out.extend(ip_warnings(&path.child("ip"), address.text("ip")));
            }
        }
    }
    out
}
