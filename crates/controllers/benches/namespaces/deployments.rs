//! A namespace full of Deployments with an old ReplicaSet and a new one each.

use muster_controllers::deployment::{Begin, Books, decide, decide_claims};
use muster_controllers::plan::{ClaimOutcome, Step};
use muster_machinery::Cache;
use muster_objects::meta::{ObjectKey, Uid};
use muster_objects::{Deployment, Interner, Moment, Object, Pod, ReplicaSet, Timestamp};

const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);

/// The namespace as a controller sees it.
pub(crate) struct Namespace {
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) sets: Cache<ReplicaSet>,
    pub(crate) pods: Cache<Pod>,
    books: Books,
}

impl Namespace {
    /// The old ReplicaSet of each has `old` pods of ten, the new one the rest.
    pub(crate) fn of(sets: usize, old: i32) -> Self {
        let mut interner = Interner::new();
        let mut namespace =
            Self { deployments: Cache::new(), sets: Cache::new(), pods: Cache::new(), books: Books::new() };
        for number in 0..sets / 2 {
            namespace.deployments.apply(decode(&deployment(number), &mut interner));
            namespace.sets.apply(decode(&replica_set(number, 1, old), &mut interner));
            namespace.sets.apply(decode(&replica_set(number, 2, 10 - old), &mut interner));
        }
        namespace
    }

    /// One sync, from its key to its plan; says how many ReplicaSets it scales.
    pub(crate) fn sync(&mut self, key: &ObjectKey) -> usize {
        let Self { deployments, sets, pods, books } = self;
        match books.begin(key, deployments, sets, pods, 0, Moment::ORIGIN) {
            Begin::Ready(snapshot) => {
                let claims = decide_claims(&snapshot);
                let plan = decide(&snapshot, &ClaimOutcome::default()).plan(NOW);
                let patches = |step: &Step| if let Step::Patch(patches) = step { patches.len() } else { 0 };
                claims.patches.len() + plan.steps.iter().map(patches).sum::<usize>()
            }
            other => panic!("nothing stands in the way of a sync: {other:?}"),
        }
    }
}

fn decode<T: Object>(json: &str, interner: &mut Interner) -> T {
    T::decode(json.as_bytes(), interner).expect("the fixture's own JSON")
}

fn template(number: usize, revision: usize, hash: &str) -> String {
    format!(
        r#"{{"metadata": {{"labels": {{"app": "app-{number}"{hash}}}}}, "spec": {{"restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {{}},
            "schedulerName": "default-scheduler", "containers": [{{"name": "c", "image": "nginx:{revision}",
            "resources": {{"limits": {{"cpu": "500m"}}}}, "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}}]}}}}"#
    )
}

fn deployment(number: usize) -> String {
    format!(
        r#"{{"metadata": {{"namespace": "default", "name": "app-{number}", "uid": "{}", "resourceVersion": "1",
            "generation": 2, "annotations": {{"deployment.kubernetes.io/revision": "2"}}}},
        "spec": {{"replicas": 10, "selector": {{"matchLabels": {{"app": "app-{number}"}}}}, "template": {},
            "strategy": {{"type": "RollingUpdate", "rollingUpdate": {{"maxSurge": "25%", "maxUnavailable": "25%"}}}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}},
        "status": {{"observedGeneration": 2}}}}"#,
        uid(1, number),
        template(number, 2, ""),
    )
}

fn replica_set(number: usize, revision: usize, replicas: i32) -> String {
    let hash = format!(r#", "pod-template-hash": "hash{revision}""#);
    format!(
        r#"{{"metadata": {{"namespace": "default", "name": "app-{number}-{revision}", "uid": "{}", "resourceVersion": "1",
            "generation": 1, "creationTimestamp": "2026-01-0{revision}T00:00:00Z",
            "labels": {{"app": "app-{number}"{hash}}},
            "annotations": {{"deployment.kubernetes.io/revision": "{revision}",
                "deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/max-replicas": "13"}},
            "ownerReferences": [{{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-{number}", "uid": "{}", "controller": true}}]}},
        "spec": {{"replicas": {replicas}, "selector": {{"matchLabels": {{"app": "app-{number}"{hash}}}}}, "template": {}}},
        "status": {{"replicas": {replicas}, "readyReplicas": {replicas}, "availableReplicas": {replicas},
            "terminatingReplicas": 0, "observedGeneration": 1}}}}"#,
        uid(1 + revision as u64, number),
        uid(1, number),
        template(number, revision, &hash),
    )
}

fn uid(kind: u64, number: usize) -> Uid {
    Uid::new(&format!("{kind:08x}-0000-4000-8000-{number:012x}"))
}
