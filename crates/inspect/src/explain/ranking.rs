//! The order in which pods would be deleted, and the rule that decided each place.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_objects::meta::Uid;
use muster_objects::{Pod, PodPhase, Timestamp};
use serde::{Deserialize, Serialize};

use muster_controllers::plan::{ClaimOutcome, Plan};
use muster_controllers::replicaset::claiming::Claimed;
use muster_controllers::replicaset::ranking::{Age, Circumstances, Rank, Rule};

/// All claimed pods of an owner in the order in which they would be deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranking {
    /// Whether the sync deletes all of them, so that they are not ranked (DEL-05).
    pub all_go: bool,
    /// The places, the first to be deleted first.
    pub order: Vec<Place>,
    /// How many more pods follow.
    pub omitted: usize,
}

/// One pod's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// From 1 on.
    pub place: usize,
    /// The pod's name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Its node; none where it is not assigned to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its phase.
    pub phase: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is deleted by the sync that is explained.
    pub goes: bool,
    /// Whether it is adopted first.
    pub adopted: bool,
    /// The rule that put it behind the pod before it; `None` for the first, and where pods are not ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidedBy>,
}

/// The first rule by which two neighbours differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedBy {
    /// The row of the contract, such as `DEL-01`.
    pub rule: String,
    /// The value that is compared: `assigned`, `phase`, `ready`, `available`, `deletionCost`, `colocated`, `readyFor`, `restarts`,
    /// `sidecarRestarts`, `age`, `uid` or `name`.
    pub criterion: String,
    /// Which value is deleted first.
    pub first: String,
    /// The value of the pod before.
    pub before: String,
    /// The value of this one.
    pub this: String,
}

impl Ranking {
    /// The order of `pods`, some of which `plan` deletes; at most `most` places of it.
    pub(super) fn of(
        pods: &[Claimed],
        by: Circumstances<'_>,
        plan: &Plan,
        adopted: &ClaimOutcome,
        most: usize,
    ) -> Self {
        let goes: BTreeSet<&Uid> = plan.deletions().map(|deletion| &deletion.uid).collect();
        let all_go = !pods.is_empty() && goes.len() == pods.len();
        let mut ranked: Vec<(&Pod, Rank<'_>)> =
            pods.iter().map(|claimed| (&*claimed.pod, by.rank(&claimed.pod))).collect();
        if !all_go {
            ranked.sort_by(|(_, a), (_, b)| a.cmp(b));
        }
        let mut order = Vec::with_capacity(ranked.len().min(most));
        for (at, (pod, rank)) in ranked.iter().take(most).enumerate() {
            let before = at.checked_sub(1).and_then(|before| ranked.get(before)).filter(|_| !all_go);
            let decided_by = before.map(|(before, before_rank)| {
                let (_, rule) = before_rank.compare(rank);
                DecidedBy {
                    rule: rule.row().to_owned(),
                    criterion: criterion(rule).to_owned(),
                    first: first(rule).to_owned(),
                    before: value(rule, before, by),
                    this: value(rule, pod, by),
                }
            });
            order.push(Place {
                place: at + 1,
                pod: pod.meta.name.to_string(),
                uid: pod.meta.uid.to_string(),
                node: pod.node_name.as_deref().map(str::to_owned),
                phase: phase(pod).to_owned(),
                ready: pod.is_ready(),
                goes: goes.contains(&pod.meta.uid),
                adopted: adopted.adopted.contains_key(&pod.meta.uid),
                decided_by,
            });
        }
        Self { all_go, omitted: ranked.len() - order.len(), order }
    }
}

/// The name of a rule's criterion in the JSON.
const fn criterion(rule: Rule) -> &'static str {
    match rule {
        Rule::Assigned => "assigned",
        Rule::Phase => "phase",
        Rule::Ready => "ready",
        Rule::Available => "available",
        Rule::Cost => "deletionCost",
        Rule::Colocated => "colocated",
        Rule::ReadyFor => "readyFor",
        Rule::Restarts => "restarts",
        Rule::SidecarRestarts => "sidecarRestarts",
        Rule::Created => "age",
        Rule::Uid => "uid",
        Rule::Name => "name",
    }
}

/// Which value a rule deletes first.
const fn first(rule: Rule) -> &'static str {
    match rule {
        Rule::Assigned => "not assigned to a node first",
        Rule::Phase => "Pending before Unknown before Running",
        Rule::Ready => "not ready first",
        Rule::Available => "not available yet first",
        Rule::Cost => "lower deletion cost first",
        Rule::Colocated => "more of its like on the node first",
        Rule::ReadyFor => "ready more recently first",
        Rule::Restarts => "more restarts first",
        Rule::SidecarRestarts => "more restarts of a sidecar first",
        Rule::Created => "created more recently first",
        Rule::Uid => "smaller uid first",
        Rule::Name => "smaller name first",
    }
}

fn value(rule: Rule, pod: &Pod, by: Circumstances<'_>) -> String {
    let now = by.now;
    match rule {
        Rule::Assigned => pod.node_name.as_deref().map_or_else(|| "no node".to_owned(), |node| format!("on {node}")),
        Rule::Phase => phase(pod).to_owned(),
        Rule::Ready => if pod.is_ready() { "ready" } else { "not ready" }.to_owned(),
        Rule::Available => {
            if pod.is_available(by.min_ready_seconds, now) { "available" } else { "not available yet" }.to_owned()
        }
        Rule::Cost => pod.deletion_cost.to_string(),
        Rule::Colocated => by.colocation.around(pod).to_string(),
        Rule::ReadyFor => age(pod.ready_since(), now),
        Rule::Restarts => pod.restarts.regular.to_string(),
        Rule::SidecarRestarts => pod.restarts.sidecar.to_string(),
        Rule::Created => age(pod.meta.creation_timestamp, now),
        Rule::Uid => pod.meta.uid.to_string(),
        Rule::Name => pod.meta.name.to_string(),
    }
}

fn phase(pod: &Pod) -> &'static str {
    match pod.phase {
        PodPhase::Unset => "Pending",
        phase => phase.as_str(),
    }
}

/// An age with the range of those that count as equal to it.
fn age(time: Option<Timestamp>, now: Timestamp) -> String {
    match Age::since(time, now) {
        Age::Unknown => "unknown".to_owned(),
        Age::None => "0s".to_owned(),
        Age::Log2(power) => {
            let bound = |power: u32| short(Duration::from_nanos(1_u64.checked_shl(power).unwrap_or(u64::MAX)));
            let exact = time.map_or(Duration::ZERO, |time| now.saturating_since(time));
            format!("{} (as {} to {})", short(exact), bound(power), bound(power + 1))
        }
    }
}

/// A duration in its two largest units: `2h17m`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}
