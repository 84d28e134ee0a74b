//! Why a workload is not further, in one line for a person.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Labels;
use muster_objects::selector::{LabelSelector, Selector};
use muster_runtime::client::Client;
use serde_json::Value;

use crate::apply::Applied;
use crate::workload::Progress;

/// After how long without any progress a person is told what is waited for.
pub(crate) const STALLED: Duration = Duration::from_secs(5);

/// Why pods of a namespace have no node, by what the scheduler says of one of them; nothing where all have one.
pub(crate) async fn unscheduled(client: &Client, namespace: &str) -> Option<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%3D&limit=1");
    let pods = get(client, &path).await.ok()?;
    let pod = list(&pods, "/items").first()?;
    Some(unschedulable(pod).unwrap_or_else(|| "not scheduled: no scheduler has looked at them".to_owned()))
}

/// Why a workload has not all its replicas, in one line for a person.
pub(crate) async fn reason(client: &Client, workload: &Applied, progress: &Progress, controllers: bool) -> String {
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
        // What hinders it, and that it stands still.
        if let ("ReplicaFailure", "True") | ("Progressing", "False") =
            (text(condition, "/type"), text(condition, "/status"))
        {
            reasons.push(text(condition, "/message").to_owned());
        }
    }
    if object.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        reasons.push("the rollout is paused".to_owned());
    }
    let selector = selector(&workload.kind, &object)?.to_string();
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

/// The selector of a workload: a plain map in a ReplicationController.
pub(crate) fn selector(kind: &str, object: &Value) -> Result<Selector, String> {
    let written = object.pointer("/spec/selector").cloned().unwrap_or_default();
    let selector = if kind == "ReplicationController" {
        serde_json::from_value::<Labels>(written).map(LabelSelector::from_labels)
    } else {
        serde_json::from_value::<LabelSelector>(written)
    };
    Selector::try_from(&selector.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// Why a pod is not ready, or nothing where it is.
pub(crate) fn pod_reason(pod: &Value) -> Option<String> {
    let condition = |kind: &str| list(pod, "/status/conditions").iter().find(|c| text(c, "/type") == kind);
    if condition("Ready").is_some_and(|c| text(c, "/status") == "True") {
        return None;
    }
    match text(pod, "/status/phase") {
        "Succeeded" => return None,
        "Failed" => return Some(sentence("Failed", text(pod, "/status/reason"), text(pod, "/status/message"))),
        _ => {}
    }
    if let Some(reason) = unschedulable(pod) {
        return Some(reason);
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

/// What the scheduler says of a pod for which it finds no node.
fn unschedulable(pod: &Value) -> Option<String> {
    let conditions = list(pod, "/status/conditions").iter();
    let condition = conditions
        .filter(|c| text(c, "/type") == "PodScheduled" && text(c, "/status") == "False")
        .find(|c| text(c, "/reason") == "Unschedulable")?;
    let message = text(condition, "/message");
    // What every node lacks for one more pod of the kind is had with more nodes.
    let full = ["Too many pods", "no nodes available"].iter().any(|words| message.contains(words));
    Some(sentence("unschedulable", if full { "too few nodes" } else { "" }, message))
}

fn sentence(what: &str, reason: &str, message: &str) -> String {
    [what, reason, message].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let answer = client.get(path).await.map_err(|e| e.to_string())?;
    serde_json::from_slice(&answer.body).map_err(|e| format!("{path}: {e}"))
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_of_a_pod() {
        for (status, expected) in [
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), None),
            (json!({"phase": "Succeeded"}), None),
            (json!({"phase": "Failed", "reason": "Evicted", "message": "no room"}), Some("Failed: Evicted: no room")),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
                Some("unschedulable: 0/3 nodes"),
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Too many pods."}]}),
                Some("unschedulable: too few nodes: 0/3 nodes are available: 3 Too many pods."),
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
