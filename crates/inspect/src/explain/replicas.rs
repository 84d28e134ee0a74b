//! The view of a ReplicaSet or ReplicationController: its pods, their order, and how many are missing or surplus.

use muster_objects::{Condition, Pod, Timestamp};
use serde::{Deserialize, Serialize};

use super::memory::seconds;
use super::next::{NextSync, Reason};
use super::ranking::{Ranking, short};
use muster_controllers::plan::{ClaimAction, ClaimOutcome, ClaimPlan, Plan, Step};
use muster_controllers::replicaset::decide::claimed_pods;
use muster_controllers::replicaset::{Expected, ReplicaOwner, Snapshot, counting::Need, preview, status::Counts};

/// What a sync would see of an owner of pods, and what it would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    /// The desired state.
    pub spec: ReplicasSpec,
    /// The current state.
    pub pods: PodCounts,
    /// How many pods one sync creates or deletes at most.
    pub burst: u32,
    /// If the sync waits for expectations before it manages pods (EX-07): how long at most, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expecting_for_seconds: Option<f64>,
    /// How long its creations are delayed, in seconds (B-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creations_wait_seconds: Option<f64>,
    /// What its last sync said of it, such as why a pod could not be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Reported>,
    /// What it would do.
    pub next: NextSync,
    /// In which order its pods would be deleted.
    pub ranking: Ranking,
}

/// The spec in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicasSpec {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `spec.selector` as `kubectl -l` takes it.
    pub selector: String,
    /// Whether it is being deleted.
    pub being_deleted: bool,
}

/// A condition in its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    /// Such as `ReplicaFailure`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, one word.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// Pods by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Claimed and active: neither finished nor being deleted, after adoption and release (RS-05, RS-06).
    pub claimed: i32,
    /// Of these, the ones that are ready.
    pub ready: i32,
    /// Of these, the ones that have been ready for `minReadySeconds`.
    pub available: i32,
    /// The owner's pods that are being deleted.
    pub terminating: i32,
    /// Orphans that would be adopted, included in `claimed`.
    pub adopted: Vec<String>,
    /// The owner's pods that its selector no longer matches, which would be released; not included in `claimed`.
    pub released: Vec<String>,
}

impl Replicas {
    pub(super) fn of<O: ReplicaOwner>(snapshot: &Snapshot<O>, most: usize, now: Timestamp) -> Self {
        let (claims, plan) = preview(snapshot, now);
        let outcome = claims.if_all_succeed();
        let pods = claimed_pods(snapshot, &outcome);
        let counts = Counts::of(&*snapshot.owner, pods.iter().map(|claimed| -> &Pod { &claimed.pod }), now);
        let names = |action: ClaimAction| {
            let patches = claims.patches.iter().filter(|patch| patch.action == action);
            patches.map(|patch| patch.key.name.to_string()).collect()
        };
        let owner = &*snapshot.owner;
        Self {
            spec: ReplicasSpec {
                replicas: owner.replicas(),
                min_ready_seconds: owner.min_ready_seconds(),
                selector: snapshot.selector.to_string(),
                being_deleted: owner.meta().is_being_deleted(),
            },
            pods: PodCounts {
                claimed: counts.replicas,
                ready: counts.ready,
                available: counts.available,
                terminating: snapshot.terminating(),
                adopted: names(ClaimAction::Adopt),
                released: names(ClaimAction::Release),
            },
            burst: snapshot.burst,
            expecting_for_seconds: match snapshot.memory.expected {
                Expected::Pending { expires_in } => Some(seconds(expires_in)),
                Expected::Settled => None,
            },
            creations_wait_seconds: snapshot.memory.creations_wait.map(seconds),
            conditions: owner.status().conditions.iter().map(Reported::of).collect(),
            next: next(snapshot, pods.len(), &claims, &plan),
            ranking: Ranking::of(&pods, snapshot.circumstances(now), &plan, &outcome, most),
        }
    }
}

impl Reported {
    fn of(condition: &Condition) -> Self {
        let Condition { kind, status, reason, message, .. } = condition;
        Self { kind: kind.clone(), status: status.to_string(), reason: reason.clone(), message: message.clone() }
    }
}

/// Goes through the rules in the order of the decision; what was decided is read from the plan.
fn next<O: ReplicaOwner>(snapshot: &Snapshot<O>, claimed: usize, claims: &ClaimPlan, plan: &Plan) -> NextSync {
    let (summary, reasons) = reasons(snapshot, claimed, plan);
    let mut why = Vec::new();
    if !claims.is_empty() {
        why.push(Reason::new("RS-06", "what the selector matches is adopted, what it matches no more is released"));
    }
    why.extend(reasons);
    let summary = match claims.patches.len() {
        0 => summary,
        1 => format!("settle 1 claim, then {summary}"),
        many => format!("settle {many} claims, then {summary}"),
    };
    NextSync::of(claims, plan, summary, why)
}

/// What a plan does that was made after the claims, and why.
pub(crate) fn replica_reasons<O: ReplicaOwner>(
    snapshot: &Snapshot<O>,
    claims: &ClaimOutcome,
    plan: &Plan,
) -> (String, Vec<Reason>) {
    reasons(snapshot, claimed_pods(snapshot, claims).len(), plan)
}

fn reasons<O: ReplicaOwner>(snapshot: &Snapshot<O>, claimed: usize, plan: &Plan) -> (String, Vec<Reason>) {
    let wanted = snapshot.owner.replicas();
    let there = format!("{claimed} of {wanted} wanted pods are there");
    let mut why = Vec::new();
    let (need, cut) = Need::of(claimed, wanted, snapshot.burst);
    let pods = |count: u32| format!("{count} pod{}", if count == 1 { "" } else { "s" });
    let deleted = u32::try_from(plan.deletions().count()).unwrap_or(u32::MAX);
    let failed = plan.steps.iter().find_map(|step| if let Step::Fail(failure) = step { Some(failure) } else { None });
    let summary = if plan.creations() > 0 {
        why.push(Reason::new("RS-09", format!("{there}: {} are missing", i64::from(wanted) - count(claimed))));
        format!("create {}", pods(plan.creations()))
    } else if deleted > 0 {
        why.push(Reason::new("RS-13", format!("{claimed} pods are there and {wanted} wanted")));
        format!("delete {}", pods(deleted))
    } else if let Some(failure) = failed {
        why.push(Reason::new("RS-09", format!("{there}, but none can be made: {failure}")));
        "fail".to_owned()
    } else if let Expected::Pending { expires_in } = snapshot.memory.expected {
        let text = format!("events of the last round are still to come; given up in {}", short(expires_in));
        why.push(Reason::new("EX-07", text));
        "leave the pods as they are".to_owned()
    } else if snapshot.owner.meta().is_being_deleted() {
        why.push(Reason::new("RS-14", "it is being deleted"));
        "leave the pods as they are".to_owned()
    } else if let (Need::Create(_), Some(wait)) = (need, snapshot.memory.creations_wait) {
        let text = format!("{there}, but the last pods came to nothing at once: creations wait {}", short(wait));
        why.push(Reason::new("B-08", text));
        "wait before more pods are created".to_owned()
    } else {
        why.push(Reason::new("RS-09", there));
        "leave the pods as they are".to_owned()
    };
    if cut && !plan.is_quiet() {
        why.push(Reason::new("CM-02", format!("one sync creates or deletes at most {}", snapshot.burst)));
    }
    (summary, why)
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}
