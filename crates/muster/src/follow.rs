//! Following workloads by their watches until all of them are complete.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use muster_runtime::client::{Client, Form, Frames};
use serde::Deserialize;
use tracing::debug;

use crate::apply::Applied;
use crate::rollout::Sets;
use crate::workload::{self, Progress, Seen};

/// How long to wait before a watch that ended is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// Kind, namespace and name.
type Key = (String, String, String);

/// Follows the progress of applied workloads.
pub(crate) struct Follow {
    client: Client,
    workloads: BTreeMap<Key, Workload>,
    /// The ReplicaSets that Deployments made.
    sets: Sets,
    /// The workloads that an event may have changed.
    touched: VecDeque<Key>,
    events: SelectAll<BoxStream<'static, (&'static str, &'static str, Option<bytes::Bytes>)>>,
    /// Collections whose watch ended, or has not begun.
    closed: Vec<(&'static str, &'static str)>,
}

struct Workload {
    applied: Applied,
    /// The object as it was last seen.
    seen: Option<Seen>,
    progress: Progress,
}

impl Follow {
    /// Follows these objects; those that are no workloads are passed over.
    pub(crate) fn new(client: Client, applied: &[Applied]) -> Self {
        let workloads = applied.iter().filter(|a| workload::is_workload(a)).map(|a| {
            let workload = Workload { applied: a.clone(), seen: None, progress: Progress::default() };
            ((a.kind.clone(), a.namespace.clone(), a.name.clone()), workload)
        });
        Self {
            client,
            workloads: workloads.collect(),
            sets: Sets::default(),
            touched: VecDeque::new(),
            events: SelectAll::new(),
            closed: workload::collections(applied),
        }
    }

    /// Whether every workload has what was asked for.
    pub(crate) fn is_complete(&self) -> bool {
        self.workloads.values().all(|workload| workload.progress.is_complete())
    }

    /// Whether a rollout has exceeded its progress deadline.
    pub(crate) fn has_exceeded_a_deadline(&self) -> bool {
        self.workloads.values().any(|workload| workload.progress.deadline_exceeded().is_some())
    }

    /// All workloads.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Applied, &Progress)> {
        self.workloads.values().map(|workload| (&workload.applied, &workload.progress))
    }

    /// The workloads that are not complete.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = (&Applied, &Progress)> {
        self.all().filter(|(_, progress)| !progress.is_complete())
    }

    /// Waits for the next change of one workload. Where there is none to follow, it waits for ever.
    pub(crate) async fn next(&mut self) -> (&Applied, &Progress) {
        if self.workloads.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            while let Some(key) = self.touched.pop_front() {
                if self.has_moved(&key) {
                    let workload = &self.workloads[&key];
                    return (&workload.applied, &workload.progress);
                }
            }
            self.open().await;
            let Some((kind, path, line)) = self.events.next().await else { continue };
            let Some(line) = line else {
                self.closed.push((kind, path));
                tokio::time::sleep(REOPEN_AFTER).await;
                continue;
            };
            // A bookmark or an error carries no workload.
            if let Ok(Event { kind: event, object: Some(seen) }) = serde_json::from_slice::<Event>(&line) {
                match event {
                    EventKind::Added | EventKind::Modified => self.take(kind, seen, false),
                    EventKind::Deleted => self.take(kind, seen, true),
                    EventKind::Bookmark | EventKind::Error => {}
                }
            }
        }
    }

    /// Takes in an object that is there, or one that is gone.
    fn take(&mut self, kind: &str, seen: Seen, gone: bool) {
        if kind == "ReplicaSet"
            && let Some((namespace, deployment)) = self.sets.take(&seen, gone)
        {
            self.touched.push_back(("Deployment".to_owned(), namespace, deployment));
        }
        let key = (kind.to_owned(), seen.metadata.namespace.clone(), seen.metadata.name.clone());
        // Of a workload that is gone the last is kept: it may come again.
        if let Some(workload) = self.workloads.get_mut(&key).filter(|_| !gone) {
            workload.seen = Some(seen);
            self.touched.push_back(key);
        }
    }

    /// Whether the workload of that key has other progress than before.
    fn has_moved(&mut self, key: &Key) -> bool {
        let Some(workload) = self.workloads.get_mut(key) else { return false };
        let Some(seen) = &workload.seen else { return false };
        let progress = seen.progress(&key.0, &self.sets);
        let moved = workload.progress != progress;
        workload.progress = progress;
        moved
    }

    /// Opens the watches that are closed. What has not been opened stays on the list: the caller may wait no longer.
    async fn open(&mut self) {
        let mut at = 0;
        while let Some(&(kind, path)) = self.closed.get(at) {
            match self.client.watch(&format!("{path}?watch=1&resourceVersion=0"), Form::Full).await {
                Ok(lines) => {
                    self.closed.remove(at);
                    if kind == "ReplicaSet" {
                        // The watch begins with all that there are; one that went meanwhile is not told of.
                        self.sets = Sets::default();
                    }
                    self.events.push(stream(kind, path, lines));
                }
                Err(error) => {
                    debug!(path, %error, "the watch cannot be opened");
                    at += 1;
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use muster_runtime::client::Options;

    use super::*;

    /// A server of Deployments that takes a second to answer, and whose watches do not end.
    fn slow() -> Client {
        let service = tower::service_fn(|request: http::Request<Full<Bytes>>| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let object = r#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":3}}"#;
            let line = match request.uri().path() {
                "/apis/apps/v1/deployments" => format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"),
                _ => String::new(),
            };
            let first = stream::once(async { Ok::<_, Infallible>(Frame::data(Bytes::from(line))) });
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(first.chain(stream::pending()))))
        });
        Client::in_process(service, &Options::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_the_caller_did_not_wait_for_is_opened_at_the_next_call() {
        let (kind, namespace, name) = ("Deployment".to_owned(), "shop".to_owned(), "web".to_owned());
        let mut follow =
            Follow::new(slow(), &[Applied { kind, namespace, name, path: String::new(), is_custom: false }]);
        assert!(tokio::time::timeout(Duration::from_millis(100), follow.next()).await.is_err());
        let next = tokio::time::timeout(Duration::from_secs(10), follow.next()).await;
        let (applied, progress) = next.expect("the watches are open after two seconds");
        assert_eq!((applied.title(), progress.desired), ("Deployment shop/web".to_owned(), 3));
    }
}
