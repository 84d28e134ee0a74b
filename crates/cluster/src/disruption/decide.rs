//! The decision: what a budget's status should say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::int_or_percent::IntOrPercent;
use muster_objects::{Meta, Timestamp, Uid};
use serde_json::{Map, Value, json};

use super::budget::{Budget, Condition, Status};
use crate::control::Slim;
use crate::pod::Pod;

/// How long after an eviction was granted its pod has to be deleted: after that it is taken to stay.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);
/// The condition of a budget.
const ALLOWED: &str = "DisruptionAllowed";

/// The scale of something that controls pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scale {
    /// Its uid.
    pub(super) owner: Uid,
    /// How many pods it should have.
    pub(super) replicas: i32,
}

/// The scales of all that control a budget's pods, by the uids of the pods' own controllers.
#[derive(Debug, Default)]
pub(super) struct Scales(BTreeMap<Uid, Scale>);

impl Scales {
    pub(super) fn knows(&self, controller: &Uid) -> bool {
        self.0.contains_key(controller)
    }

    pub(super) fn insert(&mut self, controller: Uid, scale: Scale) {
        self.0.insert(controller, scale);
    }

    /// How many pods there should be: several controllers may be under one that has the scale.
    fn sum(&self) -> i32 {
        let scales: BTreeMap<&Uid, i32> = self.0.values().map(|scale| (&scale.owner, scale.replicas)).collect();
        scales.into_values().fold(0, i32::saturating_add)
    }
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What is to be done about a budget.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// A merge patch of its status; none where that says it already.
    pub(super) status: Option<Value>,
    /// Events: about the budget, or about a pod.
    pub(super) tell: Vec<(Option<Meta>, Note)>,
    /// When to look again though nothing happens.
    pub(super) again: Option<Duration>,
}

/// Decides on a budget with its pods, and the scales where [`Budget::needs_scale`] or why they are not known.
pub(super) fn decide(
    budget: &Slim<Budget>,
    pods: &[Arc<Pod>],
    scales: Result<Scales, String>,
    now: Timestamp,
) -> Decision {
    let mut decision = Decision::default();
    match try_decide(budget, pods, scales, now, &mut decision) {
        Ok(status) => {
            let up_to_date = status == budget.body.status
                && status.observed_generation == budget.meta.generation
                && conditions_are_right(&status);
            if !up_to_date {
                let mut status = Status { observed_generation: budget.meta.generation, ..status };
                let (allowed, reason) = match status.disruptions_allowed > 0 {
                    true => ("True", "SufficientPods"),
                    false => ("False", "InsufficientPods"),
                };
                set_condition(&mut status, allowed, reason, String::new(), now);
                decision.status = Some(patch(budget, &status));
            }
        }
        // No eviction must be granted on what cannot be told.
        Err(error) => {
            let mut status = Status { disruptions_allowed: 0, ..budget.body.status.clone() };
            set_condition(&mut status, "False", "SyncFailed", error, now);
            decision.status = (status != budget.body.status).then(|| patch(budget, &status));
            decision.again = None;
        }
    }
    decision
}

fn try_decide(
    budget: &Slim<Budget>,
    pods: &[Arc<Pod>],
    scales: Result<Scales, String>,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Status, String> {
    let mut tell = |warning, reason, message| decision.tell.push((None, Note { warning, reason, message }));
    if let Err(error) = &budget.body.selector {
        tell(true, "NoPods", format!("Failed to get pods: {error}"));
        return Err(error.clone());
    }
    if pods.is_empty() {
        tell(false, "NoPods", "No matching pods found".to_owned());
    }
    let counts = scales.and_then(|scales| counts(&budget.body, pods, &scales));
    let (expected, desired) = counts.inspect_err(|error| {
        let message = format!("Failed to calculate the number of expected pods: {error}");
        tell(true, "CalculateExpectedPodCountFailed", message);
    })?;
    if budget.body.needs_scale() && pods.iter().any(|pod| pod.meta.controller.is_none()) {
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
             status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
             these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
            budget.body.selector_text
        );
        tell(true, "UnmanagedPods", message);
    }
    let disrupted = disrupted(budget, pods, now, decision);
    let healthy = pods
        .iter()
        .filter(|pod| !pod.meta.is_being_deleted() && !disrupted.contains_key(&*pod.meta.name) && pod.status.ready);
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    Ok(Status {
        observed_generation: budget.body.status.observed_generation,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disrupted_pods: disrupted,
        conditions: budget.body.status.conditions.clone(),
    })
}

/// How many pods are expected, and how many of them have to be healthy.
fn counts(budget: &Budget, pods: &[Arc<Pod>], scales: &Scales) -> Result<(i32, i32), String> {
    let scaled = |amount: &IntOrPercent, total: i32| -> Result<i32, String> {
        let amount = amount.scaled(total, true).map_err(|error| error.to_string())?;
        Ok(i32::try_from(amount).unwrap_or(i32::MAX))
    };
    match (&budget.max_unavailable, &budget.min_available) {
        (Some(max), _) => {
            let expected = scales.sum();
            Ok((expected, expected.saturating_sub(scaled(max, expected)?).max(0)))
        }
        (None, Some(IntOrPercent::Int(min))) => Ok((i32::try_from(pods.len()).unwrap_or(i32::MAX), *min)),
        (None, Some(min)) => {
            let expected = scales.sum();
            Ok((expected, scaled(min, expected)?))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// The pods whose eviction was granted and that may still be deleted for it.
fn disrupted(
    budget: &Slim<Budget>,
    pods: &[Arc<Pod>],
    now: Timestamp,
    decision: &mut Decision,
) -> BTreeMap<String, Timestamp> {
    let mut left = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.meta.is_being_deleted()) {
        let Some((name, granted)) = budget.body.status.disrupted_pods.get_key_value(&*pod.meta.name) else { continue };
        let given_up = *granted + DELETION_TIMEOUT;
        if given_up < now {
            let namespace = &budget.meta.namespace;
            let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            decision.tell.push((Some(pod.meta.clone()), Note { warning: true, reason: "NotDeleted", message }));
            continue;
        }
        // One more nanosecond, so that it is given up then.
        let wait = given_up.saturating_since(now) + Duration::from_nanos(1);
        decision.again = Some(decision.again.map_or(wait, |again| again.min(wait)));
        left.insert(name.clone(), *granted);
    }
    left
}

fn conditions_are_right(status: &Status) -> bool {
    let expected =
        if status.disruptions_allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = status.conditions.iter().find(|condition| condition.kind == ALLOWED);
    condition.is_some_and(|condition| (&*condition.status, &*condition.reason) == expected)
}

fn set_condition(status: &mut Status, value: &str, reason: &str, message: String, now: Timestamp) {
    let observed_generation = status.observed_generation;
    let before = status.conditions.iter_mut().find(|condition| condition.kind == ALLOWED);
    let since = before.as_ref().filter(|before| before.status == value).and_then(|before| before.last_transition_time);
    let condition = Condition {
        kind: ALLOWED.to_owned(),
        status: value.to_owned(),
        observed_generation,
        last_transition_time: Some(since.unwrap_or(now.truncate_to_seconds())),
        reason: reason.to_owned(),
        message,
    };
    match before {
        Some(before) => *before = condition,
        None => status.conditions.push(condition),
    }
}

/// A merge patch of the status of the version that was seen.
fn patch(budget: &Slim<Budget>, status: &Status) -> Value {
    let old = &budget.body.status.disrupted_pods;
    let gone = old.keys().filter(|name| !status.disrupted_pods.contains_key(*name));
    let mut disrupted: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    disrupted.extend(status.disrupted_pods.iter().map(|(name, time)| (name.clone(), time.to_string().into())));
    json!({
        "metadata": {"uid": budget.meta.uid, "resourceVersion": budget.meta.resource_version},
        "status": {
            "observedGeneration": status.observed_generation,
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "disruptedPods": disrupted,
            "conditions": status.conditions,
        },
    })
}
