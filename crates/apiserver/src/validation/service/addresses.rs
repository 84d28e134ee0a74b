//! The addresses of a Service that are not the cluster's: external IPs, load balancers and who may use them.

use muster_tree::Value;

use super::ONLY_LOAD_BALANCERS;
use crate::field::FieldError;
use crate::model::service::is_headless;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::ip::{
    cidr_warnings, ip_warnings, parse_sloppy, validate_endpoint_ip, validate_legacy_cidr, validate_legacy_ip,
};
use crate::validation::{Errors, Path, complain, name};

const SPEC: Path<'_> = Path::new("spec");

/// The annotation that is older than `loadBalancerSourceRanges`.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks `externalIPs`.
pub(super) fn validate_external_ips(spec: &Object, old: Option<&Object>, errors: &mut Errors) {
    let before: Vec<&str> = old.map(|old| old.strings("externalIPs").collect()).unwrap_or_default();
    let list = SPEC.child("externalIPs");
    for (index, ip) in spec.strings("externalIPs").enumerate() {
        let found = errors.len();
        validate_legacy_ip(ip, &before, &list.index(index), errors);
        if errors.len() == found {
            validate_endpoint_ip(ip, &list.index(index), errors);
        }
    }
}

/// Checks who may use the load balancer.
pub(super) fn validate_source_ranges(object: &Object, spec: &Object, old: Option<&Object>, errors: &mut Errors) {
    let balanced = spec.text("type") == "LoadBalancer";
    if !spec.list("loadBalancerSourceRanges").is_empty() {
        // The reference server writes it with a capital.
        let list = SPEC.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(FieldError::forbidden(list, ONLY_LOAD_BALANCERS));
        }
        let old_spec = old.and_then(|old| old.object("spec"));
        let before: Vec<&str> =
            old_spec.map(|old| old.strings("loadBalancerSourceRanges").map(str::trim).collect()).unwrap_or_default();
        for (index, range) in spec.strings("loadBalancerSourceRanges").map(str::trim).enumerate() {
            if !before.contains(&range) {
                validate_legacy_cidr(range, &list.index(index), errors);
            }
        }
        return;
    }
    let annotation = |object: &Object| {
        let annotations = metadata(object).object("annotations")?;
        annotations.maybe_text(SOURCE_RANGES).map(str::to_owned)
    };
    let Some(said) = annotation(object) else { return };
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let path = path.key(SOURCE_RANGES);
    if !balanced {
        errors.push(FieldError::forbidden(path, ONLY_LOAD_BALANCERS));
    }
    if old.and_then(annotation).as_deref() != Some(&said) && !said.trim().is_empty() {
        said.split(',').for_each(|range| validate_legacy_cidr(range.trim(), &path, errors));
    }
}

/// Checks a Service's status: the addresses of its load balancer.
pub fn validate_status(object: &Object, old: &Object, errors: &mut Errors) {
    fn ingress(object: &Object) -> &[Value] {
        let status = object.object("status").and_then(|status| status.object("loadBalancer"));
        status.map_or(&[], |status| status.list("ingress"))
    }
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    let list = path.child("ingress");
    let each = ingress(object);
    if !each.is_empty() && object.object("spec").is_none_or(|spec| spec.text("type") != "LoadBalancer") {
        errors.push(FieldError::forbidden(list, "may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    let before: Vec<&str> = ingress(old).iter().filter_map(|one| one["ip"].as_str()).collect();
    for (index, one) in each.iter().filter_map(Value::as_object).enumerate() {
        let path = list.index(index);
        let ip = one.text("ip");
        if !ip.is_empty() {
            validate_legacy_ip(ip, &before, &path.child("ip"), errors);
        }
        let mode = path.child("ipMode");
        match one.maybe_text("ipMode") {
            None if !ip.is_empty() => errors.push(FieldError::required(mode, "must be specified when `ip` is set")),
            None => {}
            Some(_) if ip.is_empty() => {
                errors.push(FieldError::forbidden(mode, "may not be specified when `ip` is not set"));
            }
            Some("VIP" | "Proxy") => {}
            Some(other) => errors.push(FieldError::not_supported(mode, other, &["Proxy", "VIP"])),
        }
        let host = one.text("hostname");
        if !host.is_empty() {
            let path = path.child("hostname");
            complain(host, name::is_dns1123_subdomain(host), &path, errors);
            if parse_sloppy(host).is_some() {
                errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
            }
        }
    }
}

/// What a Service is warned of.
#[must_use]
pub fn warnings(object: &Object) -> Vec<String> {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    let mut out = Vec::new();
    let annotations = metadata(object).object("annotations").unwrap_or(&empty);
    if annotations.contains_key("service.kubernetes.io/topology-aware-hints") {
        out.push("annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead".to_owned());
    }
    let each = |field: &'static str, warn: fn(&Path<'_>, &str) -> Vec<String>| {
        let list = SPEC.child(field);
        let warned = spec.strings(field).enumerate().flat_map(|(index, text)| warn(&list.index(index), text));
        warned.collect::<Vec<_>>()
    };
    if !matches!(spec.text("clusterIP"), "" | "None") {
        out.extend(each("clusterIPs", ip_warnings));
    }
    let outside = !spec.list("externalIPs").is_empty();
    let (headless, external_name) =
        (is_headless(spec) && spec.text("type") == "ClusterIP", spec.text("type") == "ExternalName");
    if headless {
        let ignored = [
            ("loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
            ("externalIPs", outside),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ];
        let ignored = ignored.into_iter().filter(|(_, set)| *set);
        out.extend(ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")));
    }
    out.extend(each("externalIPs", ip_warnings));
    if outside && !headless && !external_name {
        out.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !spec.text("loadBalancerIP").is_empty() {
        out.extend(ip_warnings(&SPEC.child("loadBalancerIP"), spec.text("loadBalancerIP")));
    }
    out.extend(each("loadBalancerSourceRanges", cidr_warnings));
    if external_name && outside {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external_name && !spec.text("externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        out.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    out
}
