//! The workspace as cargo and the compiler see it: packages with their dependencies and targets, and the sources of a
//! target along its `mod` items, parsed.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

pub mod mentions;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quote::ToTokens as _;
use serde_json::Value;
use syn::parse::Parser as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, File, ImplItem, Item, Meta, Stmt, TraitItem};

/// A package of the workspace.
pub struct Package {
    pub name: String,
    /// The name of its folder below `crates`.
    pub folder: String,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<Target>,
    /// What `[package.metadata]` says.
    pub metadata: Value,
}

/// What a package depends on.
pub struct Dependency {
    pub package: String,
    /// The name by which code has it.
    pub name: String,
    /// Whether only tests, benchmarks and examples have it.
    pub dev: bool,
    pub features: Vec<String>,
}

/// A library, program, test, benchmark or example.
pub struct Target {
    pub name: String,
    /// Whether it is a library or a program.
    pub product: bool,
    /// Whether it is a test.
    pub test: bool,
    pub root: PathBuf,
}

/// A file of a target.
pub struct Source {
    pub path: PathBuf,
    /// Its module's path from the target's root, such as `client::tests`; empty for the root.
    pub module: String,
    /// Whether it is compiled for tests only.
    pub test: bool,
    pub file: File,
}

/// The packages of the workspace, by cargo's word.
pub fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    list(&metadata["packages"]).map(package).collect()
}

fn package(value: &Value) -> Package {
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    let folder = manifest.parent().and_then(Path::file_name).expect("a manifest is in a folder");
    let targets = list(&value["targets"]).map(|target| Target {
        name: text(&target["name"]),
        product: list(&target["kind"]).any(|kind| kind == "lib" || kind == "bin" || kind == "proc-macro"),
        test: list(&target["kind"]).any(|kind| kind == "test"),
        root: PathBuf::from(text(&target["src_path"])),
    });
    let dependencies = list(&value["dependencies"]).map(|dependency| {
        let package = text(&dependency["name"]);
        let name = dependency["rename"].as_str().unwrap_or(&package).replace('-', "_");
        let features = list(&dependency["features"]).map(text).collect();
        Dependency { name, package, dev: dependency["kind"] == "dev", features }
    });
    Package {
        name: text(&value["name"]),
        folder: folder.to_string_lossy().into_owned(),
        dependencies: dependencies.collect(),
        targets: targets.collect(),
        metadata: value["metadata"].clone(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

impl Target {
    /// Its files, from the root along the `mod` items.
    pub fn sources(&self) -> Vec<Source> {
        let mut found = Vec::new();
        let folder = self.root.parent().expect("a file is in a folder");
        read(&self.root, folder, "", !self.product, &mut found);
        found
    }
}

/// Reads a file and those of its modules, which are in `folder`.
fn read(path: &Path, folder: &Path, module: &str, test: bool, found: &mut Vec<Source>) {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let test = test || is_for_tests(&file.attrs);
    let beside = path.parent().expect("a file is in a folder");
    modules(&file.items, beside, folder, module, test, found);
    found.push(Source { path: path.to_owned(), module: module.to_owned(), test, file });
}

/// Reads the files of the modules that these items name: beside the file by `#[path]`, else in `folder`.
fn modules(items: &[Item], beside: &Path, folder: &Path, module: &str, test: bool, found: &mut Vec<Source>) {
    for item in items {
        let Item::Mod(item) = item else { continue };
        let name = item.ident.to_string();
        let module = if module.is_empty() { name.clone() } else { format!("{module}::{name}") };
        let test = test || is_for_tests(&item.attrs);
        let below = folder.join(&name);
        match (&item.content, value_of(&item.attrs, "path")) {
            (Some((_, items)), _) => modules(items, &below, &below, &module, test, found),
            (None, Some(path)) => {
                let path = beside.join(path);
                let folder = path.parent().expect("a file is in a folder").to_owned();
                read(&path, &folder, &module, test, found);
            }
            (None, None) => {
                let file = folder.join(format!("{name}.rs"));
                let path = if file.is_file() { file } else { below.join("mod.rs") };
                read(&path, &below, &module, test, found);
            }
        }
    }
}

impl Source {
    /// What of this file is compiled into the product.
    pub fn product(&self) -> File {
        let mut file = self.file.clone();
        if self.test {
            file.items.clear();
        }
        Pruning.visit_file_mut(&mut file);
        file
    }
}

/// Removes what is compiled for tests only.
struct Pruning;

impl VisitMut for Pruning {
    fn visit_file_mut(&mut self, file: &mut File) {
        file.items.retain(|item| !is_for_tests(attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_for_tests(attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            ImplItem::Const(item) => !is_for_tests(&item.attrs),
            ImplItem::Fn(item) => !is_for_tests(&item.attrs),
            ImplItem::Type(item) => !is_for_tests(&item.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_item_trait_mut(&mut self, block: &mut syn::ItemTrait) {
        block.items.retain(|item| !matches!(item, TraitItem::Fn(item) if is_for_tests(&item.attrs)));
        visit_mut::visit_item_trait_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            Stmt::Item(item) => !is_for_tests(attributes(item)),
            Stmt::Local(local) => !is_for_tests(&local.attrs),
            Stmt::Macro(statement) => !is_for_tests(&statement.attrs),
            _ => true,
        });
        visit_mut::visit_block_mut(self, block);
    }
}

/// Whether these attributes make their item one for tests only: `#[cfg(test)]`, `#[cfg(all(test, ...))]`, `#[test]`.
/// What `any(test, ...)` and `not(test)` name is for others too.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        is_test(attribute)
            || attribute.path().is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| only_tests(&meta))
    })
}

fn only_tests(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let parts = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
            parts.parse2(list.tokens.clone()).is_ok_and(|parts| parts.iter().any(only_tests))
        }
        _ => false,
    }
}

/// `#[test]`, `#[tokio::test]` and their like.
pub fn is_test(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

/// The lines of a doc comment.
pub fn doc(attributes: &[Attribute]) -> Vec<String> {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.filter_map(|attribute| string(&attribute.meta)).collect()
}

fn value_of(attributes: &[Attribute], name: &str) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident(name)).and_then(|attribute| string(&attribute.meta))
}

fn string(meta: &Meta) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    syn::parse2::<syn::LitStr>(pair.value.to_token_stream()).ok().map(|literal| literal.value())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}
