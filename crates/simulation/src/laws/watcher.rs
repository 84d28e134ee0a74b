//! Everything that becomes of workloads and their pods, as a watcher sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use muster_inspect::inside::Informer;
use muster_runtime::client::{ClientError, Form};
use muster_tree::{Map, Value};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::World;
use crate::api::is_being_deleted;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Deployments.
    Deployment,
    /// ReplicaSets.
    ReplicaSet,
    /// ReplicationControllers.
    ReplicationController,
    /// Pods.
    Pod,
}

/// One write, as it was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How often the server had been restored.
    pub epoch: u64,
    /// The object's resourceVersion after the write. Versions of all kinds are one order.
    pub version: u64,
    /// Virtual milliseconds since the Unix epoch.
    pub millis: i64,
    /// Of what.
    pub kind: Kind,
    /// Whether this write removed it.
    pub gone: bool,
    /// As it was written.
    pub object: Value,
}

/// What of each kind is watched, in every namespace.
const WATCHED: [(Kind, &str); 4] = [
    (Kind::Deployment, "/apis/apps/v1/deployments"),
    (Kind::ReplicaSet, "/apis/apps/v1/replicasets"),
    (Kind::ReplicationController, "/api/v1/replicationcontrollers"),
    (Kind::Pod, "/api/v1/pods"),
];

/// Watches of all kinds.
#[derive(Debug)]
pub struct Watcher {
    seen: Arc<Mutex<Log>>,
    /// How much was seen of Deployments.
    deployments: watch::Receiver<u64>,
    epoch: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    /// The newest version of each kind.
    newest: BTreeMap<Kind, u64>,
    /// The uids of pods that are being deleted.
    leaving: BTreeSet<String>,
}

impl Log {
    fn note(&mut self, seen: Seen) {
        self.newest.insert(seen.kind, seen.version);
        if seen.kind == Kind::Pod {
            let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
            if seen.gone {
                self.leaving.remove(uid);
            } else if is_being_deleted(&seen.object) {
                self.leaving.insert(uid.to_owned());
            }
        }
        self.seen.push(seen);
    }
}

impl Watcher {
    /// Begins to watch.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn start(world: &World) -> Result<Self, ClientError> {
        let seen: Arc<Mutex<Log>> = Arc::default();
        let (changes, deployments) = watch::channel(0);
        let epoch: Arc<AtomicU64> = Arc::default();
        let mut tasks = Vec::new();
        for (kind, path) in WATCHED {
            let path = format!("{path}?watch=true&timeoutSeconds=1000000");
            let client = world.client().clone();
            let mut lines = client.watch(&path, Form::Full).await?;
            let (seen, epoch, changes) = (Arc::clone(&seen), Arc::clone(&epoch), changes.clone());
            tasks.push(tokio::spawn(async move {
                let (mut newest, mut known, mut opened) = (0_u64, 0, epoch.load(Ordering::Relaxed));
                loop {
                    while let Some(Ok(line)) = lines.next().await {
                        let event = Map::stored(&line, "");
                        let object = event["object"].clone();
                        let version = object["metadata"]["resourceVersion"].as_str();
                        let Some(version) = version.and_then(|version| version.parse().ok()) else { continue };
                        if version <= known {
                            continue;
                        }
                        newest = newest.max(version);
                        let millis = client.clock().now().as_nanos() / 1_000_000;
                        let epoch = epoch.load(Ordering::Relaxed);
                        let gone = event["type"] == "DELETED";
                        lock(&seen).note(Seen { epoch, version, millis, kind, gone, object });
                        if kind == Kind::Deployment {
                            changes.send_modify(|count| *count += 1);
                        }
                    }
                    // The server was restored, or the watch has had its time: then what there is has been seen. What is not seen is
                    // not judged: that would pass for a history without a fault.
                    let now = epoch.load(Ordering::Relaxed);
                    if now != opened {
                        (newest, opened) = (0, now);
                    }
                    known = newest;
                    lines = client.watch(&path, Form::Full).await.expect("a watch of the laws can be opened again");
                }
            }));
        }
        Ok(Self { seen, deployments, epoch, tasks })
    }

    /// Changes with each Deployment that does.
    #[must_use]
    pub fn deployments(&self) -> watch::Receiver<u64> {
        self.deployments.clone()
    }

    /// Whether no pod is being deleted, and these informers have seen all that was written.
    #[must_use]
    pub fn is_all_seen(&self, informers: &[Informer]) -> bool {
        let log = lock(&self.seen);
        let is_seen = |informer: &Informer| {
            let newest = log.newest.iter().find(|(kind, _)| format!("{kind:?}") == informer.kind);
            newest.is_none_or(|(_, newest)| informer.version >= *newest)
        };
        log.leaving.is_empty() && informers.iter().all(is_seen)
    }

    /// How much was seen so far.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.seen).seen.len()
    }

    /// The server was put back to an earlier version just now.
    pub fn restored(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// What was seen, in the order in which it was written.
    #[must_use]
    pub fn end(&self) -> Vec<Seen> {
        for task in &self.tasks {
            task.abort();
        }
        let mut seen = std::mem::take(&mut lock(&self.seen).seen);
        seen.sort_by_key(|each| (each.epoch, each.version));
        seen
    }
}

fn lock(seen: &Mutex<Log>) -> MutexGuard<'_, Log> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
