//! How a test is run that the attribute has made: for each of its seeds in a runtime and a cluster of its own.

use std::env;
use std::fmt::Debug;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime;

use crate::builder::{Builder, EPOCH};
use crate::cluster::Cluster;

/// Runs a test for this seed alone.
const SEED: &str = "MUSTER_SEED";
/// Runs every test for so many seeds, whatever its attribute says.
const SEEDS: &str = "MUSTER_SEEDS";

/// How a test is run: arguments of the attribute.
#[derive(Debug)]
pub struct Run {
    /// The first seed.
    pub seed: u64,
    /// For how many seeds it is run.
    pub seeds: u64,
    /// Whether time stands still while something is being done, and leaps to what is waited for where nothing is.
    pub paused: bool,
    /// After how many seconds, by tokio's clock, it has failed.
    pub timeout: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self { seed: 0, seeds: 1, paused: true, timeout: 3600 }
    }
}

/// What a test returns.
pub trait Outcome {
    /// Why it failed, where it has.
    fn failure(self) -> Option<String>;
}

impl Outcome for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: Debug> Outcome for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}

/// A test that is under way.
pub type Running<'c, T> = Pin<Box<dyn Future<Output = T> + 'c>>;

/// Runs a test for each of its seeds, and says for which it has failed.
///
/// # Panics
/// Where the test does, or returns an error; where the cluster does not start; and where a variable of the environment is
/// no number.
pub fn run<T: Outcome>(
    name: &str,
    run: &Run,
    build: impl Fn(Builder) -> Builder,
    test: impl for<'c> Fn(&'c Cluster) -> Running<'c, T>,
) {
    let only = number(SEED);
    let first = only.unwrap_or(run.seed);
    let count = if only.is_some() { 1 } else { number(SEEDS).unwrap_or(run.seeds) };
    assert!(count > 0, "{name}: found 0 seeds, expected 1 or more (`seeds`, or {SEEDS})");
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let begin = if run.paused { UNIX_EPOCH + EPOCH } else { SystemTime::now() };
        let cluster = build(Cluster::builder().seed(seed).begin(begin));
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| once(run, cluster, &test))) {
            // libtest's filter does not know the crate.
            let name = name.split_once("::").map_or(name, |(_, name)| name);
            eprintln!("\nfailed with seed {seed}; to repeat it: {SEED}={seed} cargo test {name} -- --exact");
            resume_unwind(failure);
        }
    }
}

/// Runs it once.
fn once<T: Outcome>(run: &Run, cluster: Builder, test: &impl for<'c> Fn(&'c Cluster) -> Running<'c, T>) {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(run.paused).build();
    let failure = runtime.expect("a runtime").block_on(async {
        let cluster = match cluster.start().await {
            Ok(cluster) => cluster,
            Err(error) => return Some(format!("the cluster did not start: {error}")),
        };
        let limit = Duration::from_secs(run.timeout);
        match tokio::time::timeout(limit, test(&cluster)).await {
            Ok(outcome) => outcome.failure(),
            Err(_) => Some(format!("the test has not ended after {limit:?} of its time")),
        }
    });
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: found {text:?}, expected a whole number")))
}
