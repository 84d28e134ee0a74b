//! How a rollout ends, and what keeps it from its end.

use std::time::Duration;

use muster_cluster::fate::Fate;
use muster_tree::Value;
use tokio::time::Instant;

use super::Case;
use super::play::End;
use crate::api::{Api, PODS, condition, is_being_deleted, name, number};
use crate::laws::Watcher;
use crate::world::World;

/// Waits for the end of the rollout. After faults its deadline may have passed for them, and it goes on. After a restore
/// there may be none.
pub(super) async fn ends(world: &World, watcher: &Watcher, case: &Case, path: &str) -> Result<End, String> {
    // A pod that was rejected or crashes is tried again after up to five minutes, and every try is progress.
    let longest = Duration::from_secs(if case.forgets() { 340 } else { 3_440 });
    let begun = Instant::now();
    let api = Api::of(world);
    let mut changes = watcher.deployments();
    loop {
        changes.mark_unchanged();
        let web = api.get(path).await.ok_or("the Deployment is gone")?;
        let good = is_good(&web);
        match end(&web, good) {
            // It is told while the rollout goes on: after a pause of the controllers, and while old pods go, or the deadline that
            // passed was that of the template before (DEP-17).
            Some(End::DeadlineExceeded) if good && !is_any_fated(api).await => {}
            Some(end) => return Ok(end),
            None => {}
        }
        // The slowest rollout waits for one pod after the other.
        let replicas = u32::try_from(number(&web, "/spec/replicas")).unwrap_or_default();
        let min_ready = Duration::from_secs(number(&web, "/spec/minReadySeconds").try_into().unwrap_or_default());
        let steps = min_ready.saturating_add(case.pod_startup.end).saturating_mul(replicas);
        if begun.elapsed() > longest.saturating_add(steps) {
            return Err(format!("{}{}", without_node(api).await, web["status"]));
        }
        // Whether a pod has a fate of its own changes without it.
        let _ = tokio::time::timeout(Duration::from_secs(10), changes.changed()).await;
    }
}

/// Why a pod has no node, where one has none.
async fn without_node(api: Api<'_>) -> String {
    let pods = api.list(PODS).await;
    let why = pods.iter().find_map(|pod| {
        let scheduled = condition(pod, "PodScheduled");
        let why = scheduled["message"].as_str().filter(|_| scheduled["status"] == "False")?;
        Some(format!("pod {} has no node: {why} The Deployment says ", name(pod)))
    });
    why.unwrap_or_default()
}

/// Whether the template of a Deployment is one whose pods become ready, and stay so.
pub(super) fn is_good(web: &Value) -> bool {
    !is_fated(&web["spec"]["template"])
}

/// Whether a pod, or what pods are made from, has a fate that is not to run.
fn is_fated(pod: &Value) -> bool {
    let said = pod["metadata"]["annotations"]["muster.dev/fate"].as_str();
    said.and_then(Fate::parse).is_some_and(|fate| fate != Fate::Run)
}

/// Whether a pod that stays does not go on as its template has it.
pub(super) async fn is_any_fated(api: Api<'_>) -> bool {
    let pods = api.list(PODS).await;
    let mut stay = pods.iter().filter(|pod| !is_being_deleted(pod));
    stay.any(is_fated)
}

/// By which end a Deployment's rollout has ended, if it has. Pods that do not stay ready can be enough for it to be
/// complete for a moment, which its condition remembers.
fn end(web: &Value, good: bool) -> Option<End> {
    let observed = web["status"]["observedGeneration"] == web["metadata"]["generation"];
    let replicas = number(web, "/spec/replicas");
    let all = ["updatedReplicas", "replicas", "availableReplicas"];
    if observed && all.iter().all(|field| number(web, &format!("/status/{field}")) == replicas) {
        return Some(End::Complete);
    }
    let progressing = condition(web, "Progressing");
    // It was complete, and a pod has failed since.
    let updated = all[..2].iter().all(|field| number(web, &format!("/status/{field}")) == replicas);
    if observed && (updated || !good) && progressing["reason"] == "NewReplicaSetAvailable" {
        return Some(End::Complete);
    }
    (observed && progressing["status"] == "False" && progressing["reason"] == "ProgressDeadlineExceeded")
        .then_some(End::DeadlineExceeded)
}
