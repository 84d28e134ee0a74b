//! Cases from seeds: random rollouts, and what people, machines and bad weather do to them.

mod deletions;
mod failover;
mod rollout;
mod scaling;

use std::ops::Range;
use std::time::Duration;

use muster_tree::Value;

use super::sieve::RESYNC;
use super::{Act, Case, Operation, Target};
use crate::api::{Random, name, number};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::weather::{self, How, Incident, Weather};
use crate::world::CLUSTER;

const WEB: &str = "web";
/// What is picked is told by a number below this.
const PICKS: u64 = 100;

/// What cases are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One Deployment: templates that come up and templates that do not, sizes, bounds, pauses, rollbacks, pods and nodes
    /// that fail.
    Rollouts,
    /// ReplicaSets, a ReplicationController and a Deployment whose sizes change, and whose pods are taken and given away.
    Scaling,
    /// Deployments in several namespaces, and several managers that die, freeze, are cut off, and come and go.
    Failover,
    /// Workloads that are deleted with what they own, before it or without it, and made again meanwhile.
    Deletions,
    /// Of eight cases four rollouts, two of failover, and one of each other.
    Everything,
}

impl Profile {
    /// The case of a seed. A seed has the same operations by users in any weather.
    #[must_use]
    pub fn case(self, seed: u64, weather: Option<&[Weather]>) -> Case {
        let profile = self.of(seed);
        let (mut case, users) = match profile {
            Self::Rollouts | Self::Everything => rollout::rollout(seed),
            Self::Scaling => scaling::scaling(seed),
            Self::Failover => failover::failover(seed),
            Self::Deletions => deletions::deletions(seed),
        };
        if let Some(weather) = weather {
            let deployment = if profile == Self::Scaling { scaling::SITE } else { WEB };
            strike(&mut case, (deployment, Duration::ZERO), self.chosen(seed, weather));
        }
        let mut case = with(case, users);
        if matches!(profile, Self::Scaling | Self::Deletions) && case.news() > BELIEVED {
            scaling::without_classic(&mut case);
        }
        case
    }

    /// The name of the weather that a seed has.
    #[must_use]
    pub fn weather_of(self, seed: u64, weather: &[Weather]) -> &'static str {
        match self.chosen(seed, weather) {
            Chosen::None => "none",
            Chosen::Mixed(_) => "a mixture",
            Chosen::One(one) => one.name,
        }
    }

    /// Which of the others a seed has.
    #[must_use]
    pub fn of(self, seed: u64) -> Self {
        match (self, seed % 8) {
            (Self::Everything, 1) => Self::Scaling,
            (Self::Everything, 5) => Self::Deletions,
            (Self::Everything, 3 | 7) => Self::Failover,
            (Self::Everything, _) => Self::Rollouts,
            (one, _) => one,
        }
    }

    /// Its name, as `--profile` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollouts => "rollouts",
            Self::Scaling => "scaling",
            Self::Failover => "failover",
            Self::Deletions => "deletions",
            Self::Everything => "everything",
        }
    }

    /// Whether the laws of its cases can judge this weather, or else they have none of it. Those of workloads know of no earlier
    /// versions; and several managers have no say in what nodes and others do.
    #[must_use]
    pub fn has(self, weather: &Weather) -> bool {
        match (self, weather.how) {
            (Self::Rollouts | Self::Everything, _) => true,
            (_, How::Incident(Incident::Restore | Incident::SecondWriter)) => false,
            (Self::Scaling | Self::Deletions, _) | (Self::Failover, How::Controllers(_) | How::Away) => true,
            (Self::Failover, _) => false,
        }
    }

    /// What a seed [has](Self::has) of this weather. Every other time several managers get slow requests and watches only, so that it
    /// can be judged how soon one takes over from another, and so do deletions, for which it matters most who is told late.
    fn chosen(self, seed: u64, weather: &[Weather]) -> Chosen {
        let profile = self.of(seed);
        // Those that share the seeds have each kind of weather in turn too.
        let turn = match (self, profile) {
            (Self::Everything, Self::Rollouts) => seed / 2,
            (Self::Everything, Self::Failover) => seed / 4,
            (Self::Everything, _) => seed / 8,
            _ => seed,
        };
        let kept: Vec<Weather> = weather.iter().filter(|weather| profile.has(weather)).copied().collect();
        let slow = |weather: &&Weather| {
            let rules = weather.rules(1);
            !rules.is_empty() && rules.iter().all(|rule| rule.fault.is_slow())
        };
        let slow: Vec<Weather> = kept.iter().filter(slow).copied().collect();
        let is_slow = matches!(profile, Self::Failover | Self::Deletions) && turn.is_multiple_of(2);
        if is_slow && !slow.is_empty() {
            return nth_of(turn / 2, slow);
        }
        nth_of(turn, kept)
    }
}

/// What strikes in one case.
enum Chosen {
    None,
    One(Weather),
    Mixed(Vec<Weather>),
}

/// How long what nobody has seen is believed to come (EX-02).
const BELIEVED: Duration = Duration::from_secs(300);

/// What a user's Deployment is rolled on.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// How many nodes there are.
    pub nodes: u32,
    /// In how many zones they are; in none where it is 0.
    pub zones: u32,
    /// How long a pod takes to become ready.
    pub pod_startup: Range<Duration>,
    /// The longest time that a deleted pod keeps terminating.
    pub pod_shutdown: Duration,
}

/// A Deployment that is left a minute, or what it needs, to come up beside the objects that it needs, and then gets a merge patch.
/// Faults begin up to 7 s before that, or up to 8 s after.
#[must_use]
pub fn rollout_of(
    (deployment, needs): (&Value, &[Value]),
    merge: &Value,
    (seed, on): (u64, &Surroundings),
    weather: Option<&[Weather]>,
) -> Case {
    const MARGIN: Duration = Duration::from_secs(20);
    let seconds = |number: i64| Duration::from_secs(number.try_into().unwrap_or_default());
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    let probes = containers.into_iter().flat_map(|containers| containers.iter()).map(|container| {
        seconds(number(container, "/readinessProbe/initialDelaySeconds"))
            .max(seconds(number(container, "/startupProbe/initialDelaySeconds")))
    });
    let ready = seconds(number(deployment, "/spec/minReadySeconds")).saturating_add(probes.max().unwrap_or_default());
    let up = Duration::from_secs(60).max(on.pod_startup.end.saturating_add(ready).saturating_add(MARGIN));
    let (mut case, _) = rollout::rollout(seed);
    let name = name(deployment).to_owned();
    (case.nodes, case.zones) = (on.nodes, on.zones);
    (case.pod_startup, case.pod_shutdown) = (on.pod_startup.clone(), on.pod_shutdown);
    if let Some(weather) = weather {
        let chosen = nth_of(seed, weather.to_vec());
        strike(&mut case, (&name, up.saturating_sub(Duration::from_secs(7))), chosen);
    }
    let created = needs.iter().chain([deployment]).map(|object| (Duration::ZERO, Act::Create(object.clone())));
    let patch = Act::Patch(Target::deployment(name, merge.clone()));
    with(case, created.chain([(up, patch)]).map(Operation::from).collect())
}

/// The case with these operations besides its own, by their times.
fn with(mut case: Case, operations: Vec<Operation>) -> Case {
    case.operations.splice(0..0, operations);
    case.operations.sort_by_key(|operation| operation.at);
    case
}

/// Every fourth time several at once, where there are several kinds of faults of requests to choose from, and else one in turn.
fn nth_of(turn: u64, weather: Vec<Weather>) -> Chosen {
    let of_requests = weather.iter().filter(|weather| matches!(weather.how, How::Controllers(_) | How::Cluster(_)));
    if turn.is_multiple_of(4) && of_requests.count() > 1 {
        return Chosen::Mixed(weather);
    }
    let nth = usize::try_from(turn - turn / 4).unwrap_or_default();
    weather.get(nth % weather.len().max(1)).copied().map_or(Chosen::None, Chosen::One)
}

/// Adds faults and incidents, out of a stream of their own.
fn strike(case: &mut Case, (deployment, from): (&str, Duration), chosen: Chosen) {
    let seed = case.seed;
    let mut random = Random::seeded(seed ^ 0x5eed_0f5c_a1e5_0000);
    let begins = from + Duration::from_millis(random.below(15_000));
    // A server that is away for 40 s finds its nodes given up.
    let ends = begins + Duration::from_millis(5_000 + random.below(90_000));
    let within = |rules: Vec<Rule>| rules.into_iter().map(|rule| rule.within(begins..ends)).collect();
    let one = match chosen {
        Chosen::None => return,
        Chosen::Mixed(weather) => {
            case.faults = within(weather::mixed(&weather, &mut random));
            return;
        }
        Chosen::One(one) => one,
    };
    match one.how {
        How::Controllers(_) if one.name == weather::SILENCE.name => {
            case.faults = within(one.rules(*random.pick(&[20, 200, 1_000])));
        }
        How::Controllers(_) | How::Cluster(_) => {
            case.faults = within(one.rules(*random.pick(&[50, 200, 500, 1_000])));
        }
        How::Away => case.operations = [(begins, Act::ServerAway), (ends, Act::ServerBack)].map(Operation::from).into(),
        How::Incident(incident) => {
            if random.once_in(2) {
                case.faults = within(vec![Rule::always(Fault::Cut).per_mille(100)]);
            }
            match incident {
                Incident::Restore => restore(case, begins..ends, &mut random),
                _ => happen(case, (incident, deployment), begins..ends, &mut random),
            }
        }
    }
}

/// Has it happen again and again.
fn happen(case: &mut Case, (incident, deployment): (Incident, &str), window: Range<Duration>, random: &mut Random) {
    let mut now = window.start;
    while now < window.end {
        let act = match incident {
            Incident::NodeLoss => Act::Nodes(1 + u32::try_from(random.below(case.nodes.into())).unwrap_or_default()),
            Incident::Compaction | Incident::Restore => Act::Compact,
            Incident::Autoscaler => Act::Scale { deployment: deployment.to_owned(), replicas: 1 + random.below(12) },
            Incident::SecondWriter => match random.below(4) {
                0 | 1 => {
                    let replicas = (!random.once_in(2)).then(|| random.below(6));
                    Act::Resize { set: random.below(PICKS), replicas }
                }
                2 => Act::OtherPod { set: random.below(PICKS), owned: random.once_in(2) },
                _ => Act::DeletePod(random.below(PICKS)),
            },
        };
        case.operations.push(Operation { at: now, act });
        now += Duration::from_millis(200 + random.below(8_000));
    }
    if incident == Incident::NodeLoss {
        case.operations.push(Operation { at: now, act: Act::Nodes(case.nodes) });
    }
}

/// Back to the present version, once some time has passed. A server that is put back to an earlier version is to tell its
/// clients so, or they resume from versions that are given again. The controllers may find that out by themselves, at a resync (B-07).
fn restore(case: &mut Case, window: Range<Duration>, random: &mut Random) {
    let remembered = window.start + Duration::from_millis(1);
    let restored = remembered + Duration::from_millis(random.below(20_000));
    // Whoever waits before asking again does so by then. The simulated nodes do not say again what they have said of their
    // pods, as real ones do: they are replaced.
    let (dead, back) = (restored + Duration::from_secs(40), restored + Duration::from_secs(100));
    case.operations =
        [(remembered, Act::Remember), (restored, Act::Restore), (dead, Act::Nodes(0)), (back, Act::Nodes(case.nodes))]
            .map(Operation::from)
            .into();
    let too_large = Rule::always(Fault::Refuse(Refusal::VersionTooLarge)).verbs(&[Verb::Watch]);
    let too_large = too_large.within(restored..window.end.max(back));
    // Without a resync what was lost may stay unknown, and the end is not judged.
    case.resync = Some(RESYNC).filter(|_| random.below(2) == 0);
    let is_unsaid = case.resync.is_some() && random.below(2) == 0;
    case.faults.push(if is_unsaid { too_large.of(CLUSTER) } else { too_large });
}

impl From<(Duration, Act)> for Operation {
    fn from((at, act): (Duration, Act)) -> Self {
        Self { at, act }
    }
}
