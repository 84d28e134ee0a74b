//! The walls of the house: which crate may import which, what the pure crates may not touch, and that nothing is
//! depended on that is not used.
//!
//! ARCHITECTURE.md names the first two as invariants 1 and 2; this is what checks them.

mod sources;

use std::collections::BTreeSet;
use std::fs;

use sources::mentions::mentions;
use sources::{Dependency, Package, Source, Target, is_test, packages, root};

/// Who may import whom. `controllers` never sees `runtime`, `runtime` never sees `apiserver`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("objects", &[]),
    ("schema", &[]),
    ("tree", &["objects"]),
    ("machinery", &["objects"]),
    ("controllers", &["objects", "schema", "machinery"]),
    ("inspect", &["objects", "schema", "machinery", "controllers"]),
    ("runtime", &["objects", "machinery", "controllers", "inspect"]),
    ("apiserver", &["objects", "schema", "tree"]),
    ("manager", &["objects", "machinery", "inspect", "runtime", "apiserver"]),
    ("page", &["objects", "machinery", "controllers", "inspect", "runtime", "apiserver"]),
    ("cluster", &["objects", "schema", "tree", "machinery", "controllers", "runtime", "apiserver"]),
    ("simulation", &["objects", "tree", "machinery", "controllers", "inspect", "runtime", "apiserver", "cluster"]),
    ("testing-macros", &[]),
    ("testing", &["objects", "runtime", "apiserver", "cluster", "simulation", "testing-macros"]),
    (
        "muster",
        &[
            "objects",
            "machinery",
            "controllers",
            "inspect",
            "runtime",
            "tree",
            "apiserver",
            "manager",
            "page",
            "cluster",
            "simulation",
        ],
    ),
];

/// The modules of the embedded server, the lowest first: each imports those before it. Those of one line know each other.
const MODULES: &[&[&str]] = &[
    &["model", "certificates"],
    &["field"],
    &["clock", "generator", "version"],
    &["status"],
    &["yaml"],
    &["schema"],
    &["validation"],
    &["cel", "custom"],
    &["kinds"],
    &["quota"],
    &["storage"],
    &["access"],
    &["identity"],
    &["disk", "snapshot"],
    &["codec"],
    &["registry", "admission", "webhook"],
    &["http"],
    &["tls"],
    &["serve"],
];

/// The crates without a clock, randomness, I/O or async.
const PURE: &[&str] = &["objects", "schema", "tree", "machinery", "controllers", "inspect"];

/// What none of them may name outside tests, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time::Instant", "reads a clock"),
    ("std::time::SystemTime", "reads a clock"),
    ("jiff::Timestamp::now", "reads a clock"),
    ("jiff::Zoned::now", "reads a clock"),
    ("std::fs", "does I/O"),
    ("std::net", "does I/O"),
    ("std::os", "does I/O"),
    ("std::process", "does I/O"),
    ("std::io::stdin", "does I/O"),
    ("std::io::stdout", "does I/O"),
    ("std::io::stderr", "does I/O"),
    ("std::env", "reads the surroundings"),
    ("std::thread", "starts threads"),
    ("std::hash::RandomState", "is seeded by chance"),
    ("std::collections::hash_map", "is seeded by chance: its order differs from run to run"),
    ("std::collections::HashMap", "is seeded by chance: its order differs from run to run"),
    ("std::collections::HashSet", "is seeded by chance: its order differs from run to run"),
    ("async", "is async"),
    ("await", "is async"),
    ("print!", "does I/O"),
    ("println!", "does I/O"),
    ("eprint!", "does I/O"),
    ("eprintln!", "does I/O"),
    ("dbg!", "does I/O"),
];

/// The dependencies that would bring them in.
const FORBIDDEN_CRATES: &[&str] = &["tokio", "futures", "rand", "getrandom", "hyper", "kube", "reqwest", "tracing"];

#[test]
fn imports_run_one_way() {
    for package in packages() {
        let (_, allowed) = ALLOWED.iter().find(|(folder, _)| *folder == package.folder).expect("a row for each crate");
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let ours = dependency.package.strip_prefix("muster-");
            assert!(
                ours.is_none_or(|ours| allowed.contains(&ours)),
                "crates/{} depends on {}; allowed are {allowed:?}",
                package.folder,
                dependency.package
            );
        }
    }
}

#[test]
fn modules_of_the_server_import_one_way() {
    let level = |module: &str| MODULES.iter().position(|level| level.contains(&module));
    let packages = packages();
    let server = packages.iter().find(|package| package.folder == "apiserver").expect("the embedded server");
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    for source in product(server) {
        let module = source.module.split("::").next().unwrap_or_default();
        if module.is_empty() {
            continue;
        }
        seen.insert(module.to_owned());
        let own = level(module).unwrap_or_else(|| panic!("{module} has no place in the order of modules"));
        for mention in mentions(&source.product()) {
            let [krate, other, ..] = mention.path.as_slice() else { continue };
            if krate == "crate" && level(other).is_some_and(|other| other > own) {
                broken.push(format!("{}:{}: {module} imports {other}", source.path.display(), mention.line));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let known: BTreeSet<String> = MODULES.iter().flat_map(|level| level.iter().map(|it| (*it).to_owned())).collect();
    assert_eq!(seen, known);
}

#[test]
fn every_crate_has_its_row() {
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(k, _)| *k).collect();
    let packages = packages();
    assert_eq!(known, packages.iter().map(|package| package.folder.as_str()).collect());
}

#[test]
fn pure_crates_have_no_clock_randomness_io_or_async() {
    let packages = packages();
    let mut broken = Vec::new();
    for package in packages.iter().filter(|package| PURE.contains(&package.folder.as_str())) {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let name = dependency.package.as_str();
            assert!(!FORBIDDEN_CRATES.contains(&name), "crates/{} depends on {name}", package.folder);
        }
        for source in product(package) {
            for mention in mentions(&source.product()) {
                for (path, why) in FORBIDDEN.iter().filter(|(path, _)| mention.is_of(path)) {
                    broken.push(format!("{}:{}: `{path}` {why}", source.path.display(), mention.line));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A crate that only tests use is a dev-dependency; one that nothing uses is none. What is needed but not named in
/// code stands under `[package.metadata.cargo-machete] ignored`, as for the tool of that name.
#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    let mut taken = BTreeSet::new();
    for package in packages() {
        let used = |files: Vec<syn::File>| -> BTreeSet<String> {
            let mentions = files.iter().flat_map(mentions);
            // A name that stands alone is a variable or a field, but for an import of the whole crate.
            mentions.filter(|mention| mention.glob || mention.path.len() > 1).map(|m| m.path[0].clone()).collect()
        };
        let all: Vec<Source> = package.targets.iter().flat_map(Target::sources).collect();
        let by_product = used(all.iter().map(Source::product).collect());
        let by_all = used(all.into_iter().map(|source| source.file).collect());
        let needed = &package.metadata["cargo-machete"]["ignored"];
        for dependency in &package.dependencies {
            taken.insert(dependency.package.clone());
            let by = if dependency.dev { &by_all } else { &by_product };
            let needed = needed.as_array().is_some_and(|names| names.iter().any(|name| *name == *dependency.package));
            if !by.contains(&dependency.name) && !needed {
                let what = if dependency.dev { "nothing uses" } else { "nothing but tests uses" };
                unused.push(format!("crates/{}: {what} {}", package.folder, dependency.package));
            }
            let again = |other: &Dependency| !other.dev && other.package == dependency.package;
            if dependency.dev && dependency.features.is_empty() && package.dependencies.iter().any(again) {
                unused.push(format!("crates/{}: {} is listed twice", package.folder, dependency.package));
            }
        }
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let section = workspace.split("\n[workspace.dependencies]\n").nth(1).expect("the section of dependencies");
    for line in section.lines().take_while(|line| !line.starts_with('[')) {
        let Some((name, _)) = line.split_once(" = ") else { continue };
        if !taken.contains(name) {
            unused.push(format!("Cargo.toml: no crate takes {name}"));
        }
    }
    assert!(unused.is_empty(), "{}", unused.join("\n"));
}

/// A file that no target takes is neither compiled nor tested.
#[test]
fn every_file_belongs_to_a_target() {
    let taken: BTreeSet<_> = packages()
        .iter()
        .flat_map(|package| package.targets.iter().flat_map(Target::sources))
        .map(|source| source.path.canonicalize().expect("a file that was read"))
        .collect();
    let mut folders = vec![root().join("crates"), root().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                assert!(taken.contains(&path), "{} belongs to no target", path.display());
            }
        }
    }
}

/// Where a target has a `main` of its own, `#[test]` runs nothing: its tests are listed.
#[test]
fn every_test_runs() {
    for target in packages().iter().flat_map(|package| &package.targets).filter(|target| target.test) {
        let sources = target.sources();
        let listed = |item: &syn::Item| match item {
            syn::Item::Fn(function) => function.sig.ident == "main",
            syn::Item::Macro(item) => item.mac.path.is_ident("tests"),
            _ => false,
        };
        let own = sources.iter().any(|source| source.module.is_empty() && source.file.items.iter().any(listed));
        for source in sources.iter().filter(|_| own) {
            let astray = source.file.items.iter().find_map(|item| match item {
                syn::Item::Fn(function) if function.attrs.iter().any(is_test) => Some(&function.sig.ident),
                _ => None,
            });
            assert!(astray.is_none(), "{}: {astray:?} is listed in no tests!", source.path.display());
        }
    }
}

/// Every crate forbids unsafe code by the workspace's lints.
#[test]
fn every_crate_takes_the_workspace_lints() {
    for (krate, _) in ALLOWED {
        let path = root().join("crates").join(krate).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(manifest.contains("[lints]\nworkspace = true"), "crates/{krate} does not take the workspace's lints");
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

/// The sources of a package's library and programs.
fn product(package: &Package) -> Vec<Source> {
    package.targets.iter().filter(|target| target.product).flat_map(Target::sources).collect()
}
