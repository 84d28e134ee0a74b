//! `#[muster_testing::test]`: an async function becomes a test with a cluster of its own.
//!
//! What its arguments mean is told in the documentation of `muster-testing`, which exports it.

mod options;

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{FnArg, ItemFn, ReturnType};

use crate::options::Options;

/// Makes a test of an async function, whose arguments are a `&Cluster`, a `kube::Client`, and a `kube::Api` of any kind.
///
/// ```text
/// #[muster_testing::test(nodes = 3, controllers = "deployment,replicaset", seeds = 100)]
/// async fn scales(client: kube::Client, cluster: &muster_testing::Cluster) -> Result<(), kube::Error> { .. }
/// ```
#[proc_macro_attribute]
pub fn test(arguments: proc_macro::TokenStream, function: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let options = syn::parse_macro_input!(arguments as Options);
    let function = syn::parse_macro_input!(function as ItemFn);
    match expand(&options, function) {
        Ok(expanded) => expanded.into(),
        Err(error) => error.to_compile_error().into(),
    }
}

fn expand(options: &Options, mut function: ItemFn) -> syn::Result<TokenStream> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(syn::Error::new(signature.fn_token.span(), "expected an async function"));
    }
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new(signature.generics.span(), "a test has no generic parameters"));
    }
    let mut handed = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Typed(_) => handed.push(quote!(::muster_testing::FromCluster::from_cluster(cluster))),
            FnArg::Receiver(own) => return Err(syn::Error::new(own.span(), "a test has no `self`")),
        }
    }
    let name = signature.ident.clone();
    let visibility = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    let attributes = std::mem::take(&mut function.attrs);
    let output = match &signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, output) => quote!(#output),
    };
    let (run, build) = (options.run(), options.build());
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attributes)*
        #visibility fn #name() {
            #function
            async fn handed(cluster: &::muster_testing::Cluster) -> #output {
                #name(#(#handed),*).await
            }
            ::muster_testing::run::run(
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)),
                &#run,
                |builder| builder #build,
                |cluster| ::std::boxed::Box::pin(handed(cluster)),
            );
        }
    })
}
