//! A namespace of a test: its manifests, what it asks the server, and what it waits for.

use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::wait::{eventually, same};

/// The kinds that tests handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pod,
    ReplicaSet,
    ReplicationController,
    Deployment,
    ResourceQuota,
}

impl Kind {
    fn of(object: &Value) -> Self {
        match object["kind"].as_str() {
            Some("Pod") => Self::Pod,
            Some("ReplicaSet") => Self::ReplicaSet,
            Some("ReplicationController") => Self::ReplicationController,
            Some("Deployment") => Self::Deployment,
            Some("ResourceQuota") => Self::ResourceQuota,
            other => panic!("a manifest of kind {other:?}"),
        }
    }

    fn collection(self, namespace: &str) -> String {
        let (root, plural) = match self {
            Self::Pod => ("api/v1", "pods"),
            Self::ReplicationController => ("api/v1", "replicationcontrollers"),
            Self::ResourceQuota => ("api/v1", "resourcequotas"),
            Self::ReplicaSet => ("apis/apps/v1", "replicasets"),
            Self::Deployment => ("apis/apps/v1", "deployments"),
        };
        format!("/{root}/namespaces/{namespace}/{plural}")
    }
}

/// A template of pods with the label `app`.
pub(crate) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "nginx:1.25"}]},
    })
}

/// A pod by itself, with the label `app`.
pub(crate) fn pod(name: &str, app: &str) -> Value {
    let mut pod = template(app);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}

/// A ReplicaSet of pods whose label `app` is its name.
pub(crate) fn replicaset(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}

/// A ReplicationController of pods whose label `app` is its name.
pub(crate) fn replication_controller(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"app": name}, "template": template(name)},
    })
}

/// A Deployment of pods whose label `app` is its name.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    let mut deployment = replicaset(name, replicas);
    deployment["kind"] = json!("Deployment");
    deployment
}

/// A patch of a workload's template that gives its containers another image.
pub(crate) fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// A namespace.
pub(crate) struct Space<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) name: String,
}

impl<'a> Space<'a> {
    /// Makes the namespace.
    pub(crate) fn new(plane: &'a ControlPlane, name: &str) -> Self {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let made = plane.api.create("/api/v1/namespaces", &body);
        made.unwrap_or_else(|refusal| panic!("namespace {name}: {refusal}"));
        Self { plane, name: name.to_owned() }
    }

    /// The namespace that was made before.
    pub(crate) fn again(plane: &'a ControlPlane, name: &str) -> Self {
        Self { plane, name: name.to_owned() }
    }

    /// Where an object is.
    pub(crate) fn path(&self, kind: Kind, name: &str) -> String {
        format!("{}/{name}", kind.collection(&self.name))
    }

    pub(crate) fn create(&self, body: &Value) -> Value {
        let path = Kind::of(body).collection(&self.name);
        self.plane.api.create(&path, body).unwrap_or_else(|refusal| panic!("create at {path}: {refusal}"))
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Value {
        let path = self.path(kind, name);
        self.plane.api.get(&path).unwrap_or_else(|refusal| panic!("get {path}: {refusal}"))
    }

    /// The object, where the server answers and has it.
    pub(crate) fn try_get(&self, kind: Kind, name: &str) -> Result<Value, String> {
        let path = self.path(kind, name);
        self.plane.api.get(&path).map_err(|refusal| format!("{path}: {refusal}"))
    }

    pub(crate) fn merge(&self, kind: Kind, name: &str, patch: &Value) -> Value {
        let path = self.path(kind, name);
        self.plane.api.merge(&path, patch).unwrap_or_else(|refusal| panic!("patch of {path}: {refusal}"))
    }

    pub(crate) fn scale(&self, kind: Kind, name: &str, replicas: u32) {
        self.merge(kind, name, &json!({"spec": {"replicas": replicas}}));
    }

    /// Deletes an object, its dependents by `policy`: `Background`, `Foreground` or `Orphan`.
    pub(crate) fn delete(&self, kind: Kind, name: &str, policy: &str) {
        self.delete_by(kind, name, &json!({"propagationPolicy": policy}));
    }

    /// Waits until an object is gone.
    pub(crate) fn gone(&self, kind: Kind, name: &str) {
        eventually(&format!("the end of {kind:?} {}/{name}", self.name), || {
            match self.plane.api.get(&self.path(kind, name)) {
                Err(refusal) if refusal.code == 404 => Ok(()),
                Err(refusal) => Err(refusal.to_string()),
                Ok(object) => Err(object["metadata"].to_string()),
            }
        });
    }

    /// Removes a pod at once, whatever runs in it.
    pub(crate) fn end_pod(&self, name: &str) {
        self.delete_by(Kind::Pod, name, &json!({"gracePeriodSeconds": 0}));
    }

    fn delete_by(&self, kind: Kind, name: &str, options: &Value) {
        let path = self.path(kind, name);
        self.plane.api.delete(&path, options).unwrap_or_else(|refusal| panic!("deletion of {path}: {refusal}"));
    }

    /// The objects with that label `app`, where the server answers.
    pub(crate) fn try_list(&self, kind: Kind, app: &str) -> Result<Vec<Value>, String> {
        let path = format!("{}?labelSelector=app%3D{app}", kind.collection(&self.name));
        let list = self.plane.api.get(&path).map_err(|refusal| format!("{path}: {refusal}"))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The objects with that label `app`.
    pub(crate) fn list(&self, kind: Kind, app: &str) -> Vec<Value> {
        self.try_list(kind, app).unwrap_or_else(|said| panic!("{said}"))
    }

    /// The names of the pods with that label `app`, in order.
    pub(crate) fn pods(&self, app: &str) -> Vec<String> {
        let mut names: Vec<String> = self.list(Kind::Pod, app).iter().map(name_of).collect();
        names.sort();
        names
    }

    /// Waits until a ReplicaSet or ReplicationController says of its newest generation that it has exactly so many pods,
    /// all of them ready.
    pub(crate) fn ready(&self, kind: Kind, name: &str, replicas: u64) {
        eventually(&format!("{replicas} ready replicas of {kind:?} {}/{name}", self.name), || {
            let object = self.try_get(kind, name)?;
            let found = (observed(&object), count(&object, "replicas"), count(&object, "readyReplicas"));
            same(&found, &(true, replicas, replicas)).map_err(|said| format!("{said}: {}", object["status"]))
        });
    }

    /// Waits until a ReplicaSet or ReplicationController says of its newest generation that it has exactly so many pods.
    pub(crate) fn has(&self, kind: Kind, name: &str, replicas: u64) {
        eventually(&format!("{replicas} replicas of {kind:?} {}/{name}", self.name), || {
            let object = self.try_get(kind, name)?;
            let found = (observed(&object), count(&object, "replicas"));
            same(&found, &(true, replicas)).map_err(|said| format!("{said}: {}", object["status"]))
        });
    }

    /// Waits until a Deployment's newest template is all that there is of it, and available.
    pub(crate) fn complete(&self, name: &str) {
        eventually(&format!("the end of the rollout of {}/{name}", self.name), || {
            let object = self.try_get(Kind::Deployment, name)?;
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or_default();
            let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|field| count(&object, field));
            let found = (observed(&object), counts);
            same(&found, &(true, [wanted; 3])).map_err(|said| format!("{said}: {}", object["status"]))
        });
    }

    /// Waits for a condition of this reason and returns it.
    pub(crate) fn condition(&self, kind: Kind, name: &str, reason: &str) -> Value {
        eventually(&format!("the condition {reason} of {kind:?} {}/{name}", self.name), || {
            let object = self.try_get(kind, name)?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|condition| condition["reason"] == reason);
            found.ok_or_else(|| object["status"].to_string())
        })
    }

    /// Waits for an Event of this reason about the object of that name, and returns its message.
    pub(crate) fn event(&self, name: &str, reason: &str) -> String {
        let selector = format!("involvedObject.name%3D{name},reason%3D{reason}");
        let path = format!("/api/v1/namespaces/{}/events?fieldSelector={selector}", self.name);
        eventually(&format!("the Event {reason} about {}/{name}", self.name), || {
            let list = self.plane.api.get(&path).map_err(|refusal| refusal.to_string())?;
            let first = list["items"].as_array().and_then(|items| items.first());
            let message = first.and_then(|event| event["message"].as_str()).map(str::to_owned);
            message.ok_or_else(|| "none".to_owned())
        })
    }
}

/// Whether the status is about the newest spec.
fn observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// A count of the status; one that is absent is 0.
pub(crate) fn count(object: &Value, field: &str) -> u64 {
    object["status"][field].as_u64().unwrap_or_default()
}

/// An object's name.
pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("every object has a name").to_owned()
}

/// The kind, name and uid of an object's controller.
pub(crate) fn controller_of(object: &Value) -> Option<(String, String, String)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    Some((text("kind"), text("name"), text("uid")))
}
