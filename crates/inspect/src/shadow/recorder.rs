//! Recorder: takes the executor's place for a sync, and records what it would do.
//!
//! It has no client and no writer: [`record`] is a function of a sync, and this crate cannot do I/O.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_objects::meta::{ObjectKey, Uid};
use muster_objects::{Annotations, Timestamp};
use serde_json::Value;

use super::fields::changed;
use super::intent::{Intent, Target};
use crate::explain::Reason;
use crate::history::{Account, Accountable};
use muster_controllers::plan::{
    ClaimAction, ClaimOutcome, ClaimPlan, Creation, Failure, Next, Outcome, Patch, Plan, Remark, Report, Requeue,
    Resource, StatusWrite, Step, SyncSteps, Written,
};

/// What a sync would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// In the order of the sync.
    pub intents: Vec<Intent>,
    /// The remarks of its plans.
    pub remarks: Vec<Remark>,
    /// When time alone changes what it would do; `None` if it would write, since that comes first.
    pub look_again: Option<Duration>,
}

/// What the owner in the cluster shows about the observed controllers' writes.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The owner's status as JSON.
    pub status: Value,
    /// The owner's annotations that are written with its status.
    pub annotations: Annotations,
    /// Why the server refuses the observed controllers' creations, if the owner's status says so: ours would be refused
    /// as well.
    pub refused: Option<Failure>,
}

/// Runs a sync to its end. Every write is reported as done, except creations that are known to be refused.
pub fn record(mut sync: impl SyncSteps, known: &Known, now: Timestamp) -> Recorded {
    let mut recorded = Recorded::default();
    let mut report = Report::Begin;
    let mut acted = false;
    loop {
        report = match sync.next(report, now) {
            Next::Claim(claims) => {
                acted = true;
                Report::Claimed(recorded.claim(&claims))
            }
            Next::Perform(plan) => {
                acted = true;
                Report::Performed(recorded.perform(&plan, known))
            }
            Next::WriteStatus(write) => Report::StatusWritten(Ok(recorded.write_status(&write, known))),
            Next::Done(verdict) => {
                if let (Requeue::After(delay), false) = (verdict.requeue, acted) {
                    recorded.look_again = Some(delay);
                }
                return recorded;
            }
        };
    }
}

/// By which rules a sync would do what it does first. Claims are taken to succeed.
pub fn reasons(mut sync: impl Accountable, now: Timestamp) -> Vec<Reason> {
    let (mut why, mut next) = (Vec::new(), sync.next(Report::Begin, now));
    if let Next::Claim(claims) = &next {
        why = Account::claiming(claims).why;
        next = sync.next(Report::Claimed(Recorded::default().claim(claims)), now);
    }
    let plan = if let Next::Perform(plan) = &next { Some(&**plan) } else { None };
    why.extend(sync.account(plan, now).why);
    why
}

impl Recorded {
    fn claim(&mut self, claims: &ClaimPlan) -> ClaimOutcome {
        let mut outcome = ClaimOutcome::default();
        for patch in &claims.patches {
            let target = target(&patch.key, &patch.uid);
            match patch.action {
                ClaimAction::Adopt => {
                    outcome.adopted.insert(patch.uid.clone(), None);
                    self.intents.push(Intent::Adopt(target));
                }
                ClaimAction::Release => self.intents.push(Intent::Release(target)),
            }
        }
        outcome
    }

    fn perform(&mut self, plan: &Plan, known: &Known) -> Outcome {
        self.remarks.extend_from_slice(&plan.remarks);
        let mut outcome = Outcome::default();
        for step in &plan.steps {
            match step {
                Step::Create(creation) => {
                    self.intents.push(of_creation(creation));
                    match &known.refused {
                        Some(failure) => outcome.fail(failure.clone()),
                        None => outcome.created += creation.count,
                    }
                }
                Step::Delete(deletions) => {
                    outcome.deleted += u32::try_from(deletions.len()).unwrap_or(u32::MAX);
                    let targets = deletions.iter().map(|deletion| target(&deletion.key, &deletion.uid));
                    if deletions.iter().all(|deletion| deletion.resource == Resource::PODS) {
                        self.intents.push(Intent::DeletePods(targets.collect()));
                    } else {
                        self.intents.extend(targets.map(Intent::DeleteReplicaSet));
                    }
                }
                Step::Patch(patches) => {
                    outcome.patched += u32::try_from(patches.len()).unwrap_or(u32::MAX);
                    self.intents.extend(patches.iter().map(of_patch));
                }
                Step::Tell(_) => {}
                Step::Fail(failure) => outcome.fail(failure.clone()),
            }
            if outcome.ends_round() {
                break;
            }
        }
        outcome
    }

    fn write_status(&mut self, write: &StatusWrite, known: &Known) -> Written {
        let fields = changed(&known.status, &write.status, &known.annotations, &write.annotations);
        if !fields.is_empty() {
            self.intents.push(Intent::WriteStatus(fields));
        }
        Written { name: write.key.name.clone(), uid: write.uid.clone(), resource_version: None }
    }
}

fn target(key: &ObjectKey, uid: &Uid) -> Target {
    Target { key: key.clone(), uid: uid.clone() }
}

fn of_creation(creation: &Creation) -> Intent {
    let Some(name) = &creation.name else { return Intent::CreatePods(creation.count) };
    let body: Value = serde_json::from_slice(&creation.body).unwrap_or_default();
    let revision = body["metadata"]["annotations"][muster_controllers::deployment::revision::REVISION].as_str();
    Intent::CreateReplicaSet {
        name: name.to_string(),
        replicas: body["spec"]["replicas"].as_i64().unwrap_or_default(),
        revision: revision.unwrap_or_default().to_owned(),
    }
}

/// Read from the bytes that would be sent.
fn of_patch(patch: &Patch) -> Intent {
    if patch.resource != Resource::REPLICA_SETS {
        return Intent::RollBack(patch.purpose.clone());
    }
    let operations: Value = serde_json::from_slice(&patch.body).unwrap_or_default();
    let operations = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let at = |op: &str, path: &str| {
        let found = operations.iter().find(|operation| operation["op"] == op && operation["path"] == path);
        found.map(|operation| &operation["value"])
    };
    let uid = at("test", "/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    let set = target(&patch.key, &Uid::new(uid));
    if let Some(to) = at("replace", "/spec/replicas").and_then(Value::as_i64) {
        return Intent::ScaleReplicaSet { set, to };
    }
    let written = operations.iter().filter(|operation| operation["op"] != "test");
    Intent::UpdateReplicaSet { set, fields: written.flat_map(names_of).collect() }
}

/// The fields that operations of a JSON patch write: annotations by their keys, others by their paths.
fn names_of(operation: &Value) -> BTreeSet<String> {
    let path = operation["path"].as_str().unwrap_or_default();
    if path == "/metadata/annotations" {
        return operation["value"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    }
    let name = path.strip_prefix("/metadata/annotations/").unwrap_or(path);
    BTreeSet::from([name.replace("~1", "/").replace("~0", "~")])
}
