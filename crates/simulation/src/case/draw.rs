//! Cases from seeds: random rollouts, and what people, machines and bad weather do to them.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use super::operation::Target;
use super::{Act, Case, Operation};
use crate::api::{Random, name};
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::weather::{self, How, Incident, Weather};

const WEB: &str = "web";
/// What is picked is told by a number below this.
const PICKS: u64 = 100;

/// What cases are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// One Deployment: templates that come up and templates that do not, sizes, bounds, pauses, rollbacks, pods and nodes
    /// that fail.
    Rollouts,
}

impl Profile {
    /// The case of a seed. A seed has the same operations by users in any weather.
    #[must_use]
    pub fn case(self, seed: u64, weather: Option<&[Weather]>) -> Case {
        let Self::Rollouts = self;
        let (mut case, plot) = rollout(seed);
        if let Some(weather) = weather {
            strike(&mut case, (WEB, Duration::ZERO), weather);
        }
        with(case, plot)
    }

    /// The name of the weather that a seed has.
    #[must_use]
    pub fn weather_of(seed: u64, weather: &[Weather]) -> &'static str {
        match nth_of(seed, weather) {
            None => "a mixture",
            Some(one) => one.name,
        }
    }
}

/// A Deployment, which is left a minute to come up beside the objects that it needs, and then gets a merge patch. Faults begin up
/// to 7 s before that, or up to 8 s after.
#[must_use]
pub fn rollout_of(
    (deployment, needs): (&Value, &[Value]),
    merge: &Value,
    seed: u64,
    weather: Option<&[Weather]>,
) -> Case {
    const UP: Duration = Duration::from_secs(60);
    let (mut case, _) = rollout(seed);
    let name = name(deployment).to_owned();
    (case.pod_startup, case.pod_shutdown) = (super::startup(), super::shutdown());
    if let Some(weather) = weather {
        strike(&mut case, (&name, UP.saturating_sub(Duration::from_secs(7))), weather);
    }
    let created = needs.iter().chain([deployment]).map(|object| (Duration::ZERO, Act::Create(object.clone())));
    let patch = Act::Patch(Target { deployment: name, merge: merge.clone() });
    with(case, created.chain([(UP, patch)]).map(Operation::from).collect())
}

/// The case with these operations besides its own, by their times.
fn with(mut case: Case, operations: Vec<Operation>) -> Case {
    case.operations.splice(0..0, operations);
    case.operations.sort_by_key(|operation| operation.at);
    case
}

/// Every fourth seed has several at once, where there are several kinds of faults of requests to choose from, and the others one
/// in turn.
fn nth_of(seed: u64, weather: &[Weather]) -> Option<Weather> {
    let of_requests = weather.iter().filter(|weather| matches!(weather.how, How::Controllers(_) | How::Cluster(_)));
    if seed.is_multiple_of(4) && of_requests.count() > 1 {
        return None;
    }
    let nth = usize::try_from(seed - seed / 4).unwrap_or_default();
    weather.get(nth % weather.len().max(1)).copied()
}

/// A case without operations, and those of its users.
fn rollout(seed: u64) -> (Case, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let startup = *random.pick(&[(0, 0), (200, 800), (1_000, 6_000), (0, 3_000)]);
    let case = Case {
        seed,
        nodes: 3,
        pod_startup: Duration::from_millis(startup.0)..Duration::from_millis(startup.1),
        pod_shutdown: Duration::from_millis(*random.pick(&[0, 1_000, 5_000])),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    let min_ready = *random.pick(&[0, 0, 0, 1, 4]);
    let recreate = random.once_in(6);
    let (ends_well, nodes_fail) = (!random.once_in(4), random.once_in(6));
    let mut plot = Plot { random, recreate, nodes_fail, paused: false, now: Duration::ZERO, operations: Vec::new() };
    let deployment = plot.deployment(min_ready);
    plot.add(Act::Create(deployment));
    for _ in 0..3 + plot.random.below(8) {
        let most = *plot.random.pick(&[50, 1_000, 5_000, 30_000]);
        plot.now += Duration::from_millis(plot.random.below(most));
        let act = plot.disturbance();
        plot.add(act);
    }
    if nodes_fail {
        plot.add(Act::HealNodes);
    }
    plot.now += Duration::from_millis(plot.random.below(3_000));
    let template = if ends_well { plot.good_template() } else { plot.bad_template() };
    plot.add(patch(json!({"spec": {"paused": null, "template": template}})));
    (case, plot.operations)
}

/// A case that is being drawn.
struct Plot {
    random: Random,
    recreate: bool,
    nodes_fail: bool,
    /// Whether the Deployment is paused.
    paused: bool,
    now: Duration,
    operations: Vec<Operation>,
}

impl Plot {
    fn add(&mut self, act: Act) {
        self.operations.push(Operation { at: self.now, act });
    }

    fn deployment(&mut self, min_ready: u64) -> Value {
        let replicas = self.random.below(11);
        let strategy = if self.recreate { json!({"type": "Recreate"}) } else { self.rolling() };
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB},
            "spec": {
                "replicas": replicas,
                "minReadySeconds": min_ready,
                "progressDeadlineSeconds": 15 + self.random.below(30),
                "revisionHistoryLimit": *self.random.pick(&[0, 1, 2, 10]),
                "strategy": strategy,
                "selector": {"matchLabels": {"app": WEB}},
                "template": {
                    "metadata": {"labels": {"app": WEB}},
                    "spec": {"terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "nginx:0"}]},
                },
            },
        })
    }

    /// Bounds as numbers and as percentages, never both zero.
    fn rolling(&mut self) -> Value {
        let bounds = [json!(0), json!(1), json!(2), json!(5), json!("10%"), json!("25%"), json!("50%"), json!("100%")];
        let unavailable = self.random.pick(&bounds).clone();
        let surge = if unavailable == 0 { self.random.pick(&bounds[1..]) } else { self.random.pick(&bounds) }.clone();
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    fn disturbance(&mut self) -> Act {
        patch(match self.random.below(16) {
            0..=4 => json!({"spec": {"template": self.good_template()}}),
            5 | 6 => json!({"spec": {"template": self.bad_template()}}),
            7 | 8 => json!({"spec": {"replicas": self.random.below(15)}}),
            9 | 10 => {
                self.paused = !self.paused;
                json!({"spec": {"paused": self.paused}})
            }
            // A paused Deployment is rolled back when it is resumed: by then to and from another template.
            11 if !self.paused => {
                let to = self.random.below(4).to_string();
                json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}})
            }
            12 if !self.recreate => json!({"spec": {"strategy": self.rolling()}}),
            13 if self.nodes_fail => return Act::TaintNode(self.random.below(PICKS)),
            13 | 14 => return Act::DeletePod(self.random.below(PICKS)),
            // A pod that runs loses its readiness, or fails, or crashes.
            _ => {
                let fate = (*self.random.pick(&["never-ready", "fail", "crash-loop"])).to_owned();
                return Act::FailPod { pod: self.random.below(PICKS), fate };
            }
        })
    }

    fn good_template(&mut self) -> Value {
        let directions = match self.random.below(5) {
            0 => json!({"muster.dev/startup": "1s..10s"}),
            1 => json!({"muster.dev/ready-after": "3s"}),
            _ => json!({}),
        };
        self.template(&directions)
    }

    /// A template whose pods do not become ready, or do not stay so.
    fn bad_template(&mut self) -> Value {
        let fates = ["never-start", "never-ready", "image-pull-error", "crash-loop", "fail", "succeed", "reject"];
        let fate = *self.random.pick(&fates);
        let mut directions = json!({"muster.dev/fate": fate});
        if self.random.once_in(2) {
            directions["muster.dev/run-for"] = json!("7s");
        }
        if matches!(fate, "fail" | "succeed") {
            // Each pod that turns ready is progress: pods that do, and then end, would put the deadline off for ever.
            directions["muster.dev/ready-after"] = json!("1m");
        }
        self.template(&directions)
    }

    /// One of a few images, so that templates come back; directions of an earlier template are taken out.
    fn template(&mut self, directions: &Value) -> Value {
        let mut annotations = json!({
            "muster.dev/fate": null, "muster.dev/startup": null, "muster.dev/ready-after": null,
            "muster.dev/run-for": null,
        });
        for (key, value) in directions.as_object().into_iter().flatten() {
            annotations[key] = value.clone();
        }
        let image = format!("nginx:{}", self.random.below(5));
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": image}]},
        })
    }
}

fn patch(merge: Value) -> Act {
    Act::Patch(Target { deployment: WEB.to_owned(), merge })
}

/// Adds faults and incidents, out of a stream of their own.
fn strike(case: &mut Case, (deployment, from): (&str, Duration), weather: &[Weather]) {
    let seed = case.seed;
    let mut random = Random::seeded(seed ^ 0x5eed_0f5c_a1e5_0000);
    let begins = from + Duration::from_millis(random.below(15_000));
    // A server that is away for 40 s finds its nodes given up.
    let ends = begins + Duration::from_millis(5_000 + random.below(90_000));
    let within = |rules: Vec<Rule>| rules.into_iter().map(|rule| rule.within(begins..ends)).collect();
    let Some(one) = nth_of(seed, weather) else {
        case.faults = within(weather::mixed(weather, &mut random));
        return;
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
            Incident::NodeLoss => Act::Nodes(1 + u32::try_from(random.below(3)).unwrap_or_default()),
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
/// clients so, or they resume from versions that are given again.
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
    case.faults.push(too_large.within(restored..window.end.max(back)));
}

impl From<(Duration, Act)> for Operation {
    fn from((at, act): (Duration, Act)) -> Self {
        Self { at, act }
    }
}
