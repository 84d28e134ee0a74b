//! Pods that were to be disrupted and were not: their condition DisruptionTarget is taken back after two minutes.

use std::time::Duration;

use futures::future::BoxFuture;
use muster_machinery::Change;
use muster_objects::{ObjectKey, Timestamp};
use muster_runtime::client::{Client, PatchType};
use muster_runtime::informer::{Store, WatchedResource};
use serde_json::json;

use crate::api::patch_pod_status;
use crate::control::{Again, Control, Frame, Trouble};
use crate::pod::Pod;

/// How long the condition may be there without a deletion.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn keep(frame: &mut Frame<'_>) {
    let client = frame.client.clone();
    let mut setup = frame.controller("stale_pod_disruption");
    let pods = setup.watch::<Pod>(&WatchedResource::pods(), |change: &Change<Pod>, queue| {
        if let Change::Added(pod) | Change::Updated { new: pod, .. } = change
            && condition_since(pod).is_some()
        {
            queue.add([pod.meta.key()]);
        }
    });
    setup.run(1, StaleControl { client, pods });
}

/// Since when a pod that is not going is said to be about to go.
fn condition_since(pod: &Pod) -> Option<Timestamp> {
    pod.status.disrupted_at.filter(|_| !pod.meta.is_being_deleted() && !pod.is_terminal())
}

struct StaleControl {
    client: Client,
    pods: Store<Pod>,
}

impl Control for StaleControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(pod) = self.pods.read().get(key).cloned() else { return Ok(Again::Never) };
            let Some(since) = condition_since(&pod) else { return Ok(Again::Never) };
            let now = self.client.server_now();
            let age = now.saturating_since(since);
            if age < TIMEOUT {
                return Ok(Again::After(TIMEOUT - age));
            }
            let patch = json!({
                "metadata": {"uid": pod.meta.uid},
                "status": {"conditions": [{
                    "type": "DisruptionTarget", "status": "False", "reason": null, "message": null,
                    "observedGeneration": (pod.meta.generation > 0).then_some(pod.meta.generation),
                    "lastProbeTime": null, "lastTransitionTime": now.to_string(),
                }]},
            });
            patch_pod_status(&self.client, key, PatchType::StrategicMerge, patch.to_string().into_bytes()).await?;
            Ok(Again::Never)
        })
    }
}
