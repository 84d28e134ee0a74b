//! What a pod's status may say, and how it may change (API-17).

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::{Errors, IMMUTABLE, Path, complain, ip, meta, name};

use super::devices;
use super::options::Options;
use super::{METADATA, annotations};

pub(super) const STATUS: Path<'_> = Path::new("status");

/// Checks a change of a pod's status.
pub fn validate_status_update(pod: &Object, old: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = old.object("spec").unwrap_or(&empty);
    let status = pod.object("status").unwrap_or(&empty);
    let before = old.object("status").unwrap_or(&empty);
    let options = Options::for_pod(Some(old));
    meta::validate_core_update(metadata(pod), metadata(old), errors);
    let at = METADATA.child("annotations");
    annotations::validate_change(metadata(pod), metadata(old), &at, errors);
    annotations::validate(metadata(pod), spec, &at, &options, errors);
    validate_conditions(status, errors);
    validate_nomination(status, before, spec, errors);
    if status.int("observedGeneration") < 0 {
        errors.push(FieldError::invalid(
            STATUS.child("observedGeneration"),
            status.int("observedGeneration"),
            "must be a non-negative integer",
        ));
    }
    if status.text("qosClass") != before.text("qosClass") {
        errors.push(FieldError::invalid(STATUS.child("qosClass"), status.text("qosClass"), IMMUTABLE));
    }
    for (statuses, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        validate_transitions(status, before, spec, statuses, containers, errors);
    }
    devices::validate_claims(status, spec, errors);
    devices::validate_extended_claim(status, spec, errors);
    validate_addresses(status, before, "podIPs", errors);
    if let Some(first) = status.items("hostIPs").next() {
        if status.text("hostIP") != first.text("ip") {
            errors.push(FieldError::invalid(
                STATUS.child("hostIPs").index(0).child("ip"),
                first.text("ip"),
                "must be equal to `hostIP`",
            ));
        }
        validate_addresses(status, before, "hostIPs", errors);
    }
    for statuses in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_users(status, pod.part("spec").part("os").text("name"), statuses, errors);
    }
    for (statuses, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        devices::validate_health(status, spec, statuses, containers, errors);
    }
}

fn validate_conditions(status: &Object, errors: &mut Errors) {
    let list = STATUS.child("conditions");
    for (i, condition) in status.items("conditions").enumerate() {
        let path = list.index(i);
        let generation = condition.int("observedGeneration");
        if generation < 0 {
            errors.push(FieldError::invalid(
                path.child("observedGeneration"),
                generation,
                "must be a non-negative integer",
            ));
        }
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            complain(kind, name::is_qualified_name(kind), &path.child("Type"), errors);
        }
    }
}

fn validate_nomination(status: &Object, before: &Object, spec: &Object, errors: &mut Errors) {
    let node = status.text("nominatedNodeName");
    if node.is_empty() || node == before.text("nominatedNodeName") {
        return;
    }
    let path = STATUS.child("nominatedNodeName");
    complain(node, name::is_dns1123_subdomain(node), &path, errors);
    if !spec.text("nodeName").is_empty() {
        errors.push(FieldError::forbidden(path, "may not be set on pods that are already bound to a node"));
    }
}

/// A container that has ended stays so, unless it may start again.
fn validate_transitions(
    status: &Object,
    before: &Object,
    spec: &Object,
    field: &str,
    containers: Option<&str>,
    errors: &mut Errors,
) {
    if containers.is_some() && every_container_may_restart(spec) {
        return;
    }
    let list = STATUS.child(field);
    for (i, old) in before.items(field).enumerate() {
        let Some(ended) = old.object("state").and_then(|s| s.object("terminated")) else { continue };
        let own = old.text("name");
        let revived: Vec<&Object> = status
            .items(field)
            .filter(|new| new.text("name") == own)
            .filter(|new| !new.object("state").is_some_and(|s| s.contains_key("terminated")))
            .collect();
        let Some(containers) = containers else {
            for _ in revived {
                errors.push(not_revived(&list.index(i)));
            }
            continue;
        };
        let container = spec.items(containers).find(|c| c.text("name") == own);
        let may = container.is_some_and(|c| may_restart(c, spec, ended.int("exitCode")));
        if !revived.is_empty() && !may {
            errors.push(not_revived(&list.index(i)));
        }
    }
}

fn not_revived(path: &Path<'_>) -> FieldError {
    FieldError::forbidden(path.child("state"), "may not be transitioned to non-terminated state")
}

/// Whether a rule of some container restarts them all.
fn every_container_may_restart(spec: &Object) -> bool {
    spec.items("containers").chain(spec.items("initContainers")).any(|container| {
        container.items("restartPolicyRules").any(|rule| rule.text("action") == "RestartAllContainers")
    })
}

/// Whether a container that ended with this code may start again: by the first of its rules that fits,
/// by its own policy, or by the pod's.
fn may_restart(container: &Object, spec: &Object, code: i64) -> bool {
    if container.contains_key("restartPolicy") {
        for rule in container.items("restartPolicyRules") {
            let Some(codes) = rule.object("exitCodes") else { continue };
            let among = codes.list("values").iter().any(|v| v.as_i64() == Some(code));
            let fits = match codes.text("operator") {
                "In" => among,
                "NotIn" => !among,
                _ => false,
            };
            if fits {
                return matches!(rule.text("action"), "Restart" | "RestartAllContainers");
            }
        }
    }
    match container.maybe_text("restartPolicy").unwrap_or_else(|| spec.text("restartPolicy")) {
        "OnFailure" => code != 0,
        policy => policy != "Never",
    }
}

/// Who containers run as fits the system that they run on.
fn validate_users(status: &Object, system: &str, field: &str, errors: &mut Errors) {
    let list = STATUS.child(field);
    for (i, container) in status.items(field).enumerate() {
        let Some(user) = container.object("user").and_then(|user| user.object("linux")) else { continue };
        let path = list.index(i);
        let path = path.child("user");
        let path = path.child("linux");
        match system {
            "windows" => errors.push(FieldError::forbidden(path, "cannot be set for a windows pod")),
            "" | "linux" => {
                for id in ["uid", "gid"] {
                    validate_id(user.int(id), &path.child(id), errors);
                }
                let groups = path.child("supplementalGroups");
                for (i, group) in user.list("supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
                    validate_id(group, &groups.index(i), errors);
                }
            }
            _ => {}
        }
    }
}

fn validate_id(id: i64, path: &Path<'_>, errors: &mut Errors) {
    let last = i64::from(i32::MAX);
    if !(0..=last).contains(&id) {
        errors.push(FieldError::invalid(path, id, name::inclusive_range(0, last)));
    }
}

/// Addresses are well formed (unless they were there before), at most one of each family.
fn validate_addresses(status: &Object, before: &Object, field: &str, errors: &mut Errors) {
    let known: Vec<&str> = before.items(field).map(|ip| ip.text("ip")).collect();
    let path = STATUS.child(field);
    let own: Vec<&str> = status.items(field).map(|ip| ip.text("ip")).collect();
    for (i, address) in own.iter().enumerate() {
        ip::validate_legacy_ip(address, &known, &path.index(i), errors);
    }
    let family = |(at, address): (usize, &&str)| {
        ip::parse_sloppy(address).map(ip::is_ipv6).ok_or_else(|| format!("invalid IP[{at}]: {address}"))
    };
    let families: Vec<Result<bool, String>> = own.iter().enumerate().map(family).collect();
    let each: Vec<String> = own.iter().map(|a| format!("{{\"IP\":{}}}", Value::from(*a))).collect();
    let found = Shown::Bare(format!("[{}]", each.join(",")));
    ip::one_of_each_family(&families, (&path, found, "IP"), "failed to check for", errors);
}
