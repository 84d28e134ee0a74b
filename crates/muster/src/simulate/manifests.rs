//! `muster simulate --manifests`: a user's own Deployments, rolled many times under faults, and what that is like for who uses
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_simulation::case::{
    Act, Case, Figures, LONGEST_PAUSE, Operation, Played, Profile, Surroundings, Undone, play_alone, rollout_of,
};
use muster_simulation::laws::Broken;
use muster_simulation::text;
use muster_tree::{Value, json};
use serde::Serialize;

use super::report::{Broke, Name};
use super::{Drawn, Simulate, interrupted, on_a_thread, play_all, writable, write};
use crate::export::clean;
use crate::{manifest, usage};

/// What would be counted among the pods of the Deployment, or has no place.
const LEFT_OUT: &[&str] = &[
    "Namespace",
    "Pod",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "ControllerRevision",
];

/// How Deployments are rolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rollout {
    /// By an annotation of their template, as by `kubectl rollout restart`.
    Restart,
    /// By another image of the first container.
    Image(String),
}

impl Rollout {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "restart" => Ok(Self::Restart),
            Some(("image", image)) if !image.is_empty() => Ok(Self::Image(image.to_owned())),
            _ => Err(format!("found {text:?}, expected restart or image=IMAGE")),
        }
    }

    /// The merge patch of a Deployment.
    fn patch(&self, deployment: &Value) -> Result<Value> {
        if deployment["spec"]["paused"] == true {
            bail!("spec.paused: found true, expected false: a paused Deployment is not rolled");
        }
        Ok(match self {
            Self::Restart => {
                let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:01:00Z"});
                json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})
            }
            Self::Image(image) => {
                let mut containers = deployment["spec"]["template"]["spec"]["containers"].clone();
                let Some(first) = containers.get_mut(0).and_then(Value::as_object_mut) else {
                    bail!("spec.template.spec.containers: found {containers}, expected one to give the image to");
                };
                if first.get("image").is_some_and(|present| present == image.as_str()) {
                    bail!(
                        "--rollout: found the image {image}, expected another than that of the first container: nothing would be rolled"
                    );
                }
                first.insert("image".to_owned(), json!(image));
                json!({"spec": {"template": {"spec": {"containers": containers}}}})
            }
        })
    }
}

/// What was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Findings {
    first_seed: u64,
    deployments: Vec<Rolled>,
}

/// Of one Deployment.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rolled {
    name: String,
    replicas: i64,
    histories: u64,
    /// How many rollouts were complete.
    complete: usize,
    /// The lowest number of available pods of each rollout.
    least_available: Quantiles<i64>,
    /// The highest number of pods.
    most_pods: Quantiles<i64>,
    /// How long a complete rollout took; none where none was.
    seconds: Option<Quantiles<f64>>,
    /// How many histories broke a law.
    broken: usize,
    /// Which, and the cases.
    broken_cases: Vec<Broke>,
    /// The case with the fewest available pods, and among those the longest.
    worst: String,
    /// What struck it.
    worst_faults: &'static str,
}

/// Of a hundred, those at these places in their order.
#[derive(Debug, Default, Serialize)]
struct Quantiles<T> {
    least: T,
    p1: T,
    p10: T,
    p50: T,
    p90: T,
    p99: T,
    most: T,
}

impl<T: Copy + PartialOrd + Default> Quantiles<T> {
    fn of(mut all: Vec<T>) -> Self {
        all.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        // The nearest rank.
        let at = |percent: usize| {
            all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { least: at(0), p1: at(1), p10: at(10), p50: at(50), p90: at(90), p99: at(99), most: at(100) }
    }
}

/// Of one history.
struct Found {
    figures: Figures,
    faults: &'static str,
}

/// Of all histories of one Deployment, by their seeds.
#[derive(Default)]
struct Tally {
    histories: u64,
    /// Their virtual time.
    lasted: Duration,
    found: BTreeMap<u64, Found>,
    broken: BTreeMap<u64, Vec<Broken>>,
}

impl Tally {
    /// Counts a history. One that ended before it came to the rollout has no figures, and may have broken a law all the same.
    fn take(&mut self, (seed, faults): (u64, &'static str), case: &Case, played: Played) {
        self.histories += 1;
        self.lasted += played.lasted;
        let figures = Figures::of(case, &played);
        self.found.extend(figures.map(|figures| (seed, Found { figures, faults })));
        if !played.broken.is_empty() {
            self.broken.insert(seed, played.broken);
        }
    }
}

/// What the files have.
struct Manifests {
    deployments: BTreeMap<String, Value>,
    /// Everything else, with its place and its title.
    needs: Vec<(String, Value)>,
}

impl Manifests {
    fn read(arguments: &Simulate) -> Result<Self> {
        let (mut deployments, mut needs) = (BTreeMap::new(), Vec::new());
        for file in &arguments.manifests {
            for document in manifest::read(file)? {
                let title = format!("{}: {}", document.place, document.title());
                let kind = document.text("/kind");
                if LEFT_OUT.contains(&kind) {
                    eprintln!("{title} is left out: a history is of one Deployment, in the namespace default");
                    continue;
                }
                let group = document.text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
                let written =
                    if clean::is_left_out(group, kind) { None } else { written(document.value.clone().into(), kind) };
                let Some(mut value) = written else {
                    eprintln!("{title} is left out: a cluster makes it by itself");
                    continue;
                };
                if let Some(metadata) = value["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
                if kind == "Deployment" && document.text("/metadata/name").is_empty() {
                    bail!("{title}: metadata.name: found none, expected a name: one that is generated is not known");
                }
                if kind != "Deployment" {
                    needs.push((title, value));
                } else if deployments.insert(document.text("/metadata/name").to_owned(), value).is_some() {
                    bail!(
                        "{title} is there twice: all are rolled in the namespace default, in which each needs a name of its own"
                    );
                }
            }
        }
        if deployments.is_empty() {
            bail!("--manifests: found no Deployment");
        }
        Ok(Self { deployments, needs: served(needs)? })
    }
}

/// The object as somebody would write it: one that a server has answered with has a uid, and what the server put there. None where
/// nobody would.
fn written(mut object: Value, kind: &str) -> Option<Value> {
    if object["metadata"].get("uid").is_none() {
        return Some(object);
    }
    if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| kind == "Deployment") {
        // An operator's, too, is rolled: who owns it is not there.
        metadata.remove("ownerReferences");
        metadata.remove("deletionTimestamp");
    }
    clean::cleaned(object.as_object().cloned()?).map(Value::Object)
}

/// Those of the objects that the server of a history takes, definitions of kinds first: it does not have every kind, and has some
/// objects already.
fn served(mut needs: Vec<(String, Value)>) -> Result<Vec<(String, Value)>> {
    needs.sort_by_key(|(_, value)| value["kind"] != "CustomResourceDefinition");
    let operations = needs.iter().map(|(_, value)| Operation { at: Duration::ZERO, act: Act::Create(value.clone()) });
    let probe = Case { operations: operations.collect(), ..Profile::Rollouts.case(1, None) };
    let undone = on_a_thread(move || play_alone(&probe))?.undone;
    let mut left_out = BTreeSet::new();
    for (nth, why) in undone {
        let title = &needs[nth].0;
        match why {
            Undone::NoKind(_) | Undone::Refused { code: 409, .. } => eprintln!("{title} is left out: {why}"),
            Undone::Refused { .. } | Undone::Absent(_) => bail!("{title}: the server refuses: {why}"),
        }
        left_out.insert(nth);
    }
    let all = needs.into_iter().enumerate();
    Ok(all.filter(|(nth, _)| !left_out.contains(nth)).map(|(_, need)| need).collect())
}

/// Rolls every Deployment of the files in as many histories as asked. Whether no law was broken.
pub(super) fn roll(arguments: &Simulate) -> Result<bool> {
    for (option, found) in
        [("--pod-startup", arguments.pod_startup.range().end), ("--pod-shutdown", arguments.pod_shutdown)]
    {
        if found > LONGEST_PAUSE {
            bail!("{option}: found {}, expected at most a day", text::written(found));
        }
    }
    let Manifests { deployments, needs } = Manifests::read(arguments)?;
    let needs: Vec<Value> = needs.into_iter().map(|(_, value)| value).collect();
    writable(&arguments.save)?;
    let (begun, cpu) = (Instant::now(), usage::cpu_seconds());
    let mut findings = Findings { first_seed: arguments.seed, deployments: Vec::new() };
    let (mut histories, mut virtual_time, mut wrong) = (0, Duration::ZERO, Vec::new());
    for (nth, (name, deployment)) in (1..).zip(&deployments) {
        // Each has an equal share of the time.
        let ends = arguments.minutes.map(|minutes| begun + minutes * nth / deployments.len() as u32);
        let rolled = roll_one(arguments, ends, (name, deployment), &needs);
        match rolled.with_context(|| format!("Deployment {name:?}")) {
            Ok((rolled, lasted)) => {
                histories += rolled.histories;
                virtual_time += lasted;
                findings.deployments.push(rolled);
            }
            Err(error) => wrong.push(format!("{error:#}")),
        }
        if interrupted().is_some() {
            break;
        }
    }
    if !findings.deployments.is_empty() {
        super::print(arguments.output, &findings)?;
        super::report::speed(histories, virtual_time, begun.elapsed(), usage::cpu_seconds() - cpu, arguments.jobs());
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\nerror: "));
    }
    Ok(findings.deployments.iter().all(|rolled| rolled.broken == 0))
}

/// Rolls one Deployment, beside the objects that it needs. Also, how much virtual time that was.
fn roll_one(
    arguments: &Simulate,
    ends: Option<Instant>,
    (name, deployment): (&str, &Value),
    needs: &[Value],
) -> Result<(Rolled, Duration)> {
    let merge = arguments.rollout.patch(deployment)?;
    let on = Surroundings {
        nodes: arguments.nodes,
        zones: arguments.zones,
        pod_startup: arguments.pod_startup.range(),
        pod_shutdown: arguments.pod_shutdown,
    };
    let drawn = |nth: u64| {
        let seed = arguments.seed.wrapping_add(nth);
        let case = rollout_of((deployment, needs), &merge, (seed, &on), arguments.weather());
        let weather = arguments.weather();
        let weather = weather.map_or("none", |weather| Profile::Rollouts.weather_of(seed, weather));
        Drawn { seed, name: Name { profile: "manifests", weather }, stem: format!("case-{seed}"), case }
    };
    // The first by itself: what the server refuses in it, it refuses in all.
    let Drawn { seed, name: Name { weather, .. }, case, .. } = drawn(0);
    case.check_sizes()?;
    let (case, played) = on_a_thread(move || play_alone(&case).map(|played| (case, played)))?;
    // What is not found is gone, as faults would have it.
    let refused = |(nth, why): &(usize, Undone)| match (&case.operations[*nth].act, why) {
        (_, Undone::Refused { code: 404, .. }) => None,
        (Act::Create(_) | Act::Patch(_), _) => Some(why.to_string()),
        _ => None,
    };
    if let Some(refused) = played.undone.iter().find_map(refused) {
        bail!("it cannot be rolled: the server refuses: {refused}");
    }
    let mut tally = Tally::default();
    tally.take((seed, weather), &case, played);
    let others = |nth: u64| drawn(nth + 1);
    play_all((arguments, ends), arguments.seeds() - 1, &others, |_, Drawn { seed, name, case, .. }, played| {
        tally.take((seed, name.weather), &case, played);
        tally.histories - 1
    })?;
    if tally.found.is_empty() && tally.broken.is_empty() {
        bail!("no history came to the --rollout: its template is so already, or it was gone before");
    }
    let case = |seed: u64| drawn(seed.wrapping_sub(arguments.seed)).case;
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    Ok((rolled(arguments, (name, replicas), &tally, &case)?, tally.lasted))
}

/// What all histories come to. Their cases are drawn again.
fn rolled(
    arguments: &Simulate,
    (name, replicas): (&str, i64),
    Tally { histories, found, broken, .. }: &Tally,
    case: &dyn Fn(u64) -> Case,
) -> Result<Rolled> {
    // In the order of the seeds, so that of equals the first is the worst.
    let badness = |found: &Found| {
        let Figures { least_available, took, .. } = found.figures;
        (-least_available, took.unwrap_or(Duration::MAX))
    };
    let mut worst: Option<(u64, &Found)> = None;
    for (seed, each) in found {
        if worst.is_none_or(|(_, worst)| badness(each) > badness(worst)) {
            worst = Some((*seed, each));
        }
    }
    let (mut worst_case, mut worst_faults) = (String::new(), "");
    if let Some((seed, worst)) = worst {
        let file = arguments.save.join(format!("worst-{name}.yaml"));
        write(&file, &case(seed).written())?;
        (worst_case, worst_faults) = (file.display().to_string(), worst.faults);
    }
    let mut broken_cases = Vec::new();
    for (seed, broken) in broken {
        let file = arguments.save.join(format!("case-{name}-{seed}.yaml"));
        write(&file, &case(*seed).written())?;
        broken_cases.push(Broke::of(*seed, &file, broken));
    }
    let figures = || found.values().map(|found| found.figures);
    let took: Vec<f64> = figures().filter_map(|figures| Some(figures.took?.as_secs_f64())).collect();
    Ok(Rolled {
        name: name.to_owned(),
        replicas,
        histories: *histories,
        complete: took.len(),
        seconds: (!took.is_empty()).then(|| Quantiles::of(took)),
        least_available: Quantiles::of(figures().map(|figures| figures.least_available).collect()),
        most_pods: Quantiles::of(figures().map(|figures| figures.most_pods).collect()),
        broken: broken_cases.len(),
        broken_cases,
        worst: worst_case,
        worst_faults,
    })
}

/// A table for each Deployment.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_seed, deployments } = self;
        for rolled in deployments {
            let Rolled { name, replicas, histories, complete, least_available, most_pods, seconds, .. } = rolled;
            let Rolled { broken, broken_cases, worst, worst_faults, .. } = rolled;
            let last = first_seed.saturating_add(histories.saturating_sub(1));
            writeln!(
                f,
                "Deployment {name}, {replicas} replicas: {histories} histories (seeds {first_seed} to {last})"
            )?;
            write!(f, "  {:<26}", "")?;
            for head in ["LEAST", "1 %", "10 %", "50 %", "90 %", "99 %", "MOST"] {
                write!(f, "{head:>9}")?;
            }
            writeln!(f)?;
            let of =
                |q: &Quantiles<i64>| [q.least, q.p1, q.p10, q.p50, q.p90, q.p99, q.most].map(|n| format!("{n:>9}"));
            writeln!(f, "  {:<26}{}", "fewest available pods", of(least_available).concat())?;
            writeln!(f, "  {:<26}{}", "most pods", of(most_pods).concat())?;
            let seconds = seconds.as_ref().map_or_else(
                || format!("{:>9}", "-").repeat(7),
                |q| [q.least, q.p1, q.p10, q.p50, q.p90, q.p99, q.most].map(|n| format!("{n:>9.1}")).concat(),
            );
            writeln!(f, "  {:<26}{seconds}", "seconds until complete")?;
            let worst = if worst.is_empty() { String::new() } else { format!("; worst: {worst} ({worst_faults})") };
            writeln!(f, "  {complete} complete{worst}; {broken} broke a law")?;
            for broke in broken_cases {
                write!(f, "{broke}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use muster_simulation::laws::{Law, Place};

    use super::*;

    #[test]
    fn a_history_of_which_nothing_is_left_but_a_panic_is_one_that_broke_a_law() {
        let mut tally = Tally::default();
        let panic = Broken { law: Law::Panic, place: Place::End, how: "a sync".to_owned() };
        let played = Played { broken: vec![panic.clone()], ..Played::default() };
        tally.take((7, "none"), &Profile::Rollouts.case(7, None), played);
        assert_eq!((tally.histories, tally.found.len()), (1, 0));
        assert_eq!(tally.broken, BTreeMap::from([(7, vec![panic])]));
    }
}
