//! A namespace full of ReplicaSets with ten pods each, two of which share a Deployment.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::plan::ClaimOutcome;
use muster_controllers::replicaset::{Begin, Books, Identity, decide, decide_claims};
use muster_machinery::Cache;
use muster_objects::meta::{ControllerRef, ObjectKey, ResourceVersion, Uid};
use muster_objects::pod::{Readiness, Restarts};
use muster_objects::{ConditionStatus, Interner, Labels, Meta, Moment, Object, Pod, PodPhase, ReplicaSet, Timestamp};

const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);
const PODS_EACH: usize = 10;

/// The namespace as a controller sees it.
pub(crate) struct Namespace {
    pub(crate) owners: Cache<ReplicaSet>,
    pub(crate) pods: Cache<Pod>,
    books: Books,
}

impl Namespace {
    /// `replicas` is what each asks for, of the ten that it has.
    pub(crate) fn of(pods: usize, replicas: i32) -> Self {
        let mut namespace = Self { owners: Cache::new(), pods: Cache::new(), books: Books::new(Identity::REPLICA_SET) };
        let mut interner = Interner::new();
        for set in 0..pods / PODS_EACH {
            let owner = replica_set(set, replicas, &mut interner);
            let controller = Arc::new(ControllerRef::to("apps/v1", "ReplicaSet", &owner.meta));
            for at in 0..PODS_EACH {
                namespace.pods.apply(pod(set * PODS_EACH + at, &owner.template.labels().clone(), &controller));
            }
            namespace.owners.apply(owner);
        }
        namespace
    }

    /// One sync, from its key to its plan; says how many writes it intends.
    pub(crate) fn sync(&mut self, key: &ObjectKey) -> usize {
        match self.books.begin(key, &self.owners, &self.pods, 500, Moment::ORIGIN) {
            Begin::Ready(snapshot) => {
                let claims = decide_claims(&snapshot);
                let plan = decide(&snapshot, &ClaimOutcome::default(), NOW);
                claims.patches.len() + plan.deletions().count() + plan.creations() as usize
            }
            other => panic!("nothing stands in the way of a sync: {other:?}"),
        }
    }
}

fn replica_set(number: usize, replicas: i32, interner: &mut Interner) -> ReplicaSet {
    let labels = format!(r#"{{"app": "app-{}", "pod-template-hash": "hash-{number}"}}"#, number / 2);
    let json = format!(
        r#"{{"metadata": {{"namespace": "default", "name": "rs-{number}", "uid": "{}", "resourceVersion": "1",
            "ownerReferences": [{{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-{}", "uid": "{}", "controller": true}}]}},
        "spec": {{"replicas": {replicas}, "selector": {{"matchLabels": {labels}}},
            "template": {{"metadata": {{"labels": {labels}}}, "spec": {{"containers": [{{"name": "c", "image": "nginx"}}]}}}}}},
        "status": {{"replicas": 10, "fullyLabeledReplicas": 10, "readyReplicas": 10, "availableReplicas": 10, "terminatingReplicas": 0}}}}"#,
        uid(1, number),
        number / 2,
        uid(2, number / 2),
    );
    ReplicaSet::decode(json.as_bytes(), interner).expect("the fixture's own JSON")
}

pub(crate) fn pod(number: usize, labels: &Labels, controller: &Arc<ControllerRef>) -> Pod {
    let age = |seconds: usize| Some(NOW - Duration::from_secs(seconds as u64));
    Pod {
        meta: Meta {
            namespace: "default".into(),
            name: format!("pod-{number}").into(),
            uid: uid(3, number),
            resource_version: ResourceVersion(2 + number as u64),
            creation_timestamp: age(7_200 + number % 600),
            labels: labels.clone(),
            controller: Some(Arc::clone(controller)),
            ..Meta::default()
        },
        node_name: Some(format!("node-{}", number % 100).into()),
        phase: PodPhase::Running,
        ready: Some(Readiness { status: ConditionStatus::True, last_transition_time: age(3_600 + number % 600) }),
        restarts: Restarts::default(),
        deletion_cost: 0,
        finished_at: None,
    }
}

fn uid(kind: u64, number: usize) -> Uid {
    Uid::new(&format!("{kind:08x}-0000-4000-8000-{number:012x}"))
}
