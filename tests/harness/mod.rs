//! Tests of which some need a program that is not ours: where it is missing they are counted as ignored, by name and
//! reason. libtest cannot ignore a test at run time, so a target with such tests has a `main` of its own.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Trial};

/// A test, and the programs without which it cannot run, parted by `, `: of each its name, or a whole command that has to
/// succeed.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) needs: Option<&'static str>,
    pub(crate) run: fn(),
}

/// Makes the `main` of a target from its tests: `tests! { plain, other: "kubectl" }`.
macro_rules! tests {
    ($($test:path $(: $program:literal)?),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            harness::run(&[$(harness::Test {
                name: stringify!($test),
                needs: Option::<&str>::None$(.or(Some($program)))?,
                run: $test,
            }),*])
        }
    };
}
pub(crate) use tests;

/// Runs those tests that the arguments choose.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let mut missing = BTreeMap::new();
    let trials = tests.iter().map(|test| {
        let run = test.run;
        let reason = test
            .needs
            .and_then(|program| missing.entry(program).or_insert_with(|| program.split(", ").find_map(lack)).clone());
        Trial::ignorable_test(test.name, move || match reason {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => {
                run();
                Ok(Completion::Completed)
            }
        })
    });
    let trials = trials.collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Why a program cannot be used, if it cannot.
fn lack(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words.next()?;
    let arguments: Vec<&str> = words.collect();
    let arguments = if arguments.is_empty() { vec!["help"] } else { arguments };
    // Nothing is fetched to find out.
    match Command::new(program).args(arguments).env("GOPROXY", "off").output() {
        Ok(output) if output.status.success() => None,
        Ok(_) if program != command => Some(format!("{command} does not succeed")),
        _ => Some(format!("there is no {program} on the PATH")),
    }
}
