//! Why a pod is not ready, in one line for a person, out of its JSON.

use serde_json::Value;

/// Why a pod is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReason {
    /// In words.
    pub text: String,
    /// Whether something is wrong with it; else it is on its way.
    pub wrong: bool,
}

/// Why a pod is not ready, or nothing where it is.
#[must_use]
pub fn pod_reason(pod: &Value) -> Option<PodReason> {
    let condition = |kind: &str| list(pod, "/status/conditions").iter().find(|c| text(c, "/type") == kind);
    if condition("Ready").is_some_and(|c| text(c, "/status") == "True") {
        return None;
    }
    match text(pod, "/status/phase") {
        "Succeeded" => return None,
        "Failed" => {
            let text = sentence("Failed", text(pod, "/status/reason"), text(pod, "/status/message"));
            return Some(PodReason { text, wrong: true });
        }
        _ => {}
    }
    if let Some(text) = unschedulable(pod) {
        return Some(PodReason { text, wrong: true });
    }
    for field in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        for container in list(pod, field) {
            for state in ["/state/waiting", "/state/terminated"] {
                let (reason, message) =
                    (text(container, &format!("{state}/reason")), text(container, &format!("{state}/message")));
                // An init container that has ended well is in nobody's way.
                let done = field.contains("init") && container.pointer("/state/terminated/exitCode") == Some(&0.into());
                if !reason.is_empty() && !done {
                    let wrong = !matches!(reason, "ContainerCreating" | "PodInitializing");
                    let text = sentence(&format!("container {}", text(container, "/name")), reason, message);
                    return Some(PodReason { text, wrong });
                }
            }
        }
    }
    let text = match text(pod, "/status/phase") {
        "Running" => "running, not ready",
        _ if text(pod, "/spec/nodeName").is_empty() => "not scheduled yet",
        _ => "not started yet",
    };
    Some(PodReason { text: text.to_owned(), wrong: false })
}

/// What the scheduler says of a pod for which it finds no node.
#[must_use]
pub fn unschedulable(pod: &Value) -> Option<String> {
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

/// The list at a JSON pointer; nothing where there is none.
#[must_use]
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a JSON pointer; empty where there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_of_a_pod() {
        for (status, expected, wrong) in [
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), None, false),
            (json!({"phase": "Succeeded"}), None, false),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "no room"}),
                Some("Failed: Evicted: no room"),
                true,
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
                Some("unschedulable: 0/3 nodes"),
                true,
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Too many pods."}]}),
                Some("unschedulable: too few nodes: 0/3 nodes are available: 3 Too many pods."),
                true,
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                Some("container c: ImagePullBackOff"),
                true,
            ),
            (
                json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}),
                Some("container c: ContainerCreating"),
                false,
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}], "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
                Some("container c: PodInitializing"),
                false,
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
                Some("container i: Error"),
                true,
            ),
            (json!({"phase": "Running"}), Some("running, not ready"), false),
            (json!({}), Some("not scheduled yet"), false),
        ] {
            let told = pod_reason(&json!({"status": status}));
            assert_eq!(told.as_ref().map(|reason| &*reason.text), expected, "{status}");
            assert_eq!(told.is_some_and(|reason| reason.wrong), wrong, "{status}");
        }
        let told = pod_reason(&json!({"spec": {"nodeName": "a"}, "status": {"phase": "Pending"}}));
        assert_eq!(told.map(|reason| reason.text).as_deref(), Some("not started yet"));
    }
}
