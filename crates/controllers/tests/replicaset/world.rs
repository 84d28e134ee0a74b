//! A server in memory, and an executor that performs a sync against it as the plan's documentation says.
//!
//! Everything that the executor does is recorded, so that a test can say what was written and in which order.

use std::collections::{BTreeMap, VecDeque};

use muster_controllers::plan::{
    AfterConflict, Announcement, ClaimAction, ClaimOutcome, Creation, Deletion, Expectation, Failure, Next, Outcome,
    Plan, Report, Settled, Step, SyncSteps, Verdict, Written,
};
use muster_objects::ResourceVersion;
use muster_objects::meta::Uid;
use serde_json::Value;

use crate::fixtures::{NOW, uid};

/// What the server answers, by request; requests without a script succeed.
#[derive(Default)]
pub(crate) struct World {
    /// Answers to POSTs, in order; when they run out, creations succeed.
    pub(crate) creations: VecDeque<Result<(), Failure>>,
    /// Answers to DELETEs and PATCHes, by the object's name, in order.
    pub(crate) writes: BTreeMap<String, VecDeque<Result<(), Failure>>>,
    /// Answers to GETs, by the object's name.
    pub(crate) reads: BTreeMap<String, Result<Value, Failure>>,
    /// Answers to writes of the status, in order.
    pub(crate) statuses: VecDeque<Result<(), Failure>>,

    /// Requests that arrived.
    pub(crate) requests: Vec<String>,
    /// The bodies of what arrived, in the same order.
    pub(crate) bodies: Vec<Value>,
    /// Events sent.
    pub(crate) announcements: Vec<Announcement>,
    /// Expectations still unmet: creations, and pods to be deleted.
    pub(crate) expected: Option<(i64, Vec<String>)>,
    /// Versions recorded as written.
    pub(crate) recorded: Vec<ResourceVersion>,
    /// The outcome of the last round.
    pub(crate) outcome: Outcome,
    /// The plan last performed.
    pub(crate) plan: Option<Plan>,
    pub(crate) version: u64,
}

impl World {
    /// Runs a sync to its end.
    pub(crate) fn run(&mut self, sync: &mut impl SyncSteps) -> Verdict {
        let mut report = Report::Begin;
        loop {
            report = match sync.next(report, NOW) {
                Next::Claim(claims) => Report::Claimed(self.claim(&claims)),
                Next::Perform(plan) => Report::Performed(self.perform(*plan)),
                Next::WriteStatus(write) => Report::StatusWritten(self.write_status(&write)),
                Next::Done(verdict) => return verdict,
            };
        }
    }

    /// The names of the pods asked to be deleted, each as often as it was.
    pub(crate) fn deleted(&self) -> Vec<&str> {
        self.requests.iter().filter_map(|request| request.strip_prefix("DELETE ")).collect()
    }

    /// The one write of the status, as sent last.
    pub(crate) fn status(&self) -> Option<&Value> {
        let at = self.requests.iter().rposition(|request| request.ends_with("/status"))?;
        Some(&self.bodies[at]["status"])
    }

    fn claim(&mut self, claims: &muster_controllers::plan::ClaimPlan) -> ClaimOutcome {
        let mut outcome = ClaimOutcome::default();
        let permission = if claims.needs_permission() {
            let read = self.read(&claims.owner.key.name);
            claims.permission(read.as_deref())
        } else {
            Ok(())
        };
        for patch in &claims.patches {
            let result = match &permission {
                Err(why) if patch.action == ClaimAction::Adopt => Err(patch.refused(why)),
                _ => {
                    self.request(format!("PATCH {}", patch.key.name), &patch.body);
                    self.answer(&patch.key.name, &patch.uid)
                }
            };
            self.recorded.extend(outcome.settle(patch, result));
        }
        outcome
    }

    fn perform(&mut self, plan: Plan) -> Outcome {
        let mut outcome = Outcome::default();
        match plan.expectation.clone() {
            Some(Expectation::Creations(count)) => self.expected = Some((i64::from(count), Vec::new())),
            Some(Expectation::Deletions(keys)) => {
                self.expected = Some((0, keys.iter().map(|key| key.name.to_string()).collect()));
            }
            None => {}
        }
        for step in &plan.steps {
            match step {
                Step::Create(creation) => self.create(creation, &mut outcome),
                Step::Delete(deletions) => deletions.iter().for_each(|deletion| self.delete(deletion, &mut outcome)),
                Step::Patch(_) | Step::Tell(_) => {
                    unreachable!("this controller patches nothing but claims and status, and tells only of writes")
                }
                Step::Fail(failure) => outcome.fail(failure.clone()),
            }
        }
        self.outcome = outcome.clone();
        self.plan = Some(plan);
        outcome
    }

    fn create(&mut self, creation: &Creation, outcome: &mut Outcome) {
        let mut left = creation.count;
        let mut batch = 1;
        while left > 0 {
            let size = batch.min(left);
            let mut ended = false;
            for _ in 0..size {
                self.request("POST pods".to_owned(), &creation.body);
                let answer = self.creations.pop_front().unwrap_or(Ok(()));
                let result = answer.map(|()| self.written(&format!("web-{:05}", self.version), &uid(self.version)));
                let settled = creation.settle(&result);
                if settled.lowers {
                    self.lower_creation();
                }
                ended |= settled.ends_round;
                self.settle(settled, outcome);
            }
            left -= size;
            batch = size * 2;
            if ended {
                outcome.not_tried(left);
                (0..left).for_each(|_| self.lower_creation());
                return;
            }
        }
    }

    fn delete(&mut self, deletion: &Deletion, outcome: &mut Outcome) {
        let mut deletion = deletion.clone();
        for attempt in 1.. {
            self.request(format!("DELETE {}", deletion.key.name), &deletion.options());
            let result = self.answer(&deletion.key.name, &deletion.uid);
            let conflict = matches!(&result, Err(failure) if failure.is_conflict());
            let settled = if conflict && attempt < Deletion::MOST_ATTEMPTS {
                let read = self.read(&deletion.key.name);
                match deletion.after_conflict(read.as_deref()) {
                    AfterConflict::Again(again) => {
                        deletion = again;
                        continue;
                    }
                    AfterConflict::Leave { seen } => deletion.settle_no_longer_owned(seen),
                    AfterConflict::Fail(failure) => deletion.settle(&Err(failure)),
                }
            } else {
                deletion.settle(&result)
            };
            if settled.lowers
                && let Some((_, names)) = &mut self.expected
            {
                names.retain(|name| **name != *deletion.key.name);
            }
            self.settle(settled, outcome);
            return;
        }
    }

    fn write_status(&mut self, write: &muster_controllers::plan::StatusWrite) -> Result<Written, Failure> {
        let name = write.key.name.to_string();
        let mut write = write.clone();
        for again in [true, false] {
            self.request(format!("PATCH {name}/status"), &write.body());
            match self.statuses.pop_front().unwrap_or(Ok(())) {
                Ok(()) => return Ok(self.written(&name, &write.uid)),
                Err(failure) if !again => return Err(failure),
                Err(_) => {
                    let read = self.read(&name);
                    write = write.again(read.as_deref())?;
                }
            }
        }
        unreachable!("the second attempt returns");
    }

    fn settle(&mut self, settled: Settled, outcome: &mut Outcome) {
        outcome.add(&settled);
        self.announcements.extend(settled.announcement);
        self.recorded.extend(settled.wrote);
    }

    fn lower_creation(&mut self) {
        if let Some((creations, _)) = &mut self.expected {
            *creations -= 1;
        }
    }

    fn request(&mut self, request: String, body: &[u8]) {
        self.requests.push(request);
        self.bodies.push(serde_json::from_slice(body).expect("every body is JSON"));
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>, Failure> {
        self.request(format!("GET {name}"), b"null");
        let answer = self.reads.get(name).cloned().unwrap_or_else(|| Err(not_found(name)));
        answer.map(|object| object.to_string().into_bytes())
    }

    fn answer(&mut self, name: &str, uid: &Uid) -> Result<Written, Failure> {
        let answer = self.writes.get_mut(name).and_then(VecDeque::pop_front).unwrap_or(Ok(()));
        answer.map(|()| self.written(name, uid))
    }

    fn written(&mut self, name: &str, uid: &Uid) -> Written {
        self.version += 1;
        Written { name: name.into(), uid: uid.clone(), resource_version: Some(ResourceVersion(5_000 + self.version)) }
    }
}

pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Failure {
    Failure { code, reason: reason.to_owned(), ..Failure::local(message) }
}

pub(crate) fn not_found(name: &str) -> Failure {
    failure(404, "NotFound", &format!("pods \"{name}\" not found"))
}

pub(crate) fn conflict(name: &str) -> Failure {
    failure(409, "Conflict", &format!("Operation cannot be fulfilled on pods \"{name}\": Precondition failed"))
}

pub(crate) fn invalid(name: &str) -> Failure {
    failure(422, "Invalid", &format!("Pod \"{name}\" is invalid: metadata.uid: Invalid value"))
}
