//! `muster controller-manager` from outside: processes with one Lease against an API server that another process
//! serves.

mod harness;
mod outside;

use std::net::TcpListener;
use std::process::Command;

use harness::tests;
use outside::manager::{Manager, wait_for};
use outside::workloads::{SET, WORKLOADS};
use outside::{Cluster, muster, text, write};

tests! {
    another_takes_over_from_a_leader_that_was_killed: "kubectl",
    a_leader_that_was_frozen_past_its_lease_ends_itself: "kubectl",
    a_lease_reserved_by_hand_keeps_everyone_back_and_takes_the_lead_away: "kubectl",
    a_second_signal_ends_it_at_once: "kubectl",
    health_and_metrics_are_served_over_https: "kubectl",
    without_an_election_it_works_at_once_and_leaves_no_lease: "kubectl",
    all_controllers_work_whether_pods_come_as_json_or_protobuf: "kubectl",
    a_plugin_for_credentials_is_run_once: "kubectl",
    a_plugin_that_hangs_keeps_no_signal_from_working,
    a_bad_setting_is_named_with_what_was_found_and_what_was_expected,
    the_help_has_every_flag_and_examples,
}

/// An election that is over within seconds, with room for a busy machine.
const BRISK: &[&str] =
    &["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms"];

/// A cluster that no controller of ours works for.
fn cluster() -> Cluster {
    Cluster::start(&["--controllers", "", "--pod-startup", "0s", "--pod-shutdown", "0s"])
}

fn wait_for_ready(cluster: &Cluster, replicas: u32) {
    let ready = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
    cluster.kubectl(&["wait", "rs/web", &ready, "--timeout=300s"]);
}

fn pods(cluster: &Cluster) -> usize {
    cluster.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count()
}

fn lease(cluster: &Cluster, field: &str) -> String {
    let path = format!("jsonpath={{.spec.{field}}}");
    cluster.kubectl(&["get", "lease", "-n", "kube-system", "muster-controller-manager", "-o", &path])
}

/// Contract: CM-04, CM-05, CM-07, B-12
fn another_takes_over_from_a_leader_that_was_killed() {
    let cluster = cluster();
    let arguments = [BRISK, &["--secure-port=0"]].concat();
    let mut first = Manager::start(&cluster, &arguments);
    first.says("became leader");
    let mut second = Manager::start(&cluster, &arguments);
    second.says("new leader");
    second.says("caches synced");
    let holder = lease(&cluster, "holderIdentity");
    assert_eq!(lease(&cluster, "leaseTransitions"), "0");

    cluster.kubectl_with(&["apply", "-f", "-"], SET);
    wait_for_ready(&cluster, 3);
    let events = ["get", "events", "-n", "kube-system", "--field-selector", "reason=LeaderElection", "-o"];
    let told = wait_for("the Event of the election", || {
        let told = cluster.kubectl(&[&events[..], &["jsonpath={.items[*].message}"]].concat());
        (!told.is_empty()).then_some(told)
    });
    assert_eq!(told, format!("{holder} became leader"));

    first.signal("-KILL");
    first.ends();
    cluster.kubectl(&["scale", "rs", "web", "--replicas=5"]);
    assert!(!second.log().contains("starting workers"), "a standby writes nothing:\n{}", second.log());
    second.says("became leader");
    wait_for_ready(&cluster, 5);
    assert_eq!(pods(&cluster), 5);
    assert_ne!(lease(&cluster, "holderIdentity"), holder);
    assert_eq!(lease(&cluster, "leaseTransitions"), "1");

    second.signal("-TERM");
    assert_eq!(second.ends().code(), Some(0), "{}", second.log());
    assert_eq!(lease(&cluster, "holderIdentity"), "", "released");
    // The next one need not wait for anything to run out.
    let mut third = Manager::start(&cluster, &["--leader-elect-lease-duration=1h", "--secure-port=0"]);
    third.says("became leader");
    third.signal("-INT");
    assert_eq!(third.ends().code(), Some(0), "{}", third.log());
}

/// Contract: CM-05
fn a_leader_that_was_frozen_past_its_lease_ends_itself() {
    let cluster = cluster();
    let arguments = [BRISK, &["--secure-port=0"]].concat();
    let mut first = Manager::start(&cluster, &arguments);
    first.says("became leader");
    cluster.kubectl_with(&["apply", "-f", "-"], SET);
    wait_for_ready(&cluster, 3);
    let mut second = Manager::start(&cluster, &arguments);
    second.says("new leader");
    first.signal("-STOP");
    cluster.kubectl(&["scale", "rs", "web", "--replicas=2"]);
    second.says("became leader");
    wait_for_ready(&cluster, 2);
    cluster.kubectl(&["scale", "rs", "web", "--replicas=6"]);
    first.signal("-CONT");
    assert_eq!(first.ends().code(), Some(1), "{}", first.log());
    assert!(first.log().contains("error: the lease kube-system/muster-controller-manager is lost"), "{}", first.log());
    wait_for_ready(&cluster, 6);
    wait_for("6 pods, and none that is terminating", || (pods(&cluster) == 6).then_some(()));
    second.signal("-TERM");
    assert_eq!(second.ends().code(), Some(0), "{}", second.log());
}

/// Contract: CM-04, CM-05, B-12
fn a_lease_reserved_by_hand_keeps_everyone_back_and_takes_the_lead_away() {
    let cluster = cluster();
    let reserved = "apiVersion: coordination.k8s.io/v1\nkind: Lease\n\
        metadata: {name: muster-controller-manager, namespace: kube-system}\n\
        spec: {holderIdentity: reserved-by-hand, leaseDurationSeconds: 2147483647}\n";
    cluster.kubectl_with(&["apply", "-f", "-"], reserved);
    let mut manager = Manager::start(&cluster, &[&["--secure-port=0"], BRISK].concat());
    manager.says("caches synced");
    manager.says("reserved-by-hand");
    cluster.kubectl_with(&["apply", "-f", "-"], SET);
    let hand = |spec: &str| {
        let patch = format!("{{\"spec\":{spec}}}");
        let lease = ["patch", "lease", "-n", "kube-system", "muster-controller-manager", "--type=merge", "-p"];
        cluster.kubectl(&[&lease[..], &[&patch]].concat());
    };
    assert_eq!(pods(&cluster), 0);
    hand("{\"holderIdentity\":\"\"}");
    wait_for_ready(&cluster, 3);
    hand("{\"holderIdentity\":\"reserved-by-hand\",\"leaseDurationSeconds\":2147483647}");
    assert_eq!(manager.ends().code(), Some(1), "{}", manager.log());
    assert!(manager.log().contains("\"reserved-by-hand\" holds it"), "{}", manager.log());
    assert_eq!(lease(&cluster, "holderIdentity"), "reserved-by-hand");
}

/// Contract: CM-07
fn a_second_signal_ends_it_at_once() {
    let cluster = cluster();
    let mut manager = Manager::start(&cluster, &["--secure-port=0"]);
    manager.says("starting workers");
    // The Lease cannot be released while the server does not answer.
    cluster.signal("-STOP");
    manager.signal("-TERM");
    manager.says("told to stop");
    // What comes within half a second is the same signal.
    wait_for("its end", || {
        manager.signal("-TERM");
        manager.has_ended()
    });
    assert_eq!(manager.ends().code(), Some(1), "{}", manager.log());
    assert!(manager.log().contains("error: a second signal"), "{}", manager.log());
    cluster.signal("-CONT");
    assert_ne!(lease(&cluster, "holderIdentity"), "");
}

/// Contract: CM-06, CM-08, B-32
fn health_and_metrics_are_served_over_https() {
    let cluster = cluster();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (secure_port, address) = (format!("--secure-port={port}"), format!("--server=https://127.0.0.1:{port}"));
    let flags = ["--bind-address=127.0.0.1", &secure_port, "--logging-format=json", "--cluster-cidr", "10.0.0.0/8"];
    let mut manager = Manager::start(&cluster, &flags);
    manager.says("starting workers");
    let raw = |path: &str| {
        let mut kubectl = Command::new("kubectl");
        kubectl.args([
            "--kubeconfig=/dev/null",
            "--token=none",
            "--insecure-skip-tls-verify",
            &address,
            "get",
            "--raw",
            path,
        ]);
        let output = kubectl.env_remove("KUBECONFIG").output().expect("kubectl runs");
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(raw(path), "ok", "{path}");
    }
    let verbose = "[+]ping ok\n[+]leaderElection ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(raw("/readyz?verbose"), verbose);
    assert!(raw("/livez?verbose").contains("[+]replicaset-controller ok\n"));
    let metrics = raw("/metrics");
    for line in [
        "leader_election_master_status{name=\"muster-controller-manager\"} 1",
        "# TYPE workqueue_adds counter",
        "# EOF",
        "workqueue_depth{name=\"replicaset\"} 0",
        "# TYPE workqueue_work_duration_seconds histogram",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no line {line:?} in:\n{metrics}");
    }

    let log = manager.log();
    for line in log.lines() {
        assert!(line.starts_with('{') && line.ends_with('}'), "JSON: {line}");
    }
    let warning = log.lines().find(|line| line.contains("\"setting\":\"--cluster-cidr\"")).unwrap_or_default();
    assert!(warning.contains("\"level\":\"WARN\"") && warning.contains("do not run here"), "{log}");
    manager.signal("-INT");
    assert_eq!(manager.ends().code(), Some(0), "{}", manager.log());
}

/// Contract: CM-04
fn without_an_election_it_works_at_once_and_leaves_no_lease() {
    let cluster = cluster();
    let folder = tempfile::tempdir().unwrap();
    let config =
        write(folder.path(), "muster.yaml", "leader-elect: false\nsecure-port: 0\ncontrollers: [replicaset]\n");
    let mut manager = Manager::start(&cluster, &["--config", &config]);
    cluster.kubectl_with(&["apply", "-f", "-"], SET);
    wait_for_ready(&cluster, 3);
    assert_eq!(cluster.kubectl(&["get", "leases", "-n", "kube-system", "-o", "name"]), "");
    manager.signal("-TERM");
    assert_eq!(manager.ends().code(), Some(0), "{}", manager.log());
}

/// A user of a kubeconfig whose credentials come from this script, as one line of YAML.
fn plugin(script: &str) -> String {
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "sh", "args": ["-c", script],
    });
    format!("exec: {exec}")
}

/// Every connection of the process, for watches, writes and the Lease, shares what the plugin said.
///
/// Contract: CM-03
fn a_plugin_for_credentials_is_run_once() {
    let cluster = cluster();
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let known = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let line = known.lines().find(|line| line.trim_start().starts_with("token: ")).expect("a token");
    let token = line.trim_start().trim_start_matches("token: ").trim_matches(['"', '\'']);
    let said = serde_json::json!({"kind": "ExecCredential", "status": {"token": token}});
    let script = format!("echo run >> {}; echo '{said}'", runs.display());
    let indent = &line[..line.len() - line.trim_start().len()];
    let text = known.replace(line, &format!("{indent}{}", plugin(&script)));
    let kubeconfig = write(folder.path(), "kubeconfig", &text);
    let mut manager = Manager::start_as(kubeconfig.as_ref(), &["--secure-port=0"]);
    manager.says("starting workers");
    manager.signal("-TERM");
    assert_eq!(manager.ends().code(), Some(0), "{}", manager.log());
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
}

/// Contract: CM-03, CM-07
fn a_plugin_that_hangs_keeps_no_signal_from_working() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: u, user: {{{}}}}}]}}",
        plugin(&format!("echo $$ >> {}; exec sleep 100000", runs.display()))
    );
    let kubeconfig = write(folder.path(), "kubeconfig", &text);
    let mut manager = Manager::start_as(kubeconfig.as_ref(), &["--secure-port=0"]);
    let plugin = wait_for("the plugin's run", || std::fs::read_to_string(&runs).ok().filter(|pid| !pid.is_empty()));
    manager.signal("-TERM");
    assert_eq!(manager.ends().code(), Some(0), "{}", manager.log());
    // It is ended with the process that waits for it.
    wait_for("the plugin's end", || {
        let alive = Command::new("kill").args(["-0", plugin.trim()]).output().unwrap().status.success();
        (!alive).then_some(())
    });
}

/// Contract: CM-01, CM-02
fn all_controllers_work_whether_pods_come_as_json_or_protobuf() {
    for content in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let cluster = cluster();
        let content = format!("--kube-api-content-type={content}");
        let flags = ["--leader-elect=false", "--secure-port=0", "--concurrent_rc_syncs=1", &content];
        let mut manager = Manager::start(&cluster, &flags);
        cluster.kubectl_with(&["apply", "-f", "-"], WORKLOADS);
        for (workload, replicas) in [("deployment/site", "3"), ("rc/classic", "2")] {
            wait_for(workload, || {
                let ready = cluster.kubectl(&["get", workload, "-o", "jsonpath={.status.readyReplicas}"]);
                (ready == replicas).then_some(())
            });
        }
        assert_eq!(cluster.kubectl(&["get", "pods", "-o", "name"]).lines().count(), 5, "{content}");
        manager.signal("-TERM");
        assert_eq!(manager.ends().code(), Some(0), "{}", manager.log());
    }
}

/// Contract: CM-01, CM-02, CM-03, CM-04, CM-06
fn a_bad_setting_is_named_with_what_was_found_and_what_was_expected() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--secure-port={}", taken.local_addr().unwrap().port());
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: \
                      'http://127.0.0.1:1'}}], users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: \
                      c, user: u}}]}";
    let kubeconfig = format!("--kubeconfig={}", write(folder.path(), "kubeconfig", kubeconfig));
    let empty = write(folder.path(), "empty.pem", "");
    let (certificate, key) = (format!("--tls-cert-file={empty}"), format!("--tls-private-key-file={empty}"));
    let typo = format!("--config={}", write(folder.path(), "typo.yaml", "secure-prot: 1\n"));
    let other = format!("--config={}", write(folder.path(), "other.yaml", "kube_api_qps: 5\nsecure_prot: 1\n"));
    for (flags, code, expected) in [
        (&["--nosuch"][..], 2, &["--nosuch"][..]),
        (&["--concurrent-replicaset-syncs=0"], 2, &["--concurrent-replicaset-syncs", "'0'", "1 to 10000"]),
        (&["--concurrent_rc_syncs", "-1"], 2, &["-1"]),
        (&["--secure-port=65536"], 2, &["--secure-port", "65536", "0..=65535"]),
        (&["--bind-address=here"], 2, &["--bind-address", "'here'", "IP address"]),
        (&["--leader-elect=perhaps"], 2, &["--leader-elect", "'perhaps'", "expected true or false"]),
        (&["--leader-elect-lease-duration=soon"], 2, &["--leader-elect-lease-duration", "soon", "such as 200ms"]),
        (&["--leader-elect-resource-lock=endpoints"], 2, &["--leader-elect-resource-lock", "endpoints", "leases"]),
        (&["--leader-elect-resource-name=A/b"], 2, &["--leader-elect-resource-name", "A/b", "lower case"]),
        (
            &["--leader-elect-resource-name=kube-controller-manager", &kubeconfig],
            1,
            &["--leader-elect-resource-name", "found kube-controller-manager", "no other component"],
        ),
        (&["--kube-api-content-type=yaml"], 2, &["--kube-api-content-type", "'yaml'", "application/json"]),
        (&["--kube-api-qps=fast"], 2, &["--kube-api-qps", "fast", "0 or less for no limit"]),
        (&["--master=10.0.0.1"], 2, &["--master", "10.0.0.1", "https://"]),
        (&["--logging-format=xml"], 2, &["--logging-format", "xml", "text, json"]),
        (&["--tls-cert-file=a"], 2, &["--tls-private-key-file"]),
        (&["--feature-gates=PodDeletionCost=false"], 2, &["--feature-gates", "PodDeletionCost is true here"]),
        (&["--enable-leader-migration"], 2, &["--enable-leader-migration", "second lease"]),
        (&[&typo], 2, &["--config", "typo.yaml", "secure-prot", "secure-port"]),
        (&[&other], 2, &["--config", "other.yaml", "secure-prot", "secure-port"]),
        (&["--tls-cert-file=", "--master=", "--config=", "--kubeconfig=/nowhere/config"], 1, &["/nowhere/config"]),
        (&["--controllers=*,-nosuch", &kubeconfig], 1, &["--controllers", "nosuch", "replicaset-controller"]),
        (&["--controllers=job-controller", &kubeconfig], 1, &["--controllers", "job-controller"]),
        (&["--kubeconfig=/nowhere/config"], 1, &["--kubeconfig", "/nowhere/config"]),
        (
            &["--leader-elect-renew-deadline=20s", &kubeconfig],
            1,
            &["--leader-elect-lease-duration", "15s", "must be longer than the renew deadline (20s)"],
        ),
        (&[&kubeconfig, "--bind-address=127.0.0.1", &taken], 1, &["--secure-port", "in use"]),
        (&[&kubeconfig, &certificate, &key], 1, &["--tls-cert-file", "empty.pem"]),
    ] {
        let output = muster(&[&["controller-manager"], flags].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        for words in expected {
            assert!(said.contains(words), "{flags:?}: no {words:?} in:\n{said}");
        }
    }
}

fn the_help_has_every_flag_and_examples() {
    let said = text(&muster(&["help", "controller-manager"]).stdout);
    for words in [
        "--controllers",
        "--concurrent-rc-syncs",
        "--leader-elect-resource-name",
        "--secure-port",
        "Examples:",
        "--config",
    ] {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
}
