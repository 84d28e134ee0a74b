//! The objects of a small world, each state of one with a number: as JSON, and as the controllers read them.

use std::collections::HashMap;
use std::sync::Arc;

use muster_controllers::deployment::creation::new_set_name;
use muster_machinery::Cache;
use muster_objects::pod::{Readiness, Restarts};
use muster_objects::{
    ConditionStatus, ControllerRef, Deployment, Interner, Labels, Meta, Object as _, Pod as RealPod, PodPhase,
    ReplicaSet, ResourceVersion, Timestamp, Uid,
};
use muster_tree::{Value, json};

use super::state::{Phase, Pod, SETS, Stored, Version};
use super::{Rollout, World};

/// Wall time, which does not pass.
pub(super) const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);
/// What every cache has seen. What is written later has a higher version.
pub(super) const SEEN: ResourceVersion = ResourceVersion(1 << 40);
const NAMESPACE: &str = "default";
pub(super) const DEPLOYMENT: &str = "web";

/// All states of Deployments and ReplicaSets that there have been.
pub(super) struct Objects {
    all: Vec<Object>,
    numbers: HashMap<String, Stored>,
    /// The names that the ReplicaSets have by their templates.
    names: [String; SETS],
    interner: Interner,
}

struct Object {
    json: Value,
    deployment: Option<Arc<Deployment>>,
    set: Option<Arc<ReplicaSet>>,
}

impl Objects {
    /// None, but for the Deployment of this world with the first template, which is returned too.
    pub(super) fn new(world: &World) -> (Self, Stored) {
        let strategy = match world.rollout {
            Rollout::Recreate => json!({"type": "Recreate"}),
            Rollout::Rolling { surge, unavailable } => json!({
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }),
        };
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "namespace": NAMESPACE, "name": DEPLOYMENT, "uid": uid(1), "generation": 1, "creationTimestamp": NOW,
                "annotations": {},
            },
            "spec": {
                "replicas": world.replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(0),
                "strategy": strategy, "revisionHistoryLimit": 10,
            },
            "status": {},
        });
        let absent = Object { json: Value::Null, deployment: None, set: None };
        let names = [String::new(), String::new()];
        let mut objects = Self { all: vec![absent], numbers: HashMap::new(), names, interner: Interner::new() };
        for at in 0..SETS {
            let mut other = deployment.clone();
            other["spec"]["template"] = template(at);
            let other = Deployment::decode(other.to_string().as_bytes(), &mut objects.interner);
            objects.names[at] = new_set_name(&other.expect("the Deployment of a small world decodes"));
        }
        let stored = objects.store(deployment);
        (objects, stored)
    }

    /// The number of an object in this state.
    pub(super) fn store(&mut self, json: Value) -> Stored {
        let text = json.to_string();
        if let Some(known) = self.numbers.get(&text) {
            return *known;
        }
        let stored = Stored(u16::try_from(self.all.len()).expect("a small world has few states of objects"));
        let mut versioned = json.clone();
        versioned["metadata"]["resourceVersion"] = json!(version(Version::Stored(stored)));
        let versioned = versioned.to_string();
        let (mut deployment, mut set) = (None, None);
        if json["kind"] == "Deployment" {
            let decoded = Deployment::decode(versioned.as_bytes(), &mut self.interner);
            deployment = Some(Arc::new(decoded.expect("a stored Deployment decodes")));
        } else {
            let decoded = ReplicaSet::decode(versioned.as_bytes(), &mut self.interner);
            set = Some(Arc::new(decoded.expect("a stored ReplicaSet decodes")));
        }
        self.all.push(Object { json, deployment, set });
        self.numbers.insert(text, stored);
        stored
    }

    pub(super) fn json(&self, stored: Stored) -> &Value {
        &self.all[usize::from(stored.0)].json
    }

    pub(super) fn deployment(&self, stored: Stored) -> &Arc<Deployment> {
        self.all[usize::from(stored.0)].deployment.as_ref().expect("the number of a Deployment")
    }

    pub(super) fn set(&self, stored: Stored) -> &Arc<ReplicaSet> {
        self.all[usize::from(stored.0)].set.as_ref().expect("the number of a ReplicaSet")
    }

    /// Those of the ReplicaSets that are there.
    pub(super) fn sets(&self, sets: &[Stored; SETS]) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        sets.iter().filter(|set| set.is_there()).map(|set| self.set(*set))
    }

    /// Which ReplicaSet has this name; `None` for a name that follows from no template.
    pub(super) fn set_named(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    pub(super) fn set_name(&self, at: usize) -> &str {
        &self.names[at]
    }

    /// A ReplicaSet as the server makes it of what a client sends.
    pub(super) fn created_set(at: usize, mut body: Value) -> Value {
        let metadata = &mut body["metadata"];
        metadata["uid"] = json!(set_uid(at));
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = json!(NOW + std::time::Duration::from_secs(at as u64));
        body["status"] = json!({"replicas": 0});
        body
    }

    pub(super) fn deployment_cache(&self, seen: Stored) -> Cache<Deployment> {
        let mut cache = Cache::new();
        cache.apply_shared(Arc::clone(self.deployment(seen)));
        cache.saw(SEEN);
        cache
    }

    pub(super) fn set_cache(&self, seen: &[Stored; SETS]) -> Cache<ReplicaSet> {
        let mut cache = Cache::new();
        for set in self.sets(seen) {
            cache.apply_shared(Arc::clone(set));
        }
        cache.saw(SEEN);
        cache
    }

    /// Pods whose uids have this order.
    pub(super) fn pod_cache(&self, seen: &[Pod]) -> Cache<RealPod> {
        let mut cache = Cache::new();
        for (at, pod) in seen.iter().enumerate() {
            cache.apply(self.pod(*pod, at));
        }
        cache.saw(SEEN);
        cache
    }

    /// A pod as controllers read it. What its ReplicaSet does not show of it, its age and its node, all pods have in
    /// common.
    pub(super) fn pod(&self, pod: Pod, order: usize) -> RealPod {
        let Pod { id, set, phase } = pod;
        let name = self.set_name(usize::from(set));
        let meta = Meta { name: name.into(), uid: Uid::new(&set_uid(usize::from(set))), ..Meta::default() };
        let reference = ControllerRef::to(ReplicaSet::API_VERSION, ReplicaSet::KIND, &meta);
        let runs = phase >= Phase::Ready;
        let status = if runs { ConditionStatus::True } else { ConditionStatus::False };
        RealPod {
            meta: Meta {
                namespace: NAMESPACE.into(),
                name: pod_name(id).into(),
                uid: Uid::new(&pod_uid(id, order)),
                resource_version: ResourceVersion(version(Version::Pod(pod)).parse().unwrap_or_default()),
                creation_timestamp: Some(NOW),
                deletion_timestamp: (phase >= Phase::Going).then_some(NOW),
                labels: [("app", "web"), ("pod-template-hash", hash_of(name))].into_iter().collect::<Labels>(),
                controller: Some(Arc::new(reference)),
                ..Meta::default()
            },
            node_name: runs.then(|| "node".into()),
            phase: if runs { PodPhase::Running } else { PodPhase::Pending },
            ready: Some(Readiness { status, last_transition_time: Some(NOW) }),
            restarts: Restarts::default(),
            deletion_cost: 0,
            finished_at: None,
        }
    }

    /// What a GET answers, as far as a plan reads it.
    pub(super) fn read(&self, found: Version, order: usize) -> Value {
        match found {
            Version::Stored(stored) => {
                let mut json = self.json(stored).clone();
                json["metadata"]["resourceVersion"] = json!(version(found));
                json
            }
            Version::Pod(pod) => {
                let real = self.pod(pod, order);
                let meta = &real.meta;
                let reference = meta.controller.as_ref().map(|controller| controller.to_owner_reference());
                let metadata = json!({
                    "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "labels": meta.labels,
                    "resourceVersion": version(found), "deletionTimestamp": meta.deletion_timestamp,
                    "ownerReferences": [reference],
                });
                let ready = if real.is_ready() { "True" } else { "False" };
                json!({"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
            }
        }
    }
}

/// The template of that number.
pub(super) fn template(at: usize) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": format!("nginx:{at}")}]},
    })
}

/// Which ReplicaSet has this uid.
pub(super) fn set_of_uid(uid: &str) -> Option<usize> {
    (0..SETS).find(|at| set_uid(*at) == uid)
}

pub(super) fn set_uid(at: usize) -> String {
    uid(0x100 + at)
}

pub(super) fn pod_uid(id: u8, order: usize) -> String {
    uid(0x10000 + order * 0x100 + usize::from(id))
}

pub(super) fn pod_name(id: u8) -> String {
    format!("pod-{id}")
}

/// Which pod has this name.
pub(super) fn pod_named(name: &str) -> Option<u8> {
    name.strip_prefix("pod-")?.parse().ok()
}

/// The resourceVersion of a state, as text. It says which state of which object it is; that later ones are higher is
/// said by no object of a small world, but by [`SEEN`].
pub(super) fn version(of: Version) -> String {
    match of {
        Version::Stored(Stored(number)) => 0x10000 + u64::from(number),
        Version::Pod(Pod { id, set, phase }) => (u64::from(id) << 4) + (u64::from(set) << 2) + phase as u64 + 1,
    }
    .to_string()
}

/// What has this resourceVersion.
pub(super) fn of_version(version: ResourceVersion) -> Version {
    const PHASES: [Phase; 4] = [Phase::Starting, Phase::Ready, Phase::Going, Phase::Gone];
    let low = |number: u64| u8::try_from(number & 0xff).unwrap_or_default();
    match version.0.checked_sub(0x10000) {
        Some(number) => Version::Stored(Stored(u16::try_from(number).unwrap_or_default())),
        None => {
            let code = version.0 - 1;
            Version::Pod(Pod { id: low(code >> 4), set: low(code >> 2 & 3), phase: PHASES[usize::from(low(code & 3))] })
        }
    }
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn hash_of(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(_, hash)| hash)
}
