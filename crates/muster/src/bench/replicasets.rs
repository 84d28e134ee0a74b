//! `muster bench replicasets`: pods a second through the controller, beside the same pods created directly.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::stream::{self, TryStreamExt as _};
use indicatif::ProgressBar;
use muster_machinery::Change;
use muster_manager::arguments::{Output, say};
use muster_manager::signals::Signals;
use muster_objects::Pod;
use muster_runtime::client::{Client, ClientError};
use muster_runtime::informer::{Informers, WatchedResource};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::report::{Column, REPLICASET_OF_1000, RequestCounts, table};
use super::{LANES, bar, connect, create_namespace, pod, quiet, remove_namespace, replicaset};
use crate::cli::BenchReplicasets;
use crate::embedded::{Embedded, Settings, nodes_for};
use crate::reason;
use crate::requests::{Requests, Sender};
use crate::usage;

/// How many pods one sync has in flight at most, and so each lane.
const BURST: usize = 500;

/// What one way of creating the pods took.
#[derive(Debug, Serialize)]
struct Figures {
    /// Seconds until the last pod was seen created.
    created_seconds: f64,
    /// Seconds until the last pod was seen ready.
    ready_seconds: f64,
    /// Pods created a second.
    created_per_second: f64,
    /// Pods ready a second.
    ready_per_second: f64,
    /// CPU seconds of this process meanwhile.
    cpu_seconds: f64,
    /// The requests of the embedded cluster's controllers for each ReplicaSet; absent on another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<RequestCounts>,
}

/// What a run found.
#[derive(Debug, Serialize)]
struct Findings {
    cores: usize,
    cluster: String,
    replicasets: u32,
    replicas: u32,
    pods: u64,
    /// Through the ReplicaSet controller.
    controller: Figures,
    /// The same pods by the same client, at the same concurrency.
    direct: Figures,
    /// Pods created a second: through the controller over directly.
    ratio_created: f64,
    /// Pods ready a second, likewise.
    ratio_ready: f64,
    /// CPU seconds of this process over the whole run.
    cpu_seconds: f64,
    /// Peak resident memory of this process, in MiB.
    peak_resident_mib: f64,
}

/// Runs `muster bench replicasets`.
///
/// # Errors
/// Where the cluster cannot be reached or refuses, or the pods are not ready in time.
pub(crate) async fn run(arguments: &BenchReplicasets) -> Result<()> {
    // From here on an interrupt ends in order: the namespace is removed.
    let mut signals = Signals::listen()?;
    let counts = Arc::new(Counts::default());
    let (client, name, embedded) = match &arguments.kubeconfig {
        Some(path) => {
            let client = connect(path).await?;
            // One that does not answer is told now, and not when time is up.
            let version = signals.during(async { Ok(client.get("/version").await?) }).await;
            version.with_context(|| format!("{}: its server", path.display()))?;
            (client, path.display().to_string(), None)
        }
        None => {
            let settings = Settings {
                nodes: nodes_for(u64::from(arguments.replicasets) * u64::from(arguments.replicas)),
                pod_startup: arguments.pod_startup,
                pod_shutdown: Duration::ZERO,
                ..Settings::default()
            };
            let embedded = Embedded::start(&settings).await?;
            (embedded.client.clone(), "embedded".to_owned(), Some(embedded))
        }
    };
    let namespace = format!("muster-bench-{}", std::process::id());
    let mut informers = Informers::new(client.clone(), Duration::ZERO, 0);
    let pods = informers.of::<Pod>(&WatchedResource::pods());
    let store = pods.store();
    pods.add_handler(counter(namespace.clone(), Arc::clone(&counts)));
    let reading: Vec<_> = informers.into_runs().into_iter().map(tokio::spawn).collect();
    let synced = signals.during(async { Ok(tokio::time::timeout(arguments.timeout, store.synced()).await?) }).await;
    synced.with_context(|| format!("{name}: its pods could not be listed within {:?}", arguments.timeout))?;

    create_namespace(&client, &namespace).await?;
    let requests = embedded.as_ref().map(|embedded| Arc::clone(&embedded.requests));
    let bench = Bench { client, namespace, counts, requests, arguments };
    let findings = signals.during(bench.run(name)).await;
    let removed = signals.during(remove_namespace(&bench.client, &bench.namespace)).await;
    let removed = removed.with_context(|| format!("namespace {} is left", bench.namespace));
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    let findings = findings?;
    removed?;
    match arguments.output {
        Output::Json => say(&format!("{}\n", serde_json::to_string(&findings)?)),
        Output::Text => say(&text(&findings)),
    }
}

/// The pods of the bench's namespace as the watch shows them.
#[derive(Debug, Default)]
struct Counts {
    present: AtomicU64,
    ready: AtomicU64,
    /// Present, and on no node.
    unassigned: AtomicU64,
    changed: Notify,
}

impl Counts {
    fn seen(&self) -> Seen {
        let [present, ready, unassigned] =
            [&self.present, &self.ready, &self.unassigned].map(|count| count.load(Ordering::Relaxed));
        Seen { present, ready, unassigned }
    }
}

/// How many pods there are at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    present: u64,
    ready: u64,
    unassigned: u64,
}

impl Seen {
    /// `15360/200000 pods ready, 184640 unschedulable: too few nodes`: how many of `pods` are ready, and why those
    /// without a node have none, where that is known.
    fn words(self, pods: u64, reason: Option<&str>) -> String {
        let Self { present, ready, unassigned } = self;
        match (unassigned, reason) {
            (0, _) | (_, None) => format!("{ready}/{pods} pods ready, {present} created"),
            (_, Some(reason)) => format!("{ready}/{pods} pods ready, {unassigned} {reason}"),
        }
    }
}

fn counter(namespace: String, counts: Arc<Counts>) -> impl FnMut(&Change<Pod>) + Send + 'static {
    move |change| {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Deleted { last, .. } => (Some(last), None),
        };
        if old.or(new).is_none_or(|pod| *pod.meta.namespace != *namespace) {
            return;
        }
        step(&counts.present, old.is_some(), new.is_some());
        step(&counts.ready, old.is_some_and(|pod| pod.is_ready()), new.is_some_and(|pod| pod.is_ready()));
        let on_none = |pod: &Pod| pod.node_name.is_none();
        step(&counts.unassigned, old.is_some_and(|pod| on_none(pod)), new.is_some_and(|pod| on_none(pod)));
        counts.changed.notify_waiters();
    }
}

fn step(count: &AtomicU64, before: bool, after: bool) {
    match (before, after) {
        (false, true) => count.fetch_add(1, Ordering::Relaxed),
        (true, false) => count.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
}

struct Bench<'a> {
    client: Client,
    namespace: String,
    counts: Arc<Counts>,
    /// Where an embedded cluster's requests are counted.
    requests: Option<Arc<Requests>>,
    arguments: &'a BenchReplicasets,
}

impl Bench<'_> {
    async fn run(&self, cluster: String) -> Result<Findings> {
        let (sets, replicas) = (self.arguments.replicasets, self.arguments.replicas);
        let pods = u64::from(sets) * u64::from(replicas);
        // Once small, both ways: connections, code and caches are warm afterwards.
        self.measure("warming up", 1, 20.min(replicas), true).await?;
        self.measure("warming up", 1, 20.min(replicas), false).await?;
        let controller = self.measure("through the controller", sets, replicas, true).await?;
        let direct = self.measure("directly", sets, replicas, false).await?;
        Ok(Findings {
            cores: usage::cores(),
            cluster,
            replicasets: sets,
            replicas,
            pods,
            ratio_created: controller.created_per_second / direct.created_per_second,
            ratio_ready: controller.ready_per_second / direct.ready_per_second,
            controller,
            direct,
            cpu_seconds: usage::cpu_seconds(),
            peak_resident_mib: usage::peak_resident_mib(),
        })
    }

    /// Creates the pods one way, waits until they are ready, and removes them.
    async fn measure(&self, what: &'static str, sets: u32, replicas: u32, through: bool) -> Result<Figures> {
        let pods = u64::from(sets) * u64::from(replicas);
        let bar = bar(what, pods, "pods ready");
        let before = self.requests.as_ref().map(|requests| requests.of(Sender::Controllers));
        let cpu = usage::cpu_seconds();
        let start = Instant::now();
        let create = async {
            if through { self.create_sets(sets, replicas).await } else { self.create_pods(sets, replicas).await }
        };
        let wait = async {
            let mut created = None;
            self.until(what, pods, &bar, |seen| {
                bar.set_position(seen.ready);
                if seen.present >= pods {
                    created.get_or_insert_with(|| start.elapsed());
                }
                seen.ready >= pods
            })
            .await?;
            Ok(created.unwrap_or_else(|| start.elapsed()))
        };
        let ((), created) = tokio::try_join!(create, wait)?;
        let ready = start.elapsed();
        let cpu = usage::cpu_seconds() - cpu;
        bar.finish_and_clear();
        let requests = match (&self.requests, before) {
            (Some(requests), Some(before)) => {
                quiet(requests).await;
                Some(RequestCounts::of(&requests.of(Sender::Controllers).since(&before), u64::from(sets)))
            }
            _ => None,
        };
        self.clear().await?;
        Ok(Figures {
            created_seconds: created.as_secs_f64(),
            ready_seconds: ready.as_secs_f64(),
            created_per_second: pods as f64 / created.as_secs_f64(),
            ready_per_second: pods as f64 / ready.as_secs_f64(),
            cpu_seconds: cpu,
            requests,
        })
    }

    async fn create_sets(&self, sets: u32, replicas: u32) -> Result<()> {
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets", self.namespace);
        stream::iter((0..sets).map(Ok))
            .try_for_each_concurrent(LANES, |number| {
                let path = &path;
                let name = format!("bench-{number}");
                let body = replicaset(&name, replicas);
                async move { self.client.create(path, body).await.map(drop).context("a ReplicaSet") }
            })
            .await
    }

    async fn create_pods(&self, sets: u32, replicas: u32) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let lanes = stream::iter((0..sets).map(Ok));
        lanes
            .try_for_each_concurrent(LANES, |number| {
                let body = pod(&format!("bench-{number}"));
                let path = &path;
                async move {
                    stream::iter((0..replicas).map(Ok::<_, ClientError>))
                        .try_for_each_concurrent(BURST, |_| {
                            let body = body.clone();
                            async move { self.client.create(path, body).await.map(drop) }
                        })
                        .await
                        .context("a pod")
                }
            })
            .await
    }

    /// Deletes what was created and waits until it is gone.
    async fn clear(&self) -> Result<()> {
        let namespace = &self.namespace;
        let options = Bytes::from_static(
            br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","gracePeriodSeconds":0}"#,
        );
        for path in [
            format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
            format!("/api/v1/namespaces/{namespace}/pods"),
        ] {
            self.client.delete(&path, Some(options.clone())).await.with_context(|| format!("deleting {path}"))?;
        }
        self.until("removing the pods", 0, &ProgressBar::hidden(), |seen| seen.present == 0).await
    }

    /// Waits until the counts of pods satisfy `done`. Where nothing changes for a while, it says what is waited for.
    async fn until(&self, what: &str, pods: u64, bar: &ProgressBar, mut done: impl FnMut(Seen) -> bool) -> Result<()> {
        let wait = async {
            let mut told = None;
            loop {
                // Listen before looking, so that no change falls between the two.
                let changed = self.counts.changed.notified();
                let seen = self.counts.seen();
                if done(seen) {
                    return;
                }
                let stalled = tokio::time::timeout(reason::STALLED, changed).await.is_err();
                if stalled && told != Some(seen) {
                    let words = self.waiting(pods).await;
                    bar.suspend(|| eprintln!("{what}: {words}"));
                    told = Some(seen);
                }
            }
        };
        if tokio::time::timeout(self.arguments.timeout, wait).await.is_err() {
            bail!("{what}: after {:?} {}", self.arguments.timeout, self.waiting(pods).await);
        }
        Ok(())
    }

    /// How many of `pods` are ready, and what the others wait for.
    async fn waiting(&self, pods: u64) -> String {
        let reason = reason::unscheduled(&self.client, &self.namespace).await;
        self.counts.seen().words(pods, reason.as_deref())
    }
}

fn text(f: &Findings) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} ReplicaSets of {} pods on the {} cluster, {} cores",
        f.replicasets, f.replicas, f.cluster, f.cores
    );
    let _ = writeln!(out, "{:24} {:>14} {:>14} {:>10} {:>10}", "", "created/s", "ready/s", "seconds", "CPU s");
    for (what, figures) in [("through the controller", &f.controller), ("directly", &f.direct)] {
        let _ = writeln!(
            out,
            "{what:24} {:>14.0} {:>14.0} {:>10.2} {:>10.2}",
            figures.created_per_second, figures.ready_per_second, figures.ready_seconds, figures.cpu_seconds
        );
    }
    let _ = writeln!(out, "{:24} {:>14.2} {:>14.2}", "ratio", f.ratio_created, f.ratio_ready);
    let _ = writeln!(
        out,
        "CPU {:.2} s, peak resident memory {:.0} MiB, of this process over the whole run",
        f.cpu_seconds, f.peak_resident_mib
    );
    if let Some(requests) = &f.controller.requests {
        let columns =
            [Column::Measured("measured", requests), Column::Against("reference, 1,000 pods", &REPLICASET_OF_1000)];
        let _ = writeln!(out, "{}", table("requests a ReplicaSet", &columns));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_waited_for() {
        let full = Seen { present: 200_000, ready: 15_360, unassigned: 184_640 };
        let reason = Some("unschedulable: too few nodes");
        assert_eq!(full.words(200_000, reason), "15360/200000 pods ready, 184640 unschedulable: too few nodes");
        assert_eq!(full.words(200_000, None), "15360/200000 pods ready, 200000 created");
        let starting = Seen { unassigned: 0, ..full };
        assert_eq!(starting.words(200_000, reason), "15360/200000 pods ready, 200000 created");
    }
}
