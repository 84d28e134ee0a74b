//! A pod's row in a table: what state it is in, in a word.

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::super::Object;
use super::super::cells::{age, name, or, since};
use crate::model::fields::{Fields, metadata};

/// What is said of a pod in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How many of its containers are ready.
    pub ready: usize,
    /// How many containers it has, sidecars included.
    pub containers: usize,
    /// Its state in a word, such as `Running` or `Init:0/2`.
    pub status: String,
    /// How often its containers were restarted.
    pub restarts: i64,
    /// When the last of these restarts was; empty where that is not known.
    pub last_restart: String,
}

pub(super) fn cells(pod: &Object, now: Timestamp) -> Vec<Value> {
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let status = pod.object("status").unwrap_or(&empty);
    let summary = summary(pod);
    let mut restarts = summary.restarts.to_string();
    if summary.restarts != 0 && !summary.last_restart.is_empty() {
        restarts = format!("{restarts} ({} ago)", since(&summary.last_restart, now));
    }
    let ip = status.items("podIPs").next().map_or("", |ip| ip.text("ip"));
    let mut gates = "<none>".to_owned();
    let wanted = spec.list("readinessGates").len();
    if wanted > 0 {
        let met = spec
            .items("readinessGates")
            .filter(|gate| condition(status, gate.text("conditionType")).is_some_and(|c| c.text("status") == "True"))
            .count();
        gates = format!("{met}/{wanted}");
    }
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.status.into(),
        restarts.into(),
        age(pod, now),
        or(ip, "<none>").into(),
        or(spec.text("nodeName"), "<none>").into(),
        or(status.text("nominatedNodeName"), "<none>").into(),
        gates.into(),
    ]
}

/// That a pod has run to its end: clients hide such rows or show them apart.
pub(super) fn conditions(pod: &Object) -> Vec<Value> {
    let (reason, message) = match pod.object("status").map_or("", |s| s.text("phase")) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// Computes what is said of a pod in a line.
#[must_use]
pub fn summary(pod: &Object) -> Summary {
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let status = pod.object("status").unwrap_or(&empty);
    let phase = status.text("phase");
    let mut out = Summary {
        ready: 0,
        containers: spec.list("containers").len() + spec.items("initContainers").filter(|c| is_sidecar(c)).count(),
        status: or(status.text("reason"), phase).to_owned(),
        restarts: 0,
        last_restart: String::new(),
    };
    let gated = |c: &Object| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
    if status.items("conditions").any(gated) {
        out.status = "SchedulingGated".to_owned();
    }
    let mut sidecars = Restarts::default();
    let initializing = initialize(spec, status, &mut out, &mut sidecars);
    if !initializing || condition(status, "Initialized").is_some_and(|c| c.text("status") == "True") {
        out.restarts = sidecars.count;
        out.last_restart = sidecars.last;
        run(status, &mut out);
    }
    let terminating = metadata(pod).contains_key("deletionTimestamp");
    if terminating && status.text("reason") == "NodeLost" {
        out.status = "Unknown".to_owned();
    } else if terminating && !matches!(phase, "Failed" | "Succeeded") {
        out.status = "Terminating".to_owned();
    }
    out
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: String,
}

/// Looks through the init containers up to the first that is not done; says whether there is such a one.
fn initialize(spec: &Object, status: &Object, out: &mut Summary, sidecars: &mut Restarts) -> bool {
    let total = spec.list("initContainers").len();
    for (i, container) in status.items("initContainerStatuses").enumerate() {
        let name = container.text("name");
        let sidecar = spec.items("initContainers").any(|c| c.text("name") == name && is_sidecar(c));
        out.restarts += container.int("restartCount");
        later(&mut out.last_restart, finished_before(container));
        if sidecar {
            sidecars.count += container.int("restartCount");
            later(&mut sidecars.last, finished_before(container));
        }
        let state = container.object("state");
        let terminated = state.and_then(|s| s.object("terminated"));
        let waiting = state.and_then(|s| s.object("waiting")).map_or("", |w| w.text("reason"));
        if terminated.is_some_and(|t| t.int("exitCode") == 0) {
            continue;
        }
        if sidecar && container.flag("started") {
            out.ready += usize::from(container.flag("ready"));
            continue;
        }
        out.status = if let Some(terminated) = terminated {
            format!("Init:{}", ended(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{total}")
        };
        return true;
    }
    false
}

/// Looks through the containers from last to first: the first one's trouble is what is shown.
fn run(status: &Object, out: &mut Summary) {
    let mut running = false;
    let mut error = String::new();
    let containers: Vec<&Object> = status.items("containerStatuses").collect();
    for container in containers.into_iter().rev() {
        out.restarts += container.int("restartCount");
        later(&mut out.last_restart, finished_before(container));
        let state = container.object("state");
        let waiting = state.and_then(|s| s.object("waiting")).map_or("", |w| w.text("reason"));
        if !waiting.is_empty() {
            out.status = waiting.to_owned();
        } else if let Some(terminated) = state.and_then(|s| s.object("terminated")) {
            out.status = ended(terminated);
            if terminated.int("exitCode") != 0 {
                error.clone_from(&out.status);
            }
        } else if container.flag("ready") && state.is_some_and(|s| s.contains_key("running")) {
            running = true;
            out.ready += 1;
        }
    }
    if out.status == "Completed" {
        let ready = status.items("conditions").any(|c| c.text("type") == "Ready" && c.text("status") == "True");
        if running && ready {
            out.status = "Running".to_owned();
        } else if !error.is_empty() {
            out.status = error;
        } else if running {
            out.status = "NotReady".to_owned();
        }
    }
}

/// How a container ended: its reason, else its signal, else its exit code.
fn ended(terminated: &Object) -> String {
    match (terminated.text("reason"), terminated.int("signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.int("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// When the container's last run ended.
fn finished_before(container: &Object) -> &str {
    container.object("lastState").and_then(|s| s.object("terminated")).map_or("", |t| t.text("finishedAt"))
}

/// Keeps the later of two times.
fn later(kept: &mut String, other: &str) {
    let Ok(new) = Timestamp::parse(other) else { return };
    if Timestamp::parse(kept).is_ok_and(|old| old >= new) {
        return;
    }
    kept.clear();
    kept.push_str(other);
}

fn is_sidecar(container: &Object) -> bool {
    container.text("restartPolicy") == "Always"
}

fn condition<'a>(status: &'a Object, kind: &str) -> Option<&'a Object> {
    status.items("conditions").find(|c| c.text("type") == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &Value, status: &Value) -> Object {
        let Value::Object(pod) = json!({"metadata": {"name": "p"}, "spec": spec, "status": status}) else {
            unreachable!("it is written as an object")
        };
        pod
    }

    /// Contract: API-05
    #[test]
    fn states_by_the_table() {
        let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
        let cases = [
            (&two, json!({"phase": "Pending"}), "0/2", "Pending", 0),
            (&two, json!({"phase": "Failed", "reason": "Evicted"}), "0/2", "Evicted", 0),
            (
                &two,
                json!({"phase": "Running", "containerStatuses": [
                    {"ready": true, "restartCount": 1, "state": {"running": {}}}, {"ready": true, "restartCount": 2, "state": {"running": {}}}]}),
                "2/2",
                "Running",
                3,
            ),
            (
                &two,
                json!({"phase": "Running", "containerStatuses": [
                    {"ready": true, "state": {"running": {}}}, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "1/2",
                "CrashLoopBackOff",
                0,
            ),
            (
                &two,
                json!({"phase": "Succeeded", "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"state": {"terminated": {"exitCode": 3}}}]}),
                "0/2",
                "ExitCode:3",
                0,
            ),
            (
                &two,
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"ready": true, "state": {"running": {}}}]}),
                "1/2",
                "Running",
                0,
            ),
            (
                &two,
                json!({"phase": "Running", "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, {"ready": true, "state": {"running": {}}}]}),
                "1/2",
                "NotReady",
                0,
            ),
            (
                &two,
                json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
                "0/2",
                "Signal:9",
                0,
            ),
            (
                &init,
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "0/2",
                "Init:0/2",
                0,
            ),
            (
                &init,
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "0/2",
                "Init:CrashLoopBackOff",
                4,
            ),
            (
                &init,
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}]}),
                "0/2",
                "Init:ExitCode:2",
                0,
            ),
            (
                &init,
                json!({"phase": "Running", "initContainerStatuses": [
                    {"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}},
                    {"name": "s", "restartCount": 2, "started": true, "ready": true, "state": {"running": {}}}],
                  "containerStatuses": [{"ready": true, "restartCount": 1, "state": {"running": {}}}]}),
                "2/2",
                "Running",
                3,
            ),
            (
                &two,
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
                "0/2",
                "SchedulingGated",
                0,
            ),
        ];
        for (spec, status, ready, state, restarts) in cases {
            let summary = summary(&pod(spec, &status));
            assert_eq!(format!("{}/{}", summary.ready, summary.containers), ready, "{status}");
            assert_eq!((summary.status.as_str(), summary.restarts), (state, restarts), "{status}");
        }
    }

    /// Contract: API-05
    #[test]
    fn a_pod_being_deleted_is_terminating() {
        for (status, want) in [
            (json!({"phase": "Running"}), "Terminating"),
            (json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
            (json!({"phase": "Succeeded"}), "Succeeded"),
        ] {
            let mut pod = pod(&json!({}), &status);
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            assert_eq!(summary(&pod).status, want);
        }
    }

    /// Contract: API-05
    #[test]
    fn restarts_say_when() {
        let last = |time: &str| json!({"restartCount": 2, "lastState": {"terminated": {"finishedAt": time}}});
        let pod = pod(
            &json!({"readinessGates": [{"conditionType": "x"}]}),
            &json!({"containerStatuses": [last("1970-01-01T00:10:00Z"), last("1970-01-01T00:05:00Z")], "podIPs": [{"ip": "10.0.0.1"}]}),
        );
        let row = cells(&pod, Timestamp::from_seconds(15 * 60));
        assert_eq!(
            Value::from(row),
            json!(["p", "0/0", "", "4 (5m ago)", "<unknown>", "10.0.0.1", "<none>", "<none>", "0/1"])
        );
    }
}
