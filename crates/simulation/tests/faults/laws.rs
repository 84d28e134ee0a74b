//! What must hold after every single write, under any fault.
//!
//! A controller acts on what it has seen, which under faults may be as old as the faults. So the bounds of a phase are
//! the widest of all the specs in it: between two changes that is exactly the current spec. What no controller can know
//! is counted apart: a pod that was created without an answer may be created again, once for each lost answer, and a
//! pod that others deleted may still have been counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::Method;
use muster_runtime::client::Form;
use muster_simulation::faults::Struck;
use muster_simulation::world::CONTROLLERS as MANAGER;
use muster_simulation::{Fault, Verb, World, Write};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::common::{CONTROLLERS, DEPLOYMENTS, PODS, SETS, is_being_deleted, name, number};

/// One write, as it was seen.
#[derive(Clone, Debug)]
struct Seen {
    version: u64,
    millis: i64,
    path: &'static str,
    added: bool,
    gone: bool,
    object: Value,
}

/// Everything that becomes of workloads and their pods.
pub(crate) struct Laws {
    seen: Arc<Mutex<Vec<Seen>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What was sent, by whom, and what became of it on the way.
pub(crate) struct Asked {
    pub(crate) writes: Vec<Write>,
    pub(crate) struck: Vec<Struck>,
}

/// The beginning of a phase: virtual milliseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(crate) struct Phase(i64);

impl Laws {
    pub(crate) async fn start(world: &World) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let mut tasks = Vec::new();
        for path in [PODS, SETS, CONTROLLERS, DEPLOYMENTS] {
            let watch = format!("{path}?watch=true&timeoutSeconds=1000000");
            let mut lines = world.client().watch(&watch, Form::Full).await.unwrap();
            let (seen, clock) = (Arc::clone(&seen), world.client().clock());
            tasks.push(tokio::spawn(async move {
                while let Some(Ok(line)) = lines.next().await {
                    let mut event: Value = serde_json::from_slice(&line).unwrap();
                    let object = event["object"].take();
                    let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    let (added, gone) = (event["type"] == "ADDED", event["type"] == "DELETED");
                    let millis = clock.now().as_nanos() / 1_000_000;
                    seen.lock().unwrap().push(Seen { version, millis, path, added, gone, object });
                }
            }));
        }
        Self { seen, tasks }
    }

    pub(crate) fn phase_begins(&self, world: &World) -> Phase {
        Phase(world.client().clock().now().as_nanos() / 1_000_000)
    }

    /// Judges everything since the phase began.
    pub(crate) fn phase_ends(&self, phase: Phase, asked: &Asked) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort_by_key(|each| each.version);
        let mut judge = Judge { unanswered: unanswered(&asked.struck), ..Judge::default() };
        for write in &asked.writes {
            if write.method == Method::DELETE && write.status == 200 && write.resource() == "pods" {
                let name = write.path.rsplit('/').next().unwrap().to_owned();
                judge.deleted_by.entry(name).or_insert(write.who);
            }
        }
        for each in &seen {
            if each.millis >= phase.0 && !judge.judges {
                judge.judges = true;
                judge.bounds.clear();
                judge.lost.clear();
                for owner in judge.wanted.clone() {
                    judge.bound(owner.0, owner.1);
                }
            }
            judge.take(each);
        }
        judge.broken
    }
}

impl Drop for Laws {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// How many pods were created without an answer.
fn unanswered(struck: &[Struck]) -> i64 {
    let lost = |each: &&Struck| {
        let acted = matches!(each.fault, Fault::AnswerLost | Fault::ActAndRefuse(_));
        acted && each.target.verb == Verb::Create && each.target.resource == "pods"
    };
    i64::try_from(struck.iter().filter(lost).count()).unwrap()
}

/// Everything as of one write.
#[derive(Default)]
struct Judge {
    /// Whether the phase has begun: what is before only leads up to it.
    judges: bool,
    unanswered: i64,
    /// Who deleted a pod first.
    deleted_by: BTreeMap<String, &'static str>,
    /// Replicas of each owner, by its uid.
    wanted: BTreeMap<String, i64>,
    /// The most and the least that each owner has wanted in the phase.
    bounds: BTreeMap<String, (i64, i64)>,
    /// Active pods, each with its owner's uid.
    pods: BTreeMap<String, String>,
    /// Pods that each owner lost in the phase by nothing that the controllers did.
    lost: BTreeMap<String, i64>,
    broken: Vec<String>,
}

impl Judge {
    fn take(&mut self, seen: &Seen) {
        let object = &seen.object;
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        if seen.path != PODS {
            let replicas = number(object, "/spec/replicas");
            self.wanted.insert(uid.clone(), replicas);
            self.bound(uid, replicas);
            return;
        }
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        let active = !seen.gone && !is_being_deleted(object);
        let owner = owner.filter(|_| active).map(ToOwned::to_owned);
        let before = match &owner {
            Some(owner) => self.pods.insert(name(object).to_owned(), owner.clone()),
            None => self.pods.remove(name(object)),
        };
        if before == owner || !self.judges {
            return;
        }
        if let Some(owner) = owner {
            let count = self.count(&owner);
            // One that is adopted was there already; only a creation can be one too many.
            let most = self.bounds.get(&owner).map_or(0, |bounds| bounds.0) + self.unanswered;
            if seen.added && count > most {
                self.break_law(seen, &format!("{count} pods, at most {most} were asked for"));
            }
        }
        let Some(before) = before else { return };
        if self.deleted_by.get(name(object)) != Some(&MANAGER) || active {
            *self.lost.entry(before).or_default() += 1;
            return;
        }
        let count = self.count(&before);
        let least = self.bounds.get(&before).map_or(0, |bounds| bounds.1);
        let lost = self.lost.get(&before).copied().unwrap_or_default();
        if count + lost < least {
            self.break_law(seen, &format!("{count} pods are left ({lost} lost), at least {least} were asked for"));
        }
    }

    fn bound(&mut self, owner: String, replicas: i64) {
        let bounds = self.bounds.entry(owner).or_insert((replicas, replicas));
        *bounds = (bounds.0.max(replicas), bounds.1.min(replicas));
    }

    fn count(&self, owner: &str) -> i64 {
        i64::try_from(self.pods.values().filter(|each| *each == owner).count()).unwrap()
    }

    fn break_law(&mut self, seen: &Seen, law: &str) {
        let owner = &seen.object["metadata"]["ownerReferences"][0]["name"];
        self.broken.push(format!("{} at {}: {owner} {}: {law}", seen.version, seen.millis, name(&seen.object)));
    }
}
