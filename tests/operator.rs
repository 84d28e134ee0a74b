//! The operator in Go of `examples/envtest`, with its own suite, on the folder that `muster envtest --install` makes.
//!
//! On a machine without Go, or without the modules that it needs, it is counted as ignored. Nothing is downloaded.

mod outside;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Completion, Trial};
use outside::{muster, text};

/// Without controllers, as on any test environment; and with those that the environment asks for.
const RUNS: [(&str, &str, &[&str]); 2] = [
    ("before", "", &["TestWritesPageAndDeployment", "TestRefusesAnEmptyPage"]),
    (
        "after",
        "controllers=gc,namespaces,deployments,replicasets;nodes=1",
        &[
            "TestWritesPageAndDeployment",
            "TestRefusesAnEmptyPage",
            "TestIsReadyWhenItsPodsAre",
            "TestLeavesNothingBehind",
        ],
    ),
];

fn main() -> ExitCode {
    let missing = lack();
    let trials = RUNS.map(|(name, environment, passed)| {
        let missing = missing.clone();
        Trial::ignorable_test(format!("the_suite_passes_{name}"), move || match missing {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => {
                the_suite_passes(environment, passed);
                Ok(Completion::Completed)
            }
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn go(arguments: &[&str], environment: &[(&str, &str)]) -> std::io::Result<Output> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/envtest");
    let mut go = Command::new("go");
    go.args(arguments).current_dir(folder).env("GOPROXY", "off").env_remove("MUSTER_ENVTEST");
    go.envs(environment.iter().copied()).output()
}

/// Why the suite cannot be run, if it cannot.
fn lack() -> Option<String> {
    match go(&["list", "-deps", "-test", "./..."], &[]) {
        Err(_) => Some("there is no go on the PATH".to_owned()),
        Ok(output) if !output.status.success() => {
            Some("Go modules of examples/envtest are not on this machine".to_owned())
        }
        Ok(_) => None,
    }
}

/// Contract: API-36
fn the_suite_passes(environment: &str, passed: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let assets = folder.path().join("assets").display().to_string();
    let installed = muster(&["envtest", "--install", &assets]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let environment = [("KUBEBUILDER_ASSETS", assets.as_str()), ("MUSTER_ENVTEST", environment)];
    let output = go(&["test", "-count=1", "-v", "./..."], &environment).expect("go runs");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    for test in passed {
        assert!(said.contains(&format!("--- PASS: {test} ")), "{test}:\n{said}");
    }
}
