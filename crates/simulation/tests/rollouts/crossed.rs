//! Rollouts in bad weather: every story under every fault, by the laws of good weather.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_simulation::{Fault, Faults, Rule, World};
use tokio::time::Instant;

use crate::common::{Random, each, in_virtual_time, seeds};
use crate::incidents::{self, Done, Incident};
use crate::watcher::Watcher;
use crate::weather::{ALL, SILENCE, mixed};
use crate::{Told, judge, tell};

/// What strikes a story: one fault by itself, or several at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sky {
    /// Nothing does.
    Clear,
    /// This one of [`ALL`].
    One(usize),
    /// As chance has it.
    Mixed,
    /// Watches say nothing more, and do not end.
    Silent,
    /// The server is away.
    Away,
    /// Something happens to the cluster, while watches are cut now and then.
    Incident(Incident, &'static str),
}

impl Sky {
    /// Every fault by itself in turn, and every fourth time a mixture; only the fault that `MUSTER_FAULT` names, where
    /// it names one.
    fn of(seed: u64) -> Self {
        let incidents = incidents::ALL.iter().map(|(incident, name)| Self::Incident(*incident, name));
        let every: Vec<Self> =
            (0..ALL.len()).map(Self::One).chain([Self::Silent, Self::Away]).chain(incidents).collect();
        if let Ok(name) = std::env::var("MUSTER_FAULT") {
            let found = every.into_iter().chain([Self::Clear, Self::Mixed]).find(|sky| sky.name() == name);
            return found.unwrap_or_else(|| panic!("MUSTER_FAULT={name}"));
        }
        if seed.is_multiple_of(4) {
            return Self::Mixed;
        }
        every[usize::try_from(seed - seed / 4 - 1).unwrap() % every.len()]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clear => "good weather",
            Self::One(at) => ALL[at].name,
            Self::Mixed => "a mixture",
            Self::Silent => SILENCE.name,
            Self::Away => "the server is away",
            Self::Incident(_, name) => name,
        }
    }

    pub(crate) fn is_clear(self) -> bool {
        self == Self::Clear
    }

    /// Whether the server was put back to an earlier version.
    pub(crate) fn is_restored(self) -> bool {
        matches!(self, Self::Incident(Incident::Restore, _))
    }

    /// How long after the weather all that has happened in it is told.
    pub(crate) fn news(self) -> Duration {
        match self {
            Self::Clear => Duration::ZERO,
            // A watch that says nothing, or a list without its end, is believed for as long as it was asked for.
            Self::Silent | Self::Mixed => Duration::from_secs(700),
            Self::One(at) if ALL[at].name.starts_with("bookmarks") => Duration::from_secs(700),
            // A request that hangs is given up after 75 s.
            Self::One(_) | Self::Away | Self::Incident(..) => Duration::from_secs(80),
        }
    }
}

/// When bad weather begins and ends. It has a stream of chance of its own, so that the story of a seed is the same in
/// any weather.
pub(crate) struct Forecast {
    sky: Sky,
    random: Random,
    begins: Duration,
    lasts: Duration,
}

impl Forecast {
    pub(crate) fn of(seed: u64, sky: Sky) -> Self {
        let mut random = Random::seeded(seed ^ 0x5eed_0f5c_a1e5_0000);
        let begins = Duration::from_millis(random.below(15_000));
        // A server that is away for 40 s finds its nodes given up.

        let lasts = Duration::from_millis(5_000 + random.below(90_000));
        Self { sky, random, begins, lasts }
    }

    /// Lets it come and go; says what was done by others than the controllers.
    pub(crate) async fn pass(mut self, faults: &Faults, world: &World, watcher: &Watcher) -> Done {
        if self.sky.is_clear() {
            return Done::default();
        }
        let begins = Instant::now() + self.begins;
        let ends = begins + self.lasts;
        tokio::time::sleep_until(begins).await;
        let mut done = Done::default();
        match self.sky {
            Sky::Clear => {}
            Sky::One(at) => ALL[at].begin(faults, *self.random.pick(&[50, 200, 500, 1_000])),
            Sky::Mixed => mixed(faults, &mut self.random),
            Sky::Silent => SILENCE.begin(faults, *self.random.pick(&[20, 200, 1_000])),
            Sky::Away => faults.go_away(),
            Sky::Incident(incident, _) => {
                if self.random.once_in(2) {
                    faults.add(Rule::always(Fault::Cut).per_mille(100));
                }
                done = incident.happen(ends, (world, watcher, faults), &mut self.random).await;
            }
        }
        tokio::time::sleep_until(ends).await;
        faults.end();
        done
    }
}

/// Whatever strikes while a rollout is disturbed, it keeps its bounds; and when the weather is over, it ends.
///
/// Contract: DEP-09 to DEP-12, B-01, B-18 to B-20, RS-19
#[test]
fn random_rollouts_keep_their_bounds_in_bad_weather() {
    let seeds = seeds(600);
    let told = each(&seeds, |seed| in_virtual_time(tell(*seed, Sky::of(*seed))));
    judge(&seeds, &told);
    let mut strikes = BTreeMap::new();
    for Told { sky, strikes: more, .. } in &told {
        let (stories, all) = strikes.entry(*sky).or_insert((0, 0));
        (*stories, *all) = (*stories + 1, *all + more);
    }
    for (sky, (stories, strikes)) in strikes {
        println!("{strikes:8} strikes in {stories:4} stories: {}", sky.name());
        assert!(strikes > 0 || stories < ENOUGH, "{} has struck nothing in {stories} stories", sky.name());
    }
}

/// In so many stories a fault strikes at least once.
const ENOUGH: u64 = 12;
