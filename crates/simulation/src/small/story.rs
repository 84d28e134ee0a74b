//! The story of a state: how a world came to it, a step a line.

use std::fmt::Write as _;

use muster_objects::Strategy;

use super::objects::Objects;
use super::state::{Call, Kind, Phase, Pod, SETS, State, Stored, Verb};
use super::step::{Play, Step};

/// The keys by their number.
const NAMES: [&str; 1 + SETS] = ["Deployment", "first ReplicaSet", "second ReplicaSet"];

/// What happens from the first state on, where in each state the step of that number is taken.
pub(super) fn story(play: &mut Play, mut state: State, path: &[u16]) -> String {
    let world = play.world.to_string();
    let mut told = format!("{world}: complete with the first template, and has just got the second\n");
    for (line, nth) in (1..).zip(path) {
        let Some(next) = play.next(&state).into_iter().nth(usize::from(*nth)) else { return told };
        let _ = writeln!(told, "{line:>4}  {}", said(play, &state, &next.state, next.step));
        if let Some(broken) = next.broken {
            let _ = writeln!(told, "      BROKEN {broken}");
        }
        state = next.state;
    }
    told
}

fn said(play: &mut Play, before: &State, after: &State, step: Step) -> String {
    let objects = &play.objects;
    match step {
        Step::Edit => format!("user    {}", play.world.edit.map(|edit| edit.to_string()).unwrap_or_default()),
        Step::Crash => "crash   another manager starts, and lists everything".to_owned(),
        Step::Deliver(kind) => {
            let seen = shown(objects, kind, after.deployments.seen, &after.sets.seen, &after.pods.seen);
            format!("cache   {seen}")
        }
        Step::Node(_) => format!("node    {}", pods(after.pods.now())),
        Step::Begin(at, _) => {
            let calls: Vec<String> = play.calls(after, at).into_iter().map(call).collect();
            let calls = if calls.is_empty() { "nothing to write".to_owned() } else { calls.join(", ") };
            format!("sync    {}: {calls}", NAMES[at])
        }
        Step::Serve(at, nth) => {
            let mut told = play.calls(before, at).into_iter().nth(nth).map(call).unwrap_or_default();
            let objects = &play.objects;
            let all = |state: &State| {
                Kind::ALL.map(|kind| shown(objects, kind, *state.deployments.now(), state.sets.now(), state.pods.now()))
            };
            let (old, new) = (all(before), all(after));
            for (_, new) in old.into_iter().zip(new).filter(|(old, new)| old != new) {
                let _ = write!(told, " -> {new}");
            }
            format!("server  {}: {told}", NAMES[at])
        }
    }
}

fn call(call: Call) -> String {
    let Call { verb, kind, target, .. } = call;
    let named = |at: u8| NAMES.get(usize::from(at)).copied().unwrap_or("another ReplicaSet");
    let target = match kind {
        Kind::Deployments => named(0).to_owned(),
        Kind::Sets => named(target.saturating_add(1)).to_owned(),
        Kind::Pods => "a pod".to_owned(),
    };
    let verb = match verb {
        Verb::Create => "create",
        Verb::Delete => "delete",
        Verb::Patch => "patch",
        Verb::Status => "status of",
        Verb::Read => "read",
    };
    format!("{verb} {target}")
}

/// The objects of a kind in a few words.
fn shown(objects: &Objects, kind: Kind, deployment: Stored, sets: &[Stored; SETS], of_pods: &[Pod]) -> String {
    match kind {
        Kind::Pods => pods(of_pods),
        Kind::Sets => {
            let shown = sets.iter().zip(&NAMES[1..]).filter(|(set, _)| set.is_there()).map(|(set, name)| {
                let set = objects.set(*set);
                let (status, generation) = (&set.status, set.meta.generation);
                let has = format!("{} pods, {} available", status.replicas, status.available_replicas);
                let of = if status.observed_generation < generation { " of an earlier size" } else { "" };
                format!("{name} wants {}, status {has}{of}", set.replicas)
            });
            shown.collect::<Vec<_>>().join("; ")
        }
        Kind::Deployments if !deployment.is_there() => "no Deployment".to_owned(),
        Kind::Deployments => {
            let deployment = objects.deployment(deployment);
            let bounds = match &deployment.strategy {
                Strategy::RollingUpdate { max_surge, max_unavailable } => format!("{max_surge}/{max_unavailable}"),
                _ => "Recreate".to_owned(),
            };
            let status = &deployment.status;
            format!(
                "Deployment of generation {} wants {} ({bounds}), status of {}: {} pods, {} updated, {} available",
                deployment.meta.generation,
                deployment.replicas,
                status.observed_generation,
                status.replicas,
                status.updated_replicas,
                status.available_replicas
            )
        }
    }
}

/// Pods by their ReplicaSets: their names differ from line to line.
fn pods(pods: &[Pod]) -> String {
    let of_set = |at: u8| {
        let phases = [(Phase::Starting, "starting"), (Phase::Ready, "ready"), (Phase::Going, "being deleted")];
        let counts = phases.map(|(phase, name)| {
            let count = pods.iter().filter(|pod| pod.set == at && pod.phase == phase).count();
            (count > 0).then(|| format!("{count} {name}"))
        });
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        if counts.is_empty() { "no pods".to_owned() } else { counts.join(", ") }
    };
    format!("{}: {}; {}: {}", NAMES[1], of_set(0), NAMES[2], of_set(1))
}
