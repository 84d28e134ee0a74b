//! Another kind behind the same controller: what a ReplicationController will need, and nothing more.

use std::sync::Arc;
use std::time::Duration;

use muster_controllers::plan::{ClaimOutcome, Outcome, Step};
use muster_controllers::replicaset::{
    Identity, Remembered, ReplicaOwner, Snapshot, decide, decide_claims, status_after,
};
use muster_machinery::Cache;
use muster_objects::meta::ControllerRef;
use muster_objects::{
    DecodeError, Interner, Meta, Object, Pod, ReplicaSet, ReplicaSetStatus, ReplicationController, Selector,
    SelectorError, Template,
};
use serde_json::{Value, json};

use crate::fixtures::{NOW, orphan, pod, reference_to, replica_set, snapshot, terminating, uid};

/// A v1 ReplicationController, decoded as if it were a ReplicaSet.
#[derive(Debug)]
struct Controller(ReplicaSet);

impl Object for Controller {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicationController";

    fn meta(&self) -> &Meta {
        &self.0.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        ReplicaSet::decode(json, interner).map(Self)
    }
}

impl ReplicaOwner for Controller {
    const IDENTITY: Identity = Identity::REPLICATION_CONTROLLER;

    fn replicas(&self) -> i32 {
        self.0.replicas
    }

    fn min_ready_seconds(&self) -> i32 {
        self.0.min_ready_seconds
    }

    fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.0.selector.as_ref()
    }

    fn template(&self) -> &Template {
        &self.0.template
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.0.status
    }
}

fn controller(replicas: i32, pods: Vec<muster_objects::Pod>) -> Snapshot<Controller> {
    let Snapshot { selector, pods, colocation, .. } = snapshot(replica_set(replicas), pods);
    Snapshot {
        owner: Arc::new(Controller(replica_set(replicas))),
        selector,
        pods,
        colocation,
        memory: Remembered::default(),
        burst: 500,
    }
}

/// Pods are made for, and adopted by, the kind's own name and version.
///
/// Contract: RC-01
#[test]
fn references_name_the_kind() {
    let reference = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": uid(1),
        "controller": true, "blockOwnerDeletion": true,
    });
    let plan = decide(&controller(1, vec![]), &ClaimOutcome::default(), NOW);
    let Step::Create(creation) = &plan.steps[0] else { panic!("{plan}") };
    let body: Value = serde_json::from_slice(&creation.body).expect("JSON");
    assert_eq!(body["metadata"]["ownerReferences"], json!([reference]));
    let claims = decide_claims(&controller(1, vec![orphan("a", 11)]));
    let body: Value = serde_json::from_slice(&claims.patches[0].body).expect("JSON");
    assert_eq!(body["metadata"]["ownerReferences"], json!([reference]));
    assert_eq!(claims.owner.component, "replication-controller");
    assert_eq!(claims.owner.resource.path("default", "web"), "/api/v1/namespaces/default/replicationcontrollers/web");
    assert_eq!(Controller::IDENTITY.queue, "replicationmanager");
    assert_eq!(Identity::REPLICA_SET.queue, "replicaset");
}

/// Its status does not count what terminates, and a write says nothing of the field.
///
/// Contract: RC-02, RC-03
#[test]
fn the_status_has_no_terminating_replicas() {
    let snapshot = controller(1, vec![pod("a", 11), terminating(pod("b", 12))]);
    let (write, ..) = status_after(&snapshot, &ClaimOutcome::default(), &Outcome::default(), Duration::ZERO, NOW);
    let status = write.expect("a difference").status;
    assert_eq!(status["replicas"], 1);
    assert_eq!(status.get("terminatingReplicas"), None);
}

/// Upstream's index of siblings has ReplicaSets only: pods of a ReplicationController are not ranked by their nodes,
/// whoever controls it.
///
/// Contract: RC-02, DEL-03
#[test]
fn pods_are_not_ranked_by_the_nodes_of_siblings() {
    let controller = json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": uid(1), "resourceVersion": "100",
            "ownerReferences": [{
                "apiVersion": "apps.openshift.io/v1", "kind": "DeploymentConfig", "name": "web", "uid": uid(70),
                "controller": true,
            }],
        },
        "spec": {"replicas": 1, "selector": {"app": "web"}, "template": {"metadata": {"labels": {"app": "web"}}}},
    });
    let decoded = ReplicationController::decode(controller.to_string().as_bytes(), &mut Interner::new());
    let owner = Arc::new(decoded.expect("a test's own ReplicationController decodes"));
    let (mut owners, mut pods) = (Cache::new(), Cache::new());
    owners.apply(ReplicationController::clone(&owner));
    for (name, number) in [("a", 11), ("b", 12)] {
        let mut pod = Pod { node_name: Some("x".into()), ..pod(name, number) };
        let reference = ControllerRef { kind: "ReplicationController".into(), ..reference_to("web", 1) };
        pod.meta.controller = Some(Arc::new(reference));
        pods.apply(pod);
    }
    let snapshot = Snapshot::take(owner, &owners, &pods, Remembered::default(), 500).expect("a valid selector");
    assert_eq!(snapshot.pods.len(), 2);
    let around = |snapshot: &Snapshot<_>| snapshot.colocation.around(&snapshot.pods[0]);
    assert_eq!(around(&snapshot), 0);
    assert_eq!(around(&snapshot.ranked_among(&owners, &pods)), 0, "nor for an explanation");
}
