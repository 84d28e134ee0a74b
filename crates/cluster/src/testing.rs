//! Objects for the tests of this crate, made from JSON as a watch would bring them.

use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Interner, Moment, Object, Timestamp, Uid};
use serde_json::{Value, json};

use crate::control::{Body, Slim};
use crate::kubelet::Now;
use crate::node::Node;
use crate::pod::Pod;

/// So many milliseconds after the beginning.
pub(crate) fn at(millis: u64) -> Moment {
    Moment::ORIGIN + Duration::from_millis(millis)
}

/// Both clocks, so many milliseconds after the beginning.
pub(crate) fn now(millis: u64) -> Now {
    let start = Timestamp::from_seconds(1_700_000_000);
    Now { moment: at(millis), wall: start + Duration::from_millis(millis) }
}

/// The uid of test object `n`.
pub(crate) fn uid(n: u32) -> Uid {
    Uid::new(&uid_text(n))
}

/// Its text.
pub(crate) fn uid_text(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A pod `p<n>` in namespace `ns` with one container, with `change` merged over it.
pub(crate) fn pod_json(n: u32, change: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": format!("p{n}"), "namespace": "ns", "uid": uid_text(n), "resourceVersion": "1", "generation": 1},
        "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, change);
    pod
}

/// The same, decoded.
pub(crate) fn pod(n: u32, change: &Value) -> Arc<Pod> {
    decode_pod(&pod_json(n, change))
}

/// Any pod, decoded.
pub(crate) fn decode_pod(json: &Value) -> Arc<Pod> {
    Arc::new(Pod::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("it is a pod"))
}

/// An object of a kind of which only some fields are kept, decoded.
pub(crate) fn slim<B: Body>(json: &Value) -> Slim<B> {
    Slim::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("it is one")
}

/// A ready node with 4 cores, 8 GiB and room for 10 pods, with `change` merged over it.
pub(crate) fn node(name: &str, change: &Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": {"muster.dev/simulated": "true"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    merge(&mut node, change);
    Arc::new(Node::decode(node.to_string().as_bytes(), &mut Interner::new()).expect("it is a node"))
}

/// RFC 7386.
pub(crate) fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) if change.is_object() && !into.is_object() => {
            *into = json!({});
            merge(into, change);
        }
        (into, change) => *into = change.clone(),
    }
}
