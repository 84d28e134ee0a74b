//! Which paths a file names: in imports, code, attributes and the arguments of macros alike.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{File, ItemUse, UseTree};

/// A path that is named somewhere, such as `std::time::Instant::now`. What was imported under a short name is given by
/// the whole path, `core` and `alloc` as `std`, a macro's name with its `!`.
pub struct Mention {
    pub path: Vec<String>,
    /// Whether it imports everything that is in `path`.
    pub glob: bool,
    /// From 1.
    pub line: usize,
}

impl Mention {
    /// Whether it names this path or something in it, or imports something of that name along with everything else.
    pub fn is_of(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split("::").collect();
        let common = self.path.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        common == wanted.len() || self.glob && common == self.path.len()
    }
}

/// Every path that a file names.
pub fn mentions(file: &File) -> Vec<Mention> {
    let mut imports = Imports::default();
    imports.visit_file(file);
    let Imports { mut found, names } = imports;
    words(file.to_token_stream(), &names, &mut found);
    found
}

/// What the `use` items of a file import, and under which names.
#[derive(Default)]
struct Imports {
    found: Vec<Mention>,
    names: BTreeMap<String, Vec<String>>,
}

impl Imports {
    fn tree(&mut self, mut path: Vec<String>, tree: &UseTree, line: usize) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.tree(path, &part.tree, line);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(path.clone(), tree, line)),
            UseTree::Name(name) => self.import(path, &name.ident.to_string(), None, line),
            UseTree::Rename(name) => self.import(path, &name.ident.to_string(), Some(name.rename.to_string()), line),
            UseTree::Glob(_) => self.found.push(Mention { path: normal(path), glob: true, line }),
        }
    }

    fn import(&mut self, mut path: Vec<String>, name: &str, rename: Option<String>, line: usize) {
        if name != "self" {
            path.push(name.to_owned());
        }
        let path = normal(path);
        if let Some(name) = rename.or_else(|| path.last().cloned()) {
            self.names.insert(name, path.clone());
        }
        self.found.push(Mention { path, glob: false, line });
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(Vec::new(), &item.tree, item.use_token.span.start().line);
        visit::visit_item_use(self, item);
    }
}

/// Finds the names that stand alone or are joined by `::`, in tokens and in the groups among them.
fn words(tokens: TokenStream, names: &BTreeMap<String, Vec<String>>, found: &mut Vec<Mention>) {
    let mut tokens = tokens.into_iter().peekable();
    // How many colons were just read, and whether a dot was: what follows is part of something else.
    let (mut colons, mut dot) = (0, false);
    let mut path: Option<Mention> = None;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) => {
                let (line, ident) = (ident.span().start().line, ident.to_string());
                match &mut path {
                    Some(path) if colons == 2 => path.path.push(ident),
                    _ => {
                        found.extend(path.take().map(|path| resolved(path, names)));
                        // One that begins with colons is whole; so is, too strictly, what follows `<T>::`.
                        if !dot {
                            path = Some(Mention { path: vec![ident], glob: false, line });
                        } else if ident == "await" {
                            found.push(Mention { path: vec![ident], glob: false, line });
                        }
                    }
                }
                (colons, dot) = (0, false);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => (colons, dot) = (colons + 1, false),
            other => {
                if let Some(mut path) = path.take() {
                    let macros = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '!')
                        && matches!(tokens.peek(), Some(TokenTree::Group(_)));
                    if macros && let Some(last) = path.path.last_mut() {
                        last.push('!');
                    }
                    found.push(resolved(path, names));
                }
                (colons, dot) = (0, matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '.'));
                if let TokenTree::Group(group) = other {
                    words(group.stream(), names, found);
                }
            }
        }
    }
    found.extend(path.map(|path| resolved(path, names)));
}

/// The whole path of one that begins with an imported name.
fn resolved(mention: Mention, names: &BTreeMap<String, Vec<String>>) -> Mention {
    let path = match names.get(&mention.path[0]) {
        Some(whole) => [whole, &mention.path[1..]].concat(),
        None => normal(mention.path),
    };
    Mention { path, ..mention }
}

fn normal(mut path: Vec<String>) -> Vec<String> {
    if path.first().is_some_and(|first| first == "core" || first == "alloc") {
        path[0] = "std".to_owned();
    }
    path
}

#[test]
fn a_path_is_found_however_it_is_written() {
    let file = syn::parse_file(
        "use std::{time::{self, Instant as Clock}, fs::*};
         fn f(x: core::net::IpAddr) -> u8 {
             vec![time::SystemTime::now()];
             println!(\"{}\", Clock::now());
             x.env.await;
             ::core::num::NonZero::new(1)
         }",
    );
    let found = mentions(&file.expect("it is Rust"));
    for path in [
        "std::time::SystemTime",
        "std::time::Instant::now",
        "std::fs",
        "std::fs::read",
        "std::net",
        "std::num",
        "println!",
        "await",
    ] {
        assert!(found.iter().any(|mention| mention.is_of(path)), "{path}");
    }
    for path in ["env", "println", "std::time::Duration", "std::env"] {
        assert!(!found.iter().any(|mention| mention.is_of(path)), "{path}");
    }
    let lines: Vec<usize> = found.iter().filter(|mention| mention.is_of("std::net")).map(|m| m.line).collect();
    assert_eq!(lines, [2]);
}
