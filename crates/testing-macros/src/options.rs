//! The arguments of the attribute: which there are, and what becomes of each.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Token};

/// Those that say how the test is run; the fields of `muster_testing::run::Run`.
const RUN: &[&str] = &["seed", "seeds", "paused", "timeout"];
/// Those that say what the cluster is like; methods of `muster_testing::Builder`.
const BUILD: &[&str] = &["nodes", "controllers", "pod_startup", "pod_shutdown", "authorization"];

/// `nodes = 3, seeds = 100`.
pub(crate) struct Options(Vec<(Ident, Expr)>);

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options: Vec<(Ident, Expr)> = Vec::new();
        for Assignment { name, value } in Punctuated::<Assignment, Token![,]>::parse_terminated(input)? {
            if !RUN.iter().chain(BUILD).any(|known| name == known) {
                let known = [RUN, BUILD].concat().join(", ");
                return Err(syn::Error::new(name.span(), format!("found `{name}`, expected one of {known}")));
            }
            if options.iter().any(|(other, _)| *other == name) {
                return Err(syn::Error::new(name.span(), format!("`{name}` is given twice")));
            }
            options.push((name, value));
        }
        Ok(Self(options))
    }
}

struct Assignment {
    name: Ident,
    value: Expr,
}

impl Parse for Assignment {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: input.parse()? })
    }
}

impl Options {
    /// How the test is run.
    pub(crate) fn run(&self) -> TokenStream {
        let fields = self.of(RUN).map(|(name, value)| quote!(#name: #value));
        quote!(::muster_testing::run::Run { #(#fields,)* ..::muster_testing::run::Run::default() })
    }

    /// What is called on the cluster's builder.
    pub(crate) fn build(&self) -> TokenStream {
        let calls = self.of(BUILD).map(|(name, value)| quote!(.#name(#value)));
        quote!(#(#calls)*)
    }

    fn of(&self, names: &'static [&'static str]) -> impl Iterator<Item = &(Ident, Expr)> {
        self.0.iter().filter(move |(name, _)| names.iter().any(|known| name == known))
    }
}
