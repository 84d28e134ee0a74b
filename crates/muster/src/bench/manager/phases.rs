//! What is measured: each phase starts a process, gives it work and tells what the work took.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use super::arguments::BenchManager;
use super::command::Manager;
use super::process::Process;
use super::report::Figures;
use super::stage::{Stage, World};
use super::usage::Usage;

/// A run over all phases and managers.
pub(super) struct Run<'a> {
    pub(super) stage: &'a Stage,
    pub(super) arguments: &'a BenchManager,
    /// Where every process shows by a first pod that it works.
    pub(super) probe: World<'a>,
    probes: AtomicUsize,
}

/// A process that works and is quiet.
struct Started {
    process: Process,
    /// Seconds from its start to its first pod.
    ready_seconds: f64,
    /// What it had used when it came to rest.
    usage: Usage,
}

impl<'a> Run<'a> {
    pub(super) async fn new(stage: &'a Stage, arguments: &'a BenchManager) -> Result<Self> {
        Ok(Self { stage, arguments, probe: stage.world().await?, probes: AtomicUsize::new(0) })
    }

    /// Starts a manager, and waits until it is at rest.
    async fn start(&self, manager: &Manager) -> Result<Started> {
        let (processes, ready_seconds) = self.start_all(std::slice::from_ref(manager)).await?;
        let mut process = processes.into_iter().next().context("one was started")?;
        let usage = process.at_rest(self.arguments.timeout).await?;
        Ok(Started { process, ready_seconds, usage })
    }

    /// Starts managers at once; gives them, and the seconds to the first pod. The first sync is that of a ReplicaSet of
    /// one pod that is there before them: when the pod comes, caches are filled and workers run, whoever they are.
    pub(super) async fn start_all(&self, managers: &[Manager]) -> Result<(Vec<Process>, f64)> {
        let owner = format!("probe-{}", self.probes.fetch_add(1, Ordering::Relaxed));
        self.probe.create_sets(&owner, [1]).await?;
        let set = format!("{owner}-0");
        let begun = Instant::now();
        let started = managers.iter().map(|manager| Process::start(&manager.name, &self.arguments.command(manager)?));
        let mut processes = started.collect::<Result<Vec<_>>>()?;
        let pod = Process::all_during(&mut processes, self.probe.pod_of(&set)).await?;
        let ready_seconds = begun.elapsed().as_secs_f64();
        Process::all_during(&mut processes, self.probe.delete_set_and_pod(&set, &pod)).await?;
        Ok((processes, ready_seconds))
    }

    /// Nothing to do.
    pub(super) async fn rest(&self, manager: &Manager) -> Result<Figures> {
        let Started { mut process, ready_seconds, usage: before } = self.start(manager).await?;
        let rest = tokio::time::sleep(self.arguments.rest);
        process
            .during(async {
                rest.await;
                Ok(())
            })
            .await?;
        let usage = process.usage()?;
        process.stop().await?;
        Ok(Figures::from([
            ("ready_seconds", ready_seconds),
            ("start_cpu_seconds", before.cpu_seconds),
            ("cpu_seconds", usage.cpu_seconds - before.cpu_seconds),
            ("resident_mib", usage.resident_mib),
            ("peak_mib", usage.peak_mib),
        ]))
    }

    /// The pods of one ReplicaSet, and as many created directly before or after them.
    pub(super) async fn replicaset(&self, manager: &Manager, directly_first: bool) -> Result<Figures> {
        let Started { mut process, .. } = self.start(manager).await?;
        let world = self.stage.world().await?;
        let (mut direct, mut through) = (0.0, (0.0, 0.0));
        for directly in [directly_first, !directly_first] {
            if directly {
                direct = process.during(self.directly(&world)).await?;
            } else {
                through = self.through(&mut process, &world).await?;
            }
            process.during(world.empty()).await?;
            process.at_rest(self.arguments.timeout).await?;
        }
        process.stop().await?;
        world.close().await?;
        let (seconds, cpu) = through;
        Ok(Figures::from([
            ("seconds", seconds),
            ("direct_seconds", direct),
            ("ratio_to_direct", seconds / direct),
            ("cpu_seconds", cpu),
        ]))
    }

    /// Seconds until the last pod was seen that this program created.
    async fn directly(&self, world: &World<'_>) -> Result<f64> {
        let BenchManager { pods, concurrency, .. } = *self.arguments;
        let begun = Instant::now();
        tokio::try_join!(world.create_pods(pods, concurrency), world.pods_are(u64::from(pods)))?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Seconds until the last pod was seen that the manager created, and its CPU seconds until it was at rest.
    async fn through(&self, process: &mut Process, world: &World<'_>) -> Result<(f64, f64)> {
        let pods = self.arguments.pods;
        let before = process.usage()?;
        let begun = Instant::now();
        process.during(world.create_sets("bench", [pods])).await?;
        process.during(world.pods_are(u64::from(pods))).await?;
        let seconds = begun.elapsed().as_secs_f64();
        process.during(world.sets_are_told(1)).await?;
        let usage = process.at_rest(self.arguments.timeout).await?;
        Ok((seconds, usage.cpu_seconds - before.cpu_seconds))
    }

    /// Many ReplicaSets at once.
    pub(super) async fn many(&self, manager: &Manager) -> Result<Figures> {
        let BenchManager { replicasets, replicas, .. } = *self.arguments;
        let Started { mut process, usage: before, .. } = self.start(manager).await?;
        let world = self.stage.world().await?;
        let begun = Instant::now();
        let wanted = vec![replicas; usize::try_from(replicasets)?];
        self.fill(&mut process, &world, &wanted).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let usage = process.at_rest(self.arguments.timeout).await?;
        process.stop().await?;
        world.close().await?;
        Ok(work(seconds, before, usage))
    }

    /// Creates ReplicaSets and waits until every pod is there and told in a status.
    async fn fill(&self, process: &mut Process, world: &World<'_>, wanted: &[u32]) -> Result<()> {
        let pods = wanted.iter().map(|replicas| u64::from(*replicas)).sum();
        let create = world.create_sets("bench", wanted.iter().copied());
        process.during(async { tokio::try_join!(create, world.pods_are(pods)) }).await?;
        process.during(world.sets_are_told(wanted.len())).await
    }

    /// Many rollouts at once. There must be nodes.
    pub(super) async fn rollouts(&self, manager: &Manager) -> Result<Figures> {
        let BenchManager { deployments, deployment_replicas: replicas, .. } = *self.arguments;
        let count = usize::try_from(deployments)?;
        let Started { mut process, usage: before, .. } = self.start(manager).await?;
        let world = self.stage.world().await?;
        process.during(world.create_deployments(deployments, replicas)).await?;
        process.during(world.deployments_are_complete(count, 1)).await?;
        let created = process.at_rest(self.arguments.timeout).await?;

        let begun = Instant::now();
        let complete = world.deployments_are_complete(count, 2);
        process.during(async { tokio::try_join!(world.roll(deployments), complete) }).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let usage = process.at_rest(self.arguments.timeout).await?;
        process.stop().await?;
        world.close().await?;
        let mut figures = work(seconds, created, usage);
        figures.insert("creation_cpu_seconds", created.cpu_seconds - before.cpu_seconds);
        Ok(figures)
    }

    /// A world with the pods among which managers are restarted, made by one of them.
    pub(super) async fn restart_world(&self, manager: &Manager) -> Result<World<'a>> {
        let BenchManager { cached_pods: pods, replicas, .. } = *self.arguments;
        let (whole, rest) = (pods / replicas, pods % replicas);
        let mut wanted = vec![replicas; usize::try_from(whole)?];
        wanted.extend((rest > 0).then_some(rest));
        let Started { mut process, .. } = self.start(manager).await?;
        let world = self.stage.world().await?;
        self.fill(&mut process, &world, &wanted).await?;
        process.at_rest(self.arguments.timeout).await?;
        process.stop().await?;
        Ok(world)
    }

    /// A start among many pods.
    pub(super) async fn restart(&self, manager: &Manager) -> Result<Figures> {
        let Started { process, ready_seconds, usage } = self.start(manager).await?;
        process.stop().await?;
        Ok(Figures::from([
            ("ready_seconds", ready_seconds),
            ("cpu_seconds", usage.cpu_seconds),
            ("resident_mib", usage.resident_mib),
            ("peak_mib", usage.peak_mib),
        ]))
    }
}

/// What a piece of work took.
fn work(seconds: f64, before: Usage, after: Usage) -> Figures {
    Figures::from([
        ("seconds", seconds),
        ("cpu_seconds", after.cpu_seconds - before.cpu_seconds),
        ("resident_mib", after.resident_mib),
        ("peak_mib", after.peak_mib),
    ])
}
