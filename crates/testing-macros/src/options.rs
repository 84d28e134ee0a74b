//! The arguments of the attribute: which there are, and what becomes of each.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, Ident, Token};

/// Those that say how the test is run; the fields of `muster_testing::run::Run`.
const RUN: &[&str] = &["seed", "seeds", "paused", "timeout"];
/// Those that say what the cluster is like; methods of `muster_testing::Builder`.
const BUILD: &[&str] = &["nodes", "controllers", "pod_startup", "pod_shutdown", "authorization"];

/// The one that lists types: `crds = [Shop, Basket]`.
const CRDS: &str = "crds";

/// `nodes = 3, seeds = 100`.
pub(crate) struct Options(Vec<(Ident, Expr)>);

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options: Vec<(Ident, Expr)> = Vec::new();
        for Assignment { name, value } in Punctuated::<Assignment, Token![,]>::parse_terminated(input)? {
            if !RUN.iter().chain(BUILD).chain(&[CRDS]).any(|known| name == known) {
                let known = [RUN, BUILD, &[CRDS]].concat().join(", ");
                return Err(syn::Error::new(name.span(), format!("found `{name}`, expected one of {known}")));
            }
            if options.iter().any(|(other, _)| *other == name) {
                return Err(syn::Error::new(name.span(), format!("`{name}` is given twice")));
            }
            options.push((name, value));
        }
        if let Some((_, value)) = options.iter().find(|(name, value)| name == CRDS && !matches!(value, Expr::Array(_)))
        {
            return Err(syn::Error::new(value.span(), "expected a list of types: `crds = [Shop, Basket]`"));
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
        let definitions = self.of(&[CRDS]).flat_map(|(_, value)| match value {
            Expr::Array(types) => types.elems.iter().collect(),
            _ => Vec::new(),
        });
        let definitions = definitions.map(|definition| quote!(.crd::<#definition>()));
        quote!(#(#calls)* #(#definitions)*)
    }

    fn of(&self, names: &'static [&'static str]) -> impl Iterator<Item = &(Ident, Expr)> {
        self.0.iter().filter(move |(name, _)| names.iter().any(|known| name == known))
    }
}
