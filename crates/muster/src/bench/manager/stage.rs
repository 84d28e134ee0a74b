//! Where managers are measured: namespaces of the bench's own on the server, what is created there and seen of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::stream::{self, TryStreamExt as _};
use muster_cluster::kinds::Kinds;
use muster_cluster::{Cluster, DelayRange, Options as ClusterOptions, namespaces, nodes};
use muster_objects::{Deployment, Pod, ReplicaSet};
use muster_runtime::client::{Client, ClientError, Form, PatchType};
use muster_runtime::informer::{Informers, Store, WatchedResource};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::super::deployments::is_complete;
use super::super::{LANES, create_namespace, pod, pod_spec, replicaset};
use crate::embedded::nodes_for;

/// How often is looked at what the watches have shown: the resolution of every duration.
const LOOK: Duration = Duration::from_millis(5);
/// How long a namespace may take to be removed, where nobody waits for a figure any more.
const REMOVAL: Duration = Duration::from_secs(600);
/// What is deleted goes at once, and takes nothing with it.
const AT_ONCE: &[u8] =
    br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","gracePeriodSeconds":0}"#;

/// A server, and what the bench has made there.
pub(super) struct Stage {
    pub(super) client: Client,
    kinds: Kinds,
    /// The namespaces that are there still.
    namespaces: Mutex<Vec<String>>,
    /// How many there have been.
    made: AtomicUsize,
    /// How many nodes are simulated, or were.
    simulated: Mutex<u32>,
    timeout: Duration,
}

/// What a cluster says of itself before anything is measured.
#[derive(Debug)]
pub(super) struct About {
    pub(super) version: String,
    pub(super) pods: u64,
}

impl Stage {
    /// The stage on the server of `client`, each of whose steps may take `timeout`.
    pub(super) async fn new(client: Client, timeout: Duration) -> Result<Self> {
        let kinds = tokio::time::timeout(timeout, Kinds::discover(&client));
        let kinds = kinds.await.context("the server does not answer")?.context("the server's kinds")?;
        let (namespaces, simulated) = (Mutex::default(), Mutex::default());
        Ok(Self { client, kinds, namespaces, made: AtomicUsize::new(0), simulated, timeout })
    }

    /// What the cluster is.
    pub(super) async fn about(&self) -> Result<About> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let version = self.client.get("/version").await.context("the server's version")?;
        let Version { git_version: version } = serde_json::from_slice(&version.body).context("/version")?;
        Ok(About { version, pods: self.count("/api/v1/pods").await? })
    }

    /// How many objects there are in a collection.
    async fn count(&self, path: &str) -> Result<u64> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            items: Option<Vec<serde::de::IgnoredAny>>,
            metadata: Meta,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            #[serde(default)]
            remaining_item_count: u64,
        }
        let answer = self.client.get_as(&format!("{path}?limit=1"), Form::MetadataList).await;
        let list: List = serde_json::from_slice(&answer.with_context(|| path.to_owned())?.body)?;
        Ok(list.items.map_or(0, |items| items.len() as u64) + list.metadata.remaining_item_count)
    }

    /// A new namespace, watched.
    pub(super) async fn world(&self) -> Result<World<'_>> {
        let namespace = self.namespace().await?;
        let mut informers = self.informers();
        let here = |mut resource: WatchedResource| {
            resource.namespace = Some(namespace.clone());
            resource
        };
        let pods = informers.of::<Pod>(&here(WatchedResource::pods())).store();
        let sets = informers.of::<ReplicaSet>(&here(WatchedResource::replicasets())).store();
        let deployments = informers.of::<Deployment>(&here(WatchedResource::deployments())).store();
        let reading = self.read(informers, async { tokio::join!(pods.synced(), sets.synced(), deployments.synced()) });
        let _reading = reading.await?;
        Ok(World { stage: self, namespace, pods, sets, deployments, _reading })
    }

    /// A new namespace, in which pods may be created.
    pub(super) async fn namespace(&self) -> Result<String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("muster-bench-{}-{number}", std::process::id());
        self.lock().push(namespace.clone());
        create_namespace(&self.client, &namespace).await?;
        self.create_account(&namespace).await?;
        Ok(namespace)
    }

    /// Watches of the bench's own.
    pub(super) fn informers(&self) -> Informers {
        Informers::new(self.client.clone(), Duration::ZERO, 0)
    }

    /// Runs watches, from when `synced` says that they have shown what is there.
    pub(super) async fn read<T>(&self, informers: Informers, synced: impl Future<Output = T>) -> Result<JoinSet<()>> {
        let mut reading = JoinSet::new();
        for run in informers.into_runs() {
            reading.spawn(run);
        }
        tokio::time::timeout(self.timeout, synced).await.context("the bench's namespaces cannot be watched")?;
        Ok(reading)
    }

    /// Waits until `done`, of what is seen of these pods.
    pub(super) async fn until(&self, what: &str, pods: &Store<Pod>, done: impl Fn() -> bool) -> Result<()> {
        let wait = async {
            while !done() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(self.timeout, wait).await.is_err() {
            bail!("after {:?} still waiting for {what}; {} pods are there", self.timeout, pods.read().len());
        }
        Ok(())
    }

    /// Admission refuses pods in a namespace without it, and the controller that makes it need not run.
    async fn create_account(&self, namespace: &str) -> Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        match self.client.create(&path, Bytes::from(body.to_string())).await {
            // It is there, or there is no such kind.
            Err(error) if error.is_already_exists() || error.is_not_found() => Ok(()),
            other => other.map(drop).with_context(|| path),
        }
    }

    /// Nodes for so many pods, on which these turn Ready at once, until they are stopped and [`Stage::clear`] was called; none where the
    /// cluster has its own.
    pub(super) async fn simulate_nodes(&self, pods: u64) -> Result<Option<Cluster>> {
        if self.count("/api/v1/nodes").await? > 0 {
            return Ok(None);
        }
        let nodes = nodes_for(pods);
        *self.simulated.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
        let options = ClusterOptions {
            nodes,
            pod_startup: DelayRange::ZERO,
            pod_shutdown: Duration::ZERO,
            events: false,
            controllers: BTreeSet::new(),
            ..ClusterOptions::default()
        };
        Cluster::start(self.client.clone(), options).await.map(Some).context("the simulated nodes")
    }

    /// Removes whatever the bench has made.
    pub(super) async fn clear(&self) -> Result<()> {
        let simulated = *self.simulated.lock().unwrap_or_else(PoisonError::into_inner);
        for node in (0..simulated).map(nodes::node_name) {
            let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{node}", nodes::LEASE_NAMESPACE);
            for path in [format!("/api/v1/nodes/{node}"), lease] {
                gone(self.client.delete(&path, None).await).with_context(|| format!("deleting {path}"))?;
            }
        }
        let namespaces = self.lock().clone();
        let removals = stream::iter(namespaces.into_iter().map(Ok));
        removals.try_for_each_concurrent(LANES, |namespace| async move { self.remove(&namespace).await }).await
    }

    async fn remove(&self, namespace: &str) -> Result<()> {
        let removal = namespaces::remove(&self.client, &self.kinds, namespace);
        let removed = tokio::time::timeout(REMOVAL, removal).await;
        let removed = removed.with_context(|| format!("namespace {namespace} is not empty after {REMOVAL:?}"))?;
        removed.with_context(|| format!("namespace {namespace} cannot be removed"))?;
        self.lock().retain(|kept| kept != namespace);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A namespace and what the bench's own watches show of it.
pub(super) struct World<'a> {
    stage: &'a Stage,
    pub(super) namespace: String,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    _reading: JoinSet<()>,
}

impl World<'_> {
    /// Creates ReplicaSets that want these pods: the n-th is called `{prefix}-{n}`.
    pub(super) async fn create_sets(&self, prefix: &str, replicas: impl IntoIterator<Item = u32>) -> Result<()> {
        let path = self.path("apis/apps/v1", "replicasets");
        let bodies = replicas.into_iter().enumerate().map(|(at, wanted)| replicaset(&format!("{prefix}-{at}"), wanted));
        self.create(&path, bodies, LANES).await
    }

    /// Creates pods without an owner, so many requests at once.
    pub(super) async fn create_pods(&self, count: u32, at_once: u32) -> Result<()> {
        let body = pod("bench");
        let bodies = (0..count).map(|_| body.clone());
        self.create(&self.path("api/v1", "pods"), bodies, usize::try_from(at_once)?).await
    }

    /// Creates Deployments with a rolling update's default bounds.
    pub(super) async fn create_deployments(&self, count: u32, replicas: u32) -> Result<()> {
        let bodies = (0..count).map(|number| {
            let name = format!("bench-{number}");
            let body = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"bench": name}},
                    "template": {"metadata": {"labels": {"bench": name}}, "spec": pod_spec("registry.example/app:v0")},
                },
            });
            Bytes::from(body.to_string())
        });
        self.create(&self.path("apis/apps/v1", "deployments"), bodies, LANES).await
    }

    /// Rolls every Deployment to a new image.
    pub(super) async fn roll(&self, count: u32) -> Result<()> {
        let containers = json!([{"name": "c", "image": "registry.example/app:v1"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}}).to_string();
        let patch = Bytes::from(patch);
        let deployments = self.path("apis/apps/v1", "deployments");
        stream::iter((0..count).map(Ok))
            .try_for_each_concurrent(LANES, |number| {
                let (path, patch) = (format!("{deployments}/bench-{number}"), patch.clone());
                async move {
                    let patched = self.stage.client.patch(&path, PatchType::StrategicMerge, patch).await;
                    patched.map(drop).with_context(|| path)
                }
            })
            .await
    }

    async fn create(&self, path: &str, bodies: impl IntoIterator<Item = Bytes>, at_once: usize) -> Result<()> {
        stream::iter(bodies.into_iter().map(Ok))
            .try_for_each_concurrent(at_once, |body| async move {
                self.stage.client.create(path, body).await.map(drop).with_context(|| format!("creating in {path}"))
            })
            .await
    }

    /// How many pods there are.
    pub(super) fn pods(&self) -> usize {
        self.pods.read().len()
    }

    /// Waits until there are so many pods.
    pub(super) async fn pods_are(&self, count: u64) -> Result<()> {
        self.until(&format!("{count} pods"), || self.pods() as u64 == count).await
    }

    /// Waits until there is a pod whose generated name begins with this.
    pub(super) async fn pod_of(&self, owner: &str) -> Result<String> {
        let prefix = format!("{owner}-");
        let find = || self.pods.read().iter().find(|pod| pod.meta.name.starts_with(&prefix)).cloned();
        self.until(&format!("the pod of {owner}"), || find().is_some()).await?;
        Ok(find().context("the pod was there just now")?.meta.name.to_string())
    }

    /// Waits until every ReplicaSet's status says that it has the pods that it wants.
    pub(super) async fn sets_are_told(&self, count: usize) -> Result<()> {
        self.until(&format!("the statuses of {count} ReplicaSets"), || are_told(&self.sets, count)).await
    }

    /// Waits until every Deployment is complete at `generation`.
    pub(super) async fn deployments_are_complete(&self, count: usize, generation: i64) -> Result<()> {
        self.until(&format!("{count} Deployments complete"), || {
            let deployments = self.deployments.read();
            let complete =
                |deployment: &Deployment| deployment.meta.generation >= generation && is_complete(deployment);
            deployments.len() == count && deployments.iter().all(|deployment| complete(deployment))
        })
        .await
    }

    /// Deletes one ReplicaSet and its only pod, and waits until the pod is gone.
    pub(super) async fn delete_set_and_pod(&self, set: &str, pod: &str) -> Result<()> {
        for path in [
            format!("{}/{set}", self.path("apis/apps/v1", "replicasets")),
            format!("{}/{pod}", self.path("api/v1", "pods")),
        ] {
            gone(self.stage.client.delete(&path, Some(Bytes::from_static(AT_ONCE))).await)
                .with_context(|| format!("deleting {path}"))?;
        }
        let is_gone = || self.pods.read().get_named(&self.namespace, pod).is_none();
        self.until(&format!("pod {pod} gone"), is_gone).await
    }

    /// Deletes all ReplicaSets, then all pods, and waits until they are gone.
    pub(super) async fn empty(&self) -> Result<()> {
        for path in [self.path("apis/apps/v1", "replicasets"), self.path("api/v1", "pods")] {
            let deleted = self.stage.client.delete(&path, Some(Bytes::from_static(AT_ONCE))).await;
            deleted.with_context(|| format!("deleting {path}"))?;
        }
        self.pods_are(0).await
    }

    /// Removes the namespace with all that is in it.
    pub(super) async fn close(self) -> Result<()> {
        let Self { stage, namespace, _reading: mut reading, .. } = self;
        reading.shutdown().await;
        stage.remove(&namespace).await
    }

    fn path(&self, version: &str, plural: &str) -> String {
        format!("/{version}/namespaces/{}/{plural}", self.namespace)
    }

    async fn until(&self, what: &str, done: impl Fn() -> bool) -> Result<()> {
        self.stage.until(what, &self.pods, done).await
    }
}

/// Whether there are so many ReplicaSets, and every status says that they have the pods that they want.
pub(super) fn are_told(sets: &Store<ReplicaSet>, count: usize) -> bool {
    let sets = sets.read();
    let told =
        |set: &ReplicaSet| set.status.replicas == set.replicas && set.status.observed_generation >= set.meta.generation;
    sets.len() == count && sets.iter().all(|set| told(set))
}

/// What is gone already need not be deleted.
fn gone<T>(deleted: Result<T, ClientError>) -> Result<(), ClientError> {
    match deleted {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}
