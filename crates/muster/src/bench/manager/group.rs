//! `--shards` and `--members`: what each member of a group costs, beside a single leader that does the same work.
//!
//! ```text
//!   each round:  the leader alone, then all members at once:
//!     start --each has its share of the shards--> all at rest --more pods--> all at rest --as many as before--> stop
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use muster_machinery::group::GROUP;
use muster_objects::{Lease, Pod, ReplicaSet};
use muster_runtime::client::PatchType;
use muster_runtime::informer::{Store, WatchedResource};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::{LANES, replicaset};
use super::arguments::{BenchManager, Sharing};
use super::command::Manager;
use super::phases::Run;
use super::process::Process;
use super::report::{self, Figures, Found};
use super::stage::{Stage, are_told};
use super::tell;
use super::usage::Usage;

/// How often is looked at who has which shard.
const LOOK: Duration = Duration::from_millis(50);

/// Measures the leader and the members; the last one found is all members together.
///
/// # Errors
/// Where a process ends, or something does not come in time.
pub(super) async fn measure(run: &Run<'_>, sharing: Sharing) -> Result<Vec<Found>> {
    let BenchManager { rounds, replicasets, replicas, .. } = run.arguments;
    let leader = [Manager::alone("leader")];
    eprintln!("group: {replicasets} namespaces of {replicas} pods by the leader");
    let tenants = Tenants::new(run.stage, *replicasets).await?;
    let (mut filling, _) = run.start_all(&leader).await?;
    Process::all_during(&mut filling, tenants.create(*replicas)).await?;
    all_at_rest(run, &mut filling).await?;
    stop(filling).await?;

    let mut found = Vec::new();
    for round in 0..*rounds {
        let alone = team(run, &tenants, &leader, async { Ok(()) }).await.context("group: leader")?;
        // A group of its own each time: none finds the ranges of the one before.
        let (group, namespace) = (format!("bench-{round}"), &run.probe.namespace);
        let members = (1..=sharing.members).map(|number| Manager::member(number, sharing.shards, &group, namespace));
        let members: Vec<_> = members.collect();
        let shared = is_shared_out(run, sharing, &group);
        let together = team(run, &tenants, &members, shared).await.context("group: members")?;

        let mut rows = vec![("leader", run.arguments.command(&leader[0])?, alone.all())];
        for (member, figures) in members.iter().zip(&together.each) {
            rows.push((&member.name, run.arguments.command(member)?, figures.clone()));
        }
        // They are no one process.
        rows.push(("members", Vec::new(), together.all()));
        for (at, (name, command, figures)) in rows.into_iter().enumerate() {
            tell(report::GROUP, round, name, &figures);
            if found.len() == at {
                found.push(Found::new(name, command));
            }
            found[at].add(report::GROUP, figures);
        }
    }
    tenants.close().await;
    Ok(found)
}

/// What processes that work at once took.
struct Team {
    /// Seconds until they were ready, and for the work.
    seconds: (f64, f64),
    /// The CPU and memory of each.
    each: Vec<Figures>,
}

impl Team {
    /// All of them together.
    fn all(&self) -> Figures {
        let mut all = Figures::from([("ready_seconds", self.seconds.0), ("seconds", self.seconds.1)]);
        for (name, value) in self.each.iter().flatten() {
            *all.entry(name).or_default() += value;
        }
        all
    }
}

/// Starts managers at once, waits until they are ready, has them create more pods, and ends them.
async fn team(
    run: &Run<'_>,
    tenants: &Tenants<'_>,
    managers: &[Manager],
    ready: impl Future<Output = Result<()>>,
) -> Result<Team> {
    let replicas = run.arguments.replicas;
    let begun = Instant::now();
    let (mut processes, _) = run.start_all(managers).await?;
    Process::all_during(&mut processes, ready).await?;
    let ready_seconds = begun.elapsed().as_secs_f64();
    let before = all_at_rest(run, &mut processes).await?;

    let begun = Instant::now();
    Process::all_during(&mut processes, tenants.scale(replicas + more(replicas))).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = all_at_rest(run, &mut processes).await?;
    // Whoever comes next begins with as many.
    Process::all_during(&mut processes, tenants.scale(replicas)).await?;
    all_at_rest(run, &mut processes).await?;
    stop(processes).await?;

    let figures = |(before, after): (&Usage, &Usage)| {
        Figures::from([
            ("start_cpu_seconds", before.cpu_seconds),
            ("cpu_seconds", after.cpu_seconds - before.cpu_seconds),
            ("resident_mib", after.resident_mib),
            ("peak_mib", after.peak_mib),
        ])
    };
    Ok(Team { seconds: (ready_seconds, seconds), each: before.iter().zip(&after).map(figures).collect() })
}

/// How many pods each ReplicaSet gets beside so many: a tenth.
pub(super) fn more(replicas: u32) -> u32 {
    replicas.div_ceil(10)
}

/// Waits until all are at rest, and gives what each has used by then.
async fn all_at_rest(run: &Run<'_>, processes: &mut [Process]) -> Result<Vec<Usage>> {
    try_join_all(processes.iter_mut().map(|process| process.at_rest(run.arguments.timeout))).await?;
    processes.iter().map(Process::usage).collect()
}

async fn stop(processes: Vec<Process>) -> Result<()> {
    try_join_all(processes.into_iter().map(Process::stop)).await.map(drop)
}

/// Waits until every member has shards, and none more than another by more than one.
async fn is_shared_out(run: &Run<'_>, sharing: Sharing, group: &str) -> Result<()> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Lease>,
    }
    let namespace = &run.probe.namespace;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?labelSelector={GROUP}%3D{group}");
    let deadline = Instant::now() + run.arguments.timeout;
    loop {
        let answer = run.stage.client.get(&path).await.context("the group's Leases")?;
        let List { items } = serde_json::from_slice(&answer.body).context("the group's Leases")?;
        let mut held: BTreeMap<&str, u32> = BTreeMap::new();
        let shards = items.iter().filter(|lease| lease.name().contains("-shard-") && !lease.holder().is_empty());
        shards.for_each(|lease| *held.entry(lease.holder()).or_default() += 1);
        if is_even(&held.values().copied().collect::<Vec<_>>(), sharing) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!("after {:?} the shards are not shared out: {held:?}", run.arguments.timeout);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether so many shards each are those of all members, in shares that differ by one at most.
fn is_even(held: &[u32], Sharing { shards, members }: Sharing) -> bool {
    let share = shards / members;
    held.len() as u64 == u64::from(members)
        && held.iter().sum::<u32>() == shards
        && held.iter().all(|count| (share..=share + 1).contains(count))
}

/// Namespaces with a ReplicaSet each, as a group shares them out, and what the bench's own watches show of them.
struct Tenants<'a> {
    stage: &'a Stage,
    namespaces: Vec<String>,
    /// Of every ReplicaSet, and in the label of its pods: by it the watches of all namespaces find them.
    name: String,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    reading: JoinSet<()>,
}

impl<'a> Tenants<'a> {
    async fn new(stage: &'a Stage, count: u32) -> Result<Self> {
        let namespaces = stream::iter(0..count).map(|_| stage.namespace()).buffer_unordered(LANES);
        let namespaces = namespaces.try_collect().await?;
        let name = format!("bench-{}", std::process::id());
        let mut informers = stage.informers();
        let pods = WatchedResource { label_selector: format!("bench={name}"), ..WatchedResource::pods() };
        let pods = informers.of::<Pod>(&pods).store();
        let sets =
            WatchedResource { field_selector: format!("metadata.name={name}"), ..WatchedResource::replicasets() };
        let sets = informers.of::<ReplicaSet>(&sets).store();
        let reading = stage.read(informers, async { tokio::join!(pods.synced(), sets.synced()) }).await?;
        Ok(Self { stage, namespaces, name, pods, sets, reading })
    }

    /// Creates the ReplicaSets, and waits until they have these pods.
    async fn create(&self, replicas: u32) -> Result<()> {
        let body = &replicaset(&self.name, replicas);
        let create = self.each(async |sets| self.stage.client.create(sets, body.clone()).await.map(drop));
        tokio::try_join!(create, self.have(replicas)).map(drop)
    }

    /// Scales the ReplicaSets, and waits until they have these pods.
    async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = &Bytes::from(json!({"spec": {"replicas": replicas}}).to_string());
        let scale = self.each(async |sets| {
            let path = format!("{sets}/{}", self.name);
            self.stage.client.patch(&path, PatchType::Merge, patch.clone()).await.map(drop)
        });
        tokio::try_join!(scale, self.have(replicas)).map(drop)
    }

    /// Asks something of the ReplicaSets of each namespace.
    async fn each(&self, ask: impl AsyncFn(&str) -> Result<(), muster_runtime::client::ClientError>) -> Result<()> {
        let ask = &ask;
        stream::iter(self.namespaces.iter().map(Ok))
            .try_for_each_concurrent(LANES, |namespace| async move {
                let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
                ask(&path).await.with_context(|| path)
            })
            .await
    }

    /// Waits until each has so many pods and says so.
    async fn have(&self, replicas: u32) -> Result<()> {
        let pods = self.namespaces.len() * usize::try_from(replicas)?;
        let wants = |set: &ReplicaSet| i64::from(set.replicas) == i64::from(replicas);
        let done = || {
            self.pods.read().len() == pods
                && self.sets.read().iter().all(|set| wants(set))
                && are_told(&self.sets, self.namespaces.len())
        };
        self.stage.until(&format!("{pods} pods, told in statuses"), &self.pods, done).await
    }

    /// Looks no more; the namespaces go with the stage.
    async fn close(mut self) {
        self.reading.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_that_differ_by_one_at_most_and_leave_nobody_out() {
        for (held, even) in [
            (&[6, 5, 5][..], true),
            (&[5, 6, 5], true),
            (&[7, 5, 4], false),
            (&[16], false),
            (&[8, 8], false),
            (&[5, 5, 5], false),
            (&[], false),
        ] {
            assert_eq!(is_even(held, Sharing { shards: 16, members: 3 }), even, "{held:?}");
        }
        assert!(is_even(&[1], Sharing { shards: 1, members: 1 }));
    }

    #[test]
    fn a_team_is_the_sum_of_its_processes_in_the_time_of_all() {
        let each = |cpu: f64| Figures::from([("cpu_seconds", cpu), ("resident_mib", 10.0)]);
        let team = Team { seconds: (1.5, 4.0), each: vec![each(1.0), each(2.0)] };
        let expected = [("ready_seconds", 1.5), ("seconds", 4.0), ("cpu_seconds", 3.0), ("resident_mib", 20.0)];
        assert_eq!(team.all(), Figures::from(expected));
    }
}
