//! Pods and ReplicaSets for tests, made of what a test cares about.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::replicaset::{Remembered, ReplicaOwner, Snapshot};
use muster_objects::meta::{ControllerRef, ResourceVersion, Uid};
use muster_objects::pod::{Readiness, Restarts};
use muster_objects::{ConditionStatus, Interner, Labels, Meta, Object, Pod, PodPhase, ReplicaSet, Timestamp};
use proptest::prelude::*;
use serde_json::json;

/// The wall clock of these tests.
pub(crate) const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);

pub(crate) fn ago(seconds: u64) -> Timestamp {
    NOW - Duration::from_secs(seconds)
}

/// A uid that looks like the server's, from a number.
pub(crate) fn uid(number: u64) -> Uid {
    Uid::new(&format!("00000000-0000-4000-8000-{number:012x}"))
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

/// `default/web`, uid 1, selecting `app=web`.
pub(crate) fn replica_set(replicas: i32) -> ReplicaSet {
    replica_set_named("web", 1, replicas, &json!({"app": "web"}))
}

pub(crate) fn replica_set_named(name: &str, number: u64, replicas: i32, selector: &serde_json::Value) -> ReplicaSet {
    let json = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": uid(number), "resourceVersion": "100", "generation": 1,
            "creationTimestamp": ago(86_400),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector},
                "spec": {"containers": [{"name": "c", "image": "nginx"}], "somethingNew": {"a": [1, null]}},
            },
        },
    });
    decode(&json)
}

pub(crate) fn decode(json: &serde_json::Value) -> ReplicaSet {
    ReplicaSet::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("a test's own ReplicaSet decodes")
}

/// A pod of [`replica_set`], running on a node of its own and ready for an hour.
pub(crate) fn pod(name: &str, number: u64) -> Pod {
    Pod {
        meta: Meta {
            namespace: "default".into(),
            name: name.into(),
            uid: uid(number),
            resource_version: ResourceVersion(1_000 + number),
            creation_timestamp: Some(ago(7_200)),
            labels: labels(&[("app", "web")]),
            controller: Some(Arc::new(reference_to("web", 1))),
            ..Meta::default()
        },
        node_name: Some(format!("node-{number}").into()),
        phase: PodPhase::Running,
        ready: ready_since(Some(ago(3_600))),
        restarts: Restarts::default(),
        deletion_cost: 0,
        finished_at: None,
    }
}

pub(crate) fn orphan(name: &str, number: u64) -> Pod {
    let mut pod = pod(name, number);
    pod.meta.controller = None;
    pod
}

/// As the watch first shows a pod: accepted, nowhere, not ready.
pub(crate) fn pending(name: &str, number: u64) -> Pod {
    Pod { node_name: None, phase: PodPhase::Pending, ready: None, ..pod(name, number) }
}

pub(crate) fn terminating(mut pod: Pod) -> Pod {
    pod.meta.deletion_timestamp = Some(ago(5));
    pod
}

pub(crate) fn ready_since(time: Option<Timestamp>) -> Option<Readiness> {
    Some(Readiness { status: ConditionStatus::True, last_transition_time: time })
}

pub(crate) fn reference_to(name: &str, number: u64) -> ControllerRef {
    ControllerRef { api_version: "apps/v1".into(), kind: "ReplicaSet".into(), name: name.into(), uid: uid(number) }
}

/// What is remembered of an owner, otherwise than usual.
pub(crate) fn remembered(change: impl FnOnce(&mut Remembered)) -> Remembered {
    let mut memory = Remembered::default();
    change(&mut memory);
    memory
}

/// The snapshot of an ordinary sync of `owner`.
pub(crate) fn snapshot(owner: ReplicaSet, pods: impl IntoIterator<Item = Pod>) -> Snapshot<ReplicaSet> {
    Snapshot {
        selector: owner.selector().expect("a test's selector is valid").clone(),
        owner: Arc::new(owner),
        pods: pods.into_iter().map(Arc::new).collect(),
        colocation: muster_controllers::replicaset::ranking::Colocation::default(),
        memory: Remembered::default(),
        burst: 500,
    }
}

/// This many pods of [`replica_set`], named `web-0`, `web-1`, ...
pub(crate) fn pods(count: u64) -> Vec<Pod> {
    (0..count).map(|n| pod(&format!("web-{n}"), 10 + n)).collect()
}

prop_compose! {
    /// Pods with few different values in each field, so that ties are common.
    pub(crate) fn any_pod()(
        number in 0_u64..1_000_000,
        node in prop::option::of(0_u8..3),
        phase in prop::sample::select(vec![PodPhase::Unset, PodPhase::Pending, PodPhase::Running, PodPhase::Unknown]),
        ready in prop::option::of(prop::option::of(0_i64..5_000_000_000)),
        cost in -1_i32..2,
        restarts in (0_i32..2, 0_i32..2),
        created in prop::option::of(-1_000_i64..5_000_000_000),
    ) -> Pod {
        let mut pod = Pod {
            node_name: node.map(|node| format!("node-{node}").into()),
            phase,
            ready: ready.and_then(|since| ready_since(since.map(|nanos| NOW.plus_nanos(-nanos)))),
            deletion_cost: cost,
            restarts: Restarts { regular: restarts.0, sidecar: restarts.1 },
            ..pod(&format!("web-{number}"), number)
        };
        pod.meta.creation_timestamp = created.map(|nanos| NOW.plus_nanos(-nanos));
        pod
    }
}
