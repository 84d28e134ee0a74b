//! The server's address and our credentials: `--kubeconfig`, else `KUBECONFIG`, else the service account (CM-03).

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{Cluster, Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::{BoxError, ClientError, endpoint};

/// Reads the configuration: the file given, else those that `KUBECONFIG` names, else what a pod in the
/// cluster has.
///
/// # Errors
/// [`ClientError::Configuration`] where the first of them that is there cannot be read or is not complete, or does not have
/// the server prove who it is.
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    let unusable = |what: &str, source: BoxError| ClientError::Configuration { what: what.to_owned().into(), source };
    let (what, found) = match kubeconfig {
        Some(path) => (&*format!("--kubeconfig {}", path.display()), Kubeconfig::read_from(path).map(Some)),
        None => ("KUBECONFIG", named(&env::var_os("KUBECONFIG").unwrap_or_default())),
    };
    let mut config = if let Some(file) = found.map_err(|error| unusable(what, unquoted(error)))? {
        let cluster = current_cluster(&file).cloned().unwrap_or_default();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| unusable(what, error.into()))?;
        if cluster.certificate_authority_data.is_none() {
            // Named, the file is read again while the process runs.
            config.root_cert_file = cluster.certificate_authority.map(Into::into);
        }
        // kube holds NO_PROXY against the proxy's own address, and only where it was built with a proxy.
        let no_proxy = first_set(["NO_PROXY", "no_proxy"].map(|name| env::var(name).ok()));
        let asked_for = cluster.proxy_url.is_some_and(|url| !url.is_empty());
        if !asked_for && goes_without_proxy(&config.cluster_url, &no_proxy.unwrap_or_default()) {
            config.proxy_url = None;
        }
        config
    } else {
        Config::incluster().map_err(|error| unusable("no --kubeconfig, no KUBECONFIG, and no pod", error.into()))?
    };
    endpoint::verified(&config).map_err(|error| unusable(what, error.into()))?;
    // What is sent twice is decided where the verb is in view.
    config.default_retry = false;
    Ok(config)
}

/// The files of a list, merged: as by client-go those that are not there are left out. None where there is none in the list, or
/// it names no file.
fn named(list: &OsStr) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut paths: Vec<PathBuf> = env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    if paths.len() > 1 {
        paths.retain(|path| path.exists());
    }
    let merge = |merged: Option<Kubeconfig>, path: &PathBuf| {
        let read = Kubeconfig::read_from(path)?;
        Ok(Some(merged.unwrap_or_default().merge(read)?))
    };
    paths.iter().try_fold(None, merge)
}

/// An error without what a file holds: it may be secret.
fn unquoted(error: KubeconfigError) -> BoxError {
    let KubeconfigError::Parse(error) = error else { return error.into() };
    let place = error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
    let place = place.unwrap_or_default();
    format!("{place}found what is no YAML or no field of a kubeconfig, which is not shown for it may be secret").into()
}

/// The cluster of the context that is in force.
fn current_cluster(file: &Kubeconfig) -> Option<&Cluster> {
    let context = file.contexts.iter().find(|context| Some(&context.name) == file.current_context.as_ref())?;
    let name = &context.context.as_ref()?.cluster;
    file.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
}

/// The first value that is set; an empty one is not, as in Go.
fn first_set(values: [Option<String>; 2]) -> Option<String> {
    values.into_iter().flatten().find(|value| !value.is_empty())
}

/// Whether the server is reached without the proxy of the environment: as in Go, if `no_proxy` names it or it is on
/// this machine.
fn goes_without_proxy(server: &Uri, no_proxy: &str) -> bool {
    let some_proxy = Matcher::builder().all("http://proxy.invalid").no(no_proxy).build();
    // The matcher takes a star for names only.
    let none_at_all = no_proxy.split(',').any(|name| name.trim() == "*");
    none_at_all || endpoint::is_here(server) || some_proxy.intercept(server).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

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

        let empty = directory.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        for unusable in [directory.path().join("none"), empty] {
            let error = configuration(Some(&unusable)).await.unwrap_err();
            assert!(error.to_string().starts_with(&format!("--kubeconfig {}: ", unusable.display())), "{error}");
        }
        // Of a list what is not there is left out.
        let list = env::join_paths([&directory.path().join("none"), &path]).unwrap();
        let merged = named(&list).unwrap().expect("one is there");
        assert_eq!(merged.current_context.as_deref(), Some("c"));
        assert!(named(OsStr::new("")).unwrap().is_none());
        assert!(named(directory.path().join("none").as_os_str()).is_err(), "alone it is wanted");
    }

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn what_a_kubeconfig_holds_is_not_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        for token in ["\"secret", "[secret]", "x: secret", "{secret: secret}", "\"secret\" \"more"] {
            let text = format!("apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: {token}\n");
            std::fs::write(&path, text).unwrap();
            let mut error: &dyn std::error::Error = &configuration(Some(&path)).await.unwrap_err();
            loop {
                let said = format!("{error} {error:?}");
                assert!(!said.contains("secret]") && !said.contains("\"secret"), "{said}");
                assert!(!said.contains("x: secret") && !said.contains("{secret"), "{said}");
                let Some(source) = error.source() else { break };
                error = source;
            }
        }
    }

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn an_authority_that_is_a_file_is_read_again_later() {
        let directory = tempfile::tempdir().unwrap();
        let (path, authority) = (directory.path().join("config"), directory.path().join("ca.crt"));
        std::fs::write(&authority, "").unwrap();
        let text = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:7443", AUTHORITY}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}"#;
        for (named, file) in [
            (r#""certificate-authority": "ca.crt""#, Some(authority)),
            (r#""certificate-authority": "ca.crt", "certificate-authority-data": """#, None),
        ] {
            std::fs::write(&path, text.replace("AUTHORITY", named)).unwrap();
            assert_eq!(configuration(Some(&path)).await.unwrap().root_cert_file, file, "{named}");
        }
    }

    /// Contract: CM-03
    #[test]
    fn no_proxy_names_servers_by_name_domain_address_and_network() {
        let cases = [
            ("https://api.example.com:6443", "api.example.com", true),
            ("https://api.example.com:6443", "other,.example.com", true),
            ("https://api.example.com:6443", "example.org", false),
            ("https://10.1.2.3:6443", "10.0.0.0/8", true),
            ("https://10.1.2.3:6443", "10.1.2.4", false),
            ("https://10.1.2.3:6443", "*", true),
            ("https://10.1.2.3:6443", "", false),
            ("https://127.0.0.1:6443", "", true),
            ("https://localhost:6443", "", true),
        ];
        for (server, no_proxy, without) in cases {
            assert_eq!(goes_without_proxy(&server.parse().unwrap(), no_proxy), without, "{server} {no_proxy:?}");
        }
    }

    /// Contract: CM-03
    #[test]
    fn an_empty_variable_does_not_hide_the_other_spelling() {
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(first_set([value(""), value("b")]), value("b"));
        assert_eq!(first_set([value("a"), value("b")]), value("a"));
        assert_eq!(first_set([None, value("")]), None);
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
            let said = configuration(Some(&path)).await.map_or_else(|error| error.to_string(), |_| String::new());
            let why = format!("--kubeconfig {}: insecure-skip-tls-verify: found true", path.display());
            assert_eq!(said.starts_with(&why), refused, "{said}");
        }
    }
}
