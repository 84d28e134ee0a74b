//! One size, in this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use muster_machinery::Change;
use muster_objects::Deployment;
use muster_runtime::informer::{Informers, WatchedResource};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::on_a_terminal;
use crate::bench::deployments::{Completions, Deployments};
use crate::bench::manager::usage::Usage;
use crate::bench::{create_namespace, quiet};
use crate::cli::BenchScale;
use crate::embedded::{Embedded, Settings, nodes_for};
use crate::requests::Requests;
use crate::usage;

/// How often the one Deployment is rolled, alone and among the others: the median counts.
const ROLLS: u32 = 3;
/// How often progress is told where there is no terminal.
const TOLD: Duration = Duration::from_secs(10);

/// What one size took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) pods: u32,
    pub(super) nodes: u32,
    /// From the first Deployment's creation until the last pod was Ready.
    pub(super) ready_seconds: f64,
    pub(super) pods_per_second: f64,
    /// Of the whole process meanwhile: server, controllers, scheduler and nodes.
    pub(super) cpu_seconds: f64,
    pub(super) cpu_us_per_pod: f64,
    /// Resident before the first pod but those of the one Deployment.
    pub(super) before_mib: f64,
    /// Resident when all were Ready and nothing was sent any more.
    pub(super) resident_mib: f64,
    pub(super) peak_mib: f64,
    pub(super) kib_per_pod: f64,
    /// A rollout of one Deployment on a cluster that had no other.
    pub(super) rollout_alone_seconds: f64,
    /// The same among all the pods.
    pub(super) rollout_seconds: f64,
}

/// For how many pods there must be room. The one Deployment is rolled while all others are there; a rollout takes room for
/// more than its pods.
pub(super) fn at_once(arguments: &BenchScale, pods: u32) -> u64 {
    u64::from(pods) + 3 * u64::from(arguments.pods_each)
}

pub(super) async fn measure(arguments: &BenchScale, pods: u32) -> Result<Figures> {
    let nodes = arguments.nodes.unwrap_or_else(|| nodes_for(at_once(arguments, pods)));
    let embedded = Embedded::start(&Settings { nodes, ..Settings::default() }).await?;
    let figures = on(&embedded, arguments, pods, nodes).await;
    if figures.is_err() {
        embedded.stop().await;
    }
    // Otherwise the process ends, which takes no time however many objects there are.
    figures
}

async fn on(embedded: &Embedded, arguments: &BenchScale, pods: u32, nodes: u32) -> Result<Figures> {
    let (client, namespace) = (embedded.client.clone(), "muster-bench".to_owned());
    let others = usize::try_from(pods / arguments.pods_each)?;
    let complete = Arc::new(Completions::new(namespace.clone(), others + 1));
    let mut informers = Informers::new(client.clone(), Duration::ZERO, 0);
    let observer = Arc::clone(&complete);
    let deployments = informers.of::<Deployment>(&WatchedResource::deployments());
    deployments.add_handler(move |change: &Change<Deployment>| observer.observe(change));
    let reading: Vec<_> = informers.into_runs().into_iter().map(tokio::spawn).collect();
    create_namespace(&client, &namespace).await?;
    let replicas = i32::try_from(arguments.pods_each)?;
    let all = Deployments { client, namespace, replicas, complete };
    let bench = Bench { all, requests: &embedded.requests, timeout: arguments.timeout };
    let figures = bench.run(others, pods, nodes).await;
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    figures
}

struct Bench<'a> {
    all: Deployments,
    requests: &'a Requests,
    timeout: Duration,
}

impl Bench<'_> {
    async fn run(&self, others: usize, pods: u32, nodes: u32) -> Result<Figures> {
        self.phase("the one Deployment", 1, 1, self.all.create(0..1)).await?;
        let alone = self.rolls("rolling it alone", 0).await?;

        let (before, cpu) = (Usage::of(std::process::id())?, usage::cpu_seconds());
        let seconds = self.phase("all others", others + 1, 1, self.all.create(1..others + 1)).await?;
        let cpu = usage::cpu_seconds() - cpu;
        let after = Usage::of(std::process::id())?;

        let among = self.rolls("rolling the one", ROLLS).await?;
        let count = f64::from(pods);
        Ok(Figures {
            pods,
            nodes,
            ready_seconds: seconds,
            pods_per_second: count / seconds,
            cpu_seconds: cpu,
            cpu_us_per_pod: cpu * 1e6 / count,
            before_mib: before.resident_mib,
            resident_mib: after.resident_mib,
            peak_mib: after.peak_mib,
            kib_per_pod: (after.resident_mib - before.resident_mib) * 1024.0 / count,
            rollout_alone_seconds: alone,
            rollout_seconds: among,
        })
    }

    /// Rolls the one Deployment, which was rolled `before` times; the median of the seconds.
    async fn rolls(&self, what: &str, before: u32) -> Result<f64> {
        let mut seconds = Vec::new();
        for number in before + 1..=before + ROLLS {
            seconds.push(self.phase(what, 1, i64::from(number) + 1, self.all.set_image(0..1, number)).await?);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }

    /// Does something and waits until the first `count` Deployments are complete at `generation`; the seconds until
    /// then. What is still sent afterwards is waited for, and not timed.
    async fn phase(
        &self,
        what: &str,
        count: usize,
        generation: i64,
        work: impl Future<Output = Result<()>>,
    ) -> Result<f64> {
        let progress = Progress::new(what, count);
        let start = Instant::now();
        let wait = async {
            let mut complete = 0;
            let reached = self.all.complete.reach(count, generation, |now| {
                complete = now;
                progress.tell(now, start.elapsed());
            });
            if tokio::time::timeout(self.timeout, reached).await.is_err() {
                bail!("{what}: after {:?} {complete} of {count} Deployments are complete", self.timeout);
            }
            Ok(())
        };
        let ((), ()) = tokio::try_join!(work, wait).context("the embedded cluster")?;
        let seconds = start.elapsed().as_secs_f64();
        progress.bar.finish_and_clear();
        quiet(self.requests).await;
        Ok(seconds)
    }
}

/// How far a phase is, and when it will end: a bar on a terminal, elsewhere lines.
struct Progress {
    bar: ProgressBar,
    what: String,
    count: usize,
    told: std::cell::Cell<Duration>,
}

impl Progress {
    fn new(what: &str, count: usize) -> Self {
        let bar = if on_a_terminal() && count > 1 {
            let style = ProgressStyle::with_template("{prefix:24} {bar:40} {pos}/{len} Deployments, {eta} left");
            let bar = ProgressBar::new(count as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.with_prefix(what.to_owned())
        } else {
            ProgressBar::hidden()
        };
        Self { bar, what: what.to_owned(), count, told: std::cell::Cell::new(Duration::ZERO) }
    }

    fn tell(&self, complete: usize, elapsed: Duration) {
        self.bar.set_position(complete as u64);
        if !on_a_terminal() && complete > 0 && elapsed >= self.told.get() + TOLD {
            self.told.set(elapsed);
            let left = elapsed.mul_f64((self.count - complete) as f64 / complete as f64);
            eprintln!(
                "{}: {complete} of {} Deployments complete after {} s, about {} s left",
                self.what,
                self.count,
                elapsed.as_secs(),
                left.as_secs()
            );
        }
    }
}
