//! Every row of a finished group of the contract is cited by a test, and no test cites a row that is not there.
//!
//! A citation stands in the doc comment of a test function: `/// Contract: RS-07, DEP-09 to DEP-12`. Above anything else
//! it proves nothing and is refused.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, Macro, Visibility};

use sources::{Target, doc, is_test, packages, root};

/// The groups whose rows must all be cited, and single rows of groups still being built.
const FINISHED: &[&str] = &["RS", "DEL", "EX", "WQ", "INF", "EV", "DEP", "RC", "CM", "B", "FR", "PG"];
const FINISHED_ROWS: &[&str] = &[
    "API-01", "API-02", "API-03", "API-04", "API-05", "API-06", "API-07", "API-08", "API-09", "API-10", "API-11",
    "API-12", "API-13", "API-14", "API-15", "API-16", "API-17", "API-18", "API-19", "API-20", "API-22", "API-38",
    "SIM-01", "SIM-02", "SIM-03", "SIM-04", "SIM-05", "SIM-06", "SH-01", "SH-02", "SH-03", "SH-04", "SH-05", "SH-06",
    "SH-07", "SI-01", "SI-02", "SI-03", "SI-05", "API-39",
];

#[test]
fn every_finished_row_is_cited() {
    let rows = rows();
    let cited = &citations().rows;
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
    let unknown: Vec<_> = citations().rows.iter().filter(|(row, _)| !rows.contains(*row)).collect();
    assert!(unknown.is_empty(), "cited, but in no file of docs/contract: {unknown:?}");
}

#[test]
fn only_tests_cite() {
    let astray = &citations().astray;
    assert!(astray.is_empty(), "citations that are above no test, or cannot be read:\n{}", astray.join("\n"));
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
                && row(cell).is_some()
            {
                rows.insert(cell.to_owned());
            }
        }
    }
    assert!(rows.len() > 100, "only {} rows found: is docs/contract whole?", rows.len());
    rows
}

/// What is cited where, in all tests of the workspace.
#[derive(Default)]
struct Citations {
    /// Row to the tests that cite it.
    rows: BTreeMap<String, BTreeSet<String>>,
    /// Citations that do not count, and why.
    astray: Vec<String>,
}

fn citations() -> &'static Citations {
    static CITATIONS: LazyLock<Citations> = LazyLock::new(|| {
        let mut citations = Citations::default();
        for package in packages() {
            package.targets.iter().for_each(|target| citations.read(target));
        }
        citations
    });
    &CITATIONS
}

impl Citations {
    fn read(&mut self, target: &Target) {
        let mut functions = Functions::default();
        for source in target.sources() {
            functions.module = source.module;
            functions.visit_file(&source.file);
        }
        for function in &functions.found {
            let proves = function.test || functions.listed.contains(&function.name);
            for line in &function.doc {
                let Some(list) = line.trim().strip_prefix("Contract:") else { continue };
                let place = format!("{} {}", target.name, function.name);
                match expand(list) {
                    Ok(rows) if proves => {
                        for row in rows {
                            self.rows.entry(row).or_default().insert(place.clone());
                        }
                    }
                    Ok(_) => self.astray.push(format!("{place}: no test, yet it cites{list}")),
                    Err(word) => self.astray.push(format!("{place}: {word:?} in{list}")),
                }
            }
        }
        self.astray.extend(functions.astray.into_iter().map(|line| format!("{}: {line}", target.name)));
    }
}

/// The functions of a target's files.
#[derive(Default)]
struct Functions {
    /// The module that is being read.
    module: String,
    found: Vec<Function>,
    /// Those that a `tests!` hands to a harness of the target's own, by their paths.
    listed: BTreeSet<String>,
    /// Citations above what is no function.
    astray: Vec<String>,
}

struct Function {
    /// Its path in the target.
    name: String,
    doc: Vec<String>,
    /// Whether an attribute makes it a test.
    test: bool,
}

impl Functions {
    fn path(&self, name: &str) -> String {
        if self.module.is_empty() { name.to_owned() } else { format!("{}::{name}", self.module) }
    }

    fn function(&mut self, name: &str, attributes: &[Attribute]) {
        let (name, doc) = (self.path(name), doc(attributes));
        self.found.push(Function { name, doc, test: attributes.iter().any(is_test) });
    }

    /// The paths in the arguments of `tests!`.
    fn list(&mut self, tokens: TokenStream) {
        let mut path = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => path.push_str(&ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => path.push(':'),
                _ => {
                    let name = std::mem::take(&mut path);
                    self.listed.insert(self.path(name.trim_end_matches(':')));
                }
            }
        }
        self.listed.insert(self.path(&path));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let below = self.path(&module.ident.to_string());
        let above = std::mem::replace(&mut self.module, below);
        visit::visit_item_mod(self, module);
        self.module = above;
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig.ident.to_string(), &function.attrs);
        // The attributes are done with: what is left of the visit is for citations elsewhere.
        visit::visit_block(self, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig.ident.to_string(), &function.attrs);
        visit::visit_block(self, &function.block);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let lines = doc(std::slice::from_ref(attribute));
        let cite = |line: &String| line.trim().starts_with("Contract:");
        let module = &self.module;
        self.astray
            .extend(lines.iter().filter(|line| cite(line)).map(|line| format!("{module}: above no function:{line}")));
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        let name = invocation.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        match name.as_str() {
            "proptest" => {
                let functions: Proptest = invocation.parse_body().expect("the functions of a proptest!");
                functions.0.iter().for_each(|(name, attributes)| self.function(name, attributes));
            }
            "tests" => self.list(invocation.tokens.clone()),
            _ => {}
        }
    }
}

/// The names and attributes of a `proptest!`'s functions, whose parameters are no Rust.
struct Proptest(Vec<(String, Vec<Attribute>)>);

impl Parse for Proptest {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Attribute::parse_inner(input)?;
        let mut functions = Vec::new();
        while !input.is_empty() {
            let attributes = Attribute::parse_outer(input)?;
            input.parse::<Visibility>()?;
            input.parse::<syn::Token![fn]>()?;
            let name: syn::Ident = input.parse()?;
            // The parameters, and the body.
            input.parse::<proc_macro2::Group>()?;
            input.parse::<proc_macro2::Group>()?;
            functions.push((name.to_string(), attributes));
        }
        Ok(Self(functions))
    }
}

/// The rows of a list such as ` RS-07, DEP-09 to DEP-12`, those between the ends of a range too. An error is a word that
/// cannot be read.
fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for part in list.trim().trim_end_matches('.').split(',').map(str::trim) {
        let (first, last) = part.split_once(" to ").unwrap_or((part, part));
        let (Some((group, from)), Some((same, to))) = (row(first), row(last)) else { return Err(part.to_owned()) };
        if group != same || from > to {
            return Err(part.to_owned());
        }
        rows.extend((from..=to).map(|number| format!("{group}-{number:02}")));
    }
    Ok(rows)
}

#[test]
fn a_range_is_all_of_its_rows() {
    assert_eq!(
        expand(" DEP-09 to DEP-11, B-03"),
        Ok(["DEP-09", "DEP-10", "DEP-11", "B-03"].map(String::from).to_vec())
    );
    for list in ["", "DEP-9", "DEP-09 RS-01", "DEP-09 to RS-10", "DEP-10 to DEP-09", "DEP-09,"] {
        assert!(expand(list).is_err(), "{list}");
    }
}

#[test]
fn a_citation_counts_above_a_test_only() {
    let file = syn::parse_file(
        "/// Contract: RS-01
         #[tokio::test(start_paused = true)]
         async fn a() {}
         /// Contract: RS-02
         fn helper() {}
         proptest! {
             #![proptest_config(few())]
             /// Contract: RS-03
             #[test]
             fn law((x, y) in pairs(), z: u8) { prop_assert!(x); }
         }
         tests! { listed: \"kubectl\", other::listed }
         fn listed() {}
         /// Contract: RS-04
         const TABLE: u8 = 1;",
    );
    let mut functions = Functions::default();
    functions.visit_file(&file.expect("it is Rust"));
    let tests: Vec<_> = functions.found.iter().map(|function| (function.name.as_str(), function.test)).collect();
    assert_eq!(tests, [("a", true), ("helper", false), ("law", true), ("listed", false)]);
    assert!(["listed", "other::listed"].iter().all(|name| functions.listed.contains(*name)), "{:?}", functions.listed);
    assert_eq!(functions.astray, [": above no function: Contract: RS-04"]);
}

/// The group and number of `RS-07`.
fn row(word: &str) -> Option<(&str, u8)> {
    let (group, number) = word.split_once('-')?;
    let fits = !group.is_empty()
        && group.chars().all(|c| c.is_ascii_uppercase())
        && number.len() == 2
        && number.chars().all(|c| c.is_ascii_digit());
    number.parse().ok().filter(|_| fits).map(|number| (group, number))
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
