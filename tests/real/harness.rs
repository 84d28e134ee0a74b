//! Running the tests by name, side by side, and ending what they share.
//!
//! libtest can neither count a test as ignored at run time nor end a control plane after the last test, so this target
//! has a harness of its own. It takes those of libtest's arguments that choose tests, and prints as libtest does.

use std::collections::VecDeque;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::assets::Assets;
use crate::world::World;

/// A test and its name, which is its path.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&World),
}

/// Tests by their paths.
macro_rules! tests {
    ($($path:path),* $(,)?) => {
        &[$($crate::harness::Test { name: stringify!($path), run: $path }),*]
    };
}
pub(crate) use tests;

/// Flags of libtest that take a value which means nothing here.
const VALUED: &[&str] = &["--color", "--format", "--logfile", "--report-time", "--shuffle-seed", "-Z"];

/// Runs those tests that the arguments choose. Fails where one of them fails, or where the folder that
/// `KUBEBUILDER_ASSETS` names is not whole.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let arguments = Arguments::read(env::args().skip(1));
    let chosen: Vec<&Test> = tests.iter().filter(|test| arguments.choose(test.name)).collect();
    if arguments.list {
        chosen.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let left_out = tests.len() - chosen.len();
    let began = Instant::now();
    println!("\nrunning {} tests", chosen.len());
    let assets = match Assets::find() {
        Ok(Some(assets)) => assets,
        Ok(None) => {
            for test in &chosen {
                println!("test {} ... ignored, KUBEBUILDER_ASSETS is not set", test.name);
            }
            summary(&Counts { ignored: chosen.len(), left_out, ..Counts::default() }, began);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut world = World::new(assets);
    let failed = side_by_side(&chosen, arguments.threads, &world);
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|name| println!("    {name}"));
        println!("the logs are kept in {}", world.keep().display());
    }
    drop(world);
    summary(&Counts { passed: chosen.len() - failed.len(), failed: failed.len(), ignored: 0, left_out }, began);
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests on so many threads, each thread under the name of its test, and returns those that failed.
fn side_by_side(tests: &[&Test], threads: usize, world: &World) -> Vec<&'static str> {
    let waiting: Mutex<VecDeque<&Test>> = Mutex::new(tests.iter().copied().collect());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.min(tests.len()) {
            scope.spawn(|| {
                while let Some(test) = next() {
                    let began = Instant::now();
                    let passed = alone(test, world);
                    let said = if passed { "ok" } else { "FAILED" };
                    println!("test {} ... {said} ({:.1}s)", test.name, began.elapsed().as_secs_f64());
                    if !passed {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(test.name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one test on a thread that has its name, which a panic's message begins with. Whether it passed.
fn alone(test: &Test, world: &World) -> bool {
    thread::scope(|scope| {
        let body = || catch_unwind(AssertUnwindSafe(|| (test.run)(world))).is_ok();
        let thread = thread::Builder::new().name(test.name.to_owned()).spawn_scoped(scope, body);
        thread.expect("a thread can be made").join().unwrap_or(false)
    })
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    left_out: usize,
}

fn summary(counts: &Counts, began: Instant) {
    let Counts { passed, failed, ignored, left_out } = counts;
    let said = if *failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {said}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {left_out} filtered \
         out; finished in {:.2}s\n",
        began.elapsed().as_secs_f64()
    );
}

/// What is said of the tests to run.
struct Arguments {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    /// None of these tests is marked as ignored, so asked for ignored ones there are none.
    only_ignored: bool,
    threads: usize,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(cores);
        let mut read =
            Self { filters: Vec::new(), skipped: Vec::new(), exact: false, list: false, only_ignored: false, threads };
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match name {
                "--exact" => read.exact = true,
                "--list" => read.list = true,
                "--ignored" => read.only_ignored = true,
                "--skip" => read.skipped.extend(value.or_else(|| arguments.next())),
                "--test-threads" => {
                    let text = value.or_else(|| arguments.next());
                    read.threads = text.and_then(|text| text.parse().ok()).unwrap_or(threads);
                }
                _ if VALUED.contains(&name) => drop(value.or_else(|| arguments.next())),
                _ if name.starts_with('-') => {}
                _ => read.filters.push(argument),
            }
        }
        read.threads = read.threads.max(1);
        read
    }

    fn choose(&self, name: &str) -> bool {
        let fits = |text: &String| if self.exact { name == text } else { name.contains(text.as_str()) };
        !self.only_ignored
            && (self.filters.is_empty() || self.filters.iter().any(fits))
            && !self.skipped.iter().any(fits)
    }
}
