//! `muster-manager` from outside: a process, and a cluster that another one serves.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, ListParams, PostParams};
use muster_testing::Cluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_muster-manager");

/// Killed when a test fails, too.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    async fn ends(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
        tokio::task::spawn_blocking(move || self.0.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn output(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("RUST_LOG");
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout), text(stderr))
}

/// Contract: CM-01, CM-03, CM-04, CM-07
#[tokio::test]
async fn it_runs_the_controllers_and_explains_them() {
    // For a machine that has much else to do.
    let patience = Duration::from_secs(300);
    let cluster = Cluster::builder().controllers("").patience(patience).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.listen().await.unwrap().kubeconfig()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let running = Running::start(&["controller-manager", &kubeconfig, "--secure-port=0"]);

    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let web: Deployment = serde_json::from_value(web).unwrap();
    deployments.create(&PostParams::default(), &web).await.unwrap();
    let available = |web: Option<&Deployment>| web.and_then(|web| web.status.as_ref()?.available_replicas) == Some(3);
    cluster.until(&deployments, "web", available).await.unwrap();
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);

    let (explained, text, said) = output(&["explain", "deployment/web", &kubeconfig, "-o", "json"]).await;
    assert!(explained, "{said}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["kind"], &told["object"]["name"]), (&json!("Explanation"), &json!("web")), "{text}");
    assert_eq!(running.ends(Signal::SIGTERM).await.code(), Some(0));
}

/// Contract: CM-02
#[tokio::test]
async fn its_commands_are_those_of_muster_that_need_no_cluster_of_their_own() {
    let (helped, help, said) = output(&["--help"]).await;
    assert!(helped, "{said}");
    for command in ["controller-manager", "explain", "shadow"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    assert!(!help.contains("\n  up "), "{help}");
    // kube-controller-manager's flags are taken, and a value that is none is refused with 2.
    let (taken, _, said) = output(&["controller-manager", "--cluster-cidr=10.0.0.0/8", "--help"]).await;
    assert!(taken, "{said}");
    let mut refused = Command::new(PROGRAM);
    let refused = refused.args(["controller-manager", "--concurrent-rc-syncs=none"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--concurrent-rc-syncs"));
}
