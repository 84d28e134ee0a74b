//! The operations, and when the cluster is at rest after one.

use std::time::Duration;

use muster_runtime::client::PatchType;
use muster_simulation::World;
use muster_tree::{Value, json};
use tokio::time::Instant;

use crate::common::{Api, CONTROLLERS, DEPLOYMENTS, PODS, SETS, is_being_deleted, name, number, owner, pass};
use crate::look::look;

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

/// A workload `w` on which operations are performed.
pub(crate) struct Replay<'w> {
    api: Api<'w>,
    /// The collection that the workload is in.
    path: &'static str,
    /// The workload as it was first made.
    first: Value,
}

impl<'w> Replay<'w> {
    pub(crate) fn new(world: &'w World, kind: &str) -> Self {
        let path = match kind {
            "dep" => DEPLOYMENTS,
            "rs" => SETS,
            "rc" => CONTROLLERS,
            _ => panic!("no workload is called {kind}"),
        };
        Self { api: Api::of(world), path, first: Value::Null }
    }

    /// Does what the operation says: a verb and its arguments. The status of the answer, 0 where there is nothing
    /// to ask for, or a list of two such numbers.
    pub(crate) async fn perform(&mut self, operation: &Value) -> Value {
        let verb = operation[0].as_str().unwrap();
        let argument = &operation[1];
        if verb == "create" {
            self.first = first(self.path, &operation[2]);
            return self.api.post(self.path, &self.first).await.0.into();
        }
        match verb {
            "scale" => self.workload(&json!({"spec": {"replicas": argument}})).await.into(),
            "image" => {
                let containers = json!([{"name": "c", "image": argument}]);
                let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
                self.api.patch(&self.w(), PatchType::StrategicMerge, &patch).await.0.into()
            }
            "pause" | "resume" => self.workload(&json!({"spec": {"paused": verb == "pause"}})).await.into(),
            "annotate" => {
                let key = argument.as_str().unwrap();
                self.workload(&json!({"metadata": {"annotations": {key: operation[2]}}})).await.into()
            }
            "label" | "template" => {
                self.workload(&json!({"spec": {"template": {"metadata": {"labels": {"v": argument}}}}})).await.into()
            }
            "restart" => {
                let annotations = json!({"at": argument});
                self.workload(&json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})).await.into()
            }
            "history" => self.workload(&json!({"spec": {"revisionHistoryLimit": argument}})).await.into(),
            "strategy" => {
                self.workload(&json!({"spec": {"strategy": {"type": argument, "rollingUpdate": null}}})).await.into()
            }
            "rollbackto" => {
                let annotation = json!({"deprecated.deployment.rollback.to": argument.to_string()});
                self.workload(&json!({"metadata": {"annotations": annotation}})).await.into()
            }
            "undo" => self.undo().await.into(),
            "scalers" | "deleters" | "rebasers" => self.disturb_oldest_set(verb, argument).await.into(),
            "orphandelete" => self.delete_as_orphans_and_create_again().await,
            "orphan" => {
                let orphan = json!({
                    "metadata": {"generateName": "orphan-", "labels": {"app": "w"}},
                    "spec": pod_spec(),
                });
                self.api.post(PODS, &orphan).await.0.into()
            }
            "keep" => self.keep(argument).await,
            _ => self.disturb_first_pod(verb).await.into(),
        }
    }

    /// Waits until nothing has changed for 1.3 s (3.4 s where a short progress deadline runs), and looks.
    pub(crate) async fn rest(&self) -> Value {
        let short_deadline = self.path == DEPLOYMENTS && self.first["spec"]["progressDeadlineSeconds"] == 2;
        let need = Duration::from_millis(if short_deadline { 3400 } else { 1300 });
        let begin = Instant::now();
        let (mut last, mut quiet) = (Vec::new(), begin);
        while quiet.elapsed() < need && begin.elapsed() < Duration::from_secs(25) {
            let mut now = Vec::new();
            for path in [self.path, SETS, PODS] {
                let items = self.api.list(path).await;
                now.push(Vec::from_iter(items.iter().map(|item| item["metadata"]["resourceVersion"].to_string())));
            }
            if now != last {
                (last, quiet) = (now, Instant::now());
            }
            pass(Duration::from_millis(200)).await;
        }
        look(self.api, self.path).await
    }

    fn w(&self) -> String {
        format!("{}/w", self.path)
    }

    /// Merges a patch into the workload.
    async fn workload(&self, patch: &Value) -> u16 {
        self.api.merge(&self.w(), patch).await.0
    }

    /// Brings back the template of the second newest revision, as `kubectl rollout undo` does.
    async fn undo(&self) -> u16 {
        let mut sets = self.api.list(SETS).await;
        sets.retain(|set| owner(set).as_deref() == Some("Deployment/w"));
        let revision = |set: &Value| -> i64 {
            set.pointer(REVISION).and_then(Value::as_str).map_or(0, |revision| revision.parse().unwrap())
        };
        sets.sort_by(|a, b| (revision(a), name(a)).cmp(&(revision(b), name(b))));
        let [.., previous, _] = sets.as_mut_slice() else { return 0 };
        let mut template = previous["spec"]["template"].take();
        if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
            labels.remove("pod-template-hash");
        }
        let patch = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
        self.api.patch(&self.w(), PatchType::Json, &patch).await.0
    }

    /// Scales, deletes or frees the oldest ReplicaSet behind its owner's back.
    async fn disturb_oldest_set(&self, verb: &str, argument: &Value) -> u16 {
        let sets = self.api.list(SETS).await;
        let age = |set: &Value| (set["metadata"]["creationTimestamp"].to_string(), name(set).to_owned());
        let Some(oldest) = sets.iter().min_by_key(|set| age(set)) else { return 0 };
        let path = format!("{SETS}/{}", name(oldest));
        match verb {
            "scalers" => self.api.merge(&path, &json!({"spec": {"replicas": argument}})).await.0,
            "deleters" => self.api.delete(&path, Some(&json!({"propagationPolicy": "Background"}))).await.0,
            _ => self.api.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await.0,
        }
    }

    async fn delete_as_orphans_and_create_again(&self) -> Value {
        let deleted = self.api.delete(&self.w(), Some(&json!({"propagationPolicy": "Orphan"}))).await.0;
        for _ in 0..100 {
            if self.api.get(&self.w()).await.is_none() {
                break;
            }
            pass(Duration::from_millis(100)).await;
        }
        json!([deleted, self.api.post(self.path, &self.first).await.0])
    }

    /// Gives the first pods a high deletion cost, and scales to their number.
    async fn keep(&self, count: &Value) -> Value {
        let pods = self.pods().await;
        let kept = pods.iter().take(usize::try_from(count.as_u64().unwrap()).unwrap());
        let kept: Vec<&Value> = kept.collect();
        if pods.is_empty() {
            return 0.into();
        }
        for pod in &kept {
            let dear = json!({"controller.kubernetes.io/pod-deletion-cost": "100"});
            let patch = json!({"metadata": {"annotations": dear, "labels": {"keep": "yes"}}});
            self.api.merge(&format!("{PODS}/{}", name(pod)), &patch).await;
        }
        json!([kept.len(), self.workload(&json!({"spec": {"replicas": kept.len()}})).await])
    }

    /// Deletes, relabels or fails the first pod.
    async fn disturb_first_pod(&self, verb: &str) -> u16 {
        let pods = self.pods().await;
        let Some(pod) = pods.first() else { return 0 };
        let path = format!("{PODS}/{}", name(pod));
        match verb {
            "killpod" => self.api.delete(&path, None).await.0,
            "release" => self.api.merge(&path, &json!({"metadata": {"labels": {"app": "loose"}}})).await.0,
            "failpod" => {
                let conditions = json!([{"type": "Ready", "status": "False"}]);
                let patch = json!({"status": {"phase": "Failed", "conditions": conditions}});
                self.api.patch(&format!("{path}/status"), PatchType::StrategicMerge, &patch).await.0
            }
            _ => panic!("no operation is called {verb}"),
        }
    }

    /// The pods that have an owner and are not going, those alike beside each other.
    async fn pods(&self) -> Vec<Value> {
        let mut pods = self.api.list(&format!("{PODS}?labelSelector=app%3Dw")).await;
        pods.retain(|pod| owner(pod).is_some() && !is_being_deleted(pod));
        pods.sort_by_cached_key(|pod| {
            let image = &pod["spec"]["containers"][0]["image"];
            let parts = [&pod["metadata"]["labels"], image, &pod["status"]["phase"], &pod["metadata"]["name"]];
            parts.map(ToString::to_string)
        });
        pods
    }
}

fn pod_spec() -> Value {
    json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "nginx:1"}]})
}

/// The workload that the settings of a seed ask for.
fn first(path: &str, settings: &Value) -> Value {
    let selector = if path == CONTROLLERS { json!({"app": "w"}) } else { json!({"matchLabels": {"app": "w"}}) };
    let mut spec = json!({
        "replicas": number(settings, "/replicas"),
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod_spec()},
        "selector": selector,
    });
    if path == DEPLOYMENTS {
        spec["revisionHistoryLimit"] = settings["history"].clone();
        spec["progressDeadlineSeconds"] = settings["deadline"].clone();
        spec["strategy"] = json!({"type": settings["strategy"]});
        if settings["strategy"] == "RollingUpdate" {
            spec["strategy"]["rollingUpdate"] =
                json!({"maxSurge": settings["surge"], "maxUnavailable": settings["unavailable"]});
        }
    }
    json!({"metadata": {"name": "w"}, "spec": spec})
}
