//! `muster bench rollouts`: many Deployments are rolled to a new image at once, again and again.
//!
//! It measures how long they take, what the controllers send to the API server for each, and what an independent
//! watcher saw meanwhile: a rollout that leaves its bounds for one moment fails the command.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use muster_machinery::Change;
use muster_manager::arguments::{Output, say};
use muster_objects::{Deployment, Pod, ReplicaSet};
use muster_runtime::informer::{Informers, WatchedResource};
use serde::Serialize;
use tokio::time::Instant;

use super::deployments::{BOUND, Completions, Deployments};
use super::report::{Column, DEPLOYMENT_OF_10, ROLLOUT_OF_10, RequestCounts, table};
use super::watcher::{Bounds, Watcher};
use super::{bar, create_namespace, quiet, remove_namespace};
use crate::cli::BenchRollouts;
use crate::embedded::{Embedded, Settings, nodes_for};
use crate::requests::{Requests, Sender, Tally};
use crate::usage;

/// What a run found.
#[derive(Debug, Serialize)]
struct Findings {
    cores: usize,
    deployments: u32,
    replicas: u32,
    /// How often each Deployment was rolled.
    rollouts: u32,
    /// The Deployments from nothing to complete.
    creation: Figures,
    /// All rollouts to the end.
    rolling: Figures,
    availability: Availability,
    /// CPU seconds of this process over the whole run.
    cpu_seconds: f64,
    /// Peak resident memory of this process, in MiB.
    peak_resident_mib: f64,
}

/// What one phase took.
#[derive(Debug, Serialize)]
struct Figures {
    /// Seconds until every Deployment was complete; of several rounds their sum.
    seconds: f64,
    /// Deployments complete a second.
    per_second: f64,
    /// CPU seconds of this process meanwhile.
    cpu_seconds: f64,
    /// The controllers' requests for each Deployment or rollout.
    requests: RequestCounts,
    /// Those of scheduler and nodes and the rest of the cluster, likewise.
    cluster_requests: RequestCounts,
}

/// What the watcher saw of any Deployment during its rollouts.
#[derive(Debug, Serialize)]
struct Availability {
    /// The fewest pods available at one moment.
    lowest_available: i64,
    /// The fewest that are allowed: replicas - maxUnavailable.
    least_available_allowed: i64,
    /// The most pods that its ReplicaSets wanted together at one moment.
    highest_wanted: i64,
    /// The most that are allowed: replicas + maxSurge.
    highest_wanted_allowed: i64,
    /// The most pods that there were at one moment, those that are being deleted not counted.
    highest_total: i64,
    /// How many events left a Deployment outside of its bounds.
    violations: u64,
    /// The first of these, in words.
    violations_told: Vec<String>,
}

/// Runs `muster bench rollouts`.
///
/// # Errors
/// Where the Deployments are not complete in time, or a rollout left its bounds.
pub(crate) async fn run(arguments: &BenchRollouts) -> Result<()> {
    // Those above the wanted number, and those on their way out, take room too.
    let pods = 2 * u64::from(arguments.deployments) * u64::from(arguments.replicas);
    let settings = Settings { nodes: nodes_for(pods), pod_startup: arguments.pod_startup, ..Settings::default() };
    let embedded = Embedded::start(&settings).await?;
    let findings = measure(arguments, &embedded).await;
    embedded.stop().await;
    let findings = findings?;
    match arguments.output {
        Output::Json => say(&format!("{}\n", serde_json::to_string(&findings)?)),
        Output::Text => say(&text(&findings)),
    }?;
    let Availability { violations, violations_told: told, .. } = &findings.availability;
    if *violations > 0 {
        bail!("{violations} times a Deployment left its bounds, first:\n  {}", told.join("\n  "));
    }
    Ok(())
}

async fn measure(arguments: &BenchRollouts, embedded: &Embedded) -> Result<Findings> {
    let client = embedded.client.clone();
    let namespace = format!("muster-bench-{}", std::process::id());
    let count = usize::try_from(arguments.deployments)?;
    let replicas = i32::try_from(arguments.replicas)?;
    let bounds = Bounds {
        least_available: i64::from(replicas) - BOUND.scaled(replicas, false)?,
        most: i64::from(replicas) + BOUND.scaled(replicas, true)?,
    };
    let watcher = Arc::new(Watcher::new(namespace.clone(), count, bounds));
    let complete = Arc::new(Completions::new(namespace.clone(), count));

    let mut informers = Informers::new(client.clone(), Duration::ZERO, 0);
    let (of_pods, of_sets, observer) = (Arc::clone(&watcher), Arc::clone(&watcher), Arc::clone(&complete));
    informers.of::<Pod>(&WatchedResource::pods()).add_handler(move |change: &Change<Pod>| of_pods.observe(change));
    let sets = informers.of::<ReplicaSet>(&WatchedResource::replicasets());
    sets.add_handler(move |change: &Change<ReplicaSet>| of_sets.observe_set(change));
    let deployments = informers.of::<Deployment>(&WatchedResource::new("apps", "v1", "deployments"));
    deployments.add_handler(move |change: &Change<Deployment>| observer.observe(change));
    let reading: Vec<_> = informers.into_runs().into_iter().map(tokio::spawn).collect();

    create_namespace(&client, &namespace).await?;
    let requests = Arc::clone(&embedded.requests);
    let all = Deployments { client, namespace, replicas, complete };
    let bench = Bench { all, requests, watcher, bounds, arguments };
    let findings = bench.run().await;
    let removed = remove_namespace(&bench.all.client, &bench.all.namespace).await;
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    removed?;
    findings
}

struct Bench<'a> {
    all: Deployments,
    requests: Arc<Requests>,
    watcher: Arc<Watcher>,
    bounds: Bounds,
    arguments: &'a BenchRollouts,
}

/// What was counted before a phase began.
struct Before {
    controllers: Tally,
    cluster: Tally,
    cpu_seconds: f64,
}

impl Bench<'_> {
    async fn run(&self) -> Result<Findings> {
        let BenchRollouts { deployments, replicas, rollouts, .. } = *self.arguments;
        let count = usize::try_from(deployments)?;
        let before = self.before();
        let seconds = self.phase("creating", 1, self.all.create(0..count)).await?;
        let creation = self.figures(&before, u64::from(deployments), seconds);

        let before = self.before();
        self.watcher.begin();
        let mut seconds = 0.0;
        for number in 1..=rollouts {
            let title = format!("rollout {number} of {rollouts}");
            seconds += self.phase(&title, i64::from(number) + 1, self.all.set_image(0..count, number)).await?;
        }
        let seen = self.watcher.end();
        let rolling = self.figures(&before, u64::from(deployments) * u64::from(rollouts), seconds);
        Ok(Findings {
            cores: usage::cores(),
            deployments,
            replicas,
            rollouts,
            creation,
            rolling,
            availability: Availability {
                lowest_available: seen.lowest_available,
                least_available_allowed: self.bounds.least_available,
                highest_wanted: seen.highest_wanted,
                highest_wanted_allowed: self.bounds.most,
                highest_total: seen.highest_total,
                violations: seen.violations,
                violations_told: seen.told,
            },
            cpu_seconds: usage::cpu_seconds(),
            peak_resident_mib: usage::peak_resident_mib(),
        })
    }

    /// Does one thing to every Deployment and waits until all are complete at `generation`. Returns the seconds that
    /// this took; what the controllers still send afterwards is waited for as well, and not timed.
    async fn phase(&self, what: &str, generation: i64, work: impl Future<Output = Result<()>>) -> Result<f64> {
        let count = usize::try_from(self.arguments.deployments)?;
        let bar = bar(what, u64::from(self.arguments.deployments), "Deployments complete");
        let start = Instant::now();
        let wait = async {
            let complete = self.all.complete.reach(count, generation, |complete| bar.set_position(complete as u64));
            self.in_time(what, complete).await
        };
        let ((), ()) = tokio::try_join!(work, wait)?;
        let seconds = start.elapsed().as_secs_f64();
        bar.finish_and_clear();
        self.in_time(what, self.watcher.settled(i64::from(self.all.replicas))).await?;
        quiet(&self.requests).await;
        Ok(seconds)
    }

    async fn in_time(&self, what: &str, wait: impl Future<Output = ()>) -> Result<()> {
        let Err(_elapsed) = tokio::time::timeout(self.arguments.timeout, wait).await else { return Ok(()) };
        bail!(
            "{what}: after {:?} not every Deployment is complete: of {} pods {} are available",
            self.arguments.timeout,
            u64::from(self.arguments.deployments) * u64::from(self.arguments.replicas),
            self.watcher.available()
        )
    }

    fn before(&self) -> Before {
        Before {
            controllers: self.requests.of(Sender::Controllers),
            cluster: self.requests.of(Sender::Cluster),
            cpu_seconds: usage::cpu_seconds(),
        }
    }

    fn figures(&self, before: &Before, pieces: u64, seconds: f64) -> Figures {
        let since = |sender, before: &Tally| RequestCounts::of(&self.requests.of(sender).since(before), pieces);
        Figures {
            seconds,
            per_second: pieces as f64 / seconds,
            cpu_seconds: usage::cpu_seconds() - before.cpu_seconds,
            requests: since(Sender::Controllers, &before.controllers),
            cluster_requests: since(Sender::Cluster, &before.cluster),
        }
    }
}

fn text(f: &Findings) -> String {
    let mut out = String::new();
    let Findings { deployments, replicas, rollouts, creation, rolling, availability, .. } = f;
    let _ =
        writeln!(out, "{deployments} Deployments of {replicas} pods, rolled {rollouts} times each, {} cores", f.cores);
    let _ = writeln!(out, "{:24} {:>14} {:>10} {:>10}", "", "Deployments/s", "seconds", "CPU s");
    for (what, figures) in [("from nothing", creation), ("rollouts", rolling)] {
        let _ = writeln!(
            out,
            "{what:24} {:>14.1} {:>10.2} {:>10.2}",
            figures.per_second, figures.seconds, figures.cpu_seconds
        );
    }
    let columns = [
        Column::Measured("creation", &creation.requests),
        Column::Against("reference, 10 pods", &DEPLOYMENT_OF_10),
        Column::Measured("rollout", &rolling.requests),
        Column::Against("reference, 10 pods", &ROLLOUT_OF_10),
    ];
    let _ = writeln!(out, "\n{}", table("controllers' requests", &columns));
    let conflicts = rolling.requests.conflicts_line();
    if !conflicts.is_empty() {
        let _ = writeln!(out, "  conflicts for each rollout: {conflicts}");
    }
    let _ = writeln!(
        out,
        "\nof scheduler and nodes, not counted above, for each rollout: {}",
        rolling.cluster_requests.line()
    );
    let _ = writeln!(
        out,
        "lowest availability of a Deployment: {} (allowed {}); highest total: {} wanted (allowed {}), {} there",
        availability.lowest_available,
        availability.least_available_allowed,
        availability.highest_wanted,
        availability.highest_wanted_allowed,
        availability.highest_total
    );
    let _ = writeln!(
        out,
        "CPU {:.2} s, peak resident memory {:.0} MiB, of this process over the whole run",
        f.cpu_seconds, f.peak_resident_mib
    );
    out
}
