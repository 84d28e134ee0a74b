//! The operator in Go of `examples/envtest`, with its own suite, on the folder that `muster envtest --install` makes.
//!
//! On a machine without Go, or without the modules that it needs, it is counted as ignored. Nothing is downloaded.

mod harness;
mod outside;

use std::process::Command;

use harness::tests;
use outside::{muster, text};

tests! {
    the_suite_passes_on_our_programs: "go -C ../../examples/envtest list -deps -test ./...",
    it_tests_more_where_controllers_run: "go -C ../../examples/envtest list -deps -test ./...",
}

/// Contract: API-36
fn the_suite_passes_on_our_programs() {
    let said = suite("");
    passed(&said, &["TestWritesPageAndDeployment", "TestRefusesAnEmptyPage"]);
    assert!(said.contains("--- SKIP: TestIsReadyWhenItsPodsAre"), "{said}");
}

/// Contract: API-36
fn it_tests_more_where_controllers_run() {
    let said = suite("controllers=gc,namespaces,deployments,replicasets;nodes=1");
    let all = [
        "TestWritesPageAndDeployment",
        "TestRefusesAnEmptyPage",
        "TestIsReadyWhenItsPodsAre",
        "TestLeavesNothingBehind",
    ];
    passed(&said, &all);
}

/// Runs the suite on a new folder of programs and returns what it said.
fn suite(environment: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let assets = folder.path().join("assets").display().to_string();
    let installed = muster(&["envtest", "--install", &assets]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let output = Command::new("go")
        .args(["-C", "../../examples/envtest", "test", "-count=1", "-v", "./..."])
        .envs([("GOPROXY", "off"), ("KUBEBUILDER_ASSETS", &assets), ("MUSTER_ENVTEST", environment)])
        .output()
        .expect("go runs");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    said
}

fn passed(said: &str, tests: &[&str]) {
    for test in tests {
        assert!(said.contains(&format!("--- PASS: {test} ")), "{test}:\n{said}");
    }
}
