//! The view of a Deployment: its ReplicaSets, the bounds of their sizes, and the next step.

use std::sync::Arc;

use muster_objects::{Deployment, DeploymentStatus, ReplicaSet, Strategy, Timestamp};
use serde::{Deserialize, Serialize};

use super::memory::seconds;
use super::next::NextSync;
use super::rollout_reasons::{reasons, summary};
use muster_controllers::deployment::progress::{TIMED_OUT, deadline, is_complete};
use muster_controllers::deployment::requeue::time_left;
use muster_controllers::deployment::revision::revision;
use muster_controllers::deployment::sets::{actual, available, ready, terminating, wanted};
use muster_controllers::deployment::{Decision, Reporting, Snapshot, bounds, conditions, decide, preview};
use muster_controllers::plan::ClaimAction;

/// The label that tells the ReplicaSets of a Deployment apart.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// What a sync would see of a Deployment, and what it would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The desired state.
    pub spec: RolloutSpec,
    /// How many pods the rollout may add or make unavailable.
    pub bounds: Bounds,
    /// What its ReplicaSets report together.
    pub pods: SetCounts,
    /// Its ReplicaSets, oldest first, the new one last.
    pub sets: Vec<Set>,
    /// ReplicaSets that its selector does not match any more, which would be released.
    pub released: Vec<String>,
    /// What it would do.
    pub next: NextSync,
    /// The progress of the rollout, and its deadline.
    pub progress: Progress,
    /// Its conditions after the sync, and those that it would remove.
    pub conditions: Vec<Condition>,
}

/// The spec in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `spec.selector` as `kubectl -l` takes it.
    pub selector: String,
    /// `RollingUpdate`, `Recreate` or a strategy that is not known.
    pub strategy: String,
    /// `maxSurge` as in the spec; `None` if the strategy has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<String>,
    /// `maxUnavailable` as in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<String>,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.revisionHistoryLimit`; none keeps all old ReplicaSets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Whether it is being deleted.
    pub being_deleted: bool,
}

/// The bounds in pods (DEP-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// `maxSurge` resolved.
    pub surge: i64,
    /// `maxUnavailable` resolved.
    pub unavailable: i32,
    /// The largest number of pods.
    pub most_pods: i64,
    /// The smallest number of available pods.
    pub least_available: i64,
}

/// Sums over the ReplicaSets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetCounts {
    /// `spec.replicas`.
    pub wanted: i64,
    /// `status.replicas`.
    pub reported: i64,
    /// Of these, in the new ReplicaSet.
    pub updated: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// `status.availableReplicas`.
    pub available: i64,
    /// `status.terminatingReplicas`; `None` if one of them does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i64>,
}

/// One ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its revision; none where the annotation is no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Its `pod-template-hash`; empty where it has none.
    pub hash: String,
    /// Whether it has the Deployment's template (DEP-03).
    pub new: bool,
    /// Whether it is adopted first.
    pub adopted: bool,
    /// `spec.replicas` as it is; 0 for one that would be created.
    pub replicas: i32,
    /// `spec.replicas` as it would be after the writes; none where it would be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_after: Option<i32>,
    /// Whether it does not exist yet and would be created.
    pub created: bool,
    /// `status.replicas`.
    pub reported: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// Whether its status has observed its spec.
    pub observed: bool,
}

/// The progress of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Whether all pods are updated and available and no old ones are left (DEP-24).
    pub complete: bool,
    /// `progressDeadlineSeconds`; `None` if there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<f64>,
    /// How much of it is left, in seconds; `None` if no deadline runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_seconds: Option<f64>,
    /// Whether the deadline has passed without progress (DEP-17).
    pub timed_out: bool,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Such as `Progressing`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, one word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// What the sync would do to it.
    pub change: Change,
}

/// What happens to a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It stays as it is.
    Kept,
    /// It is written.
    Written,
    /// It is removed.
    Removed,
}

impl Rollout {
    pub(super) fn of(snapshot: &Snapshot, now: Timestamp) -> Self {
        let deployment = &*snapshot.deployment;
        let (claims, plan) = preview(snapshot, now);
        let outcome = claims.if_all_succeed();
        let decision = decide(snapshot, &outcome);
        let after = decision.reported(now);
        // A sync that is paused or only scales does not check the deadline.
        let runs = decision.reporting == Reporting::Rollout;
        let released = claims.patches.iter().filter(|patch| patch.action == ClaimAction::Release);
        let all = || decision.sets.all().filter(|set| !is_created(&decision, set));
        let new = decision.sets.new.as_ref().filter(|set| !is_created(&decision, set));
        Self {
            spec: RolloutSpec::of(snapshot),
            bounds: Bounds::of(deployment),
            pods: SetCounts {
                wanted: wanted(all()),
                reported: actual(all()),
                updated: actual(new),
                ready: ready(all()),
                available: available(all()),
                terminating: terminating(all()),
            },
            sets: decision
                .sets
                .all()
                .map(|set| {
                    let adopted = outcome.adopted.contains_key(&set.meta.uid);
                    Set { adopted, ..Set::of(&decision, set) }
                })
                .collect(),
            released: released.map(|patch| patch.key.name.to_string()).collect(),
            next: NextSync::of(
                &claims,
                &plan,
                summary(snapshot, claims.patches.len(), &decision, &after),
                reasons(snapshot, &decision, &after),
            ),
            progress: Progress {
                complete: is_complete(deployment, &after),
                deadline_seconds: deadline(deployment).map(seconds),
                left_seconds: time_left(deployment, &after, now).filter(|_| runs).map(seconds),
                timed_out: conditions::reason(&after.conditions, conditions::PROGRESSING) == Some(TIMED_OUT),
            },
            conditions: changes(&deployment.status, &after),
        }
    }
}

impl RolloutSpec {
    fn of(snapshot: &Snapshot) -> Self {
        let deployment = &*snapshot.deployment;
        let (strategy, max_surge, max_unavailable) = match &deployment.strategy {
            Strategy::RollingUpdate { max_surge, max_unavailable } => {
                ("RollingUpdate", Some(max_surge.to_string()), Some(max_unavailable.to_string()))
            }
            Strategy::Recreate => ("Recreate", None, None),
            Strategy::Other(name) => (&**name, None, None),
        };
        Self {
            replicas: deployment.replicas,
            min_ready_seconds: deployment.min_ready_seconds,
            selector: snapshot.selector.to_string(),
            strategy: strategy.to_owned(),
            max_surge,
            max_unavailable,
            paused: deployment.paused,
            revision_history_limit: deployment.revision_history_limit,
            being_deleted: deployment.meta.is_being_deleted(),
        }
    }
}

impl Bounds {
    fn of(deployment: &Deployment) -> Self {
        let bounds = bounds::Bounds::of(deployment);
        // All old pods go before there are new ones.
        let recreates = deployment.strategy == Strategy::Recreate;
        Self {
            surge: bounds.surge,
            unavailable: bounds.unavailable,
            most_pods: bounds.most(deployment.replicas),
            least_available: if recreates { 0 } else { bounds.least_available(deployment.replicas) },
        }
    }
}

impl Set {
    /// The decision holds the ReplicaSets with their sizes before scaling.
    fn of(decision: &Decision, set: &Arc<ReplicaSet>) -> Self {
        let created = is_created(decision, set);
        let deleted = decision.delete.iter().any(|deleted| deleted.meta.uid == set.meta.uid);
        let update = decision.updates.iter().find(|update| update.before.meta.uid == set.meta.uid);
        let replicas_after = update.map_or(set.replicas, |update| update.after.replicas);
        let status = &set.status;
        Self {
            name: set.meta.name.to_string(),
            revision: revision(set),
            hash: set.meta.labels.get(POD_TEMPLATE_HASH).unwrap_or_default().to_owned(),
            new: decision.sets.new.as_ref().is_some_and(|new| new.meta.uid == set.meta.uid),
            adopted: false,
            replicas: if created { 0 } else { set.replicas },
            replicas_after: (!deleted).then_some(replicas_after),
            created,
            reported: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            observed: !created && status.observed_generation >= set.meta.generation,
        }
    }
}

pub(super) fn is_created(decision: &Decision, set: &Arc<ReplicaSet>) -> bool {
    decision.create.as_ref().is_some_and(|created| created.set.meta.name == set.meta.name)
}

/// The conditions after the sync, each with its change, then those that are removed.
fn changes(before: &DeploymentStatus, after: &DeploymentStatus) -> Vec<Condition> {
    let told = |condition: &muster_objects::Condition, change: Change| Condition {
        kind: condition.kind.clone(),
        status: condition.status.to_string(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        change,
    };
    let stay = after.conditions.iter().map(|condition| {
        let kept = before.conditions.contains(condition);
        told(condition, if kept { Change::Kept } else { Change::Written })
    });
    let gone = before
        .conditions
        .iter()
        .filter(|condition| muster_objects::Condition::find(&after.conditions, &condition.kind).is_none());
    stay.chain(gone.map(|condition| told(condition, Change::Removed))).collect()
}
