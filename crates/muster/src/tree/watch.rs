//! The objects of a tree, kept as they change by three watches.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use muster_inspect::reason::text;
use muster_manager::explain::target::Target;
use muster_runtime::client::{Client, ClientError, Form, Frames};
use muster_runtime::explain::Kind;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{Objects, Tree};
use crate::reason::selector;

/// How long to wait before what failed is tried again: so long, twice as long after each further time, and at most so long.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const AGAIN_AT_MOST: Duration = Duration::from_secs(10);

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
    name: String,
    /// The path of each list, with its selector.
    paths: BTreeMap<Part, String>,
    objects: BTreeMap<Part, BTreeMap<String, Value>>,
    events: SelectAll<BoxStream<'static, (Part, Option<bytes::Bytes>)>>,
    /// Lists that are to be watched, from these versions; none where it is to be read anew.
    closed: Vec<(Part, Option<String>)>,
    /// The first of them, which is being opened: whoever waits for it may stop at any time, and come back.
    opening: Option<BoxFuture<'static, Result<Opened, ClientError>>>,
    /// Since it has failed: when it is tried again, and the wait after that.
    again: Option<(Instant, Duration)>,
}

/// Objects by their names, and their version.
type List = (BTreeMap<String, Value>, String);
/// What is open, with the list before it where there was one.
type Opened = (Option<List>, Frames);

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
        let (opening, again) = (None, None);
        let mut live = Self { client: client.clone(), kind, name, paths, objects, events, closed, opening, again };
        for (part, version) in &mut live.closed {
            let (objects, listed) = list(client, &live.paths[part]).await.map_err(|error| anyhow!("{error}"))?;
            live.objects.insert(*part, objects);
            *version = Some(listed);
        }
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
        if self.open().await {
            return if self.objects[&Part::Root].is_empty() { Err(self.deleted()) } else { Ok(true) };
        }
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
            "DELETED" if part == Part::Root => return Err(self.deleted()),
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

    fn deleted(&self) -> anyhow::Error {
        anyhow!("{} {:?} was deleted", self.kind.resource().plural, self.name)
    }

    /// Opens the watches that are closed, each after its list; what is refused is tried again later. Says whether anything was
    /// listed.
    async fn open(&mut self) -> bool {
        let mut listed = false;
        while let Some((part, version)) = self.closed.first().cloned() {
            if let Some((at, _)) = self.again {
                tokio::time::sleep_until(at).await;
            }
            let opening = || open(self.client.clone(), self.paths[&part].clone(), version).boxed();
            let opened = self.opening.get_or_insert_with(opening).await;
            self.opening = None;
            match opened {
                Ok((list, lines)) => {
                    if let Some((objects, _)) = list {
                        self.objects.insert(part, objects);
                        listed = true;
                    }
                    let lines = lines.take_while(|line| std::future::ready(line.is_ok()));
                    let lines = lines.map(move |line| (part, line.ok()));
                    let end = futures::stream::once(std::future::ready((part, None)));
                    self.events.push(lines.chain(end).boxed());
                    self.closed.remove(0);
                    if self.again.take().is_some() {
                        tracing::warn!("the server answers again");
                    }
                }
                Err(error) => {
                    self.closed[0].1 = None;
                    if self.again.is_none() {
                        tracing::warn!(%error, "what is shown may be old: it is tried again until the server answers");
                    }
                    let wait = self.again.map_or(AGAIN_AFTER, |(_, wait)| wait);
                    self.again = Some((Instant::now() + wait, (wait * 2).min(AGAIN_AT_MOST)));
                }
            }
        }
        listed
    }
}

/// Opens the watch of a path from a version; where there is none, that of a list before it.
async fn open(client: Client, path: String, version: Option<String>) -> Result<Opened, ClientError> {
    let listed = if version.is_none() { Some(list(&client, &path).await?) } else { None };
    let version = version.or_else(|| listed.as_ref().map(|(_, version)| version.clone())).unwrap_or_default();
    let lines = client.watch(&format!("{path}&watch=1&resourceVersion={version}"), Form::Full).await?;
    Ok((listed, lines))
}

async fn list(client: &Client, path: &str) -> Result<List, ClientError> {
    let answer = client.get(path).await?;
    let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let named = items.into_iter().map(|item| (text(&item, "/metadata/name").to_owned(), item)).collect();
    Ok((named, text(&list, "/metadata/resourceVersion").to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use muster_runtime::client::Options;
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;

    /// What a server has: the workload or not, or that it is gone.
    type Has = Option<bool>;

    /// A client of a server that has this, and how often it was asked.
    fn server(has: watch::Receiver<Has>) -> (Client, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Full<Bytes>>| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut has = has.clone();
            async move {
                let gone = || io::Error::from(io::ErrorKind::ConnectionRefused);
                let there = has.borrow_and_update().ok_or_else(gone)?;
                let object =
                    json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
                let items = if there { vec![object.clone()] } else { Vec::new() };
                let list = json!({"metadata": {"resourceVersion": "5"}, "items": items});
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                let body = if query.contains("watch=1") {
                    let broken = async move {
                        // Also where nobody looks before it is back.
                        let _ = has.changed().await;
                        Err(gone())
                    };
                    stream::once(broken).boxed()
                } else {
                    let answer = if path.ends_with("/web") { object } else { list };
                    stream::once(async move { Ok(Frame::data(Bytes::from(answer.to_string()))) }).boxed()
                };
                Ok::<_, io::Error>(http::Response::new(StreamBody::new(body)))
            }
        });
        (Client::in_process(service, &Options::default()), asked)
    }

    /// What is logged on this thread.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Follows for so many seconds, as a terminal does: it stops waiting each second.
    async fn follow(live: &mut Live, seconds: u32) -> Result<()> {
        for _ in 0..seconds {
            let changes = async {
                loop {
                    live.changed().await?;
                }
            };
            if let Ok(ended) = tokio::time::timeout(Duration::from_secs(1), changes).await {
                return ended;
            }
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_gone_is_told_once_and_asked_ever_less_until_it_is_back() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let told = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();

        let (has, is_there) = watch::channel(Some(true));
        let (client, asked) = server(is_there);
        let target = Target { kind: Kind::ReplicaSet, name: "web".to_owned() };
        let mut live = Live::read(&client, target, "shop").await.unwrap();
        follow(&mut live, 5).await.unwrap();
        assert_eq!(told(), "");
        has.send_replace(None);
        asked.store(0, Ordering::Relaxed);
        follow(&mut live, 60).await.unwrap();
        // At 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s, and then every 10 s.
        assert_eq!(asked.load(Ordering::Relaxed), 10);
        assert!(told().lines().count() == 1 && told().contains("what is shown may be old"), "{}", told());
        has.send_replace(Some(true));
        follow(&mut live, 11).await.unwrap();
        assert!(told().lines().count() == 2 && told().contains("the server answers again"), "{}", told());

        // One that comes back without it, as from a backup.
        has.send_replace(None);
        follow(&mut live, 1).await.unwrap();
        has.send_replace(Some(false));
        let error = follow(&mut live, 11).await.unwrap_err();
        assert_eq!(error.to_string(), "replicasets \"web\" was deleted");
    }
}
