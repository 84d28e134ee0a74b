//! The manager of a small world: the handlers, books and syncs of the controllers. Whatever follows from the same input is
//! computed once.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use muster_controllers::begin::Begin;
use muster_controllers::deployment::{self, as_planned};
use muster_controllers::pause::LONGEST_COUNTS_WAIT;
use muster_controllers::plan::{Expectation, Owner, Resource};
use muster_controllers::replicaset::counting::BURST_REPLICAS;
use muster_controllers::replicaset::{self, Expected, ReplicaOwner};
use muster_machinery::Change;
use muster_objects::{Moment, ObjectKey, Pod as RealPod, ReplicaSet, ResourceVersion, Uid};

use super::Flaw;
use super::objects::{self, Objects, SEEN, pod_name, pod_named};
use super::replay::{Run, Told, run};
use super::state::{Answer, Call, Input, Memory, Pod, SETS, Stored, Version};

/// The controllers, and what they have decided until now.
#[derive(Default)]
pub(super) struct Manager {
    begun: HashMap<(Input, Memory), Begun>,
    ran: HashMap<(Input, BTreeMap<Call, Answer>), Rc<Run>>,
    heard: HashMap<Heard, Rc<Vec<Noted>>>,
    flaw: Option<Flaw>,
}

/// How a sync begins.
#[derive(Clone)]
pub(super) enum Begun {
    /// It waits for a cache.
    Stale,
    /// The object is gone.
    Gone,
    /// With this left in the books, and pods managed unless expectations are pending.
    Ready { memory: Memory, pending: bool },
}

/// A change of a cache, and what handlers look up.
#[derive(PartialEq, Eq, Hash)]
struct Heard {
    deployment: Stored,
    sets: [Stored; SETS],
    pods: Vec<Pod>,
    change: Changed,
}

/// What a cache showed before, and shows now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Changed {
    Deployment(Stored, Stored),
    Set(Stored, Stored),
    Pod(Option<Pod>, Option<Pod>),
}

/// What handlers notice, by the key that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Queue(usize),
    Created(usize),
    Deleted(usize, u8),
}

impl Manager {
    /// One with this fault.
    pub(super) fn with(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    /// Begins the sync of `input`, if the books allow it.
    pub(super) fn begin(&mut self, objects: &Objects, input: &Input, memory: &Memory) -> Begun {
        let question = (input.clone(), memory.clone());
        if let Some(known) = self.begun.get(&question) {
            return known.clone();
        }
        let heeded = match self.flaw {
            Some(Flaw::NoBooks) => Memory::default(),
            Some(Flaw::NoExpectations) => Memory { creations: 0, deletions: Vec::new(), ..memory.clone() },
            Some(Flaw::NoVersions) => Memory { wrote: [None; 3], ..memory.clone() },
            Some(Flaw::TrustedStatus) | None => memory.clone(),
        };
        let begun = if input.key == 0 {
            match begin_deployment(objects, input, &heeded) {
                Begin::Stale { .. } => Begun::Stale,
                Begin::Ready(_) => Begun::Ready { memory: Memory::default(), pending: false },
                Begin::Gone | Begin::InvalidSelector(_) => Begun::Gone,
            }
        } else {
            let (books, begin) = begin_set(objects, input, &heeded);
            match begin {
                Begin::Stale { .. } => Begun::Stale,
                Begin::Ready(snapshot) => {
                    let pending = snapshot.memory.expected != Expected::Settled;
                    Begun::Ready { memory: remembered(&books, &key_of(objects, input), [None; 3]), pending }
                }
                Begin::Gone | Begin::InvalidSelector(_) => Begun::Gone,
            }
        };
        self.begun.insert(question, begun.clone());
        begun
    }

    /// Runs a sync up to the requests that are not answered.
    pub(super) fn run(&mut self, objects: &mut Objects, input: &Input, answers: &BTreeMap<Call, Answer>) -> Rc<Run> {
        let question = (input.clone(), answers.clone());
        if let Some(known) = self.ran.get(&question) {
            return Rc::clone(known);
        }
        let mut input = input.clone();
        if self.flaw == Some(Flaw::TrustedStatus) && input.key == 0 {
            for set in input.sets.iter_mut().filter(|set| set.is_there()) {
                let mut json = objects.json(*set).clone();
                let wanted = json["spec"]["replicas"].clone();
                for count in ["replicas", "readyReplicas", "availableReplicas"] {
                    json["status"][count] = wanted.clone();
                }
                json["status"]["observedGeneration"] = json["metadata"]["generation"].clone();
                *set = objects.store(json);
            }
        }
        let run = Rc::new(run(objects, &input, answers));
        self.ran.insert(question, Rc::clone(&run));
        run
    }

    /// What the handlers of both controllers notice of a change, with the caches as they are after it.
    pub(super) fn hear(
        &mut self,
        objects: &Objects,
        deployment: Stored,
        sets: &[Stored; SETS],
        pods: &[Pod],
        change: Changed,
    ) -> Rc<Vec<Noted>> {
        let heard = Heard { deployment, sets: *sets, pods: pods.to_vec(), change };
        if let Some(known) = self.heard.get(&heard) {
            return Rc::clone(known);
        }
        let noted = Rc::new(hear(objects, &heard));
        self.heard.insert(heard, Rc::clone(&noted));
        noted
    }
}

impl Memory {
    /// The same after what handlers have noted.
    pub(super) fn note(&mut self, key: &ObjectKey, noted: Noted) {
        let effect = match noted {
            Noted::Created(_) => replicaset::Effect::CreationObserved(key.clone()),
            Noted::Deleted(_, id) => {
                replicaset::Effect::DeletionObserved { owner: key.clone(), pod: pod_key(id), first: true }
            }
            Noted::Queue(_) => return,
        };
        let mut books = books(key, self);
        books.note(effect, Moment::ORIGIN);
        *self = remembered(&books, key, self.wrote);
    }

    /// The same after what a sync has told; `behind` says after how many events the caches have a version.
    pub(super) fn tell(&mut self, owner: &Owner, told: &Told, behind: impl Fn(Version) -> u8) {
        let mut books = books(&owner.key, self);
        match told {
            Told::Expect(expectation) => books.expect(owner, expectation, Moment::ORIGIN),
            Told::LowerCreations(count) => books.lower_creations(owner, *count),
            Told::LowerDeletion(id) => books.lower_deletion(owner, &pod_key(*id)),
            Told::Wrote(kind, version) => {
                let wrote = &mut self.wrote[*kind as usize];
                *wrote = (*wrote).max(Some(behind(*version)));
                return;
            }
        }
        *self = remembered(&books, &owner.key, self.wrote);
    }
}

/// The owner of a key as plans name it.
pub(super) fn owner(objects: &Objects, input: &Input) -> Owner {
    match input.key {
        0 => as_planned(objects.deployment(input.deployment)),
        key => objects.set(input.sets[usize::from(key) - 1]).as_planned(),
    }
}

/// The name of a key.
pub(super) fn key_named(objects: &Objects, key: usize) -> ObjectKey {
    let name = if key == 0 { objects::DEPLOYMENT } else { objects.set_name(key - 1) };
    ObjectKey::new("default", name)
}

fn key_of(objects: &Objects, input: &Input) -> ObjectKey {
    key_named(objects, usize::from(input.key))
}

fn pod_key(id: u8) -> ObjectKey {
    ObjectKey::new("default", pod_name(id))
}

/// The books of a ReplicaSet of which this is remembered, without its record of versions.
fn books(key: &ObjectKey, memory: &Memory) -> replicaset::Books {
    let mut books = replicaset::Books::new(ReplicaSet::IDENTITY);
    let owner = nameless(Resource::REPLICA_SETS, key);
    if memory.creations > 0 {
        books.expect(&owner, &Expectation::Creations(memory.creations.into()), Moment::ORIGIN);
    } else if !memory.deletions.is_empty() {
        let pods = memory.deletions.iter().map(|id| pod_key(*id)).collect();
        books.expect(&owner, &Expectation::Deletions(pods), Moment::ORIGIN);
    }
    books
}

fn remembered(books: &replicaset::Books, key: &ObjectKey, wrote: [Option<u8>; 3]) -> Memory {
    let creations = u8::try_from(books.expectations().pending(key).0.max(0)).unwrap_or(u8::MAX);
    let deletions = books.expectations().deletions(key).filter_map(|pod| pod_named(&pod.name)).collect();
    Memory { creations, deletions, wrote }
}

fn nameless(resource: Resource, key: &ObjectKey) -> Owner {
    let (uid, resource_version) = (Uid::default(), ResourceVersion::UNKNOWN);
    Owner { resource, key: key.clone(), uid, resource_version, generation: 0, component: "" }
}

/// What was written, with its version: after so many events the cache will have seen it.
fn written(memory: &Memory) -> impl Iterator<Item = (Resource, ResourceVersion)> {
    let resources = [Resource::DEPLOYMENTS, Resource::REPLICA_SETS, Resource::PODS];
    let of_kind =
        |(resource, behind): (Resource, Option<u8>)| Some((resource, ResourceVersion(SEEN.0 + u64::from(behind?))));
    resources.into_iter().zip(memory.wrote).filter_map(of_kind)
}

/// Long after anything was written or expected, as far as counts are deferred, and long before anything expires.
fn later() -> Moment {
    Moment::ORIGIN + 2 * LONGEST_COUNTS_WAIT
}

pub(super) fn begin_deployment(objects: &Objects, input: &Input, memory: &Memory) -> deployment::Begin {
    let mut books = deployment::Books::new();
    let key = key_of(objects, input);
    for (resource, version) in written(memory) {
        books.wrote(&nameless(Resource::DEPLOYMENTS, &key), resource, version);
    }
    let deployments = objects.deployment_cache(input.deployment);
    books.begin(&key, &deployments, &objects.set_cache(&input.sets), &objects.pod_cache(&input.pods), 0, later())
}

pub(super) fn begin_set(
    objects: &Objects,
    input: &Input,
    memory: &Memory,
) -> (replicaset::Books, replicaset::Begin<ReplicaSet>) {
    let key = key_of(objects, input);
    let mut books = books(&key, memory);
    for (resource, version) in written(memory) {
        books.wrote(&nameless(Resource::REPLICA_SETS, &key), resource, version);
    }
    let (sets, pods) = (objects.set_cache(&input.sets), objects.pod_cache(&input.pods));
    let begin = books.begin(&key, &sets, &pods, BURST_REPLICAS, later());
    (books, begin)
}

fn hear(objects: &Objects, heard: &Heard) -> Vec<Noted> {
    let Heard { deployment, sets, pods, change } = heard;
    let (deployments, sets) = (objects.deployment_cache(*deployment), objects.set_cache(sets));
    let mut noted = Vec::new();
    let mut of_set = |effect: replicaset::Effect| {
        use replicaset::Effect;
        let at = |owner: &ObjectKey| objects.set_named(&owner.name).map(|at| at + 1);
        noted.extend(match &effect {
            Effect::Enqueue(owner) => at(owner).map(Noted::Queue),
            Effect::CreationObserved(owner) => at(owner).map(Noted::Created),
            Effect::DeletionObserved { owner, pod, .. } => {
                at(owner).zip(pod_named(&pod.name)).map(|(at, id)| Noted::Deleted(at, id))
            }
            _ => None,
        });
    };
    let mut of_deployment = Vec::new();
    let mut of_owner = |effect: deployment::Effect| {
        if let deployment::Effect::Enqueue(_) = effect {
            of_deployment.push(Noted::Queue(0));
        }
    };
    match *change {
        Changed::Deployment(old, new) => {
            let change = changed(old.is_there().then(|| objects.deployment(old)), Some(objects.deployment(new)));
            deployment::deployment_changed(&change, &mut of_owner);
        }
        Changed::Set(old, new) => {
            let set = |set: Stored| set.is_there().then(|| objects.set(set));
            let change: Change<ReplicaSet> = changed(set(old), set(new));
            replicaset::owner_changed(&change, &mut of_set);
            deployment::replica_set_changed(&change, &deployments, &mut of_owner);
        }
        Changed::Pod(old, new) => {
            let pod = |pod: Option<Pod>| pod.map(|pod| Arc::new(objects.pod(pod, 0)));
            let change: Change<RealPod> = changed(pod(old).as_ref(), pod(new).as_ref());
            replicaset::pod_changed::<ReplicaSet>(&change, &sets, &mut of_set);
            let pods = objects.pod_cache(pods);
            deployment::pod_changed(&change, &pods, &sets, &deployments, &mut of_owner);
        }
    }
    noted.extend(of_deployment);
    noted
}

fn changed<T>(old: Option<&Arc<T>>, new: Option<&Arc<T>>) -> Change<T> {
    match (old.cloned(), new.cloned()) {
        (None, Some(new)) => Change::Added(new),
        (Some(old), Some(new)) => Change::Updated { old, new },
        (Some(last), None) => Change::Deleted { last, tombstone: false },
        (None, None) => unreachable!("an event is about an object"),
    }
}
