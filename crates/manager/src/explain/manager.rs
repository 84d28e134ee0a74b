//! Asking a running manager: a client of the caller's own credentials, for another address and another authority. Where
//! none is named, the API server is asked, which answers for the controllers in its own process.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use http::Uri;
use http::uri::Authority;
use kube::config::AuthInfo;
use muster_runtime::client::{Client, ClientError};
use muster_runtime::group::ELECTION_NAMESPACE;
use serde_json::Value;

use crate::arguments::client_options;
use crate::controller_manager::flags::parse_name;

/// The arguments that name a running manager.
#[derive(Debug, Args)]
pub struct ManagerFlags {
    /// Ask this running manager, by its HTTPS endpoint
    #[arg(long, value_name = "URL", value_parser = parse_manager)]
    pub manager: Option<Uri>,

    /// The certificates to trust when the manager is asked, as PEM; else those that the system trusts
    #[arg(long, value_name = "FILE", requires = "manager")]
    manager_certificate_authority: Option<PathBuf>,

    /// The name that the manager's certificate is to have; else the host of --manager
    #[arg(long, value_name = "NAME", requires = "manager")]
    manager_server_name: Option<String>,

    /// Where a group of managers that share the cluster has its Leases, by which it is told who has the shard of an object
    #[arg(long, value_name = "NAME", default_value = ELECTION_NAMESPACE, value_parser = parse_name)]
    pub leader_elect_resource_namespace: String,
}

fn names_a_user(authority: &Authority) -> bool {
    authority.as_str().contains('@')
}

fn parse_manager(text: &str) -> Result<Uri, String> {
    let uri: Option<Uri> = text.parse().ok();
    // A token goes there: never in the clear.
    let uri = uri.filter(|uri| uri.scheme_str() == Some("https") && uri.authority().is_some());
    // What is asked for has paths of its own, and who asks is in the kubeconfig.
    let whole = |uri: &Uri| uri.path() == "/" && uri.query().is_none() && !uri.authority().is_some_and(names_a_user);
    uri.filter(whole).ok_or_else(|| "expected an address such as https://127.0.0.1:10257".to_owned())
}

/// A running manager, or the API server that may have one in its process.
pub struct Manager {
    client: Client,
    /// Its address; none where the API server is asked.
    url: Option<String>,
}

impl Manager {
    /// The manager that is named, or the one of the cluster.
    ///
    /// # Errors
    /// Where the credentials are none that a manager can pass on, or a certificate cannot be used.
    pub fn of(flags: &ManagerFlags, config: &kube::Config) -> Result<Self> {
        let connect =
            |config: &kube::Config| Client::connect(config, &client_options()).map_err(|error| anyhow!("{error}"));
        let Some(url) = &flags.manager else {
            return Ok(Self { client: connect(config)?, url: None });
        };
        let mut ours = kube::Config::new(url.clone());
        ours.auth_info = only_tokens(&config.auth_info)?;
        ours.tls_server_name.clone_from(&flags.manager_server_name);
        ours.default_retry = false;
        if let Some(path) = &flags.manager_certificate_authority {
            let said = || format!("--manager-certificate-authority {}", path.display());
            let pem = fs::read(path).with_context(said)?;
            ours.root_cert = Some(certificates(&pem).with_context(said)?);
        }
        Ok(Self { client: connect(&ours)?, url: Some(url.to_string().trim_end_matches('/').to_owned()) })
    }

    /// Whether there is one: false where the API server says that it has none to ask.
    pub async fn is_there(&self) -> bool {
        let none =
            |error: &ClientError| matches!(error, ClientError::Api(refused) if matches!(refused.code, 403 | 404));
        self.url.is_some() || !self.client.get("/muster/inside").await.is_err_and(|error| none(&error))
    }

    /// What it answers at this path.
    ///
    /// # Errors
    /// Where it refuses or does not answer.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let Some(url) = &self.url else { return self.get_embedded(path).await };
        match self.client.get(path).await {
            Ok(answer) => serde_json::from_slice(&answer.body).with_context(|| format!("{url}: the answer is no JSON")),
            Err(error @ ClientError::Api(_)) => {
                Err(anyhow!("{error}")).with_context(|| format!("the manager at {url}"))
            }
            Err(error) => Err(anyhow!("--manager {url}: {error}")),
        }
    }

    async fn get_embedded(&self, path: &str) -> Result<Value> {
        match self.client.get(&format!("/muster{path}")).await {
            Ok(answer) => serde_json::from_slice(&answer.body).context("the API server's answer is no JSON"),
            Err(ClientError::Api(refused)) if matches!(refused.code, 403 | 404) => bail!(
                "the API server does not tell it: {refused}; it tells of controllers in its own process, which that of \
                 `muster up` has; a manager elsewhere is asked by --manager"
            ),
            Err(error) => Err(anyhow!("{error}")),
        }
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
