//! A sync performed by the executor of the runtime, up to the first requests that are not answered yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, ready};
use muster_controllers::begin::Begin;
use muster_controllers::deployment::{self, DeploymentSync};
use muster_controllers::pause::{CountsWait, LONGEST_COUNTS_WAIT};
use muster_controllers::plan::{
    Announcement, Expectation, Failure, Outcome, Owner, Remark, Requeue, Resource, Verdict, Written,
};
use muster_controllers::replicaset::ReplicaSync;
use muster_objects::{ObjectKey, ResourceVersion, Uid};
use muster_runtime::executor::{Ledger, perform};
use muster_runtime::writer::{Write, Writer};
use muster_tree::Value;

use super::MINUTES;
use super::manager::{begin_deployment, begin_set};
use super::objects::{self, NOW, Objects, of_version, pod_name, pod_named, pod_uid, set_of_uid};
use super::state::{Answer, Call, Input, Kind, Memory, SETS, Verb, Version};

/// A sync as far as it gets with the answers that it has.
pub(super) struct Run {
    /// All that it has told until now, in its order.
    pub(super) told: Vec<Told>,
    /// What it waits for.
    pub(super) calls: Vec<(Call, Value)>,
    /// Whether the key is queued again, once it has ended; otherwise `None`.
    pub(super) ended: Option<bool>,
}

/// What a sync tells its books.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Expect(Expectation),
    LowerCreations(u32),
    LowerDeletion(u8),
    Wrote(Kind, Version),
}

/// Runs a sync of what it looks at from its beginning.
pub(super) fn run(objects: &Objects, input: &Input, answers: &BTreeMap<Call, Answer>) -> Run {
    let orders = (0..).zip(&input.pods).map(|(order, pod)| (pod.id, order)).collect();
    let server = Replayed {
        answers: answers.iter().map(|(call, answer)| (*call, answered(objects, *call, *answer, &orders))).collect(),
        set_names: std::array::from_fn(|at| objects.set_name(at).to_owned()),
        sent: Mutex::default(),
    };
    let books = Heeded::default();
    let waited = if input.late { LONGEST_COUNTS_WAIT } else { Duration::ZERO };
    let counts_wait = CountsWait { left: None, waited };
    let memory = Memory { creations: u8::from(input.pending), ..Memory::default() };
    let verdict = if input.key == 0 {
        let Begin::Ready(snapshot) = begin_deployment(objects, input, &memory) else { unreachable!("it has begun") };
        let mut sync = DeploymentSync::new(deployment::Snapshot { counts_wait, ..snapshot });
        perform(&mut sync, &server, &books, || NOW).now_or_never()
    } else {
        let (_, Begin::Ready(mut snapshot)) = begin_set(objects, input, &memory) else { unreachable!("it has begun") };
        snapshot.memory.counts_wait = counts_wait;
        perform(&mut ReplicaSync::new(snapshot), &server, &books, || NOW).now_or_never()
    };
    let sent = server.sent.into_inner().unwrap_or_else(PoisonError::into_inner);
    let told = books.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Run { told, calls: sent.waiting, ended: verdict.as_ref().map(again) }
}

/// Whether a key is queued again, other than after minutes.
fn again(verdict: &Verdict) -> bool {
    match verdict.requeue {
        Requeue::None => false,
        Requeue::After(delay) => delay < MINUTES,
        Requeue::RateLimited { .. } => true,
    }
}

/// The answer as the writer gets it.
fn answered(
    objects: &Objects,
    call: Call,
    answer: Answer,
    orders: &BTreeMap<u8, usize>,
) -> Result<(Written, Bytes), Failure> {
    let refused = |code: u16, reason: &str| {
        let message = format!("{} {reason}", call.target);
        Err(Failure { code, reason: reason.to_owned(), ..Failure::local(message) })
    };
    let found = match answer {
        Answer::Is(found) => found,
        Answer::NotFound => return refused(404, "NotFound"),
        Answer::Conflict => return refused(409, "Conflict"),
        Answer::Invalid => return refused(422, "Invalid"),
        Answer::Exists => return refused(409, "AlreadyExists"),
    };
    let (name, uid, order) = match found {
        Version::Pod(pod) => {
            // A pod that was created now is in no snapshot: its place in any order does not matter.
            let order = orders.get(&pod.id).copied().unwrap_or_default();
            (pod_name(pod.id), Uid::new(&pod_uid(pod.id, order)), order)
        }
        Version::Stored(stored) => {
            let metadata = &objects.json(stored)["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            (text("name"), Uid::new(&text("uid")), 0)
        }
    };
    let resource_version = objects::version(found).parse().ok();
    let written = Written { name: name.into(), uid, resource_version };
    Ok((written, Bytes::from(objects.read(found, order).to_string())))
}

/// A server that has answered some requests, and keeps the others waiting.
struct Replayed {
    answers: BTreeMap<Call, Result<(Written, Bytes), Failure>>,
    set_names: [String; SETS],
    sent: Mutex<Sent>,
}

#[derive(Default)]
struct Sent {
    times: BTreeMap<Call, u8>,
    waiting: Vec<(Call, Value)>,
}

impl Replayed {
    fn answer(
        &self,
        verb: Verb,
        resource: &Resource,
        name: &str,
        body: &[u8],
    ) -> Option<Result<(Written, Bytes), Failure>> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let set_at = |name: &str| self.set_names.iter().position(|known| known == name);
        let (kind, target) = match resource.kind {
            "Deployment" => (Kind::Deployments, Some(0)),
            "ReplicaSet" if verb == Verb::Create => {
                // One by another name gets the number of none.
                (Kind::Sets, body["metadata"]["name"].as_str().and_then(set_at))
            }
            "ReplicaSet" => (Kind::Sets, set_at(name)),
            _ if verb == Verb::Create => {
                let owner = body["metadata"]["ownerReferences"][0]["uid"].as_str();
                (Kind::Pods, owner.and_then(set_of_uid))
            }
            _ => (Kind::Pods, pod_named(name).map(usize::from)),
        };
        let target = target.and_then(|target| u8::try_from(target).ok()).unwrap_or(u8::MAX);
        let mut call = Call { verb, kind, target, nth: 0 };
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let times = sent.times.entry(call).or_default();
        call.nth = *times;
        *times += 1;
        let answer = self.answers.get(&call).cloned();
        if answer.is_none() {
            sent.waiting.push((call, body));
        }
        answer
    }
}

impl Writer for Replayed {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        let answer = match write {
            Write::Create { resource, body, .. } => self.answer(Verb::Create, resource, "", body),
            Write::Delete { resource, key, options } => self.answer(Verb::Delete, resource, &key.name, options),
            Write::Patch { resource, key, subresource, body, .. } => {
                let verb = if subresource.is_some() { Verb::Status } else { Verb::Patch };
                self.answer(verb, resource, &key.name, body)
            }
        };
        match answer {
            Some(answer) => ready(answer.map(|(written, _)| written)).boxed(),
            None => pending().boxed(),
        }
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        match self.answer(Verb::Read, resource, &key.name, b"null") {
            Some(answer) => ready(answer.map(|(_, json)| json)).boxed(),
            None => pending().boxed(),
        }
    }
}

/// What a sync tells its books.
#[derive(Default)]
struct Heeded(Mutex<Vec<Told>>);

impl Heeded {
    fn push(&self, told: Told) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

impl Ledger for Heeded {
    fn expect(&self, _: &Owner, expectation: &Expectation) {
        self.push(Told::Expect(expectation.clone()));
    }

    fn lower_creations(&self, _: &Owner, count: u32) {
        self.push(Told::LowerCreations(count));
    }

    fn lower_deletion(&self, _: &Owner, key: &ObjectKey) {
        if let Some(id) = pod_named(&key.name) {
            self.push(Told::LowerDeletion(id));
        }
    }

    fn wrote(&self, _: &Owner, resource: &Resource, version: ResourceVersion) {
        let kind = match resource.kind {
            "Deployment" => Kind::Deployments,
            "ReplicaSet" => Kind::Sets,
            _ => Kind::Pods,
        };
        self.push(Told::Wrote(kind, of_version(version)));
    }

    // Every answer comes, so that all versions of a round are known.
    fn round_ended(&self, _: &Owner, _: &Outcome) {}

    fn announce(&self, _: &Owner, _: Announcement) {}

    fn remark(&self, _: &Owner, _: &Remark) {}
}
