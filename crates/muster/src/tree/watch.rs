//! The objects of a tree, kept as they change by three watches.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use muster_inspect::reason::text;
use muster_manager::explain::target::Target;
use muster_runtime::client::{Client, ClientError, Form};
use muster_runtime::explain::Kind;
use serde::Deserialize;
use serde_json::Value;

use super::{Objects, Tree};
use crate::reason::selector;

/// How long to wait before a list is read anew after a watch that ended.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// One of the lists that a tree is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Root,
    Sets,
    Pods,
}

/// A workload, its ReplicaSets and its pods as they are now.
pub(super) struct Live {
    client: Client,
    kind: Kind,
    /// The path of each list, with its selector.
    paths: BTreeMap<Part, String>,
    objects: BTreeMap<Part, BTreeMap<String, Value>>,
    events: SelectAll<BoxStream<'static, (Part, Option<bytes::Bytes>)>>,
    /// Lists that are to be watched, from these versions; none where it is to be read anew.
    closed: Vec<(Part, Option<String>)>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: Value,
}

impl Live {
    /// Reads a workload and all that may be its own.
    ///
    /// # Errors
    /// Where it is not there, or a list is refused.
    pub(super) async fn read(client: &Client, target: Target, namespace: &str) -> Result<Self> {
        let Target { kind, name } = target;
        let resource = kind.resource();
        let root: Value = match client.get(&resource.path(namespace, &name)).await {
            Ok(answer) => serde_json::from_slice(&answer.body).context("the answer is no JSON")?,
            Err(ClientError::Api(refused)) if refused.code == 404 => {
                bail!("{} {name:?} not found in namespace {namespace:?}", resource.plural)
            }
            Err(error) => return Err(anyhow!("{error}")),
        };
        let selector = selector(resource.kind, &root).map_err(|said| anyhow!("{} {name}: {said}", resource.plural))?;
        let encode =
            |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let labels = encode(&selector.to_string());
        let mut paths = BTreeMap::from([
            (
                Part::Root,
                format!("{}?fieldSelector=metadata.name%3D{}", resource.collection_path(namespace), encode(&name)),
            ),
            (Part::Pods, format!("/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")),
        ]);
        if kind == Kind::Deployment {
            paths
                .insert(Part::Sets, format!("/apis/apps/v1/namespaces/{namespace}/replicasets?labelSelector={labels}"));
        }
        let closed = paths.keys().map(|part| (*part, None)).collect();
        let (objects, events) = (BTreeMap::new(), SelectAll::new());
        let mut live = Self { client: client.clone(), kind, paths, objects, events, closed };
        live.list().await.map_err(|error| anyhow!("{error}"))?;
        Ok(live)
    }

    /// What there is now.
    pub(super) fn tree(&self) -> Tree {
        let all = |part| self.objects.get(&part).into_iter().flat_map(BTreeMap::values).cloned();
        let objects = Objects {
            root: all(Part::Root).next().unwrap_or_default(),
            sets: all(Part::Sets).collect(),
            pods: all(Part::Pods).collect(),
        };
        Tree::of(&objects, self.kind.resource().kind, self.client.server_now())
    }

    /// Waits for an event; false where it changes nothing.
    ///
    /// # Errors
    /// Where the workload is gone.
    pub(super) async fn changed(&mut self) -> Result<bool> {
        self.open().await;
        let Some((part, line)) = self.events.next().await else {
            tokio::time::sleep(AGAIN_AFTER).await;
            return Ok(false);
        };
        let Some(event) = line.and_then(|line| serde_json::from_slice::<Event>(&line).ok()) else {
            self.closed.push((part, None));
            return Ok(false);
        };
        let name = text(&event.object, "/metadata/name").to_owned();
        let objects = self.objects.entry(part).or_default();
        match &*event.kind {
            "ADDED" | "MODIFIED" => drop(objects.insert(name, event.object)),
            "DELETED" if part == Part::Root => bail!("{} {name:?} was deleted", self.kind.resource().plural),
            "DELETED" => drop(objects.remove(&name)),
            "BOOKMARK" => return Ok(false),
            // Its version is too old, or something else is the matter with it.
            _ => {
                self.closed.push((part, None));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens the watches that are closed, each after its list; what is refused is tried again later.
    async fn open(&mut self) {
        while !self.closed.is_empty() {
            if let Err(error) = self.list().await {
                tracing::warn!(%error, "a list is tried again");
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
            // It stays among the closed until it is open: whoever waits for this may stop at any time.
            let Some((part, version)) = self.closed.first().cloned() else { return };
            let path = format!("{}&watch=1&resourceVersion={}", self.paths[&part], version.unwrap_or_default());
            match self.client.watch(&path, Form::Full).await {
                Ok(lines) => {
                    let lines = lines.take_while(|line| std::future::ready(line.is_ok()));
                    let lines = lines.map(move |line| (part, line.ok()));
                    let end = futures::stream::once(std::future::ready((part, None)));
                    self.events.push(lines.chain(end).boxed());
                    self.closed.remove(0);
                }
                Err(error) => {
                    tracing::warn!(%error, "a watch is tried again");
                    self.closed[0].1 = None;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Reads the lists that are to be read anew.
    async fn list(&mut self) -> Result<(), ClientError> {
        for (part, version) in &mut self.closed {
            if version.is_some() {
                continue;
            }
            let answer = self.client.get(&self.paths[part]).await?;
            let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let named = items.into_iter().map(|item| (text(&item, "/metadata/name").to_owned(), item));
            self.objects.insert(*part, named.collect());
            *version = Some(text(&list, "/metadata/resourceVersion").to_owned());
        }
        Ok(())
    }
}
