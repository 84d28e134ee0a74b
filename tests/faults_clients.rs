//! Clients of other people under the faults of `muster up`: the controllers of docs/faults.md.

mod harness;
mod outside;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::tests;
use outside::{MUSTER, text};

tests! {
    the_page_shows_the_controllers_and_their_tests,
    // The one in Rust is the target `faults_rust`.
    a_controller_in_python_passes_its_test: "python3 -c __import__('pytest'),__import__('kubernetes')",
    a_controller_in_go_passes_its_test: "go -C ../../examples/faults/go list -deps -test ./...",
}

fn the_page_shows_the_controllers_and_their_tests() {
    let read = |file: PathBuf| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let page = read(examples().join("../../docs/faults.md"));
    for file in [
        "copier.yaml",
        "python/copier.py",
        "python/test_copier.py",
        "rust/copier.rs",
        "go/copier.go",
        "go/copier_test.go",
    ] {
        assert!(
            page.contains(&read(examples().join(file))),
            "docs/faults.md does not show examples/faults/{file} as it is"
        );
    }
}

/// Contract: API-39
fn a_controller_in_python_passes_its_test() {
    let said = passed(
        Command::new("python3")
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .current_dir(examples().join("python")),
    );
    assert!(said.contains("1 passed"), "{said}");
}

/// Contract: API-39
fn a_controller_in_go_passes_its_test() {
    let said = passed(Command::new("go").args(["test", "-count=1", "-v", "./..."]).current_dir(examples().join("go")));
    assert!(said.contains("--- PASS: TestTheCopyFollowsWhateverStrikes "), "{said}");
}

/// Runs a program with ours at hand, and gives what it said; its failure is the test's.
fn passed(command: &mut Command) -> String {
    let envs = [("MUSTER", MUSTER), ("PYTHONDONTWRITEBYTECODE", "1"), ("GOPROXY", "off")];
    let output = command.envs(envs).output().expect("the program runs");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    said
}

fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/faults"))
}
