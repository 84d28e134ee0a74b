//! What of an applied object counts as a workload, how far it is, and why it is not further.

use std::collections::BTreeMap;

use muster_objects::selector::{LabelSelector, Selector};
use muster_runtime::client::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::apply::Applied;

/// The kinds that have replicas to wait for, with the path of their collection over all namespaces.
const KINDS: &[(&str, &str)] = &[("ReplicaSet", "/apis/apps/v1/replicasets"), ("Pod", "/api/v1/pods")];

/// The collections to watch for these objects, each once.
pub(crate) fn collections(applied: &[Applied]) -> Vec<(&'static str, &'static str)> {
    KINDS.iter().filter(|(kind, _)| applied.iter().any(|a| a.kind == *kind)).copied().collect()
}

/// Whether an applied object is one that becomes available.
pub(crate) fn is_workload(applied: &Applied) -> bool {
    KINDS.iter().any(|(kind, _)| applied.kind == *kind)
}

/// How far a workload is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The replicas asked for.
    pub(crate) desired: i64,
    /// Those that exist.
    pub(crate) current: i64,
    /// Those that are ready.
    pub(crate) ready: i64,
    /// Those that have been ready for long enough.
    pub(crate) available: i64,
    /// Whether the controller has seen the newest specification.
    pub(crate) observed: bool,
}

impl Progress {
    /// All that was asked for is there, and nothing else.
    pub(crate) fn is_complete(self) -> bool {
        self.observed && self.available == self.desired && self.current == self.desired
    }
}

/// The few fields of any workload that its progress is read from.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    pub(crate) metadata: SeenMeta,
    #[serde(default)]
    spec: SeenSpec,
    #[serde(default)]
    status: SeenStatus,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SeenMeta {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
struct SeenSpec {
    replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SeenStatus {
    replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    observed_generation: i64,
    phase: String,
    conditions: Vec<SeenCondition>,
}

#[derive(Debug, Deserialize)]
struct SeenCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Seen {
    /// The progress that an object of this kind shows.
    pub(crate) fn progress(&self, kind: &str) -> Progress {
        let status = &self.status;
        if kind == "Pod" {
            let ready = status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
            let up = i64::from(ready || status.phase == "Succeeded");
            return Progress { desired: 1, current: 1, ready: up, available: up, observed: true };
        }
        Progress {
            desired: self.spec.replicas.unwrap_or(1),
            current: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            observed: status.observed_generation >= self.metadata.generation,
        }
    }
}

/// Why a workload has not all its replicas, in one line for a person.
pub(crate) async fn reason(client: &Client, workload: &Applied, progress: Progress, controllers: bool) -> String {
    let counts = format!("{} of {} available", progress.available, progress.desired);
    match reasons(client, workload).await {
        Ok(reasons) if !reasons.is_empty() => format!("{counts}: {}", reasons.join("; ")),
        Ok(_) if !progress.observed && !controllers => format!("{counts}: no controller runs (--controllers '')"),
        Ok(_) if progress.current < progress.desired => {
            format!("{counts}: {} of {} pods were created", progress.current, progress.desired)
        }
        Ok(_) => format!("{counts}: its pods have not been ready for long enough"),
        Err(error) => format!("{counts}: {error}"),
    }
}

async fn reasons(client: &Client, workload: &Applied) -> Result<Vec<String>, String> {
    let object: Value = get(client, &workload.path).await?;
    if workload.kind == "Pod" {
        return Ok(pod_reason(&object).into_iter().collect());
    }
    let mut reasons = Vec::new();
    for condition in list(&object, "/status/conditions") {
        if text(condition, "/type") == "ReplicaFailure" && text(condition, "/status") == "True" {
            reasons.push(text(condition, "/message").to_owned());
        }
    }
    let selector: LabelSelector = serde_json::from_value(object.pointer("/spec/selector").cloned().unwrap_or_default())
        .map_err(|e| e.to_string())?;
    let selector = Selector::try_from(&selector).map_err(|e| e.to_string())?.to_string();
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}",
        workload.namespace,
        percent_encoding::utf8_percent_encode(&selector, percent_encoding::NON_ALPHANUMERIC)
    );
    let pods: Value = get(client, &path).await?;
    // Many pods mostly share one reason: say it once, with one pod's name and how many others there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in list(&pods, "/items") {
        if let Some(reason) = pod_reason(pod) {
            found.entry(reason).or_insert_with(|| (text(pod, "/metadata/name").to_owned(), 0)).1 += 1;
        }
    }
    for (reason, (name, count)) in found {
        reasons.push(match count {
            1 => format!("pod {name}: {reason}"),
            many => format!("pod {name} and {} more: {reason}", many - 1),
        });
    }
    Ok(reasons)
}

/// Why a pod is not ready, or nothing where it is.
fn pod_reason(pod: &Value) -> Option<String> {
    let condition = |kind: &str| list(pod, "/status/conditions").iter().find(|c| text(c, "/type") == kind);
    if condition("Ready").is_some_and(|c| text(c, "/status") == "True") {
        return None;
    }
    match text(pod, "/status/phase") {
        "Succeeded" => return None,
        "Failed" => return Some(sentence("Failed", text(pod, "/status/reason"), text(pod, "/status/message"))),
        _ => {}
    }
    if let Some(c) = condition("PodScheduled").filter(|c| text(c, "/status") == "False") {
        return Some(sentence("not scheduled", text(c, "/reason"), text(c, "/message")));
    }
    for field in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        for container in list(pod, field) {
            for state in ["/state/waiting", "/state/terminated"] {
                let (reason, message) =
                    (text(container, &format!("{state}/reason")), text(container, &format!("{state}/message")));
                if !reason.is_empty() {
                    return Some(sentence(&format!("container {}", text(container, "/name")), reason, message));
                }
            }
        }
    }
    Some(match text(pod, "/status/phase") {
        "Running" => "running, not ready".to_owned(),
        _ => "not started yet".to_owned(),
    })
}

fn sentence(what: &str, reason: &str, message: &str) -> String {
    [what, reason, message].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let answer = client.get(path).await.map_err(|e| e.to_string())?;
    serde_json::from_slice(&answer.body).map_err(|e| format!("{path}: {e}"))
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(value: Value) -> Seen {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_replicaset_is_complete_when_what_was_asked_for_is_available_and_nothing_else_is_there() {
        let set = |generation: i64, spec: i64, status: (i64, i64, i64)| {
            seen(json!({"metadata": {"name": "a", "generation": generation}, "spec": {"replicas": spec},
                "status": {"replicas": status.0, "readyReplicas": status.1, "availableReplicas": status.2, "observedGeneration": 1}}))
            .progress("ReplicaSet")
            .is_complete()
        };
        assert!(set(1, 3, (3, 3, 3)));
        assert!(set(1, 0, (0, 0, 0)));
        assert!(!set(1, 3, (3, 3, 2)), "not available for long enough");
        assert!(!set(2, 3, (3, 3, 3)), "a specification that was not seen yet");
        assert!(!set(1, 3, (4, 3, 3)), "one too many");
        assert!(
            !seen(json!({"metadata": {"name": "a", "generation": 1}, "spec": {}})).progress("ReplicaSet").is_complete()
        );
    }

    #[test]
    fn the_reason_of_a_pod() {
        for (status, expected) in [
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), None),
            (json!({"phase": "Succeeded"}), None),
            (json!({"phase": "Failed", "reason": "Evicted", "message": "no room"}), Some("Failed: Evicted: no room")),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
                Some("not scheduled: Unschedulable: 0/3 nodes"),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                Some("container c: ImagePullBackOff"),
            ),
            (json!({"phase": "Running"}), Some("running, not ready")),
            (json!({}), Some("not started yet")),
        ] {
            assert_eq!(pod_reason(&json!({"status": status})).as_deref(), expected, "{status}");
        }
    }
}
