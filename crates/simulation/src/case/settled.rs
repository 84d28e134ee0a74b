//! Whether workloads of each kind are as asked.

use std::time::Duration;

use muster_tree::Value;
use tokio::time::Instant;

use super::processes::Processes;
use crate::api::{Api, condition, is_being_deleted, name, number};
use crate::laws::Watcher;
use crate::laws::rest::is_of;
use crate::laws::rollout::is_active;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A ReplicationController, which keeps no record of what it has written (RC-02), waits so much longer for a pod that came and went
/// unseen (EX-02).
const UNSEEN: Duration = Duration::from_secs(300);

/// A key whose syncs have failed is tried again after so long at the most (WQ-03).
pub(super) const BACKOFF: Duration = Duration::from_secs(1_000);

/// So long after a key has waited, its pods have started.
const STARTS: Duration = Duration::from_secs(30);

/// Waits until everything is as asked, or says what is not. As long as a key waits for its time it may still come to be.
pub(super) async fn settled(
    api: Api<'_>,
    watcher: &Watcher,
    processes: &mut Processes<'_>,
    within: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut waited = begun;
    let is_late = |workload: &&Value| {
        let patience = if is_classic(workload) { within.saturating_add(UNSEEN) } else { within };
        begun.elapsed() > patience
    };
    let (mut workloads, mut count) = (Vec::new(), None);
    loop {
        // What nobody has written since is as it was.
        let seen = Some(watcher.count());
        if count != seen {
            (workloads, count) = (looked_at(api).await, seen);
        }
        let unsaid: Vec<&Value> = workloads.iter().filter(|workload| !says_so(workload)).collect();
        // Pods are many: it is looked whether it is true once it is said.
        if unsaid.is_empty() || unsaid.iter().any(is_late) {
            let pods = api.list("/api/v1/pods").await;
            let differs: Vec<&Value> =
                workloads.iter().filter(|workload| !says_so(workload) || !has_pods(workload, &pods)).collect();
            if differs.is_empty() {
                return Ok(());
            }
            if begun.elapsed() < within.saturating_add(BACKOFF) && processes.waits() {
                waited = Instant::now();
            }
            if let Some(late) = differs.into_iter().find(is_late).filter(|_| waited.elapsed() > STARTS) {
                let its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == late["metadata"]["uid"];
                let pod = pods.iter().find(its).map(|pod| &pod["status"]);
                let (namespace, spec, status) = (&late["metadata"]["namespace"], &late["spec"], &late["status"]);
                return Err(format!(
                    "not as asked {:?} after the faults: {} in {namespace}: {} replicas, {status}, its first pod {pod:?}",
                    begun.elapsed(),
                    name(late),
                    spec["replicas"],
                ));
            }
        }
        processes.until(Instant::now() + LOOK_EVERY).await;
    }
}

/// All workloads as they are now, but for those that cannot come to be as asked.
async fn looked_at(api: Api<'_>) -> Vec<Value> {
    let mut workloads = Vec::new();
    for path in ["/apis/apps/v1/replicasets", "/api/v1/replicationcontrollers", "/apis/apps/v1/deployments"] {
        workloads.extend(api.list(path).await);
    }
    let (held, mut workloads): (Vec<Value>, Vec<Value>) = workloads.into_iter().partition(is_held);
    // One whose ReplicaSet never goes does not come to its end.
    let has_held = |workload: &Value| held.iter().any(|held| is_of(held, workload));
    workloads.retain(|workload| !has_held(workload));
    workloads
}

/// Whether it is being deleted for as long as somebody else wants.
fn is_held(workload: &Value) -> bool {
    let finalizers = workload["metadata"]["finalizers"].as_array();
    let others = |finalizer: &Value| *finalizer != "foregroundDeletion" && *finalizer != "orphan";
    is_being_deleted(workload) && finalizers.is_some_and(|all| all.iter().any(others))
}

/// Whether a workload says that it has what it asks for.
fn says_so(workload: &Value) -> bool {
    let wanted = number(workload, "/spec/replicas");
    let told = |field: &str| number(workload, &format!("/status/{field}"));
    // It goes, and what it asked for with it.
    if is_being_deleted(workload) {
        return false;
    }
    let observed = workload["status"]["observedGeneration"] == workload["metadata"]["generation"];
    let counts =
        observed && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| told(field) == wanted);
    if is_deployment(workload) {
        // Who has no deadline has no such condition (DEP-17).
        let endless = number(workload, "/spec/progressDeadlineSeconds") == i64::from(i32::MAX);
        let complete = endless || condition(workload, "Progressing")["reason"] == "NewReplicaSetAvailable";
        return counts && complete && told("updatedReplicas") == wanted;
    }
    counts
}

/// Whether as many of these pods are its own as it asks for.
fn has_pods(workload: &Value, pods: &[Value]) -> bool {
    let me = &workload["metadata"]["uid"];
    let mine = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *me && is_active(pod));
    is_deployment(workload) || i64::try_from(mine.count()) == Ok(number(workload, "/spec/replicas"))
}

/// A ReplicationController has labels where others have a selector of its own form.
fn is_classic(workload: &Value) -> bool {
    !workload["spec"]["selector"]["matchLabels"].is_object()
}

fn is_deployment(workload: &Value) -> bool {
    workload["spec"]["strategy"].is_object()
}
