//! Deployments of a bench: made, rolled, and complete as their watch shows them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::stream::{self, TryStreamExt as _};
use muster_machinery::Change;
use muster_objects::{Deployment, IntOrPercent};
use muster_runtime::client::{Client, PatchType};
use serde_json::json;
use tokio::sync::Notify;

use super::watcher::{self, name_of};
use super::{LANES, pod_spec};

/// Both bounds of every rollout: the default of a Deployment.
pub(super) const BOUND: IntOrPercent = IntOrPercent::Percent(25);

/// The Deployments of one namespace, all of one size.
pub(super) struct Deployments {
    pub(super) client: Client,
    pub(super) namespace: String,
    /// The pods of each.
    pub(super) replicas: i32,
    pub(super) complete: Arc<Completions>,
}

impl Deployments {
    /// Creates those with these numbers.
    pub(super) async fn create(&self, numbers: Range<usize>) -> Result<()> {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", self.namespace);
        each(numbers, |name| {
            let body = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": self.replicas,
                    "selector": {"matchLabels": {watcher::LABEL: name}},
                    "strategy": {"rollingUpdate": {"maxSurge": BOUND.to_string(), "maxUnavailable": BOUND.to_string()}},
                    "template": {"metadata": {"labels": {watcher::LABEL: name}}, "spec": pod_spec(&image(0))},
                },
            });
            let path = &path;
            async move { self.client.create(path, Bytes::from(body.to_string())).await.map(drop).context("a Deployment") }
        })
        .await
    }

    /// What `kubectl set image` sends, for those with these numbers.
    pub(super) async fn set_image(&self, numbers: Range<usize>, version: u32) -> Result<()> {
        let containers = json!([{"name": "c", "image": image(version)}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}}).to_string();
        let patch = Bytes::from(patch);
        each(numbers, |name| {
            let path = format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.namespace);
            let patch = patch.clone();
            async move {
                let patched = self.client.patch(&path, PatchType::StrategicMerge, patch).await;
                patched.map(drop).with_context(|| format!("{path}: its image cannot be set"))
            }
        })
        .await
    }
}

/// Does something to every Deployment, a few at once.
async fn each<F: Future<Output = Result<()>>>(numbers: Range<usize>, work: impl Fn(String) -> F) -> Result<()> {
    stream::iter(numbers.map(|number| Ok(name_of(number)))).try_for_each_concurrent(LANES, work).await
}

fn image(version: u32) -> String {
    format!("registry.example/app:v{version}")
}

/// Up to which generation each Deployment is complete, as the watch of Deployments shows it.
#[derive(Debug)]
pub(super) struct Completions {
    namespace: String,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// By the Deployment's number; 0 before the first.
    generations: Vec<i64>,
    /// What is waited for: that so many, from the first on, are complete at a generation or later.
    goal: (usize, i64),
    /// How many of these are.
    complete: usize,
}

impl Completions {
    pub(super) fn new(namespace: String, deployments: usize) -> Self {
        let state = State { generations: vec![0; deployments], goal: (0, 0), complete: 0 };
        Self { namespace, state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn observe(&self, change: &Change<Deployment>) {
        let deployment = change.object();
        let number = deployment.meta.name.strip_prefix("bench-").and_then(|number| number.parse::<usize>().ok());
        if *deployment.meta.namespace != *self.namespace || !is_complete(deployment) {
            return;
        }
        let Some(number) = number else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, wanted) = state.goal;
        let Some(generation) = state.generations.get_mut(number) else { return };
        let before = std::mem::replace(generation, deployment.meta.generation);
        if number < count && before < wanted && deployment.meta.generation >= wanted {
            state.complete += 1;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the first `count` Deployments are complete at `generation` or later; tells how many are after each
    /// change. One waits at a time.
    pub(super) async fn reach(&self, count: usize, generation: i64, mut tell: impl FnMut(usize)) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.goal = (count, generation);
            state.complete = state.generations.iter().take(count).filter(|reached| **reached >= generation).count();
        }
        loop {
            // Listen before looking, so that no change falls between the two.
            let changed = self.changed.notified();
            let complete = self.state.lock().unwrap_or_else(PoisonError::into_inner).complete;
            tell(complete);
            if complete == count {
                return;
            }
            changed.await;
        }
    }
}

/// Whether the rollout of a Deployment's newest specification is over (DEP-24).
pub(super) fn is_complete(deployment: &Deployment) -> bool {
    let Deployment { meta, replicas, status, .. } = deployment;
    status.observed_generation >= meta.generation
        && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| count == replicas)
}
