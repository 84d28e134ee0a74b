//! Running the tests by name, side by side, and ending what they share.
//!
//! libtest can neither count a test as ignored at run time nor end a control plane after the last test, so this target
//! has a `main` of its own.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Trial};

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

/// Runs those tests that the arguments choose. Fails where one of them fails, or where the folder that
/// `KUBEBUILDER_ASSETS` names is not whole.
pub(crate) fn run(tests: &[Test]) -> ExitCode {
    let assets = match Assets::find() {
        Ok(assets) => assets,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut world = assets.map(|assets| Arc::new(World::new(assets)));
    let trials = tests.iter().map(|test| {
        let (run, world) = (test.run, world.clone());
        Trial::ignorable_test(test.name, move || match world {
            Some(world) => {
                run(&world);
                Ok(Completion::Completed)
            }
            None => Ok(Completion::ignored_with("KUBEBUILDER_ASSETS is not set")),
        })
    });
    let trials = trials.collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // Every test has given its part of the world back.
    if conclusion.has_failed()
        && let Some(world) = world.as_mut().and_then(Arc::get_mut)
    {
        println!("the logs are kept in {}", world.keep().display());
    }
    conclusion.exit_code()
}
