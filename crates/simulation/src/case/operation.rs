//! What is done in a case, by users, machines and others.

use std::time::Duration;

use muster_cluster::fate::Fate;
use muster_runtime::client::PatchType;
use muster_tree::{Value, json};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::processes::Processes;
use crate::api::{Answered, Api, DEPLOYMENTS, NODES, PODS, SETS, is_being_deleted, name, number, owner, segment};
use crate::faults::Faults;
use crate::laws::{Done, Watcher};
use crate::text;
use crate::world::World;

/// The finalizer of a ReplicaSet that is held.
const HOLD: &str = "muster.dev/hold";

/// A typo in a file would leave its figures wrong without a word.
const STRICT: &str = "?fieldValidation=Strict";

/// One thing that is done at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// When, since the beginning; no earlier than the one before it.
    #[serde(with = "text::duration")]
    pub at: Duration,
    /// What.
    #[serde(rename = "do")]
    pub act: Act,
}

/// What is done. A number that picks one of several counts on from the first again where there are fewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Act {
    /// An object is created. The first Deployment is what the case is about.
    Create(Value),
    /// An object is created, or, where it is there, gets this as a merge patch, also while it is being deleted.
    Apply(Value),
    /// A workload gets a merge patch.
    Patch(Target),
    /// A workload is deleted.
    Delete(Doomed),
    /// One of the ReplicaSets is deleted.
    DeleteSet(DoomedSet),
    /// A Deployment is scaled by its subresource `scale`, as by an autoscaler.
    Scale {
        /// Its name.
        deployment: String,
        /// To this size.
        replicas: u64,
    },
    /// One of the pods that have an owner is deleted.
    DeletePod(u64),
    /// One of them goes on in another way.
    FailPod {
        /// Which.
        pod: u64,
        /// The annotation `muster.dev/fate`.
        #[serde(deserialize_with = "fate")]
        fate: String,
    },
    /// One of the nodes, but never the first, throws out all that it runs.
    TaintNode(u64),
    /// Every node takes pods again.
    HealNodes,
    /// There are this many nodes from now on: those that go are dead, and their pods with them.
    Nodes(u32),
    /// The server forgets its history.
    Compact,
    /// The server notes the present version, for `restore`.
    Remember,
    /// The server is put back to the version that was noted last.
    Restore,
    /// The server goes away: connections break, new ones are refused.
    ServerAway,
    /// The server comes back.
    ServerBack,
    /// Somebody else sets the size of one of the ReplicaSets: to this, or to what its status says that it has.
    Resize {
        /// Which.
        set: u64,
        /// The size.
        replicas: Option<u64>,
    },
    /// Somebody else makes a pod for one of the ReplicaSets.
    OtherPod {
        /// Which.
        set: u64,
        /// Whether it has an owner reference, or is to be adopted.
        owned: bool,
    },
    /// One of the pods gets a merge patch: another label, by which its owner releases it, or a deletion cost.
    PatchPod {
        /// Which.
        pod: u64,
        /// What of it changes.
        merge: Value,
    },
    /// One of the ReplicaSets that are no Deployment's is deleted with its pods orphaned, for another of its selector and size.
    ReplaceSet(u64),
    /// One of the managers dies, and another comes in its place.
    KillManager(u64),
    /// One of the managers is told to end (SIGTERM), and another comes in its place.
    StopManager(u64),
    /// One of the managers stands still for a while.
    FreezeManager(Pause),
    /// Nothing that one of the managers sends arrives for a while.
    CutOffManager(Pause),
    /// There are this many managers from now on: the oldest of those that are too many are told to end.
    Managers(u32),
}

/// One of the managers, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Which.
    pub manager: u64,
    /// How long.
    #[serde(rename = "for", with = "text::duration")]
    pub lasts: Duration,
}

/// A workload, and a merge patch of it (RFC 7386).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Of which kind it is: a Deployment unless it is said.
    #[serde(default, skip_serializing_if = "Workload::is_deployment")]
    pub kind: Workload,
    /// Its namespace: `default` unless it is said.
    #[serde(default = "default_namespace", skip_serializing_if = "is_default_namespace")]
    pub namespace: String,
    /// Its name.
    #[serde(alias = "deployment")]
    pub name: String,
    /// What of it changes.
    pub merge: Value,
}

/// A workload that is deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doomed {
    /// Of which kind it is: a Deployment unless it is said.
    #[serde(default, skip_serializing_if = "Workload::is_deployment")]
    pub kind: Workload,
    /// Its namespace: `default` unless it is said.
    #[serde(default = "default_namespace", skip_serializing_if = "is_default_namespace")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What becomes of what it owns: goes after it unless it is said.
    #[serde(default, skip_serializing_if = "Propagation::is_background")]
    pub propagation: Propagation,
}

/// A ReplicaSet that is deleted, whichever there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoomedSet {
    /// Which.
    pub set: u64,
    /// What becomes of its pods: they go after it unless it is said.
    #[serde(default, skip_serializing_if = "Propagation::is_background")]
    pub propagation: Propagation,
    /// Whether it gets a finalizer first that nobody takes away, so that it is being deleted for ever.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
}

/// What becomes of what a deleted object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Propagation {
    /// It goes after its owner.
    #[default]
    Background,
    /// It goes before its owner.
    Foreground,
    /// It stays, and is nobody's.
    Orphan,
}

impl Propagation {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_background(&self) -> bool {
        *self == Self::Background
    }

    /// The options of a deletion that say so.
    fn options(self) -> Value {
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": format!("{self:?}")})
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What has pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// A Deployment.
    #[default]
    Deployment,
    /// A ReplicaSet.
    ReplicaSet,
    /// A ReplicationController.
    ReplicationController,
}

impl Workload {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_deployment(&self) -> bool {
        *self == Self::Deployment
    }

    /// The path of one.
    fn path(self, namespace: &str, name: &str) -> String {
        let (namespace, name) = (segment(namespace), segment(name));
        match self {
            Self::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}"),
            Self::ReplicaSet => format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"),
            Self::ReplicationController => format!("/api/v1/namespaces/{namespace}/replicationcontrollers/{name}"),
        }
    }
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn is_default_namespace(namespace: &str) -> bool {
    namespace == "default"
}

impl Target {
    /// Of a Deployment in the namespace `default`.
    #[must_use]
    pub fn deployment(name: impl Into<String>, merge: Value) -> Self {
        Self { kind: Workload::Deployment, namespace: default_namespace(), name: name.into(), merge }
    }

    /// Whether it is a ReplicaSet.
    pub(super) fn is_of_set(&self) -> bool {
        self.kind == Workload::ReplicaSet
    }
}

/// A fate that pods know: of another one nothing would come.
fn fate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if Fate::NAMES.contains(&&*name) {
        return Ok(name);
    }
    let known = Fate::NAMES.join(", ");
    Err(D::Error::custom(format!("found the fate {name:?}, expected one of {known}")))
}

impl Act {
    /// Whether it is no user's doing.
    #[must_use]
    pub fn is_incident(&self) -> bool {
        match self {
            Self::Create(_) | Self::Apply(_) | Self::Patch(_) | Self::DeletePod(_) | Self::FailPod { .. } => false,
            Self::Delete(_) | Self::DeleteSet(_) => false,
            Self::TaintNode(_) | Self::HealNodes | Self::PatchPod { .. } | Self::ReplaceSet(_) => false,
            Self::Scale { .. } | Self::Nodes(_) | Self::Compact | Self::Remember | Self::Restore => true,
            Self::ServerAway | Self::ServerBack | Self::Resize { .. } | Self::OtherPod { .. } => true,
            Self::KillManager(_) | Self::StopManager(_) | Self::FreezeManager(_) | Self::CutOffManager(_) => true,
            Self::Managers(_) => true,
        }
    }

    /// How many pods it asks for.
    pub(super) fn replicas(&self) -> u64 {
        // YAML has numbers such as 1e3, which the server takes for what they are.
        let whole = |number: f64| if number < 0.0 { 0 } else { number as u64 };
        let number = |value: &Value| value.as_u64().or_else(|| value.as_f64().map(whole));
        let asked = |object: &Value| number(&object["spec"]["replicas"]);
        match self {
            Self::Create(object) | Self::Apply(object) => asked(object).unwrap_or(1),
            Self::Patch(target) => asked(&target.merge).unwrap_or_default(),
            Self::Scale { replicas, .. } => *replicas,
            Self::Resize { replicas, .. } => replicas.unwrap_or_default(),
            _ => 0,
        }
    }

    /// Until when it goes on, if it is done at this time.
    pub(super) fn ends(&self, at: Duration) -> Duration {
        match self {
            Self::FreezeManager(pause) | Self::CutOffManager(pause) => at.saturating_add(pause.lasts),
            _ => at,
        }
    }
}

/// Where operations are done.
pub(super) struct Scene<'w> {
    pub(super) world: &'w World,
    pub(super) watcher: &'w Watcher,
    pub(super) faults: &'w Faults,
    pub(super) processes: Processes<'w>,
    /// The version to restore.
    pub(super) remembered: Option<u64>,
    pub(super) done: Done,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undone {
    /// The server has no such kind.
    #[error("no kind {0} is served")]
    NoKind(String),
    /// The server refused it.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Why.
        message: String,
    },
    /// There was nothing that it could be done to.
    #[error("there is {0}")]
    Absent(&'static str),
}

impl Scene<'_> {
    /// Does it.
    ///
    /// # Errors
    /// What the server refuses, or has no object for, is left undone.
    pub(super) async fn act(&mut self, act: &Act) -> Result<(), Undone> {
        let api = Api::of(self.world);
        self.done.times += u64::from(act.is_incident());
        match act {
            Act::Create(object) => return self.create(api, object).await,
            Act::Apply(object) => {
                let path = format!("{}/{}{STRICT}", self.collection_of(object)?, segment(name(object)));
                return match api.merge(&path, object).await {
                    (404, _) => self.create(api, object).await,
                    answer => taken(&answer),
                };
            }
            Act::Delete(Doomed { kind, namespace, name, propagation }) => {
                return taken(&api.delete(&kind.path(namespace, name), Some(&propagation.options())).await);
            }
            Act::DeleteSet(DoomedSet { set, propagation, held }) => {
                let path = format!("{SETS}/{}", name(&some_set(api, *set).await?));
                if *held {
                    let hold = json!({"metadata": {"finalizers": [HOLD]}});
                    taken(&api.patch(&path, PatchType::StrategicMerge, &hold).await)?;
                }
                return taken(&api.delete(&path, Some(&propagation.options())).await);
            }
            Act::Patch(target) => {
                let Target { kind, namespace, name, merge } = target;
                let answer = api.merge(&kind.path(namespace, name), merge).await;
                taken(&answer)?;
                if target.is_of_set() {
                    self.done.sets.extend(version_of(&answer.1));
                }
            }
            Act::Scale { deployment, replicas } => {
                let scale = json!({"spec": {"replicas": replicas}});
                return taken(&api.merge(&format!("{DEPLOYMENTS}/{}/scale", segment(deployment)), &scale).await);
            }
            Act::DeletePod(which) => {
                let pod = some_pod(api, *which).await?;
                return taken(&api.delete(&path_of(&pod), None).await);
            }
            Act::FailPod { pod, fate } => {
                let fated = json!({"metadata": {"annotations": {"muster.dev/fate": fate}}});
                return patch_pod(api, *pod, &fated).await;
            }
            Act::PatchPod { pod, merge } => return patch_pod(api, *pod, merge).await,
            Act::ReplaceSet(which) => return replace_set(api, *which).await,
            Act::TaintNode(which) => {
                let nodes = api.list(NODES).await;
                let node =
                    nodes.get(1..).and_then(|others| pick(others, *which)).ok_or(Undone::Absent("one node only"))?;
                let taint = json!([{"key": "broken", "effect": "NoExecute"}]);
                let taints = json!({"spec": {"taints": taint}});
                return taken(&api.merge(&format!("{NODES}/{}", name(node)), &taints).await);
            }
            Act::HealNodes => heal_nodes(api).await,
            Act::Nodes(count) => self.world.set_nodes(*count),
            Act::Compact => self.world.storage().compact(),
            Act::Remember => self.remembered = Some(self.world.storage().version()),
            Act::Restore => {
                let version = self.remembered.ok_or(Undone::Absent("no version to restore"))?;
                let storage = self.world.storage();
                storage.restore(version).map_err(|_| Undone::Absent("no history from then any more"))?;
                self.watcher.restored();
            }
            Act::ServerAway => self.faults.go_away(),
            Act::ServerBack => self.faults.come_back(),
            Act::Resize { set, replicas } => return self.resize(api, *set, *replicas).await,
            Act::OtherPod { set, owned } => return self.other_pod(api, *set, *owned).await,
            Act::KillManager(which) => return self.processes.kill(*which).ok_or_else(no_manager),
            Act::StopManager(which) => return self.processes.stop(*which).ok_or_else(no_manager),
            Act::FreezeManager(pause) => return self.processes.freeze(pause).ok_or_else(no_manager),
            Act::CutOffManager(pause) => return self.processes.cut_off(pause, self.faults).ok_or_else(no_manager),
            Act::Managers(count) => return self.processes.number(*count).ok_or_else(no_manager),
        }
        Ok(())
    }

    fn collection_of(&self, object: &Value) -> Result<String, Undone> {
        let none = || Undone::NoKind(format!("{} of {}", object["kind"], object["apiVersion"]));
        self.world.collection_of(object).ok_or_else(none)
    }

    async fn create(&self, api: Api<'_>, object: &Value) -> Result<(), Undone> {
        let path = format!("{}{STRICT}", self.collection_of(object)?);
        taken(&api.post(&path, object).await)
    }

    async fn resize(&mut self, api: Api<'_>, set: u64, replicas: Option<u64>) -> Result<(), Undone> {
        let set = some_set(api, set).await?;
        let size = replicas.map_or_else(|| json!(number(&set, "/status/replicas")), |replicas| json!(replicas));
        let patch = json!({"spec": {"replicas": size}});
        let answer = api.merge(&format!("{SETS}/{}", name(&set)), &patch).await;
        taken(&answer)?;
        self.done.sets.extend(version_of(&answer.1));
        Ok(())
    }

    async fn other_pod(&mut self, api: Api<'_>, set: u64, owned: bool) -> Result<(), Undone> {
        let set = some_set(api, set).await?;
        let answer = api.post(PODS, &pod_of(&set, owned)).await;
        taken(&answer)?;
        self.done.pods.insert(name(&answer.1).to_owned());
        Ok(())
    }
}

fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Whether the server did what it was asked for.
fn taken((status, said): &Answered) -> Result<(), Undone> {
    match status {
        200..300 => Ok(()),
        _ => {
            let message = said.as_str().map_or_else(|| status.to_string(), ToOwned::to_owned);
            Err(Undone::Refused { code: *status, message })
        }
    }
}

fn no_manager() -> Undone {
    Undone::Absent("no manager that has a Lease")
}

/// Takes away every taint.
pub(super) async fn heal_nodes(api: Api<'_>) {
    for node in api.list(NODES).await {
        if node["spec"].get("taints").is_some() {
            api.merge(&format!("{NODES}/{}", name(&node)), &json!({"spec": {"taints": null}})).await;
        }
    }
}

/// The ReplicaSet's pods become orphans, for one of another name to adopt.
async fn replace_set(api: Api<'_>, which: u64) -> Result<(), Undone> {
    let mut sets = api.list(SETS).await;
    sets.retain(|set| !is_being_deleted(set) && owner(set).is_none());
    let old = pick(&sets, which).ok_or(Undone::Absent("no ReplicaSet without a Deployment"))?;
    api.delete(&format!("{SETS}/{}", name(old)), Some(&Propagation::Orphan.options())).await;
    let next = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        // Versions are the server's: no other has this name.
        "metadata": {"name": format!("next-{}", old["metadata"]["resourceVersion"].as_str().unwrap_or_default())},
        "spec": old["spec"],
    });
    taken(&api.post(SETS, &next).await)
}

/// The path of a pod.
fn path_of(pod: &Value) -> String {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod))
}

async fn some_pod(api: Api<'_>, which: u64) -> Result<Value, Undone> {
    let mut pods = api.list("/api/v1/pods").await;
    pods.retain(|pod| owner(pod).is_some() && !is_being_deleted(pod));
    pick(&pods, which).cloned().ok_or(Undone::Absent("no pod that has an owner"))
}

async fn patch_pod(api: Api<'_>, which: u64, merge: &Value) -> Result<(), Undone> {
    let pod = some_pod(api, which).await?;
    taken(&api.merge(&path_of(&pod), merge).await)
}

async fn some_set(api: Api<'_>, which: u64) -> Result<Value, Undone> {
    let mut sets = api.list(SETS).await;
    sets.retain(|set| !is_being_deleted(set));
    pick(&sets, which).cloned().ok_or(Undone::Absent("no ReplicaSet"))
}

pub(super) fn pick<T>(from: &[T], which: u64) -> Option<&T> {
    let at = which.checked_rem(u64::try_from(from.len()).ok()?)?;
    from.get(usize::try_from(at).ok()?)
}

/// A pod of a ReplicaSet, with an owner reference or without.
fn pod_of(set: &Value, owned: bool) -> Value {
    let mut pod = set["spec"]["template"].clone();
    pod["metadata"]["generateName"] = json!("other-");
    if owned {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set["metadata"]["name"],
            "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    pod
}
