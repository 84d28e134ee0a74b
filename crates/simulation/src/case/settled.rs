//! Whether workloads of each kind are as asked.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::crew::Crew;
use crate::api::{Api, condition, is_being_deleted, name, number};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until everything is as asked, or says what is not.
pub(super) async fn settled(api: Api<'_>, crew: &mut Crew<'_>, within: Duration) -> Result<(), String> {
    let ends = Instant::now() + within;
    loop {
        let pods = api.list("/api/v1/pods").await;
        let mut differs = None;
        for path in ["/apis/apps/v1/replicasets", "/api/v1/replicationcontrollers", "/apis/apps/v1/deployments"] {
            let workloads = api.list(path).await;
            differs = differs.or_else(|| workloads.into_iter().find(|workload| !is_settled(workload, &pods)));
        }
        let Some(differs) = differs else { return Ok(()) };
        if Instant::now() > ends {
            let its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == differs["metadata"]["uid"];
            let pod = pods.iter().find(its).map(|pod| &pod["status"]);
            let (namespace, spec, status) = (&differs["metadata"]["namespace"], &differs["spec"], &differs["status"]);
            return Err(format!(
                "not as asked {within:?} after the faults: {} in {namespace}: {} replicas, {status}, its first pod {pod:?}",
                name(&differs),
                spec["replicas"],
            ));
        }
        crew.until(Instant::now() + LOOK_EVERY).await;
    }
}

/// Whether a workload has what it asks for, and says so.
fn is_settled(workload: &Value, pods: &[Value]) -> bool {
    let wanted = number(workload, "/spec/replicas");
    let told = |field: &str| number(workload, &format!("/status/{field}"));
    let observed = workload["status"]["observedGeneration"] == workload["metadata"]["generation"];
    let counts =
        observed && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| told(field) == wanted);
    if workload["spec"]["strategy"].is_object() {
        let complete = condition(workload, "Progressing")["reason"] == "NewReplicaSetAvailable";
        return counts && complete && told("updatedReplicas") == wanted;
    }
    let me = &workload["metadata"]["uid"];
    let mine = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *me && !is_being_deleted(pod));
    counts && i64::try_from(mine.count()) == Ok(wanted)
}
