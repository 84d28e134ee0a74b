//! Credentials of a plugin: the program that a kubeconfig's user names under `exec`.
//!
//! kube runs it on the calling thread, without a time limit, and once each for the token and the certificate. Here it
//! is run once for both, as a process that other tasks do not wait for.

use std::{io::IsTerminal as _, process::Stdio, time::Duration};

use kube::config::{ExecConfig, ExecInteractiveMode};
use muster_objects::time::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::credentials::{CredentialsError, Secrets};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long it may take if it can prompt the user.
const LIMIT_AT_A_TERMINAL: Duration = Duration::from_secs(600);

/// Runs it.
///
/// # Errors
/// Where it cannot be run, fails, takes longer than 60 s (10 minutes where it may ask somebody), or does not give
/// credentials.
pub(super) async fn run(plugin: &ExecConfig) -> Result<Secrets, CredentialsError> {
    let name = plugin.command.as_deref().unwrap_or_default();
    let failed = |why: String| CredentialsError(format!("the exec plugin {name:?} {why}"));
    let interactive = plugin.interactive_mode != Some(ExecInteractiveMode::Never) && std::io::stdin().is_terminal();
    let cluster = plugin.provide_cluster_info.then_some(plugin.cluster.as_ref()).flatten();
    let mut spec = json!({"interactive": interactive});
    if let Some(cluster) = cluster {
        spec["cluster"] = serde_json::to_value(cluster).map_err(|error| failed(format!("cannot be told: {error}")))?;
    }
    let info = json!({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(name);
    command
        .args(plugin.args.iter().flatten())
        .envs(plugin.env.iter().flatten().filter_map(|entry| Some((entry.get("name")?, entry.get("value")?))))
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let limit = if interactive { LIMIT_AT_A_TERMINAL } else { LIMIT };
    let output = tokio::time::timeout(limit, command.output())
        .await
        .map_err(|_| failed(format!("was ended, for it took longer than {limit:?}")))?
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed: {}", output.status)));
    }
    read(&output.stdout).map_err(failed)
}

/// Reads what it says, in JSON or, as client-go takes it too, YAML.
fn read(said: &[u8]) -> Result<Secrets, String> {
    #[derive(Deserialize)]
    struct Credential {
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Status {
        expiration_timestamp: Option<String>,
        token: String,
        client_certificate_data: String,
        client_key_data: String,
    }
    // Its output is not quoted: it may contain secrets.
    let credential: Credential =
        serde_saphyr::from_slice(said).map_err(|_| "did not answer with an ExecCredential".to_owned())?;
    let Status { expiration_timestamp, token, client_certificate_data: certificate, client_key_data: key } =
        credential.status.ok_or("answered without a status")?;
    if token.is_empty() && certificate.is_empty() && key.is_empty() {
        return Err("answered with neither a token nor a certificate and its key".to_owned());
    }
    if certificate.is_empty() != key.is_empty() {
        return Err("answered with only one of a certificate and its key".to_owned());
    }
    let expires = expiration_timestamp.map(|at| Timestamp::parse(&at)).transpose();
    Ok(Secrets {
        token: (!token.is_empty()).then_some(token),
        certificate: (!certificate.is_empty()).then(|| (certificate.into_bytes(), key.into_bytes())),
        expires: expires.map_err(|error| format!("answered with an expirationTimestamp that is none: {error}"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ExecConfig {
        ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            env: Some(vec![[("name".to_owned(), "GIVEN".to_owned()), ("value".to_owned(), "x".to_owned())].into()]),
            ..ExecConfig::default()
        }
    }

    /// Contract: CM-03
    #[tokio::test]
    async fn a_plugin_is_told_what_is_asked_and_heard() {
        let says = r#"printf '{"status": {"token": "%s%s"}}' "$GIVEN" "$(echo "$KUBERNETES_EXEC_INFO" | grep -c '"interactive":false')""#;
        let expected = Secrets { token: Some("x1".to_owned()), ..Secrets::default() };
        assert_eq!(run(&shell(says)).await, Ok(expected));
        let failed = run(&shell("exit 3")).await.unwrap_err().0;
        assert!(failed.starts_with("the exec plugin \"sh\" failed: ") && failed.contains('3'), "{failed}");
        let missing = ExecConfig { command: Some("/no/such/plugin".to_owned()), ..shell("") };
        let failed = run(&missing).await.unwrap_err().0;
        assert!(failed.starts_with("the exec plugin \"/no/such/plugin\" cannot be run: "), "{failed}");
    }

    /// Contract: CM-03
    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_is_ended_after_a_minute() {
        let start = tokio::time::Instant::now();
        let failed = run(&shell("exec sleep 100000")).await.unwrap_err();
        assert_eq!(failed.0, "the exec plugin \"sh\" was ended, for it took longer than 60s");
        assert_eq!(start.elapsed(), LIMIT);
    }

    #[test]
    fn what_a_plugin_may_say() {
        let expires = Timestamp::parse("2026-01-01T00:00:00Z").ok();
        let secrets = |token: &str, expires| Secrets { token: Some(token.to_owned()), expires, certificate: None };
        let yaml = "kind: ExecCredential\nstatus:\n  token: t\n  expirationTimestamp: '2026-01-01T00:00:00Z'\n";
        assert_eq!(read(yaml.as_bytes()), Ok(secrets("t", expires)));
        let pair = br#"{"status": {"clientCertificateData": "c", "clientKeyData": "k"}}"#;
        let certificate = Some((b"c".to_vec(), b"k".to_vec()));
        assert_eq!(read(pair), Ok(Secrets { certificate, ..Secrets::default() }));
        for said in [
            "",
            "secret",
            "{}",
            r#"{"status": {}}"#,
            r#"{"status": {"clientKeyData": "secret"}}"#,
            r#"{"status": {"token": "secret", "expirationTimestamp": "tomorrow"}}"#,
        ] {
            let refused = read(said.as_bytes()).unwrap_err();
            assert!(!refused.contains("secret"), "{said}: {refused}");
        }
    }
}
