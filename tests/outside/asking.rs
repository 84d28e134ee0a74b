//! Asking about an object with `muster explain`, and a controller manager that can be asked.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use super::manager::{Manager, wait_for};
use super::{Cluster, muster, text};

/// A controller manager that can be asked.
pub struct Asked {
    pub manager: Manager,
    pub url: String,
    folder: tempfile::TempDir,
}

impl Asked {
    /// Starts one whose endpoint has a certificate of its own in a folder, and waits for words in its log.
    pub fn start(cluster: &Cluster, until: &str) -> Self {
        Self::start_with(cluster, &[], until)
    }

    /// The same with further flags.
    pub fn start_with(cluster: &Cluster, flags: &[&str], until: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
        let (at, kept) = (format!("--secure-port={port}"), format!("--cert-dir={}", folder.path().display()));
        let of_endpoint = ["--bind-address=127.0.0.1", "-v=4", &at, &kept];
        let mut manager = Manager::start(cluster, &[&of_endpoint, flags].concat());
        manager.says(until);
        Self { manager, url: format!("https://127.0.0.1:{port}"), folder }
    }

    /// The file to trust it by.
    pub fn certificate(&self) -> String {
        self.folder.path().join("muster-controller-manager.crt").to_string_lossy().into_owned()
    }

    /// Its metrics.
    pub fn metrics(&self) -> String {
        let server = format!("--server={}", self.url);
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["--kubeconfig=/dev/null", "--token=none", "--insecure-skip-tls-verify", &server]);
        let output =
            kubectl.args(["get", "--raw", "/metrics"]).env_remove("KUBECONFIG").output().expect("kubectl runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The arguments by which it is asked about an object.
    pub fn asked<'a>(&'a self, certificate: &'a str, object: &'a str) -> Vec<&'a str> {
        vec![object, "--manager", &self.url, "--manager-certificate-authority", certificate]
    }
}

/// Runs `muster explain` with this kubeconfig.
pub fn explain(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let kubeconfig = kubeconfig.to_string_lossy();
    muster(&[&["explain", "--kubeconfig", &*kubeconfig], arguments].concat())
}

/// Asks until the answer has these words.
pub fn says(kubeconfig: &Path, arguments: &[&str], words: &str) -> String {
    wait_for(&format!("{words:?} in the answer to explain {arguments:?}"), || {
        let output = explain(kubeconfig, arguments);
        let told = text(&output.stdout);
        (output.status.success() && told.contains(words)).then_some(told)
    })
}

/// It printed nothing, ended so, and said these words.
pub fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(text(&output.stdout), "");
    for words in words {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
}

/// The answer as JSON.
pub fn json(kubeconfig: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = explain(kubeconfig, &[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
