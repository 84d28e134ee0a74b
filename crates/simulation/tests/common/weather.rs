//! Kinds of bad weather between controllers and server.
#![allow(dead_code, reason = "each test uses a part")]

use std::ops::Range;
use std::time::Duration;

use muster_simulation::world::{CLUSTER, CONTROLLERS as MANAGER};
use muster_simulation::{Fault, Faults, Refusal, Rule, Verb};

use crate::common::Random;

/// What controllers write workloads by; their Events are another matter.
const WRITES: &[Verb] = &[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
const WORKLOADS: &[&str] = &["pods", "replicasets", "replicationcontrollers", "deployments"];

/// One fault with a name: what it does to requests, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) name: &'static str,
    /// Its rules at their worst.
    rules: fn() -> Vec<Rule>,
}

impl Weather {
    /// Adds its faults, each for at most this many of a thousand requests.
    pub(crate) fn begin(self, faults: &Faults, per_mille: u32) {
        let who = if self.name.starts_with("the cluster") { CLUSTER } else { MANAGER };
        for rule in (self.rules)() {
            faults.add(rule.of(who).per_mille(per_mille));
        }
    }
}

/// All of them. Each strikes the controllers only, but for those that say that they strike the cluster: nodes,
/// scheduler and collectors.
pub(crate) const ALL: &[Weather] = &[
    Weather { name: "requests take long", rules: || all(Fault::Delay(millis(0..2_000))) },
    Weather { name: "the server is slow", rules: || all(Fault::Slow(millis(1_000..8_000))) },
    Weather { name: "connections break before", rules: || all(Fault::Reset) },
    Weather { name: "connections break after", rules: || writes(Fault::AnswerLost) },
    Weather { name: "requests are lost", rules: || all(Fault::Lost) },
    Weather { name: "409", rules: || writes(Fault::Refuse(Refusal::Conflict)) },
    Weather { name: "429", rules: || all(Fault::Refuse(Refusal::TooManyRequests { retry_after: 1 })) },
    Weather { name: "500", rules: || all(Fault::Refuse(Refusal::InternalError)) },
    Weather { name: "503", rules: || all(Fault::Refuse(Refusal::Unavailable { retry_after: None })) },
    Weather { name: "503, come back", rules: || all(Fault::Refuse(Refusal::Unavailable { retry_after: Some(2) })) },
    Weather { name: "504, done all the same", rules: || writes(Fault::ActAndRefuse(Refusal::Timeout)) },
    Weather { name: "500, done all the same", rules: || writes(Fault::ActAndRefuse(Refusal::InternalError)) },
    Weather { name: "watches are cut", rules: || all(Fault::Cut) },
    Weather { name: "watches are behind", rules: || all(Fault::Lag(millis(0..10_000))) },
    Weather {
        name: "watches are behind, and connections break after",
        rules: || [all(Fault::Lag(millis(0..10_000))), writes(Fault::AnswerLost)].concat(),
    },
    Weather { name: "watches are cut, and their versions too old", rules: || [all(Fault::Cut), expired()].concat() },
    Weather {
        name: "watches are cut, and lists come by pages",
        rules: || [all(Fault::Cut), expired(), pages()].concat(),
    },
    Weather { name: "servers lag apart", rules: || [all(Fault::Cut), lagging_apart()].concat() },
    Weather { name: "bookmarks are lost", rules: || [all(Fault::Cut), all(Fault::BookmarkLost)].concat() },
    Weather { name: "bookmarks are old", rules: || [all(Fault::Cut), all(Fault::BookmarkOld)].concat() },
    Weather { name: "a webhook denies", rules: || creations(Fault::Refuse(Refusal::Denied)) },
    Weather { name: "a webhook changes", rules: || creations(Fault::Mutate) },
    Weather { name: "a quota is used up", rules: || creations(Fault::Refuse(Refusal::QuotaExceeded)) },
    Weather { name: "in any order", rules: || all(Fault::Reorder(20)) },
    Weather { name: "the cluster's requests take long", rules: || all(Fault::Delay(millis(0..2_000))) },
    Weather { name: "the cluster's watches are behind", rules: || all(Fault::Lag(millis(0..10_000))) },
    Weather { name: "the cluster's watches are cut", rules: || [all(Fault::Cut), expired()].concat() },
    Weather { name: "the cluster is refused", rules: || all(Fault::Refuse(Refusal::InternalError)) },
    Weather { name: "the cluster's answers are lost", rules: || writes(Fault::AnswerLost) },
    Weather { name: "no event is taken", rules: || events(Fault::Refuse(Refusal::InternalError)) },
    Weather { name: "events are lost", rules: || events(Fault::Lost) },
];

/// Nothing is delivered any more, and nothing ends: it takes a watch's own time to find out.
pub(crate) const SILENCE: Weather = Weather { name: "watches fall silent", rules: || all(Fault::Stall) };

/// Several at once, each as bad as chance has it.
pub(crate) fn mixed(faults: &Faults, random: &mut Random) {
    for weather in ALL {
        if random.once_in(4) {
            let per_mille = *random.pick(&[5, 50, 200, 500]);
            weather.begin(faults, per_mille);
        }
    }
}

fn all(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault)]
}

fn writes(fault: Fault) -> Vec<Rule> {
    vec![Rule::always(fault).verbs(WRITES).resources(WORKLOADS)]
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
