//! Following workloads by their watches until all of them are complete.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use muster_runtime::client::{Client, Form, Frames};
use serde::Deserialize;
use tracing::debug;

use crate::apply::Applied;
use crate::workload::{self, Progress, Seen};

/// How long to wait before a watch that ended is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// Follows the progress of applied workloads.
pub(crate) struct Follow {
    client: Client,
    /// Kind, namespace and name to the workload and how far it is.
    workloads: BTreeMap<(String, String, String), (Applied, Progress)>,
    events: SelectAll<BoxStream<'static, (&'static str, &'static str, Option<bytes::Bytes>)>>,
    /// Collections whose watch ended, or has not begun.
    closed: Vec<(&'static str, &'static str)>,
}

impl Follow {
    /// Follows these objects; those that are no workloads are passed over.
    pub(crate) fn new(client: Client, applied: &[Applied]) -> Self {
        let workloads = applied
            .iter()
            .filter(|a| workload::is_workload(a))
            .map(|a| ((a.kind.clone(), a.namespace.clone(), a.name.clone()), (a.clone(), Progress::default())))
            .collect();
        Self { client, workloads, events: SelectAll::new(), closed: workload::collections(applied) }
    }

    /// Whether every workload has what was asked for.
    pub(crate) fn is_complete(&self) -> bool {
        self.workloads.values().all(|(_, progress)| progress.is_complete())
    }

    /// How many workloads there are.
    pub(crate) fn len(&self) -> usize {
        self.workloads.len()
    }

    /// The workloads that are not complete.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = (&Applied, Progress)> {
        self.workloads
            .values()
            .filter(|(_, progress)| !progress.is_complete())
            .map(|(applied, progress)| (applied, *progress))
    }

    /// Waits for the next change of one workload. Where there is none to follow, it waits for ever.
    pub(crate) async fn next(&mut self) -> (&Applied, Progress) {
        if self.workloads.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            self.open().await;
            let Some((kind, path, line)) = self.events.next().await else { continue };
            let Some(line) = line else {
                self.closed.push((kind, path));
                tokio::time::sleep(REOPEN_AFTER).await;
                continue;
            };
            let Ok(event) = serde_json::from_slice::<Event>(&line) else { continue };
            // A bookmark or an error carries no workload.
            let Some(seen) = event.object.filter(|_| matches!(event.kind, EventKind::Added | EventKind::Modified))
            else {
                continue;
            };
            let progress = seen.progress(kind);
            let key = (kind.to_owned(), seen.metadata.namespace, seen.metadata.name);
            if self.workloads.get(&key).is_some_and(|(_, before)| *before != progress) {
                let (applied, before) = self.workloads.get_mut(&key).expect("the key was just found");
                *before = progress;
                return (applied, progress);
            }
        }
    }

    /// Opens the watches that are closed.
    async fn open(&mut self) {
        for (kind, path) in std::mem::take(&mut self.closed) {
            match self.client.watch(&format!("{path}?watch=1&resourceVersion=0"), Form::Full).await {
                Ok(lines) => self.events.push(stream(kind, path, lines)),
                Err(error) => {
                    debug!(path, %error, "the watch cannot be opened");
                    self.closed.push((kind, path));
                    tokio::time::sleep(REOPEN_AFTER).await;
                }
            }
        }
    }
}

/// The lines of a watch with where they come from, and nothing when it ends.
fn stream(
    kind: &'static str,
    path: &'static str,
    lines: Frames,
) -> BoxStream<'static, (&'static str, &'static str, Option<bytes::Bytes>)> {
    let lines = lines.take_while(|line| std::future::ready(line.is_ok())).map(move |line| (kind, path, line.ok()));
    lines.chain(futures::stream::once(std::future::ready((kind, path, None)))).boxed()
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: EventKind,
    #[serde(deserialize_with = "object", default)]
    object: Option<Seen>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// An object where it is a workload; a bookmark's or an error's is none.
fn object<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Seen>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}
