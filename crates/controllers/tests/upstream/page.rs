//! The page that lists upstream's cases names tests that exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a cell of the column "covered by" says that there is nothing to cover.
const NOTHING: &str = "no meaning here";

/// Every row of the page names a test of ours, by file and function, or says why it has no meaning here.
#[test]
fn every_test_that_the_page_names_exists() {
    let page = read("docs/contract/upstream-cases.md");
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    let (mut rows, mut wrong) = (0, Vec::new());
    for (number, line) in page.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [case, covered, note] = cells[..] else {
            wrong.push(format!("line {}: {} cells, expected 3", number + 1, cells.len()));
            continue;
        };
        if covered == "Covered by" {
            continue;
        }
        rows += 1;
        if covered == NOTHING {
            if note.is_empty() {
                wrong.push(format!("line {}: {case}: no reason is given", number + 1));
            }
            continue;
        }
        for name in covered.split(", ") {
            if let Err(why) = find(name, &mut files) {
                wrong.push(format!("line {}: {case}: {why}", number + 1));
            }
        }
    }
    assert!(rows > 200, "{rows} rows: the page is not read as it is written");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Looks up `file::function` in backquotes, where the file is a path from the folder of the crates.
fn find(name: &str, files: &mut BTreeMap<PathBuf, String>) -> Result<(), String> {
    let plain = name.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let (file, function) =
        plain.and_then(|name| name.split_once("::")).ok_or_else(|| format!("{name}: expected `file::function`"))?;
    let path = root().join("crates").join(file);
    if !files.contains_key(&path) {
        let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        files.insert(path.clone(), text);
    }
    let is_there = files[&path].contains(&format!("fn {function}("));
    if is_there { Ok(()) } else { Err(format!("{file} has no function {function}")) }
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}
