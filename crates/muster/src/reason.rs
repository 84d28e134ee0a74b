//! Why a workload is not further, in one line for a person.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_inspect::reason::{list, pod_reason, text, unschedulable};
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
        return Ok(pod_reason(&object).map(|reason| reason.text).into_iter().collect());
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
            found.entry(reason.text).or_insert_with(|| (text(pod, "/metadata/name").to_owned(), 0)).1 += 1;
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

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let answer = client.get(path).await.map_err(|e| e.to_string())?;
    serde_json::from_slice(&answer.body).map_err(|e| format!("{path}: {e}"))
}
