//! A real control plane on loopback: etcd and kube-apiserver, as the ecosystem's own test environment starts them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

use crate::api::Api;
use crate::assets::Assets;
use crate::audit::{self, Asked};
use crate::certificates::Authority;
use crate::nodes::Nodes;
use crate::process::{Process, free_ports};
use crate::wait::eventually;

/// Who may do everything.
const MASTERS: &str = "system:masters";

/// A control plane with everything of it in one folder. Killed when dropped.
pub(crate) struct ControlPlane {
    /// Requests of the tests.
    pub(crate) api: Api,
    nodes: Option<Nodes>,
    kube_apiserver: Process,
    etcd: Process,
    launch: Launch,
    runtime: Handle,
}

/// How the two are started, for the first time and again.
struct Launch {
    etcd: (PathBuf, Vec<OsString>),
    kube_apiserver: (PathBuf, Vec<OsString>),
    authority: Authority,
    url: String,
    folder: PathBuf,
}

impl ControlPlane {
    /// Starts both in a folder that is there and returns once the server is ready. There is no node in it.
    pub(crate) fn start(assets: &Assets, folder: PathBuf, runtime: &Handle) -> Self {
        let launch = Launch::prepare(assets, folder);
        let etcd = launch.etcd();
        let mut kube_apiserver = launch.kube_apiserver();
        let api = Api::new(&launch.kubeconfig("tester"), runtime);
        wait_until_ready(&api, &mut kube_apiserver);
        Self { api, nodes: None, kube_apiserver, etcd, launch, runtime: runtime.clone() }
    }

    /// The same with nodes.
    pub(crate) fn with_nodes(assets: &Assets, folder: PathBuf, runtime: &Handle) -> Self {
        let mut plane = Self::start(assets, folder, runtime);
        plane.nodes = Some(Nodes::start(&plane.launch.kubeconfig("simulated-nodes"), &plane.runtime));
        plane
    }

    /// The kubeconfig of a user who may do everything.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.launch.kubeconfig(user)
    }

    /// The kubeconfig of whoever has this token.
    pub(crate) fn kubeconfig_by_token(&self, name: &str, token: &str) -> PathBuf {
        self.launch.write_kubeconfig(name, &serde_json::json!({"token": token}))
    }

    /// The folder with the logs.
    pub(crate) fn folder(&self) -> &Path {
        &self.launch.folder
    }

    /// What the managers have asked since the start.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        audit::read(&self.launch.audit_log())
    }

    /// Kills kube-apiserver, and etcd as well where that is said. What was written stays.
    pub(crate) fn kill(&mut self, etcd_as_well: bool) {
        self.kube_apiserver.kill();
        if etcd_as_well {
            self.etcd.kill();
        }
    }

    /// Starts again what was killed, at the same addresses, and returns once the server is ready.
    pub(crate) fn start_again(&mut self) {
        if self.etcd.ended().is_some() {
            self.etcd = self.launch.etcd();
        }
        self.kube_apiserver = self.launch.kube_apiserver();
        wait_until_ready(&self.api, &mut self.kube_apiserver);
    }
}

fn wait_until_ready(api: &Api, kube_apiserver: &mut Process) {
    eventually("a kube-apiserver that is ready", || {
        let log = kube_apiserver.log_file().display().to_string();
        if let Some(status) = kube_apiserver.ended() {
            panic!("kube-apiserver ended with {status}; it says in {log}:\n{}", tail(&kube_apiserver.log()));
        }
        api.healthy("/readyz").map_err(|error| format!("{error}; its log is {log}"))?;
        // The server makes these itself, right after it is ready.
        for namespace in ["default", "kube-system", "kube-node-lease"] {
            api.get(&format!("/api/v1/namespaces/{namespace}")).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

impl Launch {
    fn prepare(assets: &Assets, folder: PathBuf) -> Self {
        let certificates = folder.join("certificates");
        fs::create_dir(&certificates).expect("a folder for certificates");
        let authority = Authority::new(&certificates);
        let server = authority.server();
        let (private, public) = authority.service_account_keys();
        let policy = folder.join("audit-policy.json");
        fs::write(&policy, audit::policy().to_string()).expect("the audit policy is written");
        let [client_port, peer_port, secure_port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{client_port}");

        let etcd = vec![
            flag("data-dir", folder.join("etcd")),
            flag("listen-client-urls", &etcd_url),
            flag("advertise-client-urls", &etcd_url),
            flag("listen-peer-urls", format!("http://127.0.0.1:{peer_port}")),
            // What is lost when the machine stops is of no worth; what is lost when a process is killed, is not lost.
            "--unsafe-no-fsync".into(),
            flag("log-level", "warn"),
        ];
        let kube_apiserver = vec![
            flag("etcd-servers", &etcd_url),
            flag("bind-address", "127.0.0.1"),
            flag("secure-port", secure_port.to_string()),
            // Of a machine without a network it would find none. Nobody goes there: it is kept for documentation.
            flag("advertise-address", "192.0.2.1"),
            flag("service-cluster-ip-range", "10.0.0.0/24"),
            flag("allow-privileged", "true"),
            flag("authorization-mode", "RBAC"),
            // Nobody makes the ServiceAccount `default` in each namespace here.
            flag("disable-admission-plugins", "ServiceAccount"),
            flag("cert-dir", &certificates),
            flag("tls-cert-file", &server.certificate),
            flag("tls-private-key-file", &server.key),
            flag("client-ca-file", authority.certificate()),
            flag("service-account-issuer", format!("https://127.0.0.1:{secure_port}/")),
            flag("service-account-key-file", public),
            flag("service-account-signing-key-file", private),
            flag("audit-policy-file", policy),
            flag("audit-log-path", folder.join("audit.log")),
            // Thousands of requests within a second are what some tests are about.
            flag("max-requests-inflight", "4000"),
            flag("max-mutating-requests-inflight", "2000"),
        ];
        Self {
            etcd: (assets.etcd.clone(), etcd),
            kube_apiserver: (assets.kube_apiserver.clone(), kube_apiserver),
            authority,
            url: format!("https://127.0.0.1:{secure_port}"),
            folder,
        }
    }

    fn etcd(&self) -> Process {
        let (program, arguments) = &self.etcd;
        Process::start(program, arguments, self.folder.join("etcd.log"))
    }

    fn kube_apiserver(&self) -> Process {
        let (program, arguments) = &self.kube_apiserver;
        Process::start(program, arguments, self.folder.join("kube-apiserver.log"))
    }

    fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    fn kubeconfig(&self, user: &str) -> PathBuf {
        let pair = self.authority.client(user, MASTERS);
        let credentials = serde_json::json!({"client-certificate": pair.certificate, "client-key": pair.key});
        self.write_kubeconfig(user, &credentials)
    }

    fn write_kubeconfig(&self, name: &str, credentials: &serde_json::Value) -> PathBuf {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{
                "name": name,
                "cluster": {"server": self.url, "certificate-authority": self.authority.certificate()},
            }],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        let path = self.folder.join(format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string()).expect("a kubeconfig is written");
        path
    }
}

/// A flag and its value as one argument.
fn flag(name: &str, value: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut text = OsString::from(format!("--{name}="));
    text.push(value);
    text
}
