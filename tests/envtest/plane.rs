//! The programs in a folder, and an API server that is started as envtest starts it.

use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::api::Api;
use crate::certificates::{Authority, Pair};
use crate::outside::{MUSTER, line_with, text, write};

/// A folder for `KUBEBUILDER_ASSETS`, which goes when this is dropped.
pub(crate) struct Assets(tempfile::TempDir);

impl Assets {
    /// As the command makes it.
    pub(crate) fn install() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = Command::new(MUSTER).args(["envtest", "--install"]).arg(folder.path()).output();
        let made = made.expect("the program runs");
        assert!(made.status.success(), "{}", text(&made.stderr));
        Self(folder)
    }

    /// Where a program of it is.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A program in a process group of its own; killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    /// Starts a program with nothing of ours in its environment but what is said.
    pub(crate) fn start(program: &Path, arguments: &[OsString], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .env_remove("RUST_LOG")
            .env_remove("MUSTER_ENVTEST")
            .envs(environment.iter().copied())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, log }
    }

    /// Reads its log up to a line that contains this, and gives that line.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        line_with(&mut self.log, text)
    }

    /// Sends SIGTERM to its process group, as envtest does, and waits for its end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("kill").args(["-TERM", "--", &group]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("the program ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that was free a moment ago, as envtest finds one.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// An API server with an authority for it and one for its clients, in a folder.
pub(crate) struct Plane {
    /// Requests of a member of `system:masters`.
    pub(crate) api: Api,
    pub(crate) server: Running,
    pub(crate) folder: tempfile::TempDir,
    clients: Authority,
    url: String,
    runtime: Runtime,
    _assets: Assets,
}

impl Plane {
    /// With envtest's flags, and these; `environment` is what `MUSTER_ENVTEST` says.
    pub(crate) fn start(flags: &[&str], environment: &str) -> Self {
        let assets = Assets::install();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let part = |name: &str| {
            let part = folder.path().join(name);
            fs::create_dir(&part).expect("a folder");
            part
        };
        let (serving, for_clients) = (part("serving"), part("clients"));
        let (own, clients) = (Authority::new(&serving), Authority::new(&for_clients));
        let shown = own.server();
        fs::rename(shown.certificate, serving.join("apiserver.crt")).expect("the server's certificate");
        fs::rename(shown.key, serving.join("apiserver.key")).expect("the server's key");
        let (private, public) = own.service_account_keys();
        let port = free_port();
        let url = format!("https://127.0.0.1:{port}");
        let path = |path: &Path| path.display().to_string();
        let mut arguments = vec![
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", path(&serving)),
            format!("--client-ca-file={}", path(&clients.certificate())),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", free_port()),
            format!("--secure-port={port}"),
            format!("--service-account-issuer={url}/"),
            format!("--service-account-key-file={}", path(&public)),
            format!("--service-account-signing-key-file={}", path(&private)),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--v=2".to_owned(),
        ];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        let environment = if environment.is_empty() { None } else { Some(("MUSTER_ENVTEST", environment)) };
        let mut server = Running::start(&assets.program("kube-apiserver"), &arguments, environment.as_slice());
        server.line_with("serving");
        let runtime = Runtime::new().expect("a runtime");
        let kubeconfig =
            kubeconfig(folder.path(), &url, "admin", &certificate(&clients.client("admin", "system:masters")));
        let api = Api::new(&kubeconfig, runtime.handle());
        Self { api, server, folder, clients, url, runtime, _assets: assets }
    }

    /// Requests of whoever has a certificate of that name and group.
    pub(crate) fn user(&self, name: &str, group: &str) -> Api {
        self.as_user(name, &certificate(&self.clients.client(name, group)))
    }

    /// Requests with that bearer token.
    pub(crate) fn by_token(&self, token: &str) -> Api {
        self.as_user("token", &json!({"token": token}))
    }

    /// Requests without a credential.
    pub(crate) fn nobody(&self) -> Api {
        self.as_user("nobody", &json!({}))
    }

    fn as_user(&self, name: &str, user: &Value) -> Api {
        Api::new(&kubeconfig(self.folder.path(), &self.url, name, user), self.runtime.handle())
    }
}

/// A user of a kubeconfig by a certificate.
fn certificate(pair: &Pair) -> Value {
    json!({"client-certificate": pair.certificate, "client-key": pair.key})
}

/// A kubeconfig of a user, who trusts the server's authority only.
fn kubeconfig(folder: &Path, url: &str, name: &str, user: &Value) -> PathBuf {
    let authority = folder.join("serving/ca.crt");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    PathBuf::from(write(folder, &format!("kubeconfig-{name}"), &config.to_string()))
}
