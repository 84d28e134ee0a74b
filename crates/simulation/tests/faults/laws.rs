//! What must hold after every single write, under any fault.
//!
//! A controller acts on what it has seen, and in bad weather that may be old. So the bounds of an owner are the laxest
//! of the sizes that its controller may be looking at, by the generation that its status answers to: once that has
//! come, exactly what is asked. What nobody can know is counted apart, owner by owner: a pod that was created without
//! an answer, while it is there, and a pod that others took, or that was deleted without an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::Method;
use muster_runtime::client::Form;
use muster_simulation::faults::Unanswered;
use muster_simulation::laws::sizes::Sizes;
use muster_simulation::{Verb, World, Write};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::common::{is_being_deleted, name};

/// One write, as it was seen.
#[derive(Clone, Debug)]
struct Seen {
    version: u64,
    millis: i64,
    path: &'static str,
    added: bool,
    gone: bool,
    object: Arc<Value>,
}

/// What is judged: the collections of pods, of their owners, and of Deployments, and who controls them.
#[derive(Clone, Copy)]
pub(crate) struct Subjects {
    pub(crate) pods: &'static str,
    pub(crate) owners: &'static [&'static str],
    pub(crate) managers: &'static [&'static str],
}

/// Everything that becomes of workloads and their pods.
pub(crate) struct Laws {
    subjects: Subjects,
    seen: Arc<Mutex<Vec<Seen>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What was sent, by whom, and what became of it on the way.
pub(crate) struct Asked {
    pub(crate) writes: Vec<Write>,
    pub(crate) unanswered: Vec<Unanswered>,
}

/// The beginning of a phase: virtual milliseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(crate) struct Phase(i64);

impl Laws {
    pub(crate) async fn start(world: &World, subjects: Subjects) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let mut tasks = Vec::new();
        for path in subjects.owners.iter().copied().chain([subjects.pods]) {
            let watch = format!("{path}?watch=true&timeoutSeconds=1000000");
            let mut lines = world.client().watch(&watch, Form::Full).await.unwrap();
            let (seen, clock) = (Arc::clone(&seen), world.client().clock());
            tasks.push(tokio::spawn(async move {
                while let Some(Ok(line)) = lines.next().await {
                    let mut event: Value = serde_json::from_slice(&line).unwrap();
                    let mut object = event["object"].take();
                    // The longest part, which no law is about.
                    object["metadata"]["managedFields"].take();
                    let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    let (added, gone) = (event["type"] == "ADDED", event["type"] == "DELETED");
                    let millis = clock.now().as_nanos() / 1_000_000;
                    let object = Arc::new(object);
                    seen.lock().unwrap().push(Seen { version, millis, path, added, gone, object });
                }
            }));
        }
        Self { subjects, seen, tasks }
    }

    pub(crate) fn phase_begins(&self, world: &World) -> Phase {
        Phase(world.client().clock().now().as_nanos() / 1_000_000)
    }

    /// Judges everything since the phase began.
    pub(crate) fn phase_ends(&self, phase: Phase, asked: &Asked) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort_by_key(|each| each.version);
        let unanswered = |verb| unanswered(&asked.unanswered, verb);
        let deleted_unanswered = unanswered(Verb::Delete);
        let mut judge = Judge { created_unanswered: unanswered(Verb::Create), ..Judge::of(self.subjects) };
        for write in &asked.writes {
            if write.method == Method::DELETE && write.status == 200 && write.resource() == "pods" {
                let name = write.path.rsplit('/').next().unwrap().to_owned();
                judge.deleted_by.entry(name).or_insert(write.who);
            }
        }
        judge.deleted_by.retain(|pod, _| !deleted_unanswered.contains(pod));
        for each in &seen {
            if each.millis >= phase.0 && !judge.judges {
                judge.judges = true;
                judge.lost.clear();
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

/// The pods that were created, or deleted, and whose sender was not told so.
fn unanswered(all: &[Unanswered], verb: Verb) -> BTreeSet<String> {
    let of_pods = all.iter().filter(|each| each.target.verb == verb && each.target.resource == "pods");
    let name =
        |each: &Unanswered| if verb == Verb::Create { name(&each.answer).to_owned() } else { each.target.name.clone() };
    of_pods.map(name).collect()
}

/// Everything as of one write.
struct Judge {
    subjects: Subjects,
    /// Whether the phase has begun: what is before only leads up to it.
    judges: bool,
    /// Pods that the controllers do not know that they have created.
    created_unanswered: BTreeSet<String>,
    /// Who deleted a pod first, where that was answered.
    deleted_by: BTreeMap<String, &'static str>,
    /// What the controller of each owner, by its uid, may be looking at.
    sizes: BTreeMap<String, Sizes>,
    /// Active pods, each with its owner's uid.
    pods: BTreeMap<String, String>,
    /// Pods that each owner lost in the phase by nothing that the controllers did.
    lost: BTreeMap<String, i64>,
    broken: Vec<String>,
}

impl Judge {
    fn of(subjects: Subjects) -> Self {
        Self {
            subjects,
            judges: false,
            created_unanswered: BTreeSet::new(),
            deleted_by: BTreeMap::new(),
            sizes: BTreeMap::new(),
            pods: BTreeMap::new(),
            lost: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    fn take(&mut self, seen: &Seen) {
        let object = &seen.object;
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        if seen.path != self.subjects.pods {
            self.sizes.entry(uid).or_default().note(object);
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
            let most = self.sizes.get(&owner).map_or(0, Sizes::most) + self.unknown(&owner);
            if seen.added && count > most {
                self.break_law(seen, &format!("{count} pods, at most {most} were asked for"));
            }
        }
        let Some(before) = before else { return };
        let ours = self.deleted_by.get(name(object)).is_some_and(|who| self.subjects.managers.contains(who));
        if !ours || active {
            *self.lost.entry(before).or_default() += 1;
            return;
        }
        let count = self.count(&before);
        let least = self.sizes.get(&before).map_or(0, Sizes::least);
        let lost = self.lost.get(&before).copied().unwrap_or_default();
        if count + lost < least {
            self.break_law(seen, &format!("{count} pods are left ({lost} lost), at least {least} were asked for"));
        }
    }

    /// How many pods of an owner were created without an answer and are there.
    fn unknown(&self, owner: &str) -> i64 {
        let unknown = self.pods.iter().filter(|(pod, each)| *each == owner && self.created_unanswered.contains(*pod));
        i64::try_from(unknown.count()).unwrap()
    }

    fn count(&self, owner: &str) -> i64 {
        i64::try_from(self.pods.values().filter(|each| *each == owner).count()).unwrap()
    }

    fn break_law(&mut self, seen: &Seen, law: &str) {
        let owner = &seen.object["metadata"]["ownerReferences"][0]["name"];
        self.broken.push(format!("{} at {}: {owner} {}: {law}", seen.version, seen.millis, name(&seen.object)));
    }
}
