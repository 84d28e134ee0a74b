//! The walls of the house: which crate may import which, and what the pure crates may not touch.
//!
//! ARCHITECTURE.md names these as invariants 1 and 2; this is what checks them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Who may import whom. `controllers` never sees `runtime`, `runtime` never sees `apiserver`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("objects", &[]),
    ("schema", &[]),
    ("machinery", &["objects"]),
    ("controllers", &["objects", "schema", "machinery"]),
    ("runtime", &["objects", "machinery", "controllers"]),
    ("apiserver", &["objects", "schema"]),
    ("cluster", &["objects", "schema", "machinery", "controllers", "runtime", "apiserver"]),
    ("simulation", &["objects", "machinery", "controllers", "runtime", "apiserver", "cluster"]),
    ("muster", &["objects", "machinery", "controllers", "runtime", "apiserver", "cluster", "simulation"]),
];

/// The crates without a clock, randomness, I/O or async.
const PURE: &[&str] = &["objects", "schema", "machinery", "controllers"];

/// What none of them may name outside tests, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time::Instant", "reads a clock"),
    ("Instant::now", "reads a clock"),
    ("SystemTime", "reads a clock"),
    ("Timestamp::now", "reads a clock"),
    ("Zoned::now", "reads a clock"),
    ("std::fs", "does I/O"),
    ("std::net", "does I/O"),
    ("std::env", "reads the surroundings"),
    ("std::thread", "starts threads"),
    ("RandomState", "is seeded by chance"),
    ("HashMap::new", "is seeded by chance: its order differs from run to run"),
    ("HashSet::new", "is seeded by chance: its order differs from run to run"),
    ("async fn", "is async"),
    (".await", "is async"),
    ("println!", "does I/O"),
];

/// The dependencies that would bring them in.
const FORBIDDEN_CRATES: &[&str] = &["tokio", "futures", "rand", "getrandom", "hyper", "kube", "reqwest", "tracing"];

#[test]
fn imports_run_one_way() {
    for (krate, allowed) in ALLOWED {
        let found: BTreeSet<String> =
            dependencies(krate).into_iter().filter_map(|d| Some(d.strip_prefix("muster-")?.to_owned())).collect();
        for dependency in found {
            assert!(
                allowed.contains(&dependency.as_str()),
                "crates/{krate} depends on muster-{dependency}; allowed are {allowed:?}"
            );
        }
    }
}

#[test]
fn every_crate_has_its_row() {
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(k, _)| *k).collect();
    let there: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .expect("the crates folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(known, there.iter().map(String::as_str).collect());
}

#[test]
fn pure_crates_have_no_clock_randomness_io_or_async() {
    for krate in PURE {
        for dependency in dependencies(krate) {
            assert!(!FORBIDDEN_CRATES.contains(&dependency.as_str()), "crates/{krate} depends on {dependency}");
        }
        for file in sources(&root().join("crates").join(krate).join("src")) {
            let text = fs::read_to_string(&file).expect("a source file just listed");
            let code = text.find("#[cfg(test)]").map_or(text.as_str(), |at| &text[..at]);
            for (number, line) in code.lines().enumerate() {
                let line = line.split("//").next().unwrap_or_default();
                for (word, why) in FORBIDDEN {
                    assert!(!line.contains(word), "{}:{}: `{word}` {why}", file.display(), number + 1);
                }
            }
        }
    }
}

/// Every crate forbids unsafe code by the workspace's lints.
#[test]
fn every_crate_takes_the_workspace_lints() {
    for (krate, _) in ALLOWED {
        let manifest = manifest(krate);
        assert!(manifest.contains("[lints]\nworkspace = true"), "crates/{krate} does not take the workspace's lints");
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

/// The names under `[dependencies]`: what the crate's own code can import.
fn dependencies(krate: &str) -> Vec<String> {
    let manifest = manifest(krate);
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside
            && let Some(name) = line.split(['=', '.', ' ']).next().filter(|n| !n.is_empty() && !n.starts_with('#'))
        {
            names.push(name.to_owned());
        }
    }
    names
}

fn manifest(krate: &str) -> String {
    let path = root().join("crates").join(krate).join("Cargo.toml");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The Rust sources below a folder, test modules of their own (`tests.rs`, `tests/`) left out.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {}", folder.display());
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}
