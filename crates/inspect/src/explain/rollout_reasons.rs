//! Why a Deployment's sync does what it does, and what blocks the rollout where it does nothing.

use muster_objects::{Deployment, DeploymentStatus, ReplicaSet, Strategy, Timestamp};

use super::next::Reason;
use super::rollout::is_created;
use muster_controllers::deployment::bounds::Bounds;
use muster_controllers::deployment::progress::{TIMED_OUT, is_complete};
use muster_controllers::deployment::recreate::{old_pods_running, others_running};
use muster_controllers::deployment::rolling::{Held, certainly_available, most_down};
use muster_controllers::deployment::scaling;
use muster_controllers::deployment::sets::{Sets, is_reported, taken};
use muster_controllers::deployment::update::SetUpdate;
use muster_controllers::deployment::{Decision, Snapshot, Stage, conditions};
use muster_controllers::plan::Step;

/// What the sync does, in a few words. `after` is the status that it leaves.
pub(super) fn summary(snapshot: &Snapshot, claims: usize, decision: &Decision, after: &DeploymentStatus) -> String {
    let mut parts = Vec::new();
    match claims {
        0 => {}
        1 => parts.push("settle 1 claim".to_owned()),
        many => parts.push(format!("settle {many} claims")),
    }
    if let Some(created) = &decision.create {
        parts.push(format!("create ReplicaSet {} with {} replicas", created.set.meta.name, created.set.replicas));
    }
    for update in &decision.updates {
        let (name, from, to) = (&update.before.meta.name, update.before.replicas, update.after.replicas);
        parts.push(match from.cmp(&to) {
            std::cmp::Ordering::Less => format!("scale {name} up from {from} to {to}"),
            std::cmp::Ordering::Greater => format!("scale {name} down from {from} to {to}"),
            std::cmp::Ordering::Equal => format!("bring {name} up to date"),
        });
    }
    for deleted in &decision.delete {
        parts.push(format!("delete ReplicaSet {}", deleted.meta.name));
    }
    if decision.own_steps.iter().any(|step| matches!(step, Step::Patch(_))) {
        parts.push("write the Deployment itself".to_owned());
    }
    if decision.own_steps.iter().any(|step| matches!(step, Step::Fail(_))) {
        parts.push("fail".to_owned());
    }
    if !parts.is_empty() {
        return parts.join(", ");
    }
    let idle = match decision.stage {
        Stage::Rolling | Stage::Recreating if is_complete(&snapshot.deployment, after) => {
            "nothing: the rollout is complete"
        }
        Stage::Rolling | Stage::Recreating => "nothing: the rollout waits",
        Stage::Paused => "nothing: it is paused",
        Stage::BeingDeleted => "nothing: it is being deleted",
        Stage::SelectingAll => "nothing: it selects everything",
        Stage::RollingBack(_) | Stage::Scaling | Stage::Stuck => "nothing",
    };
    idle.to_owned()
}

/// What a decision does that was made after the claims, and why.
pub(crate) fn rollout_account(snapshot: &Snapshot, decision: &Decision, now: Timestamp) -> (String, Vec<Reason>) {
    let after = decision.reported(now);
    (summary(snapshot, 0, decision, &after), reasons(snapshot, decision, &after))
}

/// The reasons, the kind of the sync first.
pub(super) fn reasons(snapshot: &Snapshot, decision: &Decision, after: &DeploymentStatus) -> Vec<Reason> {
    let deployment = &*snapshot.deployment;
    let mut why = Vec::new();
    match decision.stage {
        Stage::SelectingAll => why.push(Reason::new("DEP-02", "its selector is empty and would take every ReplicaSet")),
        Stage::BeingDeleted => why.push(Reason::new("DEP-02", "it is being deleted: only its status is kept")),
        Stage::Paused => {
            why.push(Reason::new("DEP-02", "it is paused: its ReplicaSets follow its size and nothing else"));
            if decision.sets.new.is_none() {
                why.push(Reason::new("DEP-04", "no ReplicaSet has its template, and none is made while it is paused"));
            }
        }
        Stage::RollingBack(0) => why.push(Reason::new("DEP-22", "it is to go back to its last revision")),
        Stage::RollingBack(revision) => {
            why.push(Reason::new("DEP-22", format!("it is to go back to revision {revision}")));
        }
        Stage::Scaling => why.push(Reason::new(
            "DEP-08",
            format!("its ReplicaSets were last scaled for another number than {} replicas", deployment.replicas),
        )),
        Stage::Stuck => why.push(Reason::new("DEP-02", "its strategy is none that is known")),
        Stage::Rolling => rolling(decision, &mut why),
        Stage::Recreating => recreating(snapshot, decision, &mut why),
    }
    why.extend(growth_waits(snapshot, decision));
    if matches!(decision.stage, Stage::Paused | Stage::Scaling) {
        why.extend(old_ones_wait(decision));
    }
    if matches!(decision.stage, Stage::Rolling | Stage::Recreating) {
        completion(deployment, decision, after, &mut why);
    }
    if !decision.delete.is_empty() {
        why.push(Reason::new(
            "DEP-14",
            format!("of old ReplicaSets {} are kept", deployment.revision_history_limit.unwrap_or_default()),
        ));
    }
    if conditions::reason(&after.conditions, conditions::PROGRESSING) == Some(TIMED_OUT) {
        why.push(Reason::new(
            "DEP-17",
            "its deadline has passed without progress: that is told, and nothing is stopped",
        ));
    }
    why
}

/// Why old ReplicaSets are not scaled to 0 beside a new one that says that all its pods are available.
fn old_ones_wait(Decision { deployment, sets, .. }: &Decision) -> Option<Reason> {
    let new = sets.new.as_ref().filter(|new| scaling::is_saturated(deployment, new) && !scaling::is_certain(new))?;
    let cause = match is_reported(new) {
        true => format!("{} has pods that are to be deleted first", new.meta.name),
        false => unreported(new),
    };
    let waits = sets.active_old().next().is_some();
    waits.then(|| Reason::new("DEP-09", format!("old ReplicaSets are to have no replicas and wait: {cause}")))
}

/// Which ReplicaSet would be scaled up, and waits for the pods of another.
fn growth_waits(snapshot: &Snapshot, decision: &Decision) -> Option<Reason> {
    let Decision { deployment, sets, updates, .. } = decision;
    let update = decision.waiting.first()?;
    let (name, size) = (&update.before.meta.name, update.after.replicas);
    let fuller = scaling::with_more_than_wanted(updates, sets);
    let (row, cause) = match fuller.into_iter().find(|set| set.meta.uid != update.before.meta.uid) {
        _ if deployment.strategy == Strategy::Recreate
            && others_running(Some(&update.before), sets, &snapshot.pods) =>
        {
            ("DEP-12", "pods of another are still there".to_owned())
        }
        Some(other) if !is_reported(other) => ("DEP-09", unreported(other)),
        Some(other) => ("DEP-09", format!("{} has pods that are to be deleted first", other.meta.name)),
        None => return None,
    };
    Some(Reason::new(row, format!("{name} is to have {size} replicas and waits: {cause}")))
}

fn rolling(decision: &Decision, why: &mut Vec<Reason>) {
    let deployment = &*decision.deployment;
    let bounds = Bounds::of(deployment);
    let most = bounds.most(deployment.replicas);
    let Some(new) = &decision.sets.new else {
        why.push(Reason::new("DEP-04", "no ReplicaSet has its template, and none can be made"));
        return;
    };
    let name = &new.meta.name;
    let of_old = taken(&decision.sets.old);
    let room = |of_new: i64| match of_old {
        Some(of_old) => format!("{} pods are there or wanted and {most} allowed", of_old + of_new),
        None => format!("an old ReplicaSet has not reported on its size yet, and {most} pods are allowed"),
    };
    if is_created(decision, new) {
        why.push(Reason::new("DEP-04", "no ReplicaSet has its template"));
        why.push(Reason::new("DEP-10", room(0)));
        if decision.updates.iter().any(SetUpdate::is_scaling) {
            why.push(availability(decision, "old ones can go"));
        }
        return;
    }
    let there = room(new.replicas.into());
    // One sync scales either up or down: the first scaling shows which.
    let scaled = decision.updates.iter().find(|update| update.is_scaling());
    if let Some(update) = scaled {
        let (of_new, grows) = (update.before.meta.uid == new.meta.uid, update.before.replicas < update.after.replicas);
        why.push(match (of_new, grows) {
            (true, true) => Reason::new("DEP-10", format!("{name} has room: {there}")),
            (true, false) => {
                let wanted = deployment.replicas;
                Reason::new("DEP-10", format!("{name} has {} replicas and {wanted} are wanted", new.replicas))
            }
            (false, _) => availability(decision, "old ones can go"),
        });
        return;
    }
    if new.replicas < deployment.replicas {
        why.push(Reason::new("DEP-10", format!("{name} cannot grow: {there}")));
    }
    match most_down(deployment, &decision.sets) {
        Err(Held::NothingToDo) => {}
        Err(Held::Unreported(set)) => {
            why.push(Reason::new("DEP-11", format!("old ones cannot shrink: {}", unreported(&set))));
        }
        Err(Held::Availability { wanted, least, not_yet_available }) => why.push(Reason::new(
            "DEP-11",
            format!(
                "old ones cannot shrink: of {wanted} wanted pods {not_yet_available} new ones are not available yet, \
                 and at least {least} must be"
            ),
        )),
        Ok(_) => why.push(availability(decision, "old ones cannot shrink")),
    }
}

fn availability(decision: &Decision, what: &str) -> Reason {
    let deployment = &*decision.deployment;
    let least = Bounds::of(deployment).least_available(deployment.replicas);
    let available = certainly_available(&decision.sets);
    Reason::new("DEP-11", format!("{what}: {available} pods are available for certain, and at least {least} must be"))
}

fn recreating(snapshot: &Snapshot, decision: &Decision, why: &mut Vec<Reason>) {
    let scaled = decision.updates.iter().find(|update| update.is_scaling());
    if scaled.is_some_and(|update| update.before.replicas > update.after.replicas) {
        why.push(Reason::new("DEP-12", "old pods go before the first new one comes"));
    } else if scaled.is_some() || decision.create.is_some() {
        why.push(Reason::new("DEP-12", "no old pod is left"));
    } else if let Some(set) = decision.sets.old.iter().find(|set| !is_reported(set)) {
        why.push(Reason::new("DEP-12", format!("new pods wait: {}", unreported(set))));
    } else if old_pods_running(&without_created(decision), &snapshot.pods) {
        why.push(Reason::new("DEP-12", "old pods are still there: the new ones wait for the last to go"));
    }
}

fn unreported(set: &ReplicaSet) -> String {
    let (name, generation, observed) = (&set.meta.name, set.meta.generation, set.status.observed_generation);
    format!("{name} has not reported on its size yet (generation {generation}, observed {observed})")
}

fn without_created(decision: &Decision) -> Sets {
    let mut sets = decision.sets.clone();
    sets.new = sets.new.filter(|new| !is_created(decision, new));
    sets
}

/// How far a rollout that proceeds by itself has got.
fn completion(deployment: &Deployment, decision: &Decision, after: &DeploymentStatus, why: &mut Vec<Reason>) {
    let wanted = deployment.replicas;
    let DeploymentStatus { replicas, updated_replicas: updated, available_replicas: available, .. } = after;
    let old = replicas - updated;
    if is_complete(deployment, after) {
        why.push(Reason::new("DEP-24", format!("complete: {updated} of {wanted} pods are updated and all available")));
    } else if decision.is_quiet() {
        why.push(Reason::new(
            "DEP-24",
            format!("waiting for pods: {updated} of {wanted} updated, {available} available, {old} old ones left"),
        ));
    }
}
