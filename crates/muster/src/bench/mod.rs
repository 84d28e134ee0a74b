//! `muster bench`: what the controllers manage on this machine, measured from outside of them.

pub(crate) mod manager;
pub(crate) mod replicasets;
pub(crate) mod rollouts;
pub(crate) mod scale;

mod deployments;
mod report;
mod watcher;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use muster_manager::arguments::client_options;
use muster_runtime::client::{Client, configuration};
use serde_json::json;

use crate::requests::{Requests, Sender};

/// How many objects are synced at once, by default, and so how many lanes write directly.
const LANES: usize = 5;
/// The image of pods that do nothing.
const PAUSE: &str = "registry.k8s.io/pause:3.10";
/// How long the controllers must send nothing to count as done.
const QUIET: Duration = Duration::from_millis(100);
/// How long to wait for that at most: what comes later belongs to nothing that was measured.
const QUIET_AT_MOST: Duration = Duration::from_secs(10);

/// The client of the cluster that a kubeconfig names.
async fn connect(path: &Path) -> Result<Client> {
    let unusable = |error| {
        // Its words have those of its causes in them already.
        anyhow::anyhow!("{}: cannot be used: {error}", path.display())
    };
    let config = configuration(Some(path)).await.map_err(unusable)?;
    Client::connect(&config, &client_options()).map_err(unusable)
}

async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.create("/api/v1/namespaces", Bytes::from(body.to_string())).await.context("the bench's namespace")?;
    Ok(())
}

async fn remove_namespace(client: &Client, name: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{name}");
    client.delete(&path, None).await.with_context(|| format!("{path}: cannot be removed"))?;
    Ok(())
}

/// The spec of every pod of a bench: small enough for thousands on three nodes.
fn pod_spec(image: &str) -> serde_json::Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}],
    })
}

/// A ReplicaSet of such pods, which have its name in their label `bench`.
fn replicaset(name: &str, replicas: u32) -> Bytes {
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"bench": name}},
            "template": {"metadata": {"labels": {"bench": name}}, "spec": pod_spec(PAUSE)},
        },
    });
    Bytes::from(body.to_string())
}

/// A pod as such a ReplicaSet makes them, without an owner.
fn pod(of: &str) -> Bytes {
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": format!("{of}-"), "labels": {"bench": of}},
        "spec": pod_spec(PAUSE),
    });
    Bytes::from(body.to_string())
}

/// Waits until the controllers send no more: Events and last statuses trail behind what they tell of.
async fn quiet(requests: &Requests) {
    let settle = async {
        let mut sent = requests.of(Sender::Controllers).total();
        loop {
            tokio::time::sleep(QUIET).await;
            let now = requests.of(Sender::Controllers).total();
            if now == sent {
                return;
            }
            sent = now;
        }
    };
    // Measured all the same: a few requests too few are no wrong verdict.
    let _ = tokio::time::timeout(QUIET_AT_MOST, settle).await;
}

/// A bar on a terminal; elsewhere a line when it begins.
fn bar(what: &str, length: u64, unit: &str) -> ProgressBar {
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        eprintln!("{what}: waiting for {length} {unit}");
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:24} {bar:40} {pos}/{len} {msg}, {elapsed}");
    let bar = ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_prefix(what.to_owned()).with_message(unit.to_owned())
}
