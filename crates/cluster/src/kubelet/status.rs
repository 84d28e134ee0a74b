//! A pod's status as a kubelet writes it, built as the bytes of a patch.

use std::fmt::Write as _;

use muster_objects::{PodPhase, Timestamp};

use super::life::{Condition, Life};
use super::unit::{Exit, Unit, UnitState};
use crate::duration::draw;
use crate::json::{push_field, push_string};

/// The order in which a kubelet lists a pod's conditions.
const ORDER: &str = r#""$setElementOrder/conditions":[{"type":"PodReadyToStartContainers"},{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],"#;

/// How a status patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A merge patch of the pod at the version that was seen, which had no status but that it is bound
    /// since then. It replaces lists whole, which is the least work for the server.
    Whole(Timestamp),
    /// A strategic merge patch, the first of its pod. Conditions merge by type, so that those of others
    /// (readiness gates, the scheduler) stay.
    First,
    /// A strategic merge patch over earlier ones.
    Next,
}

/// The patch that reports the pod's state on a node with that address.
pub(super) fn patch(life: &Life, host_ip: &str, form: Form) -> Vec<u8> {
    let pod = &life.pod;
    let mut out = String::with_capacity(1100 + 700 * life.units.len());
    // Writing to a String cannot fail, here and below.
    let _ = write!(out, r#"{{"metadata":{{"uid":"{}""#, pod.meta.uid);
    if let Form::Whole(_) = form {
        let _ = write!(out, r#","resourceVersion":"{}""#, pod.meta.resource_version);
    }
    out.push_str(r#"},"status":{"#);
    let generation = pod.meta.generation;
    if generation > 0 {
        let _ = write!(out, r#""observedGeneration":{generation},"#);
    }
    push_field(&mut out, true, "phase", life.phase.as_str());
    match &life.verdict {
        Some((reason, message)) => {
            push_field(&mut out, false, "reason", reason);
            push_field(&mut out, false, "message", message);
        }
        // What someone else gave as the reason of an end that was none.
        None if form == Form::Next && pod.is_terminal() => out.push_str(r#","reason":null,"message":null"#),
        None => {}
    }
    let _ = write!(out, r#","startTime":"{}""#, life.began);
    // What a node does not admit it says nothing else about.
    if !life.units.iter().all(|unit| unit.state == UnitState::Creating) || life.phase == PodPhase::Pending {
        out.push(',');
        push_conditions(&mut out, life, form);
        push_field(&mut out, false, "hostIP", host_ip);
        out.push_str(r#","hostIPs":[{"ip":"#);
        push_string(&mut out, host_ip);
        out.push_str("}]");
        if let Some(ip) = life.ip {
            let _ = write!(out, r#","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}]"#);
        }
        let (init, mut containers): (Vec<&Unit>, Vec<&Unit>) = life.units.iter().partition(|unit| unit.init);
        if !init.is_empty() {
            push_units(&mut out, "initContainerStatuses", life, &init, true);
        }
        // A kubelet sorts the containers by name, and keeps the init containers in their order.
        containers.sort_by(|a, b| a.name.cmp(&b.name));
        push_units(&mut out, "containerStatuses", life, &containers, true);
        if !life.ephemeral.is_empty() {
            push_units(&mut out, "ephemeralContainerStatuses", life, &life.ephemeral.iter().collect::<Vec<_>>(), false);
        }
    }
    out.push_str("}}");
    out.into_bytes()
}

/// What a registry answers for an image that is not there.
pub(super) fn pull_error(image: &str) -> String {
    let full = canonical_image(image);
    format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image {full:?}: \
         failed to resolve reference {full:?}: {full}: not found"
    )
}

fn push_conditions(out: &mut String, life: &Life, form: Form) {
    if form == Form::First {
        out.push_str(ORDER);
    }
    let first = form != Form::Next;
    out.push_str(r#""conditions":["#);
    let conditions = &life.conditions;
    let generation = life.pod.meta.generation;
    let mut push = |kind: &str, condition: Condition, reason: Option<(&str, String)>| {
        let _ = write!(
            out,
            r#"{{"type":"{kind}","status":"{}","lastProbeTime":null,"lastTransitionTime":"{}""#,
            if condition.0 { "True" } else { "False" },
            condition.1
        );
        if generation > 0 {
            let _ = write!(out, r#","observedGeneration":{generation}"#);
        }
        // A null takes away what an earlier report said.
        match reason {
            Some((reason, message)) => {
                push_field(out, false, "reason", reason);
                if message.is_empty() {
                    out.push_str(if first { "" } else { r#","message":null"# });
                } else {
                    push_field(out, false, "message", &message);
                }
            }
            None if first => {}
            None => out.push_str(r#","reason":null,"message":null"#),
        }
        out.push_str("},");
    };
    push("PodReadyToStartContainers", conditions.sandbox, None);
    push("Initialized", conditions.initialized, initialized_reason(life));
    push("Ready", conditions.ready, ready_reason(life));
    push("ContainersReady", conditions.containers_ready, containers_ready_reason(life));
    match form {
        Form::Whole(bound_at) => push("PodScheduled", (true, bound_at), None),
        _ if life.pod.status.scheduled => {}
        _ => push("PodScheduled", (true, life.began), None),
    }
    out.pop();
    out.push(']');
}

fn initialized_reason(life: &Life) -> Option<(&'static str, String)> {
    if life.phase == PodPhase::Succeeded {
        return Some(("PodCompleted", String::new()));
    }
    if life.conditions.initialized.0 {
        return None;
    }
    let incomplete = names(life.units.iter().filter(|unit| unit.init && !unit.is_initialized()));
    Some(("ContainersNotInitialized", format!("containers with incomplete status: {incomplete}")))
}

fn containers_ready_reason(life: &Life) -> Option<(&'static str, String)> {
    match life.phase {
        PodPhase::Succeeded => return Some(("PodCompleted", String::new())),
        PodPhase::Failed => return Some(("PodFailed", String::new())),
        _ if life.conditions.containers_ready.0 => return None,
        _ => {}
    }
    let unready = names(life.units.iter().filter(|unit| unit.reports_readiness() && !unit.ready));
    Some(("ContainersNotReady", format!("containers with unready status: {unready}")))
}

fn ready_reason(life: &Life) -> Option<(&'static str, String)> {
    if !life.conditions.containers_ready.0 {
        return containers_ready_reason(life);
    }
    life.pod.status.unready_gates.as_ref().map(|message| ("ReadinessGatesNotReady", message.to_string()))
}

/// Names as Go prints a slice: `[a b]`.
fn names<'u>(units: impl Iterator<Item = &'u Unit>) -> String {
    let names: Vec<&str> = units.map(|unit| &*unit.name).collect();
    format!("[{}]", names.join(" "))
}

/// Writes the statuses of some containers; `probed` are those that may have probes.
fn push_units(out: &mut String, field: &str, life: &Life, units: &[&Unit], probed: bool) {
    let _ = write!(out, r#","{field}":["#);
    let waits_for_init = life.units.iter().any(|unit| unit.init);
    for (at, unit) in units.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        if at > 0 {
            out.push('{');
        }
        push_field(out, true, "name", &unit.name);
        push_field(out, false, "image", &unit.image);
        push_unit(out, life, unit, waits_for_init, probed);
        out.push('}');
    }
    out.push(']');
}

fn push_unit(out: &mut String, life: &Life, unit: &Unit, waits_for_init: bool, probed: bool) {
    let runs = unit.has_started();
    out.push_str(r#","imageID":""#);
    if runs {
        push_image_id(out, &unit.image);
    }
    out.push('"');
    let run = match &unit.state {
        UnitState::Exited(exit) => exit.run,
        UnitState::Running(_) => unit.restarts,
        _ => unit.last.as_ref().map_or(0, |exit| exit.run),
    };
    if runs {
        out.push_str(r#","containerID":""#);
        push_container_id(out, life, unit, run);
        out.push('"');
    }
    let running = matches!(unit.state, UnitState::Running(_));
    let _ = write!(out, r#","ready":{},"restartCount":{}"#, unit.ready, unit.restarts);
    if probed {
        let _ = write!(out, r#","started":{running}"#);
    }
    out.push_str(r#","state":{"#);
    let waiting = |out: &mut String, reason: &str, message: &str| {
        out.push_str(r#""waiting":{"#);
        push_field(out, true, "reason", reason);
        if !message.is_empty() {
            push_field(out, false, "message", message);
        }
        out.push('}');
    };
    match &unit.state {
        UnitState::Creating => {
            waiting(out, if waits_for_init { "PodInitializing" } else { "ContainerCreating" }, "");
        }
        UnitState::PullError => waiting(out, "ErrImagePull", &pull_error(&unit.image)),
        UnitState::PullBackOff => {
            let message =
                format!("Back-off pulling image {:?}: ErrImagePull: {}", &*unit.image, pull_error(&unit.image));
            waiting(out, "ImagePullBackOff", &message);
        }
        UnitState::ConfigError(message) => waiting(out, "CreateContainerConfigError", message),
        UnitState::CrashBackOff(backoff) => {
            waiting(out, "CrashLoopBackOff", &unit.crash_message(&life.pod, *backoff));
        }
        UnitState::Running(since) => {
            let _ = write!(out, r#""running":{{"startedAt":"{since}"}}"#);
        }
        UnitState::Exited(exit) => push_exit(out, life, unit, exit),
    }
    out.push_str(r#"},"lastState":{"#);
    match &unit.last {
        // What a container is in now is not also how it ended before.
        Some(exit) if !matches!(&unit.state, UnitState::Exited(_)) => push_exit(out, life, unit, exit),
        _ => {}
    }
    out.push('}');
    // Of those that can be resized.
    if runs && probed && (!unit.init || unit.sidecar) {
        let resources = life.pod.extras().resources.iter().find(|(name, _)| *name == unit.name);
        out.push_str(resources.map_or(r#","resources":{}"#, |(_, told)| told));
    }
}

fn push_exit(out: &mut String, life: &Life, unit: &Unit, exit: &Exit) {
    let reason = if exit.code == 0 { "Completed" } else { "Error" };
    let (started, finished): (Timestamp, Timestamp) = (exit.started, exit.finished);
    let _ = write!(
        out,
        r#""terminated":{{"exitCode":{},"reason":"{reason}","startedAt":"{started}","finishedAt":"{finished}","containerID":""#,
        exit.code
    );
    push_container_id(out, life, unit, exit.run);
    out.push_str("\"}");
}

fn push_container_id(out: &mut String, life: &Life, unit: &Unit, run: u32) {
    let what = format!("{}/{}/{run}", life.pod.meta.uid, unit.name);
    out.push_str("containerd://");
    push_digest(out, "container", &what);
}

fn push_image_id(out: &mut String, image: &str) {
    let full = canonical_image(image);
    if full.contains('@') {
        out.push_str(&full);
        return;
    }
    let slash = full.rfind('/').map_or(0, |at| at + 1);
    let name_end = full[slash..].rfind(':').map_or(full.len(), |at| slash + at);
    out.push_str(&full[..name_end]);
    out.push_str("@sha256:");
    push_digest(out, "image", &full);
}

/// 64 hexadecimal digits that depend on nothing but what they stand for.
fn push_digest(out: &mut String, salt: &str, what: &str) {
    for part in 0..4 {
        let _ = write!(out, "{:016x}", draw(part, salt, what));
    }
}

/// An image's full name: registry, repository and tag or digest filled in. Quotes and backslashes, which
/// the API lets through, are left out, for the name goes unescaped into an id.
fn canonical_image(image: &str) -> String {
    let image: String = image.chars().filter(|c| !matches!(c, '"' | '\\') && !c.is_control()).collect();
    let (first, rest) = image.split_once('/').unwrap_or(("", &image));
    let has_registry = first.contains(['.', ':']) || first == "localhost";
    let mut full = match (has_registry, first.is_empty()) {
        (true, _) => image.clone(),
        (false, true) => format!("docker.io/library/{rest}"),
        (false, false) => format!("docker.io/{image}"),
    };
    let last = full.rfind('/').map_or(0, |at| at + 1);
    if !full[last..].contains([':', '@']) {
        full.push_str(":latest");
    }
    full
}
