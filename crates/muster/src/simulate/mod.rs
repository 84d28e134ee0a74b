//! `muster simulate`: many histories of a cluster in virtual time, judged by the laws that must hold whatever strikes.
//!
//! ```text
//!   seeds --> threads, each with a virtual time of its own: case -> play -> what was broken --> report
//!                                                                  |
//!                                                case file <-- shrink, story
//! ```
//!
//! What goes to standard output is the same for the same arguments, and how fast it went to standard error.

mod manifests;
mod progress;
mod report;
mod small;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use muster_cluster::DelayRange;
use muster_manager::arguments::{Output, say};
use muster_runtime::duration::parse_duration;
use muster_simulation::case::{self, Case, PlayError, Played, Shrunk, Sieve, play_alone, shrink, story};
use muster_simulation::faults::LONGEST;
use muster_simulation::laws::Law;
use muster_simulation::weather::{self, Weather};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::manifests::Rollout;
use self::progress::Progress;
use self::report::{Found, Name, Report};
use crate::usage;

const EXAMPLES: &str = "\
Examples:
  # A thousand rollouts, each disturbed by its users and by one kind of fault, or by several
  muster simulate --cases 1000

  # Rollouts, other workloads, and several managers that die and freeze
  muster simulate --cases 1000 --profile everything

  # Without faults; or with these only
  muster simulate --cases 100 --faults none
  muster simulate --cases 100 --faults slow-watches,lost-answers

  # For an hour, from another seed on, as JSON
  muster simulate --minutes 60 --seed 5000000 --output json

  # A Deployment of your own, rolled 1,000 times while nodes die: how many pods stay available
  muster simulate --manifests web.yaml --rollout image=nginx:2 --faults node-loss --cases 1000

  # One history once more, told as a story; and the smallest one that breaks the same law
  muster simulate --replay case-17.yaml
  muster simulate --replay case-17.yaml --shrink

  # Every single event of five rollouts late, lost, and twice
  muster simulate --sieve

  # Every state that a small world can come to
  muster simulate --small-worlds

It exits 0 where no law was broken, 1 where one was, and 2 where the arguments or a file are wrong.";

/// How many cases are played to make one smaller.
const TRIES: usize = 2_000;

/// What `muster simulate` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Simulate {
    /// How many histories: 100 unless it is said, or as many as there is time for with --minutes, or the stories of 5 with --sieve
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cases: Option<u64>,

    /// How many at once: as many as there are cores, unless it is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// The seed of the first; the others count on from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// What they are about
    #[arg(long, value_enum, default_value_t = Profile::Rollouts)]
    profile: Profile,

    /// Which faults strike: `all`, `none`, or names from the list that a wrong name prints
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = Faults::parse)]
    faults: Faults,

    /// End after this time, although there are more cases
    #[arg(long, value_name = "N", value_parser = parse_minutes)]
    minutes: Option<Duration>,

    /// Roll the Deployments in this file, in place of others; may be repeated. Each history has one of them
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    manifests: Vec<PathBuf>,

    /// How they are rolled: `restart`, or `image=IMAGE` for their first container
    #[arg(long, value_name = "HOW", default_value = "restart", requires = "manifests", conflicts_with_all = OTHERS, value_parser = Rollout::parse)]
    rollout: Rollout,

    /// How long a pod of them takes to become ready, where no annotation says
    #[arg(long, value_name = "RANGE", requires = "manifests", conflicts_with_all = OTHERS, default_value = "200ms..800ms")]
    pod_startup: DelayRange,

    /// The longest time that a deleted pod of them keeps terminating
    #[arg(long, value_name = "DURATION", requires = "manifests", conflicts_with_all = OTHERS, default_value = "1s", value_parser = parse_duration)]
    pod_shutdown: Duration,

    /// How many nodes they run on
    #[arg(long, value_name = "N", requires = "manifests", conflicts_with_all = OTHERS, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nodes: u32,

    /// In how many zones these are, by the label topology.kubernetes.io/zone: one node after the other; in none where it is 0
    #[arg(long, value_name = "N", requires = "manifests", conflicts_with_all = OTHERS, default_value_t = 3)]
    zones: u32,

    /// Play the case in this file, in place of others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cases", "seed", "profile", "faults", "minutes", "manifests"])]
    replay: Option<PathBuf>,

    /// Enumerate every state of small worlds, in place of histories
    #[arg(long, conflicts_with_all = NO_WORLDS)]
    small_worlds: bool,

    /// Of a small world: how many events the caches may not have been told of, at most
    #[arg(long, value_name = "N", requires = "small_worlds", conflicts_with_all = NO_WORLDS, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    stale: u64,

    /// Of a small world: end it after so many states
    #[arg(long, value_name = "N", requires = "small_worlds", conflicts_with_all = NO_WORLDS, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    most_states: u64,

    /// Play each history without faults, and then once more for every event that the controllers are told of in it: late, lost
    /// until a resync, and twice
    #[arg(long, conflicts_with_all = ["faults", "manifests", "replay", "small_worlds"])]
    sieve: bool,

    /// Make the first case that breaks each law as small as can be; Ctrl-C ends that with what there is by then
    #[arg(long, conflicts_with = "manifests")]
    shrink: bool,

    /// Where the cases that break a law are written
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    save: PathBuf,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// What manifests are not played with. That they need manifests is not asked where what is given excludes these.
const OTHERS: [&str; 4] = ["profile", "replay", "small_worlds", "sieve"];

/// What small worlds have not.
const NO_WORLDS: [&str; 11] =
    ["cases", "seed", "profile", "faults", "minutes", "jobs", "manifests", "replay", "shrink", "save", "sieve"];

/// What cases are about.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    /// One Deployment that is rolled: good and bad templates, sizes, bounds, pauses, rollbacks, pods and nodes that fail
    Rollouts,
    /// Workloads of each kind whose sizes change, and whose pods are taken, deleted and given away
    Scaling,
    /// Several managers, with one leader or with shards, that die, freeze, are cut off, and come and go
    Failover,
    /// Workloads that are deleted with what they own, before it or without it, and made again meanwhile
    Deletions,
    /// Of eight four rollouts, two of failover, one of scaling and one of deletions
    Everything,
}

/// Which faults strike; none at all, where there are none.
#[derive(Debug, Clone)]
struct Faults(Option<Vec<Weather>>);

impl Faults {
    fn parse(text: &str) -> Result<Self, String> {
        let known = || weather::ALL.iter().chain([&weather::SILENCE]).chain(weather::OTHERS).copied();
        match text {
            "none" => return Ok(Self(None)),
            "all" => return Ok(Self(Some(known().collect()))),
            _ => {}
        }
        let named = |name: &str| {
            Weather::named(name).ok_or_else(|| {
                let all = known().map(|weather| format!("\n  {:<28}{}", weather.name, weather.about));
                format!("found {name:?}, expected all or none alone, or some of{}", all.collect::<String>())
            })
        };
        let mut found: Vec<Weather> = Vec::new();
        for name in text.split(',').map(str::trim) {
            let weather = named(name)?;
            if found.iter().any(|other| other.name == weather.name) {
                return Err(format!("found {name:?} twice, expected each once"));
            }
            found.push(weather);
        }
        Ok(Self(Some(found)))
    }
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let most = LONGEST.as_secs_f64() / 60.0;
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= most => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Err(format!("found {text:?}, expected a number above 0, and at most {most}")),
    }
}

impl Simulate {
    /// Which faults strike; none at all, where there are none.
    fn weather(&self) -> Option<&[Weather]> {
        self.faults.0.as_deref()
    }

    /// How many seeds there are.
    fn seeds(&self) -> u64 {
        let unsaid = match (self.minutes, self.sieve) {
            (_, true) => 5,
            (Some(_), false) => (u64::MAX - self.seed).saturating_add(1),
            (None, false) => 100,
        };
        self.cases.unwrap_or(unsaid)
    }

    /// Whether any of the faults strikes cases of the profile.
    fn has_faults(&self) -> bool {
        let profile = case::Profile::from(self.profile);
        self.weather().is_none_or(|weather| weather.iter().any(|weather| profile.has(weather)))
    }

    fn jobs(&self) -> usize {
        self.jobs.map_or_else(usage::cores, usize::from)
    }

    /// When the time is over.
    fn ends(&self) -> Option<Instant> {
        self.minutes.map(|minutes| Instant::now() + minutes)
    }
}

impl From<Profile> for case::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Rollouts => Self::Rollouts,
            Profile::Scaling => Self::Scaling,
            Profile::Failover => Self::Failover,
            Profile::Deletions => Self::Deletions,
            Profile::Everything => Self::Everything,
        }
    }
}

/// Runs `muster simulate`.
pub(crate) fn run(arguments: &Simulate) -> ExitCode {
    if arguments.seed.checked_add(arguments.seeds() - 1).is_none() {
        eprintln!("error: --seed: found {}, expected one that so many cases can count on from", arguments.seed);
        return ExitCode::from(2);
    }
    if !arguments.has_faults() {
        let profile = case::Profile::from(arguments.profile).name();
        eprintln!("error: --faults: found none that --profile {profile} can be struck by: its laws could not judge it");
        return ExitCode::from(2);
    }
    let outcome = match &arguments.replay {
        Some(file) => replay(arguments, file),
        None => {
            listen();
            match arguments.small_worlds {
                true => small::run(arguments),
                false if arguments.manifests.is_empty() => simulate(arguments),
                false => manifests::roll(arguments),
            }
        }
    };
    let signal = interrupted();
    if signal.is_some() {
        eprintln!("interrupted: this is what was played until then");
    }
    match outcome {
        Ok(true) => signal.map_or(ExitCode::SUCCESS, |signal| ExitCode::from(128 + signal)),
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The signal that asked for the end.
static INTERRUPTED: AtomicU8 = AtomicU8::new(0);

fn interrupted() -> Option<u8> {
    Some(INTERRUPTED.load(Ordering::Relaxed)).filter(|signal| *signal > 0)
}

/// Has SIGINT and SIGTERM end the work with what was played until then, and a second one end it at once.
fn listen() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without it a signal ends the process, as if nobody listened.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let Ok(mut terminated) = signal(SignalKind::terminate()) else { return };
            loop {
                let signal = tokio::select! {
                    interrupted = tokio::signal::ctrl_c() => if interrupted.is_ok() { 2 } else { return },
                    _ = terminated.recv() => 15,
                };
                if INTERRUPTED.swap(signal, Ordering::Relaxed) > 0 {
                    std::process::exit((128 + signal).into());
                }
                eprintln!("ending with what was played; once more to end at once");
            }
        });
    });
}

/// A case, and what it is called.
struct Drawn {
    seed: u64,
    name: Name,
    /// The name of its file, without the end.
    stem: String,
    case: Case,
}

/// Whether no law was broken.
fn simulate(arguments: &Simulate) -> Result<bool> {
    writable(&arguments.save)?;
    let (begun, cpu) = (Instant::now(), usage::cpu_seconds());
    let time = arguments.ends();
    let mut report = Report::of(arguments.seed);
    let mut broken = Vec::new();
    let sieves = if arguments.sieve { sieves(arguments, time)? } else { Vec::new() };
    let drawn = |nth: u64| match arguments.sieve {
        true => sieved(arguments, &sieves, nth),
        false => drawn(arguments, arguments.seed.wrapping_add(nth)),
    };
    let count = match arguments.sieve {
        true => sieves.iter().map(|(_, sieve)| 1 + sieve.len() as u64).sum(),
        false => arguments.seeds(),
    };
    let mut unwritten = None;
    play_all((arguments, time), count, &drawn, |nth, Drawn { seed, name, stem, case }, played| {
        // What is lost or told twice is no bookmark: then it is the story once more.
        if arguments.sieve && name.weather != "none" && played.strikes == 0 && played.broken.is_empty() {
            return report.histories;
        }
        report.add(&Found::of(seed, name, &played));
        if !played.broken.is_empty() {
            // At once: nobody knows how long the others take. All else that was seen of it is seen again where it is played again.
            let file = arguments.save.join(format!("{stem}.yaml"));
            unwritten = write(&file, &case.written()).err().or(unwritten.take());
            broken.push((nth, seed, file, case, played.broken));
        }
        report.histories
    })?;
    // In their order, whichever thread was first.
    broken.sort_by_key(|(nth, ..)| *nth);
    let mut laws = BTreeSet::new();
    for (_, seed, file, case, broken) in &broken {
        report.broke(*seed, file, broken);
        let shrinks = arguments.shrink && interrupted().is_none();
        if let Some(law) = broken.first().map(|broken| broken.law).filter(|law| shrinks && laws.insert(*law)) {
            let smaller = shrunk(case, law, arguments.jobs())?;
            let file = file.with_file_name(format!("{}-shrunk.yaml", stem_of(file)));
            unwritten = write(&file, &smaller.case.written()).err().or(unwritten.take());
            report.shrunk(&file, smaller);
        }
    }
    print(arguments.output, &report)?;
    report.speed(begun.elapsed(), usage::cpu_seconds() - cpu, arguments.jobs());
    unwritten.map_or_else(|| Ok(broken.is_empty()), Err)
}

fn stem_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Has `work` done with each number below `count` on as many threads as were asked for, and hands on what comes of it, whichever
/// comes first. Ends when the time is over, or at the first error.
fn all<T: Send>(
    (arguments, ends): (&Simulate, Option<Instant>),
    count: u64,
    work: &(dyn Fn(u64) -> Result<T, PlayError> + Sync),
    mut taken: impl FnMut(u64, T),
) -> Result<()> {
    let next = AtomicU64::new(0);
    let jobs = arguments.jobs().min(usize::try_from(count).unwrap_or(usize::MAX));
    std::thread::scope(|scope| {
        // It goes with this closure: whoever still works then cannot hand on, and ends.
        let (sender, receiver) = mpsc::sync_channel(jobs);
        for _ in 0..jobs {
            let (next, sender) = (&next, sender.clone());
            let work = move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || interrupted().is_some() || ends.is_some_and(|ends| Instant::now() >= ends) {
                        return;
                    }
                    let done = catch_unwind(AssertUnwindSafe(|| work(number)));
                    if sender.send((number, done)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().stack_size(case::STACK);
            thread.spawn_scoped(scope, work).context("a thread cannot be started")?;
        }
        drop(sender);
        for (number, done) in receiver {
            let done = done.map_err(|_| anyhow!("history {}: the simulation panicked", number + 1))?;
            taken(number, done.with_context(|| format!("history {}", number + 1))?);
        }
        Ok(())
    })
}

/// Plays so many cases, and hands on what became of each; `taken` says how many there have been.
fn play_all(
    limits: (&Simulate, Option<Instant>),
    count: u64,
    drawn: &(dyn Fn(u64) -> Drawn + Sync),
    mut taken: impl FnMut(u64, Drawn, Played) -> u64,
) -> Result<()> {
    let mut progress = Progress::new(count);
    let (mut strikes, mut virtual_time) = (0, Duration::ZERO);
    let play = |nth| {
        let drawn = drawn(nth);
        let played = play_alone(&drawn.case)?;
        Ok((drawn, played))
    };
    all(limits, count, &play, |nth, (drawn, played)| {
        strikes += played.strikes;
        virtual_time += played.lasted;
        let histories = taken(nth, drawn, played);
        let days = virtual_time.as_secs_f64() / 86_400.0;
        progress.show(histories, &format!("histories, {days:.1} days of virtual time, {strikes} strikes"));
    })
}

/// The case of a seed.
fn drawn(arguments: &Simulate, seed: u64) -> Drawn {
    let (profile, weather) = (case::Profile::from(arguments.profile), arguments.weather());
    let name = Name {
        profile: profile.of(seed).name(),
        weather: weather.map_or("none", |weather| profile.weather_of(seed, weather)),
    };
    Drawn { seed, name, stem: format!("case-{seed}"), case: profile.case(seed, weather) }
}

/// The stories of all seeds, in their order, and what can become of their events.
fn sieves(arguments: &Simulate, time: Option<Instant>) -> Result<Vec<(u64, Sieve)>> {
    let profile = case::Profile::from(arguments.profile);
    let mut progress = Progress::new(arguments.seeds());
    let mut sieves = BTreeMap::new();
    let sieve = |nth| Sieve::of(&profile.case(arguments.seed.wrapping_add(nth), None));
    all((arguments, time), arguments.seeds(), &sieve, |nth, sieve| {
        sieves.insert(arguments.seed.wrapping_add(nth), sieve);
        progress.show(sieves.len() as u64, "stories, to see which events there are");
    })?;
    Ok(sieves.into_iter().collect())
}

/// The case of this number: of each seed the story as it is, and then with each of its events late, lost and twice.
fn sieved(arguments: &Simulate, sieves: &[(u64, Sieve)], nth: u64) -> Drawn {
    let profile = case::Profile::from(arguments.profile);
    let mut at = usize::try_from(nth).unwrap_or(usize::MAX);
    for (seed, sieve) in sieves {
        if at > sieve.len() {
            at -= 1 + sieve.len();
            continue;
        }
        let event = at.checked_sub(1).and_then(|event| sieve.case(event));
        let (weather, case) =
            event.map_or_else(|| ("none", profile.case(*seed, None)), |(sieved, case)| (sieved.name(), case));
        let name = Name { profile: profile.of(*seed).name(), weather };
        return Drawn { seed: *seed, name, stem: format!("case-{seed}-event-{at}"), case };
    }
    drawn(arguments, arguments.seed)
}

/// The result, on standard output. Whoever reads it may be gone.
fn print(output: Output, result: &(impl Serialize + fmt::Display)) -> Result<()> {
    let text = match output {
        Output::Json => serde_json::to_string(result)? + "\n",
        Output::Text => result.to_string(),
    };
    say(&text)
}

/// Whether files can be written into this folder, which is made: before the hours that what is written there may take.
fn writable(folder: &Path) -> Result<()> {
    let said = || format!("--save {}", folder.display());
    std::fs::create_dir_all(folder).with_context(said)?;
    let probe = folder.join(format!(".muster-{}", std::process::id()));
    std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe)).with_context(said)
}

/// Plays the case of a file, and tells it. Whether no law was broken.
fn replay(arguments: &Simulate, file: &Path) -> Result<bool> {
    if arguments.shrink {
        writable(&arguments.save)?;
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let case = Case::read(&text).with_context(|| file.display().to_string())?;
    let (case, played) = on_a_thread(move || {
        let played = play_alone(&case)?;
        Ok((case, played))
    })?;
    if let Some(refused) = played.not_created(&case) {
        bail!("{}: create: the server refuses: {refused}", file.display());
    }
    if played.seen.is_empty() && played.broken.is_empty() {
        let why = played.undone.first().map(|(nth, why)| format!("; operations[{nth}] was not done: {why}"));
        let why = why.unwrap_or_default();
        bail!("{}: operations: found none that made a workload, expected one to judge{why}", file.display());
    }
    let mut report = Report::of(case.seed);
    report.add(&Found::of(case.seed, Name { profile: "file", weather: "of the file" }, &played));
    if !arguments.shrink {
        report.tell(story(&case, &played));
    }
    if let Some(first) = played.broken.first() {
        report.broke(case.seed, file, &played.broken);
        if arguments.shrink {
            listen();
            let smaller = shrunk(&case, first.law, arguments.jobs())?;
            let file = arguments.save.join(format!("{}-shrunk.yaml", stem_of(file)));
            write(&file, &smaller.case.written())?;
            report.shrunk(&file, smaller);
        }
    }
    print(arguments.output, &report)?;
    Ok(played.broken.is_empty())
}

/// A case that was made smaller.
struct Smaller {
    case: Case,
    story: String,
    /// Whether nothing more can be taken away from it.
    smallest: bool,
}

/// The smallest case that breaks this law as this one does, or the smallest that was found until a signal.
fn shrunk(case: &Case, law: Law, jobs: usize) -> Result<Smaller> {
    let case = case.clone();
    on_a_thread(move || {
        let mut progress = Progress::new(TRIES as u64);
        let (operations, faults) = (case.operations.len(), case.faults.len());
        let mut told = |smaller: &Case, tried: usize| {
            let what = format!(
                "shrinking: {} operations (of {operations}), {} faults (of {faults})",
                smaller.operations.len(),
                smaller.faults.len()
            );
            progress.show(tried as u64, &what);
            interrupted().is_none()
        };
        let breaks = |played: &Played| played.broken.iter().any(|broken| broken.law == law);
        let found = shrink(&case, &breaks, jobs, TRIES, &mut told)?;
        Ok(found.map(|Shrunk { case, played, smallest, .. }| Smaller { story: story(&case, &played), case, smallest }))
    })?
    .context("the case breaks a law only sometimes, which is an error of this program")
}

/// On a thread whose stack is large enough for a world.
fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, PlayError> + Send + 'static) -> Result<T> {
    let thread = std::thread::Builder::new().stack_size(case::STACK).spawn(work);
    let thread = thread.context("a thread cannot be started")?;
    Ok(thread.join().map_err(|_| anyhow!("the simulation panicked"))??)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("{}: cannot be written", file.display()))
}
