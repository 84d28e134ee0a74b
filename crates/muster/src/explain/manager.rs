//! Asking a running manager: a client of the caller's own credentials, for another address and another authority. Where
//! none is named, the API server is asked, which answers for the controllers in its own process.

use std::fs;

use anyhow::{Context as _, Result, anyhow, bail};
use http::Uri;
use kube::config::AuthInfo;
use muster_runtime::client::{Client, ClientError, Options};
use serde_json::Value;

use super::arguments::Arguments;

/// What the manager answers at this path.
///
/// # Errors
/// Where the credentials are none that a manager can pass on, or it refuses or does not answer.
pub(super) async fn ask(arguments: &Arguments, config: &kube::Config, path: &str) -> Result<Value> {
    match &arguments.manager {
        Some(url) => ask_at(arguments, config, url, path).await,
        None => ask_embedded(config, path).await,
    }
}

async fn ask_at(arguments: &Arguments, config: &kube::Config, url: &Uri, path: &str) -> Result<Value> {
    let mut ours = kube::Config::new(url.clone());
    ours.auth_info = only_tokens(&config.auth_info)?;
    ours.tls_server_name.clone_from(&arguments.manager_server_name);
    ours.default_retry = false;
    if let Some(path) = &arguments.manager_certificate_authority {
        let said = || format!("--manager-certificate-authority {}", path.display());
        let pem = fs::read(path).with_context(said)?;
        ours.root_cert = Some(certificates(&pem).with_context(said)?);
    }
    let client = Client::connect(&ours, &Options::default()).map_err(|error| anyhow!("{error}"))?;
    let url = url.to_string();
    let url = url.trim_end_matches('/');
    match client.get(path).await {
        Ok(answer) => serde_json::from_slice(&answer.body).with_context(|| format!("{url}: the answer is no JSON")),
        Err(error @ ClientError::Api(_)) => Err(anyhow!("{error}")).with_context(|| format!("the manager at {url}")),
        Err(error) => Err(anyhow!("--manager {url}: {}", with_causes(&error))),
    }
}

async fn ask_embedded(config: &kube::Config, path: &str) -> Result<Value> {
    let client = Client::connect(config, &Options::default()).map_err(|error| anyhow!("{error}"))?;
    match client.get(&format!("/muster{path}")).await {
        Ok(answer) => serde_json::from_slice(&answer.body).context("the API server's answer is no JSON"),
        Err(ClientError::Api(refused)) if matches!(refused.code, 403 | 404) => bail!(
            "the API server does not tell it: {refused}; only that of `muster up` does, and elsewhere the manager itself \
             is to be asked, by --manager"
        ),
        Err(error) => Err(anyhow!("{}", with_causes(&error))),
    }
}

/// What of the credentials goes in a header. The rest would authenticate to the manager and not to the API server, which
/// is the one that decides.
fn only_tokens(ours: &AuthInfo) -> Result<AuthInfo> {
    let AuthInfo { token, token_file, exec, auth_provider, .. } = ours.clone();
    if token.is_none() && token_file.is_none() && exec.is_none() && auth_provider.is_none() {
        bail!(
            "--manager: the kubeconfig's user has no token (token, tokenFile or exec), and a manager cannot pass on a \
             client certificate or a password; make a token, for example with `kubectl create token`, or leave out \
             --manager"
        );
    }
    Ok(AuthInfo { token, token_file, exec, auth_provider, ..AuthInfo::default() })
}

/// The certificates in a PEM, as DER.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>> {
    let found = muster_apiserver::tls::certificates_der(pem)?;
    if found.is_empty() {
        bail!("there is no certificate in it");
    }
    Ok(found)
}

/// An error that names only its own layer, with those below it.
fn with_causes(error: &ClientError) -> String {
    let mut said = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let words = cause.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        next = cause.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_passed_on_is_sent() {
        let certificate = AuthInfo { client_certificate_data: Some("c".to_owned()), ..AuthInfo::default() };
        let said = only_tokens(&certificate).unwrap_err().to_string();
        assert!(said.contains("client certificate"), "{said}");
        let both = AuthInfo { token: Some("t".to_owned().into()), ..certificate };
        let kept = only_tokens(&both).unwrap();
        assert!(kept.token.is_some() && kept.client_certificate_data.is_none());
        assert!(only_tokens(&AuthInfo { password: Some("p".to_owned().into()), ..AuthInfo::default() }).is_err());
    }
}
