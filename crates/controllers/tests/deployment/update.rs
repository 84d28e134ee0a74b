//! Update: the patch of one ReplicaSet.

use std::sync::Arc;

use muster_controllers::deployment::update::{Refresh, SetUpdate};
use muster_controllers::plan::{PatchType, Settled, Written};
use muster_objects::ReplicaSet;
use serde_json::{Value, json};

use crate::fixtures::{rolling, set, set_scaled_for, set_with, uid};

fn body(update: &SetUpdate) -> Value {
    serde_json::from_slice(&update.patch().body).expect("JSON")
}

fn told(update: &SetUpdate) -> Option<String> {
    let written = Written { name: "web-1".into(), uid: uid(101), resource_version: None };
    let Settled { announcement, .. } = update.patch().settle(&Ok(written));
    announcement
        .map(|told| format!("{} {} {}", if told.warning { "Warning" } else { "Normal" }, told.reason, told.message))
}

/// Contract: DEP-13
#[test]
fn scaling_writes_replicas_and_both_annotations_and_tells_of_it() {
    let deployment = rolling(4, 1, 1);
    let up = SetUpdate::scale(&deployment, &set(1, "a", 1), 3, Refresh::WhenScaled).expect("a change");
    assert_eq!(up.patch().patch_type, PatchType::Json);
    assert_eq!(
        body(&up),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": uid(101)},
            {"op": "test", "path": "/spec/replicas", "value": 1},
            {"op": "replace", "path": "/spec/replicas", "value": 3},
            {"op": "add", "path": "/metadata/annotations/deployment.kubernetes.io~1desired-replicas", "value": "4"},
            {"op": "add", "path": "/metadata/annotations/deployment.kubernetes.io~1max-replicas", "value": "5"},
        ])
    );
    assert_eq!(told(&up).as_deref(), Some("Normal ScalingReplicaSet Scaled up replica set web-1 from 1 to 3"));
    let down = SetUpdate::scale(&deployment, &set_scaled_for(1, "a", 3, 4, 5), 0, Refresh::WhenScaled);
    let down = down.expect("a change");
    assert_eq!(body(&down).as_array().map(Vec::len), Some(3), "the annotations are right already");
    assert_eq!(told(&down).as_deref(), Some("Normal ScalingReplicaSet Scaled down replica set web-1 from 3 to 0"));
}

/// Contract: DEP-13
#[test]
fn annotations_alone_are_written_only_where_that_is_asked_for() {
    let deployment = rolling(4, 1, 1);
    let stale = set_scaled_for(1, "a", 3, 3, 4);
    assert_eq!(SetUpdate::scale(&deployment, &stale, 3, Refresh::WhenScaled), None);
    let refreshed = SetUpdate::scale(&deployment, &stale, 3, Refresh::Always).expect("a change");
    assert!(!refreshed.is_scaling());
    assert_eq!(told(&refreshed), None);
    let fresh = set_scaled_for(1, "a", 3, 4, 5);
    assert_eq!(SetUpdate::scale(&deployment, &fresh, 3, Refresh::Always), None);
}

/// Without annotations the map is added whole; the version is tested, so that annotations added meanwhile are not lost.
///
/// Contract: DEP-13
#[test]
fn a_missing_map_of_annotations_is_added_whole() {
    let bare = set_with(1, "a", 1, |json| json["metadata"]["annotations"] = json!(null));
    let update = SetUpdate::scale(&rolling(4, 1, 1), &bare, 2, Refresh::WhenScaled).expect("a change");
    let operations = body(&update);
    assert_eq!(operations[3], json!({"op": "test", "path": "/metadata/resourceVersion", "value": "90"}));
    assert_eq!(
        operations[4],
        json!({"op": "add", "path": "/metadata/annotations", "value": {
            "deployment.kubernetes.io/desired-replicas": "4", "deployment.kubernetes.io/max-replicas": "5",
        }})
    );
}

/// Contract: DEP-06
#[test]
fn min_ready_seconds_is_written_when_it_differs() {
    let before = set(1, "a", 1);
    let after = Arc::new(ReplicaSet { min_ready_seconds: 7, ..ReplicaSet::clone(&before) });
    let update = SetUpdate { before, after };
    assert_eq!(body(&update)[2], json!({"op": "add", "path": "/spec/minReadySeconds", "value": 7}));
    assert_eq!(update.patch().purpose, "bring up to date with its Deployment");
}
