//! Bad weather: kinds of faults that come together, by the names that `muster simulate --faults` takes.

use std::ops::Range;
use std::time::Duration;

use crate::api::Random;
use crate::faults::{Fault, Faults, Refusal, Rule, Verb};
use crate::world::{CLUSTER, CONTROLLERS as MANAGER};

/// What controllers write workloads by; their Events are another matter.
const WRITES: &[Verb] = &[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
const WORKLOADS: &[&str] = &["pods", "replicasets", "replicationcontrollers", "deployments"];
const OWNERS: &[&str] = &["replicasets", "replicationcontrollers", "deployments"];

/// One kind.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// What happens, in a few words.
    pub about: &'static str,
    /// How it is brought about.
    pub how: How,
}

/// How weather is brought about.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// By these rules at their worst, for the requests of the controllers.
    Controllers(fn() -> Vec<Rule>),
    /// By these rules at their worst, for those of nodes, scheduler and collectors.
    Cluster(fn() -> Vec<Rule>),
    /// The server is away.
    Away,
    /// Something happens to the cluster, while watches are cut now and then.
    Incident(Incident),
}

/// What happens to a cluster that is no fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// Nodes die with all that they run, and come back empty.
    NodeLoss,
    /// History is forgotten, again and again.
    Compaction,
    /// Everything is put back to what it was a while ago.
    Restore,
    /// An autoscaler sets the size of the Deployment by its subresource `scale`.
    Autoscaler,
    /// Somebody else writes what the controllers write: sizes of ReplicaSets as they were earlier, as a second
    /// controller manager would, and pods with an owner or to be adopted.
    SecondWriter,
}

impl Weather {
    const fn new(name: &'static str, about: &'static str, how: How) -> Self {
        Self { name, about, how }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().chain([&SILENCE]).chain(OTHERS).find(|weather| weather.name == name).copied()
    }

    /// Its rules, each for at most this many of a thousand requests; none where it is no fault of requests.
    #[must_use]
    pub fn rules(self, per_mille: u32) -> Vec<Rule> {
        let (who, rules) = match self.how {
            How::Controllers(rules) => (MANAGER, rules()),
            How::Cluster(rules) => (CLUSTER, rules()),
            How::Away | How::Incident(_) => return Vec::new(),
        };
        rules.into_iter().map(|rule| rule.of(who).per_mille(per_mille)).collect()
    }

    /// Adds its rules.
    pub fn begin(self, faults: &Faults, per_mille: u32) {
        self.rules(per_mille).into_iter().for_each(|rule| faults.add(rule));
    }
}

/// Those of requests, but for [`SILENCE`].
pub const ALL: &[Weather] = &[
    Weather::new("slow-requests", "requests take long", How::Controllers(|| all(Fault::Delay(millis(0..2_000))))),
    Weather::new("slow-answers", "the server is slow", How::Controllers(|| all(Fault::Slow(millis(1_000..8_000))))),
    Weather::new("resets", "connections break before the server has acted", How::Controllers(|| all(Fault::Reset))),
    Weather::new(
        "lost-answers",
        "connections break after the server has acted",
        How::Controllers(|| writes(Fault::AnswerLost)),
    ),
    Weather::new("lost-requests", "requests are lost", How::Controllers(|| all(Fault::Lost))),
    Weather::new(
        "conflicts",
        "writes are refused with 409",
        How::Controllers(|| writes(Fault::Refuse(Refusal::Conflict))),
    ),
    Weather::new(
        "throttling",
        "requests are refused with 429",
        How::Controllers(|| all(Fault::Refuse(Refusal::TooManyRequests { retry_after: 1 }))),
    ),
    Weather::new(
        "errors",
        "requests are refused with 500",
        How::Controllers(|| all(Fault::Refuse(Refusal::InternalError))),
    ),
    Weather::new(
        "unavailable",
        "requests are refused with 503",
        How::Controllers(|| all(Fault::Refuse(Refusal::Unavailable { retry_after: None }))),
    ),
    Weather::new(
        "unavailable-retry-after",
        "requests are refused with 503 and Retry-After",
        How::Controllers(|| all(Fault::Refuse(Refusal::Unavailable { retry_after: Some(2) }))),
    ),
    Weather::new(
        "timeouts-after-commit",
        "writes are done and answered with 504",
        How::Controllers(|| writes(Fault::ActAndRefuse(Refusal::Timeout))),
    ),
    Weather::new(
        "errors-after-commit",
        "writes are done and answered with 500",
        How::Controllers(|| writes(Fault::ActAndRefuse(Refusal::InternalError))),
    ),
    Weather::new("cut-watches", "watches are cut", How::Controllers(|| all(Fault::Cut))),
    Weather::new("slow-watches", "watches are behind", How::Controllers(|| all(Fault::Lag(millis(0..10_000))))),
    Weather::new("slow-pod-watches", "watches of pods are behind", How::Controllers(|| behind(&["pods"]))),
    Weather::new("slow-owner-watches", "watches of what has pods are behind", How::Controllers(|| behind(OWNERS))),
    Weather::new(
        "slow-watches-lost-answers",
        "watches are behind, and connections break after",
        How::Controllers(|| [all(Fault::Lag(millis(0..10_000))), writes(Fault::AnswerLost)].concat()),
    ),
    Weather::new(
        "expired-watches",
        "watches are cut, and their versions too old",
        How::Controllers(|| [all(Fault::Cut), expired()].concat()),
    ),
    Weather::new(
        "paged-lists",
        "watches are cut, and lists come by pages",
        How::Controllers(|| [all(Fault::Cut), expired(), pages()].concat()),
    ),
    Weather::new(
        "lagging-servers",
        "servers lag apart",
        How::Controllers(|| [all(Fault::Cut), lagging_apart()].concat()),
    ),
    Weather::new(
        "lost-bookmarks",
        "bookmarks are lost",
        How::Controllers(|| [all(Fault::Cut), all(Fault::BookmarkLost)].concat()),
    ),
    Weather::new(
        "old-bookmarks",
        "bookmarks are old",
        How::Controllers(|| [all(Fault::Cut), all(Fault::BookmarkOld)].concat()),
    ),
    Weather::new("webhook-denies", "a webhook denies", How::Controllers(|| creations(Fault::Refuse(Refusal::Denied)))),
    Weather::new("webhook-changes", "a webhook changes", How::Controllers(|| creations(Fault::Mutate))),
    Weather::new("quota", "a quota is used up", How::Controllers(|| creations(Fault::Refuse(Refusal::QuotaExceeded)))),
    Weather::new("reordering", "requests and events come in any order", How::Controllers(|| all(Fault::Reorder(20)))),
    Weather::new(
        "cluster-slow-requests",
        "the cluster's requests take long",
        How::Cluster(|| all(Fault::Delay(millis(0..2_000)))),
    ),
    Weather::new(
        "cluster-slow-watches",
        "the cluster's watches are behind",
        How::Cluster(|| all(Fault::Lag(millis(0..10_000)))),
    ),
    Weather::new(
        "cluster-cut-watches",
        "the cluster's watches are cut",
        How::Cluster(|| [all(Fault::Cut), expired()].concat()),
    ),
    Weather::new(
        "cluster-errors",
        "the cluster is refused",
        How::Cluster(|| all(Fault::Refuse(Refusal::InternalError))),
    ),
    Weather::new("cluster-lost-answers", "the cluster's answers are lost", How::Cluster(|| writes(Fault::AnswerLost))),
    Weather::new(
        "refused-events",
        "no event is taken",
        How::Controllers(|| events(Fault::Refuse(Refusal::InternalError))),
    ),
    Weather::new("lost-events", "events are lost", How::Controllers(|| events(Fault::Lost))),
];

/// Nothing is delivered any more, and nothing ends: it takes a watch's own time to find out.
pub const SILENCE: Weather =
    Weather::new("silent-watches", "watches fall silent, and do not end", How::Controllers(|| all(Fault::Stall)));

/// Those of the server and of the cluster.
pub const OTHERS: &[Weather] = &[
    Weather::new("server-away", "the server is away, and comes back", How::Away),
    Weather::new("node-loss", "nodes die with their pods, and come back empty", How::Incident(Incident::NodeLoss)),
    Weather::new("compaction", "history is compacted, again and again", How::Incident(Incident::Compaction)),
    Weather::new("restore", "the server is restored to an earlier version", How::Incident(Incident::Restore)),
    Weather::new("autoscaler", "an autoscaler scales meanwhile", How::Incident(Incident::Autoscaler)),
    Weather::new("second-writer", "somebody else writes the same objects", How::Incident(Incident::SecondWriter)),
];

/// Several of these at once, each as bad as chance has it.
pub fn mixed(from: &[Weather], random: &mut Random) -> Vec<Rule> {
    let mut rules = Vec::new();
    for weather in from {
        if random.once_in(4) {
            let per_mille = *random.pick(&[5, 50, 200, 500]);
            rules.extend(weather.rules(per_mille));
        }
    }
    rules
}

fn all(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault)]
}

fn writes(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault).verbs(WRITES).resources(WORKLOADS)]
}

/// Each kind has a watch of its own: what one shows, another may not show yet.
fn behind(resources: &[&str]) -> Vec<Rule> {
    vec![Rule::always(Fault::Lag(millis(0..10_000))).verbs(&[Verb::Watch]).resources(resources)]
}

fn events(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault).resources(&["events"])]
}

/// Versions to resume from are no longer, so that everything is read again.
fn expired() -> Vec<Rule> {
    vec![Rule::always(Fault::Refuse(Refusal::Expired)).verbs(&[Verb::Watch])]
}

/// No streaming lists. The others are as old as the request permits: the controllers permit none but the newest.
fn pages() -> Vec<Rule> {
    let streaming = Rule::always(Fault::Refuse(Refusal::Invalid)).verbs(&[Verb::Watch]);
    vec![streaming, Rule::always(Fault::Stale)]
}

/// Watches are taken by servers whose caches are behind, each by as much as it is, and one that has not come to the
/// version asked for says so.
fn lagging_apart() -> Vec<Rule> {
    let too_large = Rule::always(Fault::Refuse(Refusal::VersionTooLarge)).verbs(&[Verb::Watch]);
    vec![Rule::always(Fault::Behind(millis(0..10_000))), too_large]
}

/// Pods and ReplicaSets are not let in, or not as they were sent.
fn creations(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault).verbs(&[Verb::Create]).resources(&["pods", "replicasets"])]
}

fn millis(range: Range<u64>) -> Range<Duration> {
    Duration::from_millis(range.start)..Duration::from_millis(range.end)
}
