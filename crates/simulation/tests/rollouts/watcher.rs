//! Everything that becomes of a Deployment, its ReplicaSets and their pods, as a watcher sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use muster_runtime::client::Form;
use muster_simulation::World;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::common::{DEPLOYMENTS, PODS, SETS};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
    Pod,
}

/// One write, as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// How often the server had been restored.
    pub(crate) epoch: u64,
    /// The object's resourceVersion after the write. Versions of all kinds are one order.
    pub(crate) version: u64,
    /// Virtual milliseconds since the Unix epoch.
    pub(crate) millis: i64,
    pub(crate) kind: Kind,
    /// Whether this write removed it.
    pub(crate) gone: bool,
    pub(crate) object: Value,
}

/// Watches of the three kinds.
pub(crate) struct Watcher {
    seen: Arc<Mutex<Vec<Seen>>>,
    epoch: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to watch.
    pub(crate) async fn start(world: &World) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let epoch: Arc<AtomicU64> = Arc::default();
        let mut tasks = Vec::new();
        for (kind, path) in [(Kind::Deployment, DEPLOYMENTS), (Kind::ReplicaSet, SETS), (Kind::Pod, PODS)] {
            let path = format!("{path}?watch=true&timeoutSeconds=1000000");
            let client = world.client().clone();
            let mut lines = client.watch(&path, Form::Full).await.unwrap();
            let (seen, epoch) = (Arc::clone(&seen), Arc::clone(&epoch));
            tasks.push(tokio::spawn(async move {
                loop {
                    while let Some(Ok(line)) = lines.next().await {
                        let mut event: Value = serde_json::from_slice(&line).unwrap();
                        let object = event["object"].take();
                        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
                        let millis = client.clock().now().as_nanos() / 1_000_000;
                        let (version, epoch) = (version.parse().unwrap(), epoch.load(Ordering::Relaxed));
                        let gone = event["type"] == "DELETED";
                        seen.lock().unwrap().push(Seen { epoch, version, millis, kind, gone, object });
                    }
                    // The server was restored.
                    let Ok(again) = client.watch(&path, Form::Full).await else { return };
                    lines = again;
                }
            }));
        }
        Self { seen, epoch, tasks }
    }

    /// The server was put back to an earlier version just now.
    pub(crate) fn restored(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// What was seen, in the order in which it was written.
    pub(crate) fn end(self) -> Vec<Seen> {
        for task in &self.tasks {
            task.abort();
        }
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.sort_by_key(|each| (each.epoch, each.version));
        seen
    }
}
