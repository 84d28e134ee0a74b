//! Deployments and ReplicaSets for tests, made of what a test cares about.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use muster_controllers::deployment::Snapshot;
use muster_controllers::deployment::sets::Sets;
use muster_objects::meta::{ControllerRef, Uid};
use muster_objects::pod::Restarts;
use muster_objects::{Deployment, Interner, Meta, Object, Pod, PodPhase, ReplicaSet, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The wall clock of these tests.
pub(crate) const NOW: Timestamp = Timestamp::from_seconds(1_750_000_000);

pub(crate) fn ago(seconds: u64) -> Timestamp {
    NOW - Duration::from_secs(seconds)
}

/// A uid that looks like the server's, from a number.
pub(crate) fn uid(number: u64) -> Uid {
    Uid::new(&format!("00000000-0000-4000-8000-{number:012x}"))
}

/// A template of that image.
pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}], "somethingNew": {"a": [1, null]}},
    })
}

/// `default/web`, uid 1, of image `nginx:1`, rolling by a quarter each way.
pub(crate) fn deployment_json(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "default", "name": "web", "uid": uid(1), "resourceVersion": "100", "generation": 1,
            "creationTimestamp": ago(86_400), "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("nginx:1"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
        "status": {"observedGeneration": 1},
    })
}

/// [`deployment_json`] with some of it changed.
pub(crate) fn deployment(replicas: i32, change: impl FnOnce(&mut Value)) -> Deployment {
    let mut json = deployment_json(replicas);
    change(&mut json);
    decode(&json)
}

/// The same, rolling within these bounds.
pub(crate) fn rolling(replicas: i32, surge: impl Into<Value>, unavailable: impl Into<Value>) -> Deployment {
    let bounds = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    deployment(replicas, |json| json["spec"]["strategy"]["rollingUpdate"] = bounds)
}

/// The most pods of a Deployment, and the fewest available ones, by what the API says of `maxSurge` and
/// `maxUnavailable`: each a number or a percentage, the first rounded up and the second down, not both zero.
pub(crate) fn most_and_least(replicas: i32, surge: &Value, unavailable: &Value) -> (i64, i64) {
    let replicas = i64::from(replicas);
    let hundredths = |amount: &Value| match amount.as_str() {
        Some(percentage) => replicas * percentage.trim_end_matches('%').parse::<i64>().expect("a percentage"),
        None => 100 * amount.as_i64().expect("a number"),
    };
    let (surge, unavailable) = ((hundredths(surge) + 99) / 100, hundredths(unavailable) / 100);
    let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
    (replicas + surge, (replicas - unavailable).max(0))
}

/// A value of `maxSurge` or `maxUnavailable`.
pub(crate) fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..5_i32).prop_map(Value::from),
        prop::sample::select(vec!["0%", "1%", "25%", "30%", "34%", "75%", "100%"]).prop_map(Value::from),
    ]
}

pub(crate) fn recreating(replicas: i32) -> Deployment {
    deployment(replicas, |json| json["spec"]["strategy"] = json!({"type": "Recreate"}))
}

/// A ReplicaSet of [`deployment_json`]: `web-<image>`, whose number is its uid, its age in days, and its revision.
/// All its replicas are available.
pub(crate) fn set_json(number: u64, image: &str, replicas: i32) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!(format!("hash{number}"));
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "default", "name": format!("web-{number}"), "uid": uid(100 + number), "resourceVersion": "90",
            "generation": 1, "creationTimestamp": ago(86_400 - 60 * number),
            "labels": {"app": "web", "pod-template-hash": format!("hash{number}")},
            "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
            "ownerReferences": [ControllerRef::to("apps/v1", "Deployment", &owner()).to_owner_reference()],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": format!("hash{number}")}},
            "template": template,
        },
        "status": {
            "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "terminatingReplicas": 0,
            "observedGeneration": 1,
        },
    })
}

fn owner() -> Meta {
    Meta { namespace: "default".into(), name: "web".into(), uid: uid(1), ..Meta::default() }
}

/// [`set_json`] with some of it changed.
pub(crate) fn set_with(number: u64, image: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Arc<ReplicaSet> {
    let mut json = set_json(number, image, replicas);
    change(&mut json);
    Arc::new(decode(&json))
}

pub(crate) fn set(number: u64, image: &str, replicas: i32) -> Arc<ReplicaSet> {
    set_with(number, image, replicas, |_| ())
}

/// A ReplicaSet with this many available replicas.
pub(crate) fn set_available(number: u64, image: &str, replicas: i32, available: i32) -> Arc<ReplicaSet> {
    set_with(number, image, replicas, |json| {
        json["status"]["readyReplicas"] = json!(available);
        json["status"]["availableReplicas"] = json!(available);
    })
}

/// Sets an annotation.
pub(crate) fn annotate(json: &mut Value, key: &str, value: impl Display) {
    json["metadata"]["annotations"][key] = json!(format!("{value}"));
}

/// A ReplicaSet that was scaled when the Deployment wanted `desired` replicas and allowed `most`.
pub(crate) fn set_scaled_for(number: u64, image: &str, replicas: i32, desired: i32, most: i32) -> Arc<ReplicaSet> {
    set_with(number, image, replicas, |json| {
        annotate(json, "deployment.kubernetes.io/desired-replicas", desired);
        annotate(json, "deployment.kubernetes.io/max-replicas", most);
    })
}

/// A new ReplicaSet and old ones.
pub(crate) fn sets(new: impl Into<Option<Arc<ReplicaSet>>>, old: impl IntoIterator<Item = Arc<ReplicaSet>>) -> Sets {
    Sets { new: new.into(), old: old.into_iter().collect() }
}

/// A running pod of the ReplicaSet of that number.
pub(crate) fn pod(name: &str, set: u64, phase: PodPhase) -> Pod {
    let reference = ControllerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: format!("web-{set}").into(),
        uid: uid(100 + set),
    };
    Pod {
        meta: Meta {
            namespace: "default".into(),
            name: name.into(),
            uid: Uid::new(name),
            resource_version: muster_objects::ResourceVersion(200),
            controller: Some(Arc::new(reference)),
            ..Meta::default()
        },
        node_name: None,
        phase,
        ready: None,
        restarts: Restarts::default(),
        deletion_cost: 0,
        finished_at: None,
    }
}

pub(crate) fn snapshot(deployment: Deployment, sets: impl IntoIterator<Item = Arc<ReplicaSet>>) -> Snapshot {
    let selector = deployment.selector.clone().expect("a test's selector is valid");
    Snapshot::of(Arc::new(deployment), selector, sets.into_iter().collect())
}

pub(crate) fn decode<T: Object>(json: &Value) -> T {
    T::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("a test's own object decodes")
}
