//! Where the server is and who we are: `--kubeconfig`, else `KUBECONFIG`, else the service account (CM-03).

use std::path::Path;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::{BoxError, ClientError};

/// Reads the configuration: the file given, else those that `KUBECONFIG` names, else what a pod in the
/// cluster has.
///
/// # Errors
/// [`ClientError::Configuration`] where the first of them that is there cannot be read or is not complete.
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    let unusable = |what, source: BoxError| ClientError::Configuration { what, source };
    let options = KubeConfigOptions::default();
    let mut config = if let Some(path) = kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| unusable("--kubeconfig", error.into()))?;
        let config = Config::from_custom_kubeconfig(file, &options).await;
        config.map_err(|error| unusable("--kubeconfig", error.into()))?
    } else if std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty()) {
        Config::from_kubeconfig(&options).await.map_err(|error| unusable("KUBECONFIG", error.into()))?
    } else {
        Config::incluster().map_err(|error| unusable("no --kubeconfig, no KUBECONFIG, and no pod", error.into()))?
    };
    // What is sent twice is decided where the verb is in view.
    config.default_retry = false;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, Options};

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn a_kubeconfig_that_is_named_is_used_or_said_to_be_unusable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:7443"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}]}"#;
        std::fs::write(&path, text).unwrap();
        let config = configuration(Some(&path)).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:7443/");
        assert_eq!(config.default_namespace, "mine");
        assert!(!config.default_retry, "no write is sent twice behind our back");

        let error = configuration(Some(&directory.path().join("none"))).await.unwrap_err();
        assert!(error.to_string().starts_with("--kubeconfig: "), "{error}");
    }

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn a_kubeconfig_that_switches_verification_off_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:7443", "insecure-skip-tls-verify": SKIP}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}"#;
        for (skip, refused) in [("false", false), ("true", true)] {
            std::fs::write(&path, text.replace("SKIP", skip)).unwrap();
            let config = configuration(Some(&path)).await.unwrap();
            let client = Client::connect(&config, &Options::default());
            let said = client.map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(said.starts_with("insecure-skip-tls-verify: found true"), refused, "{said}");
        }
    }
}
