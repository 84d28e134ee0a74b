//! A server in memory with one Deployment and its ReplicaSets, and an executor that performs syncs against it as the
//! plan's documentation says.

use std::collections::{BTreeMap, VecDeque};

use muster_controllers::deployment::{DeploymentSync, Snapshot};
use muster_controllers::plan::{
    AfterConflict, Announcement, ClaimAction, ClaimOutcome, ClaimPlan, Creation, Deletion, Failure, Next, Outcome,
    Patch, Plan, Report, Settled, StatusWrite, Step, SyncSteps, Verdict, Written,
};
use muster_machinery::Cache;
use muster_objects::{Deployment, Pod, ReplicaSet, ResourceVersion, Timestamp, Uid};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::fixtures::{NOW, decode, uid};

/// The server, and what arrived at it.
pub(crate) struct World {
    pub(crate) deployment: Value,
    pub(crate) sets: BTreeMap<String, Value>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) now: Timestamp,
    /// How many syncs have failed in a row.
    pub(crate) failures: u32,
    /// Requests that begin so, and patches whose purpose does, are refused, each once.
    pub(crate) refusals: VecDeque<(&'static str, Failure)>,
    /// Requests that arrived.
    pub(crate) requests: Vec<String>,
    /// Events sent.
    pub(crate) announcements: Vec<Announcement>,
    /// The plan last performed.
    pub(crate) plan: Option<Plan>,
    version: u64,
}

impl World {
    pub(crate) fn new(deployment: Value, sets: impl IntoIterator<Item = Value>) -> Self {
        let named = |set: Value| (set["metadata"]["name"].as_str().expect("a name").to_owned(), set);
        Self {
            deployment,
            sets: sets.into_iter().map(named).collect(),
            pods: Vec::new(),
            now: NOW,
            failures: 0,
            refusals: VecDeque::new(),
            requests: Vec::new(),
            announcements: Vec::new(),
            plan: None,
            version: 1_000,
        }
    }

    pub(crate) fn deployment(&self) -> Deployment {
        decode(&self.deployment)
    }

    pub(crate) fn set(&self, name: &str) -> ReplicaSet {
        decode(&self.sets[name])
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let (mut sets, mut pods) = (Cache::new(), Cache::new());
        self.sets.values().for_each(|set| _ = sets.apply(decode::<ReplicaSet>(set)));
        self.pods.iter().for_each(|pod| _ = pods.apply(pod.clone()));
        Snapshot::take(Arc::new(self.deployment()), &sets, &pods, self.failures).expect("a valid selector")
    }

    /// One sync against what the server has now.
    pub(crate) fn sync(&mut self) -> Verdict {
        let verdict = self.run(&mut DeploymentSync::new(self.snapshot()));
        self.failures = if verdict.error.is_some() { self.failures + 1 } else { 0 };
        verdict
    }

    /// Runs a sync to its end.
    pub(crate) fn run(&mut self, sync: &mut impl SyncSteps) -> Verdict {
        let mut report = Report::Begin;
        loop {
            report = match sync.next(report, self.now) {
                Next::Claim(claims) => Report::Claimed(self.claim(&claims)),
                Next::Perform(plan) => Report::Performed(self.perform(*plan)),
                Next::WriteStatus(write) => Report::StatusWritten(self.write_status(&write)),
                Next::Done(verdict) => return verdict,
            };
        }
    }

    /// The ReplicaSet controllers do their work: every ReplicaSet has the pods that it wants, and of each image the
    /// `available` part of them is so.
    pub(crate) fn settle(&mut self, is_available: impl Fn(&str) -> bool) {
        for set in self.sets.values_mut() {
            let wanted = set["spec"]["replicas"].clone();
            let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image");
            let available = if is_available(image) { wanted.clone() } else { json!(0) };
            set["status"] = json!({
                "replicas": wanted, "readyReplicas": available, "availableReplicas": available,
                "terminatingReplicas": 0, "observedGeneration": set["metadata"]["generation"],
            });
        }
    }

    /// Changes the spec as a user does.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.deployment["spec"]);
        self.version += 1;
        let meta = &mut self.deployment["metadata"];
        meta["generation"] = json!(meta["generation"].as_i64().unwrap_or(0) + 1);
        meta["resourceVersion"] = json!(self.version.to_string());
    }

    pub(crate) fn take_requests(&mut self) -> Vec<String> {
        std::mem::take(&mut self.requests)
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.announcements.iter().map(|told| format!("{} {}", told.reason, told.message)).collect()
    }

    fn claim(&mut self, claims: &ClaimPlan) -> ClaimOutcome {
        let mut outcome = ClaimOutcome::default();
        for patch in &claims.patches {
            let action = if patch.action == ClaimAction::Adopt { "ADOPT" } else { "RELEASE" };
            let result = self.request(format!("{action} {}", patch.key.name)).map(|()| {
                let body: Value = serde_json::from_slice(&patch.body).expect("JSON");
                let set = self.sets.get_mut(&*patch.key.name).expect("the set is there");
                set["metadata"]["ownerReferences"] = match patch.action {
                    ClaimAction::Adopt => body["metadata"]["ownerReferences"].clone(),
                    ClaimAction::Release => json!([]),
                };
                self.written(&patch.key.name, &patch.uid)
            });
            outcome.settle(patch, result);
        }
        outcome
    }

    fn perform(&mut self, plan: Plan) -> Outcome {
        let mut outcome = Outcome::default();
        for step in &plan.steps {
            match step {
                Step::Create(creation) => {
                    let result = self.create(creation);
                    self.note(creation.settle(&result), &mut outcome);
                    if outcome.name_taken.is_some() {
                        let object =
                            creation.name.as_deref().and_then(|name| self.sets.get(name)).map(Value::to_string);
                        let read = object.as_deref().map(str::as_bytes).ok_or_else(not_found);
                        outcome.holder = creation.holder(read.as_ref().map(|json| *json)).expect("metadata");
                    }
                }
                Step::Patch(patches) => self.patch_each(patches, &mut outcome),
                Step::Delete(deletions) => {
                    for deletion in deletions {
                        let settled = self.delete(deletion);
                        self.note(settled, &mut outcome);
                    }
                }
                Step::Tell(announcement) => self.announcements.push(announcement.clone()),
                Step::Fail(failure) => outcome.fail(failure.clone()),
            }
            if outcome.ends_round() {
                break;
            }
        }
        self.plan = Some(plan);
        outcome
    }

    fn create(&mut self, creation: &Creation) -> Result<Written, Failure> {
        let mut object: Value = serde_json::from_slice(&creation.body).expect("JSON");
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.request(format!("CREATE {name}"))?;
        if self.sets.contains_key(&name) {
            return Err(failure(409, "AlreadyExists", &format!("replicasets.apps \"{name}\" already exists")));
        }
        let written = self.written(&name, &uid(1_000 + self.version));
        object["metadata"]["uid"] = json!(written.uid);
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(self.now);
        object["metadata"]["resourceVersion"] = json!(written.resource_version);
        self.sets.insert(name, object);
        Ok(written)
    }

    fn patch_each(&mut self, patches: &[Patch], outcome: &mut Outcome) {
        for patch in patches {
            let result = self.patch(patch);
            let settled = patch.settle(&result);
            let ended = settled.ends_round;
            self.note(settled, outcome);
            if ended {
                break;
            }
        }
    }

    fn patch(&mut self, patch: &Patch) -> Result<Written, Failure> {
        self.request(format!("PATCH {}", patch.key.name))?;
        self.refusal(&patch.purpose)?;
        let is_set = patch.resource.kind == "ReplicaSet";
        let target = if is_set {
            self.sets.get(&*patch.key.name).ok_or_else(not_found)?.clone()
        } else {
            self.deployment.clone()
        };
        let mut changed = target.clone();
        apply(&mut changed, &serde_json::from_slice(&patch.body).expect("JSON"))?;
        if changed["metadata"]["resourceVersion"] != target["metadata"]["resourceVersion"] {
            return Err(failure(409, "Conflict", "the object has been modified"));
        }
        if changed["spec"] != target["spec"] {
            changed["metadata"]["generation"] = json!(target["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        let written = self.written(&patch.key.name, &Uid::new(changed["metadata"]["uid"].as_str().expect("a uid")));
        changed["metadata"]["resourceVersion"] = json!(written.resource_version);
        if is_set {
            self.sets.insert(patch.key.name.to_string(), changed);
        } else {
            self.deployment = changed;
        }
        Ok(written)
    }

    fn delete(&mut self, deletion: &Deletion) -> Settled {
        let name = &deletion.key.name;
        if let Err(failure) = self.request(format!("DELETE {name}")) {
            if !failure.is_conflict() {
                return deletion.settle(&Err(failure));
            }
            let object = self.sets[&**name].to_string();
            return match deletion.after_conflict(Ok(object.as_bytes())) {
                AfterConflict::Again(again) => self.delete(&again),
                AfterConflict::Leave { seen } => deletion.settle_no_longer_owned(seen),
                AfterConflict::Fail(failure) => deletion.settle(&Err(failure)),
            };
        }
        self.sets.remove(&**name);
        deletion.settle(&Ok(self.written(name, &deletion.uid)))
    }

    fn write_status(&mut self, write: &StatusWrite) -> Result<Written, Failure> {
        self.request(format!("STATUS {}", write.key.name))?;
        let body: Value = serde_json::from_slice(&write.body()).expect("JSON");
        assert_eq!(body["metadata"]["uid"], self.deployment["metadata"]["uid"]);
        if let Some(annotations) = body["metadata"]["annotations"].as_object() {
            for (key, value) in annotations {
                self.deployment["metadata"]["annotations"][key] = value.clone();
            }
        }
        merge_status(&mut self.deployment["status"], &body["status"]);
        let written = self.written("web", &write.uid);
        self.deployment["metadata"]["resourceVersion"] = json!(written.resource_version);
        Ok(written)
    }

    fn note(&mut self, settled: Settled, outcome: &mut Outcome) {
        outcome.add(&settled);
        self.announcements.extend(settled.announcement);
    }

    fn request(&mut self, request: String) -> Result<(), Failure> {
        let refusal = self.refusal(&request);
        self.requests.push(request);
        refusal
    }

    fn refusal(&mut self, what: &str) -> Result<(), Failure> {
        let refused = self.refusals.iter().position(|(start, _)| what.starts_with(start));
        refused.and_then(|at| self.refusals.remove(at)).map_or(Ok(()), |(_, failure)| Err(failure))
    }

    fn written(&mut self, name: &str, uid: &Uid) -> Written {
        self.version += 1;
        Written { name: name.into(), uid: uid.clone(), resource_version: Some(ResourceVersion(self.version)) }
    }
}

/// RFC 6902, with the operations that these patches use.
fn apply(object: &mut Value, operations: &Value) -> Result<(), Failure> {
    for operation in operations.as_array().expect("operations") {
        let (op, path) = (operation["op"].as_str().expect("op"), operation["path"].as_str().expect("path"));
        let (parent, key) = path.rsplit_once('/').expect("a pointer");
        let key = key.replace("~1", "/").replace("~0", "~");
        let invalid = || failure(422, "Invalid", &format!("the server rejected our request: {op} {path}"));
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(invalid)?;
        let is_there = parent.contains_key(&key);
        match op {
            "test" if parent.get(&key) == Some(&operation["value"]) => {}
            "add" => _ = parent.insert(key, operation["value"].clone()),
            "replace" if is_there => _ = parent.insert(key, operation["value"].clone()),
            "remove" if is_there => _ = parent.remove(&key),
            _ => return Err(invalid()),
        }
    }
    Ok(())
}

/// A strategic merge of a status: null removes, conditions merge by type in the order of the directive.
fn merge_status(status: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().expect("a status") {
        match (key.as_str(), value) {
            ("conditions", Value::Array(changes)) => {
                let mut merged = status["conditions"].as_array().cloned().unwrap_or_default();
                for change in changes {
                    merged.retain(|condition| condition["type"] != change["type"]);
                    if change.get("$patch").is_none() {
                        merged.push(change.clone());
                    }
                }
                let order = patch["$setElementOrder/conditions"].as_array().expect("an order");
                merged.sort_by_key(|condition| order.iter().position(|entry| entry["type"] == condition["type"]));
                status["conditions"] = Value::Array(merged);
            }
            ("$setElementOrder/conditions", _) => {}
            (_, Value::Null) => _ = status.as_object_mut().expect("a status").remove(key),
            _ => status[key] = value.clone(),
        }
    }
}

pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Failure {
    Failure { code, reason: reason.to_owned(), ..Failure::local(message) }
}

fn not_found() -> Failure {
    failure(404, "NotFound", "replicasets.apps not found")
}
