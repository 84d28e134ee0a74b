//! `muster bench manager`: what a manager's process costs, measured from outside of it against an API server that
//! runs elsewhere, one manager beside another.
//!
//! ```text
//!   for each phase, each round:  manager A, manager B;  next round:  manager B, manager A
//!     start process --first pod--> at rest --work--> done by the server's word --> at rest --> stop, clear away
//! ```
//!
//! Nothing is asked of a manager but that it controls ReplicaSets and Deployments, so that any can be measured: that it
//! works is seen by a pod, that it is done by what it wrote, that it is at rest by its CPU. Only a [`group`] of this
//! program's own processes is asked for more: its Leases say when all of them have their share.

pub(crate) mod arguments;
mod command;
mod group;
mod phases;
mod process;
mod report;
mod stage;
pub(in crate::bench) mod usage;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use muster_manager::arguments::{Output, say};
use muster_manager::signals::Signals;

use self::arguments::{BenchManager, Phase, Sharing};
use self::command::Manager;
use self::phases::Run;
use self::report::{Figures, Findings, Found};
use self::stage::{About, Stage, World};
use super::connect;
use crate::usage::cores;

/// Runs `muster bench manager`.
///
/// # Errors
/// Where the server or a manager's program cannot be reached, a manager ends, or something does not come in time.
pub(crate) async fn run(arguments: &BenchManager) -> Result<()> {
    // From here on an interrupt ends in order: what was made is removed.
    let mut signals = Signals::listen()?;
    let sharing = arguments.sharing()?;
    arguments.check()?;
    let stage = signals.during(set_up(arguments)).await?;
    let findings = signals.during(measure(&stage, arguments, sharing)).await;
    eprintln!("removing the bench's namespaces");
    let cleared = signals.during(stage.clear()).await.context("namespaces muster-bench-* are left");
    let findings = findings?;
    cleared?;
    match arguments.output {
        Output::Json => say(&format!("{}\n", serde_json::to_string(&findings)?)),
        Output::Text => say(&report::text(&findings)),
    }
}

async fn set_up(arguments: &BenchManager) -> Result<Stage> {
    let client = connect(&arguments.kubeconfig).await?;
    let stage = Stage::new(client, arguments.timeout).await;
    stage.with_context(|| format!("{}: its server", arguments.kubeconfig.display()))
}

async fn measure(stage: &Stage, arguments: &BenchManager, sharing: Option<Sharing>) -> Result<Findings> {
    let About { version, pods } = stage.about().await?;
    let load_before = load();
    let run = Run::new(stage, arguments).await?;
    let (managers, nodes_simulated) = match sharing {
        Some(sharing) => (group::measure(&run, sharing).await?, false),
        None => by_phase(&run).await?,
    };
    Ok(Findings {
        cores: cores(),
        load_before,
        load_after: load(),
        server: version,
        other_pods: pods,
        nodes_simulated,
        rounds: arguments.rounds,
        sizes: sizes(arguments, sharing),
        managers,
    })
}

/// What was found of every manager in the phases that were asked for, and whether nodes were simulated for it.
async fn by_phase(run: &Run<'_>) -> Result<(Vec<Found>, bool)> {
    let Run { stage, arguments, .. } = run;
    let mut found = Vec::new();
    for manager in &arguments.managers {
        found.push(Found::new(&manager.name, arguments.command(manager)?));
    }
    let mut phases = arguments.phases.clone();
    phases.sort_unstable();
    phases.dedup();
    let mut nodes_simulated = false;
    for phase in phases {
        let simulated = match phase {
            // Those above the wanted number, and those on their way out, take room too.
            Phase::Rollouts => {
                let pods = 2 * u64::from(arguments.deployments) * u64::from(arguments.deployment_replicas);
                stage.simulate_nodes(pods).await?
            }
            _ => None,
        };
        nodes_simulated |= simulated.is_some();
        let world = match phase {
            Phase::Restart => {
                eprintln!("restart: {} pods by {}", arguments.cached_pods, arguments.managers[0].name);
                Some(run.restart_world(&arguments.managers[0]).await?)
            }
            _ => None,
        };
        for round in 0..arguments.rounds {
            for at in order(arguments.managers.len(), round) {
                let manager = &arguments.managers[at];
                let figures = one(run, phase, round, manager).await;
                let figures = figures.with_context(|| format!("{}: {}", phase.name(), manager.name))?;
                tell(phase.name(), round, &manager.name, &figures);
                found[at].add(phase.name(), figures);
            }
        }
        if let Some(world) = world {
            World::close(world).await?;
        }
        if let Some(nodes) = simulated {
            nodes.stop().await;
        }
    }
    Ok((found, nodes_simulated))
}

async fn one(run: &Run<'_>, phase: Phase, round: u32, manager: &Manager) -> Result<Figures> {
    match phase {
        Phase::Rest => run.rest(manager).await,
        Phase::Replicaset => run.replicaset(manager, !round.is_multiple_of(2)).await,
        Phase::Many => run.many(manager).await,
        Phase::Rollouts => run.rollouts(manager).await,
        Phase::Restart => run.restart(manager).await,
    }
}

/// In which order managers take their turn: there and back, so that none is always the first.
fn order(managers: usize, round: u32) -> Vec<usize> {
    let forth = 0..managers;
    if round.is_multiple_of(2) { forth.collect() } else { forth.rev().collect() }
}

fn tell(phase: &str, round: u32, manager: &str, figures: &Figures) {
    let figures: Vec<String> = figures.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
    eprintln!("{phase}, round {}: {manager}: {}", round + 1, figures.join(", "));
}

fn sizes(arguments: &BenchManager, sharing: Option<Sharing>) -> BTreeMap<&'static str, String> {
    let a = arguments;
    if let Some(Sharing { shards, members }) = sharing {
        let (namespaces, pods, more) = (a.replicasets, a.replicas, group::more(a.replicas));
        let what =
            format!("{namespaces} namespaces of {pods} pods and {more} more; {shards} shards, {members} members");
        return BTreeMap::from([(report::GROUP, what)]);
    }
    let size = |phase: Phase| match phase {
        Phase::Rest => format!("nothing to do for {:?}", a.rest),
        Phase::Replicaset => {
            format!("{} pods by one ReplicaSet, directly with {} requests at once", a.pods, a.concurrency)
        }
        Phase::Many => format!("{} ReplicaSets of {} pods", a.replicasets, a.replicas),
        Phase::Rollouts => format!("{} Deployments of {} pods", a.deployments, a.deployment_replicas),
        Phase::Restart => format!("a start among {} pods", a.cached_pods),
    };
    arguments.phases.iter().map(|phase| (phase.name(), size(*phase))).collect()
}

/// The load average of the last minute, where the system tells it.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_take_turns_there_and_back() {
        assert_eq!([order(3, 0), order(3, 1), order(3, 2)], [vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2]]);
    }
}
