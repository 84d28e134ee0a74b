//! The pages a person reads: every relative link in them leads to a file or folder that is there.

use std::fs;
use std::path::{Path, PathBuf};

/// The pages at the root, and the folders all of whose pages are read.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const FOLDERS: &[&str] = &["docs", "docs/contract", "deploy"];

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in pages() {
        let folder = page.parent().expect("a page lies in a folder");
        for (line, target) in links(&read(&page)) {
            if is_elsewhere(&target) {
                continue;
            }
            followed += 1;
            // A fragment is a place within the page.
            let path = target.split('#').next().unwrap_or_default();
            if !folder.join(path).exists() {
                broken.push(format!("{}:{line}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(followed > 50, "only {followed} links found: are the pages whole, and is the search?");
}

#[test]
fn the_tour_of_a_controller_passes_every_file_of_it() {
    // Named by the tours only in passing, or not at all.
    let passed_over = ["mod.rs", "identity.rs", "metrics.rs"];
    for controller in ["replicaset", "deployment"] {
        let page = root().join(format!("docs/{controller}.md"));
        let linked: Vec<PathBuf> = links(&read(&page))
            .into_iter()
            .filter_map(|(_, target)| root().join("docs").join(target).canonicalize().ok())
            .collect();
        let folder = root().join("crates/controllers/src").join(controller);
        for entry in fs::read_dir(&folder).expect("the controller's folder") {
            let file = entry.expect("an entry of a folder just opened").path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            assert!(
                passed_over.contains(&name.as_str()) || linked.contains(&file),
                "{name} is in no link of {}",
                page.display()
            );
        }
    }
}

#[test]
fn links_are_found_where_they_are_and_nowhere_else() {
    let page = "\
[a](x.rs) and [b](../y.md#part \"title\"), `[c](in-code)`, ![d](picture.png)
[e]: z.md
```text
[f](in-a-block)
```
- [`g`](w.rs): one, [h][e], f[1](https://example.com)
";
    let found =
        [(1, "x.rs"), (1, "../y.md#part"), (1, "picture.png"), (2, "z.md"), (6, "w.rs"), (6, "https://example.com")];
    assert_eq!(links(page), found.map(|(line, target)| (line, target.to_owned())));
    assert!(is_elsewhere("https://example.com") && is_elsewhere("mailto:a@example.com") && is_elsewhere("#part"));
    assert!(!is_elsewhere("../y.md#part") && !is_elsewhere("x.rs"));
}

/// The targets of the links of a page, each with the number of its line, counted from 1: `[text](target)` and
/// `[name]: target`. What stands in code is none.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        if let Some((name, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "))
            && !name.contains(']')
        {
            found.extend(first_word(target).map(|target| (number, target)));
            continue;
        }
        let prose = without_code(line);
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            let target = rest.split(')').next().and_then(first_word);
            found.extend(target.map(|target| (number, target)));
        }
    }
    found
}

/// A target without the title that may follow it.
fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

/// A line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Whether a link leads out of the repository, or to a place on its own page.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:") || target.starts_with('#')
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = PAGES.iter().map(|page| root().join(page)).collect();
    for folder in FOLDERS {
        let folder = root().join(folder);
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry of a folder just opened").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}
