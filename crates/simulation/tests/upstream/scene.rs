//! A cluster without a node that works: what becomes of a pod is what the test says.

use std::time::Duration;

use muster_objects::Timestamp;
use muster_runtime::client::PatchType;
use muster_simulation::world::EPOCH_NANOS;
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};
use tokio::time::Instant;

use crate::common::{Api, DEPLOYMENTS, PODS, SETS, condition, is_being_deleted, name, number, pass};

/// A node without a kubelet: a deleted pod on it stays until it is deleted by force.
pub(crate) const NODE: &str = "fake-node";

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than anything here takes.
const LONGEST: Duration = Duration::from_secs(300);

/// A cluster, and the time in it.
pub(crate) struct Scene {
    world: World,
    began: Instant,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let began = Instant::now();
        let world = World::start(Settings { nodes: 0, ..Settings::seeded(7) }).await.unwrap();
        let scene = Self { world, began };
        scene.create("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})).await;
        scene
    }

    pub(crate) fn api(&self) -> Api<'_> {
        Api::of(&self.world)
    }

    /// The time this many seconds ago.
    pub(crate) fn ago(&self, seconds: u64) -> Timestamp {
        Timestamp::from_nanos(EPOCH_NANOS) + self.began.elapsed() - Duration::from_secs(seconds)
    }

    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Value {
        let (status, created) = self.api().post(collection, object).await;
        assert_eq!(status, 201, "POST {collection}: {created}");
        created
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.api().get(path).await.unwrap_or_else(|| panic!("{path} should be there"))
    }

    /// A merge patch.
    pub(crate) async fn edit(&self, path: &str, patch: &Value) -> Value {
        let (status, edited) = self.api().merge(path, patch).await;
        assert_eq!(status, 200, "PATCH {path}: {edited}");
        edited
    }

    /// Writes some of a pod's status.
    pub(crate) async fn report(&self, pod: &str, status: &Value) {
        let path = format!("{PODS}/{pod}/status");
        let (code, said) = self.api().patch(&path, PatchType::StrategicMerge, &json!({ "status": status })).await;
        assert_eq!(code, 200, "PATCH {path}: {said}");
    }

    pub(crate) async fn report_ready(&self, pod: &str, ready: &str, since: Timestamp) {
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": since});
        self.report(pod, &json!({"phase": "Running", "conditions": [ready]})).await;
    }

    /// Every pod that is to stay turns ready.
    pub(crate) async fn ready_all(&self) {
        for pod in self.api().list(PODS).await {
            if condition(&pod, "Ready")["status"] != "True" && !is_being_deleted(&pod) {
                self.report_ready(name(&pod), "True", self.ago(0)).await;
            }
        }
    }

    /// Deletes a pod; with a grace of 0, by force.
    pub(crate) async fn delete_pod(&self, pod: &str, grace: Option<u32>) {
        let options =
            grace.map(|grace| json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace}));
        let (status, said) = self.api().delete(&format!("{PODS}/{pod}"), options.as_ref()).await;
        assert!(status < 300, "DELETE {pod}: {said}");
    }

    /// Takes away the pods that are being deleted.
    pub(crate) async fn bury(&self) {
        for pod in self.api().list(PODS).await.iter().filter(|pod| is_being_deleted(pod)) {
            self.delete_pod(name(pod), Some(0)).await;
        }
    }

    /// Waits until the object is so.
    pub(crate) async fn until(&self, path: &str, done: impl Fn(&Value) -> bool) -> Value {
        self.world.until(path, LONGEST, done).await.unwrap_or_else(|last| panic!("{path}: {last}"))
    }

    /// Waits until the pods are so.
    pub(crate) async fn until_pods(&self, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_all(PODS, done).await
    }

    /// Waits until the objects of a collection are so.
    pub(crate) async fn until_all(&self, collection: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + LONGEST;
        loop {
            let all = self.api().list(collection).await;
            if done(&all) {
                return all;
            }
            assert!(Instant::now() < deadline, "{collection}: {}", Value::from(all));
            pass(LOOK_EVERY).await;
        }
    }

    /// Waits until the object's controller has seen its spec.
    pub(crate) async fn observed(&self, path: &str) -> Value {
        self.until(path, is_observed).await
    }

    /// Waits until the Deployment and its new ReplicaSet are at that revision and image; gives the ReplicaSet.
    pub(crate) async fn at_revision(&self, deployment: &str, revision: &str, image: &str) -> Value {
        let path = format!("{DEPLOYMENTS}/{deployment}");
        let web = self.until(&path, |web| is_observed(web) && annotation(web, REVISION) == revision).await;
        let found = self.until_all(SETS, |sets| new_of(&web, sets).is_some()).await;
        let new = new_of(&web, &found).unwrap();
        assert_eq!(new["spec"]["template"]["spec"]["containers"][0]["image"], image);
        new.clone()
    }

    /// Lets pods turn ready until the Deployment is complete, and looks at it meanwhile.
    pub(crate) async fn complete(&self, deployment: &str, look: impl Fn(&Value, &[Value])) -> Value {
        let path = format!("{DEPLOYMENTS}/{deployment}");
        let deadline = Instant::now() + LONGEST;
        loop {
            let web = self.get(&path).await;
            look(&web, &self.api().list(PODS).await);
            let replicas = number(&web, "/spec/replicas");
            let counted = ["/status/replicas", "/status/updatedReplicas", "/status/availableReplicas"];
            if is_observed(&web) && counted.iter().all(|field| number(&web, field) == replicas) {
                return web;
            }
            assert!(Instant::now() < deadline, "{deployment}: {web}");
            self.ready_all().await;
            pass(LOOK_EVERY).await;
        }
    }

    pub(crate) async fn stop(self) {
        self.world.stop().await;
    }
}

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";

pub(crate) fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

/// The uid of the controlling owner.
pub(crate) fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// The Deployment's ReplicaSet of its own revision.
pub(crate) fn new_of<'a>(deployment: &Value, sets: &'a [Value]) -> Option<&'a Value> {
    let revision = annotation(deployment, REVISION);
    sets.iter().find(|set| controller(set) == Some(uid(deployment)) && annotation(set, REVISION) == revision)
}

/// A reference that does not control, as the only one.
pub(crate) fn only_reference(api_version: &str, kind: &str, object: &Value) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": api_version, "kind": kind, "name": name(object), "uid": uid(object), "controller": false},
    ]}})
}

/// Scales by the subresource, and says what the object itself then wants.
pub(crate) async fn scale(scene: &Scene, path: &str, replicas: u32) -> i64 {
    let scale = format!("{path}/scale");
    let mut body = scene.get(&scale).await;
    assert_eq!(body["spec"]["replicas"], scene.get(path).await["spec"]["replicas"]);
    body["spec"]["replicas"] = json!(replicas);
    let (status, said) = scene.api().put(&scale, &body).await;
    assert_eq!(status, 200, "PUT {scale}: {said}");
    number(&scene.get(path).await, "/spec/replicas")
}

/// A PUT of another selector is refused.
pub(crate) async fn assert_selector_is_immutable(scene: &Scene, path: &str) {
    let mut changed = scene.get(path).await;
    changed["spec"]["selector"]["matchLabels"] = json!({"changed": "label"});
    changed["spec"]["template"]["metadata"]["labels"] = json!({"changed": "label"});
    let (status, said) = scene.api().put(path, &changed).await;
    assert_eq!(status, 422);
    let said = said.to_string();
    assert!(said.contains("Invalid value") && said.contains("field is immutable"), "{said}");
}
