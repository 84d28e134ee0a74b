//! Every row of a finished group of the contract is cited by a test, and no test cites a row that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The groups whose rows must all be cited, and single rows of groups still being built.
const FINISHED: &[&str] = &["RS", "DEL", "EX", "WQ", "INF", "EV", "DEP", "RC", "CM", "B"];
const FINISHED_ROWS: &[&str] = &[
    "API-01", "API-02", "API-03", "API-04", "API-05", "API-06", "API-07", "API-08", "API-09", "API-10", "API-11",
    "API-12", "API-13", "API-14", "API-15", "API-16", "API-17", "API-18", "API-19", "API-20", "API-22", "SIM-01",
    "SIM-02", "SIM-03", "SIM-04", "SIM-05", "SIM-06",
];

#[test]
fn every_finished_row_is_cited() {
    let rows = rows();
    let cited = citations();
    let missing: Vec<&String> = rows
        .iter()
        .filter(|row| {
            let group = row.split('-').next().unwrap_or_default();
            FINISHED.contains(&group) || FINISHED_ROWS.contains(&row.as_str())
        })
        .filter(|row| !cited.contains_key(*row))
        .collect();
    assert!(missing.is_empty(), "rows of finished groups that no test cites: {missing:?}");
}

#[test]
fn no_test_cites_a_row_that_is_not_there() {
    let rows = rows();
    let unknown: Vec<_> = citations().into_iter().filter(|(row, _)| !rows.contains(row)).collect();
    assert!(unknown.is_empty(), "cited, but in no file of docs/contract: {unknown:?}");
}

#[test]
fn a_finished_row_exists() {
    let rows = rows();
    for row in FINISHED_ROWS {
        assert!(rows.contains(*row), "{row} is listed as finished and stands in no file of docs/contract");
    }
}

/// The rows of docs/contract: the first cell of each table row that looks like `RS-07`.
fn rows() -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for file in files(&root().join("docs/contract"), "md") {
        for line in read(&file).lines() {
            if let Some(cell) = line.strip_prefix("| ").and_then(|rest| rest.split(" |").next())
                && is_row(cell)
            {
                rows.insert(cell.to_owned());
            }
        }
    }
    assert!(rows.len() > 100, "only {} rows found: is docs/contract whole?", rows.len());
    rows
}

/// Row to the files that cite it, from test code only.
fn citations() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut cited: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for file in files(&root().join("crates"), "rs").into_iter().chain(files(&root().join("tests"), "rs")) {
        let text = read(&file);
        for line in test_part(&file, &text).lines() {
            let Some((_, list)) = line.split_once("Contract:") else { continue };
            for row in list.split([',', ' ']).filter(|word| is_row(word)) {
                cited.entry(row.to_owned()).or_default().insert(file.clone());
            }
        }
    }
    cited
}

/// Of a file under `tests/` or named `tests.rs` everything, else what follows `#[cfg(test)]`.
fn test_part<'a>(file: &Path, text: &'a str) -> &'a str {
    let whole = file.components().any(|c| c.as_os_str() == "tests") || file.ends_with("tests.rs");
    match text.find("#[cfg(test)]") {
        _ if whole => text,
        Some(at) => &text[at..],
        None => "",
    }
}

fn is_row(word: &str) -> bool {
    word.split_once('-').is_some_and(|(group, number)| {
        !group.is_empty()
            && group.chars().all(|c| c.is_ascii_uppercase())
            && number.len() == 2
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry of a folder just opened").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}
