//! What the histories of `muster simulate` come to.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use muster_simulation::case::{End, Played};
use muster_simulation::laws::Broken;
use serde::Serialize;

use super::Smaller;

/// What a history is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) profile: &'static str,
    pub(super) weather: &'static str,
}

/// What of one history is counted.
pub(super) struct Found {
    seed: u64,
    name: Name,
    end: Option<End>,
    strikes: u64,
    writes: u64,
    lasted: Duration,
    is_broken: bool,
    /// How often each fault struck each kind of request.
    met: BTreeMap<(String, String), u64>,
    /// How many syncs each rule had a part in.
    rules: BTreeMap<String, u64>,
}

impl Found {
    pub(super) fn of(seed: u64, name: Name, played: &Played) -> Self {
        let mut met = BTreeMap::new();
        for struck in &played.struck {
            let request = format!("{} {} {}", struck.who, struck.target.verb.word(), struck.target.path());
            *met.entry((struck.fault.kind(), request)).or_default() += 1;
        }
        let Played { end, strikes, lasted, .. } = *played;
        let is_broken = !played.broken.is_empty();
        Self {
            seed,
            name,
            end,
            strikes,
            writes: played.writes.len() as u64,
            lasted,
            is_broken,
            met,
            rules: played.rules.clone(),
        }
    }
}

/// What all of them come to. It depends on nothing but the arguments.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    first_seed: u64,
    last_seed: u64,
    pub(super) histories: u64,
    complete: u64,
    deadline_exceeded: u64,
    writes: u64,
    strikes: u64,
    virtual_seconds: f64,
    profiles: BTreeMap<&'static str, Counts>,
    weather: BTreeMap<&'static str, Counts>,
    /// How often each fault struck each kind of request.
    coverage: BTreeMap<String, BTreeMap<String, u64>>,
    /// How many syncs each rule of the contract had a part in, under each kind of faults.
    rules: BTreeMap<String, BTreeMap<&'static str, u64>>,
    broken: Vec<Broke>,
    /// Of a case from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<String>,
    #[serde(skip)]
    virtual_time: Duration,
}

/// Of one kind of weather.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    histories: u64,
    strikes: u64,
    complete: u64,
    deadline_exceeded: u64,
    broken: u64,
}

/// A history in which a law was broken.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Broke {
    seed: u64,
    laws: Vec<String>,
    case: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shrunk: Option<String>,
    /// Whether nothing more can be taken away from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<String>,
}

impl Broke {
    /// In this history, which was written into a file.
    pub(super) fn of(seed: u64, file: &Path, broken: &[Broken]) -> Self {
        let laws = broken.iter().map(ToString::to_string).collect();
        Self { seed, laws, case: file.display().to_string(), shrunk: None, smallest: None, story: None }
    }
}

/// Some lines.
impl fmt::Display for Broke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// How many of the broken laws of one history are printed.
        const LAWS: usize = 5;
        let Self { seed, laws, case, shrunk, smallest, story } = self;
        writeln!(f, "seed {seed} broke {} laws: {case}", laws.len())?;
        for law in laws.iter().take(LAWS) {
            writeln!(f, "  {law}")?;
        }
        if let (Some(shrunk), Some(story)) = (shrunk, story) {
            let size = if *smallest == Some(false) { "smaller, where it was cut short" } else { "as small as can be" };
            writeln!(f, "  {size}: {shrunk}\n\n{story}")?;
        }
        Ok(())
    }
}

impl Report {
    pub(super) fn of(first_seed: u64) -> Self {
        Self {
            first_seed,
            last_seed: first_seed,
            histories: 0,
            complete: 0,
            deadline_exceeded: 0,
            writes: 0,
            strikes: 0,
            virtual_seconds: 0.0,
            profiles: BTreeMap::new(),
            weather: BTreeMap::new(),
            coverage: BTreeMap::new(),
            rules: BTreeMap::new(),
            broken: Vec::new(),
            story: None,
            virtual_time: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, found: &Found) {
        let (complete, late) =
            (u64::from(found.end == Some(End::Complete)), u64::from(found.end == Some(End::DeadlineExceeded)));
        self.last_seed = self.last_seed.max(found.seed);
        self.histories += 1;
        self.complete += complete;
        self.deadline_exceeded += late;
        self.writes += found.writes;
        self.strikes += found.strikes;
        self.virtual_time += found.lasted;
        self.virtual_seconds = self.virtual_time.as_secs_f64();
        let Name { profile, weather } = found.name;
        for counts in [self.profiles.entry(profile).or_default(), self.weather.entry(weather).or_default()] {
            counts.histories += 1;
            counts.strikes += found.strikes;
            counts.complete += complete;
            counts.deadline_exceeded += late;
            counts.broken += u64::from(found.is_broken);
        }
        for (rule, syncs) in &found.rules {
            *self.rules.entry(rule.clone()).or_default().entry(weather).or_default() += syncs;
        }
        for ((fault, request), times) in &found.met {
            *self.coverage.entry(fault.clone()).or_default().entry(request.clone()).or_default() += times;
        }
    }

    /// A law was broken in this history, which was written into a file.
    pub(super) fn broke(&mut self, seed: u64, file: &Path, broken: &[Broken]) {
        self.broken.push(Broke::of(seed, file, broken));
    }

    /// The last of them was made smaller.
    pub(super) fn shrunk(&mut self, file: &Path, Smaller { story, smallest, .. }: Smaller) {
        if let Some(last) = self.broken.last_mut() {
            (last.shrunk, last.story, last.smallest) = (Some(file.display().to_string()), Some(story), Some(smallest));
        }
    }

    /// This is what became of the one history that there is.
    pub(super) fn tell(&mut self, story: String) {
        self.story = Some(story);
    }

    /// Says how fast it went.
    pub(super) fn speed(&self, took: Duration, cpu_seconds: f64, jobs: usize) {
        speed(self.histories, self.virtual_time, took, cpu_seconds, jobs);
    }
}

/// Says how fast so many histories went.
pub(super) fn speed(histories: u64, virtual_time: Duration, took: Duration, cpu_seconds: f64, jobs: usize) {
    const YEAR: f64 = 365.25 * 86_400.0;
    let rate = histories as f64 / took.as_secs_f64();
    let years = virtual_time.as_secs_f64() / YEAR / (cpu_seconds / 3_600.0);
    let took = took.as_secs_f64();
    let speed = format!("{rate:.1} histories/s, {years:.2} cluster-years per core-hour");
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "took {took:.1} s with {jobs} jobs: {speed}");
}

/// A table of the weather, and what was broken.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_seed, last_seed, histories, complete, deadline_exceeded, writes, strikes, .. } = self;
        if let Some(story) = &self.story {
            writeln!(f, "{story}")?;
        }
        for (of, all) in [("PROFILE", &self.profiles), ("FAULTS", &self.weather)] {
            writeln!(
                f,
                "{of:<28}{:>10}{:>10}{:>10}{:>12}{:>8}",
                "HISTORIES", "STRIKES", "COMPLETE", "AT DEADLINE", "BROKEN"
            )?;
            for (name, counts) in all {
                let Counts { histories, strikes, complete, deadline_exceeded, broken } = counts;
                writeln!(f, "{name:<28}{histories:>10}{strikes:>10}{complete:>10}{deadline_exceeded:>12}{broken:>8}")?;
            }
            writeln!(f)?;
        }
        if !self.rules.is_empty() {
            writeln!(f, "{:<28}{:>10}{:>20}", "RULE", "SYNCS", "KINDS OF FAULTS")?;
            for (rule, met) in &self.rules {
                writeln!(f, "{rule:<28}{:>10}{:>20}", met.values().sum::<u64>(), met.len())?;
            }
            writeln!(f)?;
        }
        for broke in &self.broken {
            write!(f, "{broke}")?;
        }
        let days = self.virtual_seconds / 86_400.0;
        writeln!(
            f,
            "{histories} histories (seeds {first_seed} to {last_seed}), {days:.1} days of virtual time, {writes} writes, \
             {strikes} strikes"
        )?;
        let broken = self.broken.len();
        let laws = match broken {
            0 => "no law was broken".to_owned(),
            1 => "one broke a law".to_owned(),
            _ => format!("{broken} broke a law"),
        };
        writeln!(f, "{complete} complete, {deadline_exceeded} at their deadline; {laws}")
    }
}
