//! What the buttons of an embedded cluster do: each is also told as the command that does the same (PG-05).

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use maud::{Markup, html};
use muster_controllers::deployment::rollback::roll_back;
use muster_controllers::deployment::sets::Sets;
use muster_controllers::plan::{Resource, Step};
use muster_inspect::reason::{list, text};
use muster_objects::meta::ObjectKey;
use muster_objects::names::is_dns1123_subdomain;
use muster_objects::{Deployment, Interner, Object as _};
use muster_runtime::client::{Client, ClientError, PatchType};
use muster_runtime::explain::Kind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::insight::Stage;
use crate::tour::{self, STEPS};
use crate::view::Scene;

/// How often an eviction is tried that a budget forbids, and how long there is in between.
const EVICTIONS: u32 = 6;
const EVICT_AGAIN: Duration = Duration::from_secs(5);

/// The image that no registry has, as the embedded cluster plays it.
pub(crate) const MISSING_IMAGE: &str = "nginx:404";

/// What a button asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum Act {
    /// Another number of pods.
    Scale { kind: String, namespace: String, name: String, replicas: u32 },
    /// Another image for the first container.
    Image { namespace: String, name: String, image: String },
    /// Back to the revision before.
    Undo { namespace: String, name: String },
    /// A pod goes.
    DeletePod { namespace: String, pod: String },
    /// A node takes no pods any more, and those that it has go where their budgets let them.
    Drain { node: String },
    /// It takes pods again.
    Uncordon { node: String },
    /// The managers' watches of a resource tell nothing for some seconds.
    Hold { resource: String, seconds: u64 },
    /// They break.
    Cut { resource: String },
    /// The manager that leads is gone.
    KillLeader {},
    /// The beginning of a step of the tour, by its number; some have several.
    Tour { step: usize, part: usize },
}

impl Act {
    /// Does it.
    ///
    /// # Errors
    /// In words for a person, where it cannot be done.
    pub(crate) async fn run(self, scene: &Scene) -> Result<String, String> {
        let Some(stage) = &scene.stage else {
            return Err("this page changes nothing: it shows a cluster that is served elsewhere".to_owned());
        };
        self.check()?;
        match self {
            Self::Scale { kind, namespace, name, replicas } => {
                let kind = Kind::of_plural(&kind).ok_or_else(|| format!("{kind:?} cannot be scaled"))?;
                scale(&scene.client, kind, &ObjectKey::new(&*namespace, &*name), replicas).await
            }
            Self::Image { namespace, name, image } => {
                set_image(&scene.client, &ObjectKey::new(&*namespace, &*name), &image).await
            }
            Self::Undo { namespace, name } => undo(scene, &ObjectKey::new(&*namespace, &*name)).await,
            Self::DeletePod { namespace, pod } => {
                done(scene.client.delete(&format!("/api/v1/namespaces/{namespace}/pods/{pod}"), None).await)?;
                Ok(format!("pod {pod} is being deleted"))
            }
            Self::Drain { node } => drain(scene, &node).await,
            Self::Uncordon { node } => {
                cordon(&scene.client, &node, false).await?;
                Ok(format!("node {node} takes pods again"))
            }
            Self::Hold { resource, seconds } => stage.hold(&resource, Duration::from_secs(seconds)),
            Self::Cut { resource } => stage.cut(Some(&*resource).filter(|resource| !resource.is_empty())),
            Self::KillLeader {} => stage.kill_leader(),
            Self::Tour { step, part } => tour::begin(scene, stage.as_ref(), step, part).await,
        }
    }

    /// What comes from a browser is looked at before it stands in a path.
    fn check(&self) -> Result<(), String> {
        let names: &[&str] = match self {
            Self::Scale { namespace, name, .. } | Self::Undo { namespace, name } => &[namespace, name],
            Self::Image { namespace, name, image } => {
                if image.is_empty() || image.len() > 500 || image.contains(char::is_whitespace) {
                    return Err(format!("image: found {image:?}, expected a name of an image"));
                }
                &[namespace, name]
            }
            Self::DeletePod { namespace, pod } => &[namespace, pod],
            Self::Drain { node } | Self::Uncordon { node } => &[node],
            Self::Tour { step, .. } if !(1..=STEPS.len()).contains(step) => {
                return Err(format!("there is no step {step}"));
            }
            Self::Hold { .. } | Self::Cut { .. } | Self::KillLeader {} | Self::Tour { .. } => &[],
        };
        match names.iter().find(|name| !is_dns1123_subdomain(name)) {
            Some(bad) => Err(format!("found {bad:?}, expected a name of lower case letters, digits, '-' and '.'")),
            None => Ok(()),
        }
    }
}

pub(crate) async fn scale(client: &Client, kind: Kind, key: &ObjectKey, replicas: u32) -> Result<String, String> {
    let path = format!("{}/scale", kind.resource().path(&key.namespace, &key.name));
    let body = json!({"spec": {"replicas": replicas}});
    done(client.patch(&path, PatchType::Merge, bytes(&body)).await)?;
    Ok(format!("{} scaled to {replicas}", key.name))
}

pub(crate) async fn set_image(client: &Client, key: &ObjectKey, image: &str) -> Result<String, String> {
    let path = Resource::DEPLOYMENTS.path(&key.namespace, &key.name);
    let deployment = read(client, &path).await?;
    let container = deployment.pointer("/spec/template/spec/containers/0/name").and_then(Value::as_str);
    let container = container.ok_or("it has no container")?;
    let body = json!({"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}});
    done(client.patch(&path, PatchType::StrategicMerge, bytes(&body)).await)?;
    Ok(format!("{} has the image {image} now", key.name))
}

/// As `kubectl rollout undo` does: the template and the annotations of the revision before, unless the Deployment is
/// paused or has that template.
pub(crate) async fn undo(scene: &Scene, key: &ObjectKey) -> Result<String, String> {
    let path = Resource::DEPLOYMENTS.path(&key.namespace, &key.name);
    let answer = scene.client.get(&path).await.map_err(|error| error.to_string())?;
    let deployment = Deployment::decode(&answer.body, &mut Interner::new()).map_err(|error| error.to_string())?;
    if deployment.paused {
        return Err(format!("{} is paused: resume it first, by kubectl rollout resume", key.name));
    }
    let sets = scene.model.sets_by_owner().remove(&deployment.meta.uid).unwrap_or_default();
    // The plan of a rollback that an annotation asks for; 0 is the revision before.
    for step in roll_back(&deployment, &Sets::of(&deployment, &sets), 0) {
        match step {
            Step::Tell(told) => return Err(told.message),
            Step::Fail(failure) => return Err(failure.to_string()),
            Step::Patch(patches) => {
                for patch in patches {
                    done(scene.client.patch(&path, PatchType::Json, patch.body).await)?;
                }
            }
            Step::Create(_) | Step::Delete(_) => {}
        }
    }
    Ok(format!("{} goes back to the revision before", key.name))
}

async fn cordon(client: &Client, node: &str, unschedulable: bool) -> Result<(), String> {
    let body = json!({"spec": {"unschedulable": unschedulable}});
    done(client.patch(&format!("/api/v1/nodes/{node}"), PatchType::Merge, bytes(&body)).await)
}

async fn drain(scene: &Scene, node: &str) -> Result<String, String> {
    cordon(&scene.client, node, true).await?;
    let pods = read(&scene.client, &format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await?;
    let (mut evicted, mut refused) = (0, Vec::new());
    let evictions = list(&pods, "/items")
        .iter()
        .filter(|pod| !comes_back(pod))
        .map(|pod| evict(&scene.client, text(pod, "/metadata/namespace"), text(pod, "/metadata/name")));
    for answer in join_all(evictions).await {
        match answer {
            Ok(()) => evicted += 1,
            Err(ClientError::Api(error)) if error.code == 404 => {}
            Err(error) => refused.push(error.to_string()),
        }
    }
    match refused.first() {
        None => Ok(format!("node {node} takes no pods, {evicted} pods are evicted")),
        Some(first) => Err(format!("{evicted} pods of node {node} are evicted, {} not: {first}", refused.len())),
    }
}

/// What a DaemonSet or the node itself would make anew: left alone as `kubectl drain --ignore-daemonsets` does.
fn comes_back(pod: &Value) -> bool {
    let is_daemon = |owner: &Value| {
        owner["controller"] == true && owner["kind"] == "DaemonSet" && text(owner, "/apiVersion").starts_with("apps/")
    };
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string()
        || list(pod, "/metadata/ownerReferences").iter().any(is_daemon)
}

/// Evicts a pod. What its budget forbids now is tried again for a while.
async fn evict(client: &Client, namespace: &str, name: &str) -> Result<(), ClientError> {
    let metadata = json!({"name": name, "namespace": namespace});
    let body = bytes(&json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}));
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let mut left = EVICTIONS;
    loop {
        left -= 1;
        match client.post(&path, body.clone()).await {
            Err(ClientError::Api(error)) if error.code == 429 && left > 0 => tokio::time::sleep(EVICT_AGAIN).await,
            answer => return answer.map(drop),
        }
    }
}

pub(crate) async fn read(client: &Client, path: &str) -> Result<Value, String> {
    let answer = client.get(path).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
}

pub(crate) fn done<T>(answer: Result<T, ClientError>) -> Result<(), String> {
    answer.map(drop).map_err(|error| error.to_string())
}

pub(crate) fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// The buttons of the whole cluster.
pub(crate) fn of_cluster(scene: &Scene, stage: &dyn Stage) -> Markup {
    let reach = &scene.reach;
    let nodes = scene.model.book().nodes().clone();
    let managers = stage.managers();
    html! {
        section.acts {
            h2 { "Do something to the cluster" }
            @if !nodes.is_empty() {
                (form("drain", &[], &html! {
                    label { "Node " select name="node" { @for node in &nodes { option { (node) } } } }
                }, "Drain", &format!("kubectl drain {{node}} --ignore-daemonsets --force --delete-emptydir-data {reach}")))
                (form("uncordon", &[], &html! {
                    label { "Node " select name="node" { @for node in &nodes { option { (node) } } } }
                }, "Uncordon", &format!("kubectl uncordon {{node}} {reach}")))
            }
            (faults(reach, &managers))
        }
    }
}

/// The faults of an embedded cluster.
fn faults(reach: &str, managers: &[(String, bool)]) -> Markup {
    let resource = html! {
        label { "Watch of " select name="resource" { @for resource in ["pods", "replicasets", "deployments"] { option { (resource) } } } }
    };
    let seconds = html! { label { "Seconds " input type="number" name="seconds" value="5" min="1" max="300" required data-number=""; } };
    html! {
        (form("hold", &[], &html! { (resource) (seconds) }, "Hold the manager's watch", &format!("muster faults hold {{resource}} --for {{seconds}}s {reach}")))
        (form("cut", &[], &html! { (resource) }, "Cut the manager's watch", &format!("muster faults cut {{resource}} {reach}")))
        @if managers.len() > 1 {
            (form("kill-leader", &[], &html! {
                span { @for (name, leads) in managers { (name) @if *leads { " (leads)" } " " } }
            }, "Kill the leader", &format!("muster faults kill-leader {reach}")))
        }
    }
}

/// The buttons of one workload.
pub(crate) fn of_workload(scene: &Scene, stage: &dyn Stage, kind: Kind, key: &ObjectKey, replicas: i32) -> Markup {
    let container = container(scene, key);
    let ObjectKey { namespace, name } = key;
    let (plural, short) = (kind.resource().plural, Scene::command_kind(kind));
    let there = format!("-n {namespace} {}", scene.reach);
    let object = [("kind", plural), ("namespace", &**namespace), ("name", &**name)];
    html! {
        section.acts {
            h2 { "Do something to it" }
            (form("scale", &object, &html! {
                label { "Pods " input type="number" name="replicas" value=(replicas) min="0" max="20000" required data-number=""; }
            }, "Scale", &format!("kubectl scale {short}/{name} --replicas={{replicas}} {there}")))
            @if kind == Kind::Deployment {
                (form("image", &object[1..], &html! {
                    label { "Image " input name="image" value="nginx:1.30" maxlength="500" required; }
                }, "Change the image", &format!("kubectl set image deployment/{name} {container}={{image}} {there}")))
                (form("image", &object[1..], &html! { input type="hidden" name="image" value=(MISSING_IMAGE); },
                    "Break it", &format!("kubectl set image deployment/{name} {container}={MISSING_IMAGE} {there}")))
                (form("undo", &object[1..], &html! {}, "Undo", &format!("kubectl rollout undo deployment/{name} {there}")))
            }
            (form("delete-pod", &object[1..2], &html! {
                label { "Pod " input name="pod" required placeholder="choose a cell above" data-chosen=""; }
            }, "Kill the pod", &format!("kubectl delete pod {{pod}} {there}")))
            (faults(&scene.reach, &stage.managers()))
        }
    }
}

/// The first container of a Deployment, whose image is changed.
fn container(scene: &Scene, key: &ObjectKey) -> String {
    let deployments = scene.model.deployments.read();
    let template = deployments.get(key).map(|deployment| deployment.template.raw()).unwrap_or_default();
    let template: Value = serde_json::from_str(template).unwrap_or_default();
    text(&template, "/spec/containers/0/name").to_owned()
}

/// A button with its fields, and the command that does the same.
pub(crate) fn form(act: &str, fixed: &[(&str, &str)], fields: &Markup, button: &str, command: &str) -> Markup {
    html! {
        form.act data-act=(act) {
            @for (name, value) in fixed { input type="hidden" name=(name) value=(value); }
            (fields)
            button type="submit" { (button) }
            code data-command=(command.trim_end()) { (command.trim_end()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(json: &Value) -> Result<Act, String> {
        let act: Act = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
        act.check().map(|()| act)
    }

    #[test]
    fn what_a_browser_asks_for_is_checked() {
        let good = json!({"act": "scale", "kind": "deployments", "namespace": "a", "name": "web", "replicas": 3});
        assert!(act(&good).is_ok());
        for bad in [
            json!({"act": "scale", "kind": "deployments", "namespace": "a", "name": "../web", "replicas": 3}),
            json!({"act": "scale", "kind": "deployments", "namespace": "a", "name": "web", "replicas": -3}),
            json!({"act": "scale", "kind": "deployments", "namespace": "a", "name": "web", "replicas": 3, "more": 1}),
            json!({"act": "image", "namespace": "a", "name": "web", "image": "a b"}),
            json!({"act": "drain", "node": ""}),
            json!({"act": "tour", "step": 9, "part": 0}),
            json!({"act": "format-disk"}),
        ] {
            assert!(act(&bad).is_err(), "{bad}");
        }
    }
}
