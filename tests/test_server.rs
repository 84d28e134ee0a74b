//! The fixtures of docs/test-server.md for other languages: that they run, and that the page shows them as they are.

mod outside;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use outside::{MUSTER, text};

fn main() -> std::process::ExitCode {
    let trials = vec![
        Trial::test("the_page_shows_the_fixtures", || shown().map_err(Failed::from)),
        trial("pytest", &["python3", "-c", "import pytest, kubernetes"], |folder| {
            run(Command::new("python3").args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(folder))
        }),
        trial("jest", &["test", "-d", &modules().to_string_lossy()], |folder| {
            // What it imports is looked for beside it.
            let project = tempfile::tempdir()?;
            for file in fs::read_dir(folder)? {
                let file = file?;
                fs::copy(file.path(), project.path().join(file.file_name()))?;
            }
            symlink(modules(), project.path().join("node_modules"))?;
            let jest = ["--experimental-vm-modules", "node_modules/jest/bin/jest.js"];
            run(Command::new("node").args(jest).current_dir(project.path()))
        }),
        trial("junit", &["jar", "tf", JUNIT], |folder| {
            let built = tempfile::tempdir()?;
            let sources = ["Muster.java", "DeploymentTest.java"];
            run(Command::new("javac").args(["-cp", JUNIT, "-d"]).arg(built.path()).args(sources).current_dir(folder))?;
            let path = format!("{JUNIT}:{}", built.path().display());
            let console =
                ["-cp", &path, "org.junit.platform.console.ConsoleLauncher", "--select-class", "DeploymentTest"];
            run(Command::new("java").args(console).args(["--fail-if-no-tests", "--disable-banner"]))
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// JUnit as Debian's package `junit5` has it.
const JUNIT: &str = "/usr/share/java/junit-platform-console-standalone.jar";

/// What a fixture's test fails with.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A test of the fixture in the folder of this name, where its `needs` are there: a command that fails otherwise.
fn trial(name: &'static str, needs: &[&str], test: fn(&Path) -> Outcome) -> Trial {
    let needs: Vec<String> = needs.iter().map(|&word| word.to_owned()).collect();
    Trial::ignorable_test(name, move || {
        let folder = folder().join(name);
        let there = Command::new(&needs[0]).args(&needs[1..]).current_dir(&folder).output();
        if !there.is_ok_and(|output| output.status.success()) {
            return Ok(Completion::ignored_with(format!("`{}` fails here", needs.join(" "))));
        }
        test(&folder).map_err(|error| Failed::from(error.to_string()))?;
        Ok(Completion::Completed)
    })
}

/// Where Jest and the Kubernetes client are installed: `npm install --prefix target/ci/jest` of the fixture's package.json.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ci/jest/node_modules")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/test-server")
}

/// Runs a program with ours at hand.
fn run(command: &mut Command) -> Outcome {
    let output = command.env("MUSTER", MUSTER).env("PYTHONDONTWRITEBYTECODE", "1").output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{}{}", text(&output.stdout), text(&output.stderr)).into())
    }
}

fn shown() -> Result<(), String> {
    let page = fs::read_to_string(folder().join("../../docs/test-server.md")).map_err(|error| error.to_string())?;
    for file in [
        "pytest/conftest.py",
        "pytest/test_deployment.py",
        "jest/muster.js",
        "jest/deployment.test.js",
        "junit/Muster.java",
        "junit/DeploymentTest.java",
    ] {
        let source = fs::read_to_string(folder().join(file)).map_err(|error| error.to_string())?;
        if !page.contains(&source) {
            return Err(format!("docs/test-server.md does not show examples/test-server/{file} as it is"));
        }
    }
    Ok(())
}
