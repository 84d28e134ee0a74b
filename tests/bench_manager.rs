//! `muster bench manager` from outside, against a `muster up` without controllers: every phase with small sizes, and
//! what it says where it cannot measure.

#![cfg_attr(not(target_os = "linux"), allow(unused, reason = "what a manager uses is read from /proc"))]

mod harness;
mod outside;

use std::process::{Command, Output, Stdio};

use harness::tests;
use outside::manager::wait_for;
use outside::{Cluster, MUSTER, muster, text};
use serde_json::Value;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
tests! {
    every_phase_gives_its_figures_and_leaves_nothing: "kubectl",
    two_managers_stand_side_by_side_and_a_cluster_without_nodes_gets_some_meanwhile: "kubectl",
    members_of_a_group_stand_beside_a_leader: "kubectl",
    an_interrupt_leaves_nothing: "kubectl",
    what_cannot_be_measured_is_told,
    a_server_that_is_not_there_is_named_by_its_file,
}

/// A cluster whose controllers are left to others.
fn cluster(arguments: &[&str]) -> Cluster {
    Cluster::start(&[&["--controllers", "", "--pod-startup", "0s"], arguments].concat())
}

fn bench(cluster: &Cluster, arguments: &[&str]) -> Output {
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let common = ["bench", "manager", "--kubeconfig", &kubeconfig, "--rounds", "1"];
    muster(&[&common[..], arguments].concat())
}

fn findings(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The names of what is left on the server of this kind.
fn left(cluster: &Cluster, kind: &str) -> Vec<String> {
    let names = cluster.kubectl(&["get", kind, "--all-namespaces", "-o", "name"]);
    names.lines().filter(|name| name.contains("bench") || kind != "namespaces").map(str::to_owned).collect()
}

fn every_phase_gives_its_figures_and_leaves_nothing() {
    let cluster = cluster(&[]);
    let sizes = ["--pods", "40", "--replicasets", "3", "--replicas", "7", "--deployments", "2"];
    let more = ["--deployment-replicas", "4", "--cached-pods", "25", "--rest", "1s", "-o", "json"];
    let found = findings(&bench(&cluster, &[&sizes[..], &more].concat()));
    assert!(found["cores"].as_u64().is_some_and(|cores| cores > 0), "{found:#}");
    assert_eq!((&found["nodes_simulated"], &found["other_pods"]), (&false.into(), &0.into()), "{found:#}");
    let managers = found["managers"].as_array().unwrap();
    assert_eq!(managers.iter().map(|manager| &manager["name"]).collect::<Vec<_>>(), ["muster"]);
    for manager in managers {
        for (phase, figures) in [
            ("rest", &["ready_seconds", "resident_mib", "peak_mib"][..]),
            ("replicaset", &["seconds", "direct_seconds", "ratio_to_direct"]),
            ("many", &["seconds", "resident_mib", "peak_mib"]),
            ("rollouts", &["seconds", "resident_mib", "peak_mib"]),
            ("restart", &["ready_seconds", "resident_mib", "peak_mib"]),
        ] {
            for figure in figures {
                let value = manager["medians"][phase][figure].as_f64();
                assert!(value.is_some_and(|value| value > 0.0), "{phase} {figure}: {manager:#}");
            }
            let cpu = manager["medians"][phase]["cpu_seconds"].as_f64();
            assert!(cpu.is_some_and(|cpu| cpu >= 0.0), "{phase}: {manager:#}");
            assert_eq!(manager["rounds"][phase].as_array().map(Vec::len), Some(1), "{manager:#}");
        }
        let peak = |phase: &str| manager["medians"][phase]["peak_mib"].as_f64().unwrap();
        let resident = |phase: &str| manager["medians"][phase]["resident_mib"].as_f64().unwrap();
        assert!(["rest", "many", "rollouts", "restart"].iter().all(|phase| peak(phase) >= resident(phase)));
    }
    for kind in ["namespaces", "replicasets", "deployments", "pods"] {
        assert_eq!(left(&cluster, kind), [""; 0], "{kind}");
    }
    assert_eq!(left(&cluster, "nodes").len(), 3, "the cluster's own stay");
}

fn two_managers_stand_side_by_side_and_a_cluster_without_nodes_gets_some_meanwhile() {
    let cluster = cluster(&["--nodes", "0"]);
    let second =
        format!("again={MUSTER} controller-manager --kubeconfig {{kubeconfig}} --leader-elect=F --secure-port 0");
    let both = ["--manager", "muster", "--manager", &second];
    let sizes = ["--phases", "rollouts", "--deployments", "1", "--deployment-replicas", "2"];
    let output = bench(&cluster, &[&both[..], &sizes].concat());
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("rollouts: 1 Deployments of 2 pods, on simulated nodes"), "{said}");
    assert!(said.contains("cores") && said.contains("all complete, s"), "{said}");
    let head = said.lines().find(|line| line.ends_with("muster/again")).unwrap_or_default();
    assert_eq!(head.split_whitespace().collect::<Vec<_>>(), ["muster", "again", "muster/again"], "{said}");
    for kind in ["nodes", "namespaces", "leases"] {
        assert_eq!(left(&cluster, kind), [""; 0], "{kind}");
    }
}

/// Contract: SH-04
fn members_of_a_group_stand_beside_a_leader() {
    let cluster = cluster(&[]);
    let group = ["--shards", "4", "--members", "2", "--replicasets", "6", "--replicas", "5", "-o", "json"];
    let output = bench(&cluster, &group);
    let found = findings(&output);
    let size = "6 namespaces of 5 pods and 1 more; 4 shards, 2 members";
    assert_eq!(found["sizes"], serde_json::json!({ "group": size }), "{found:#}");
    let managers = found["managers"].as_array().unwrap();
    let names: Vec<_> = managers.iter().filter_map(|manager| manager["name"].as_str()).collect();
    assert_eq!(names, ["leader", "member-1", "member-2", "members"]);
    let figure = |at: usize, name: &str| managers[at]["medians"]["group"][name].as_f64();
    for (at, name) in names.iter().enumerate() {
        let known = |name: &str| figure(at, name).is_some_and(|value| value > 0.0);
        assert!(known("resident_mib") && known("peak_mib"), "{found:#}");
        // The system counts CPU in hundredths of a second, and so little may take none.
        let counted = |name: &str| figure(at, name).is_some_and(|cpu| cpu >= 0.0);
        assert!(counted("start_cpu_seconds") && counted("cpu_seconds"), "{found:#}");
        // What all members took together is no one process's.
        assert_eq!(known("ready_seconds") && known("seconds"), ["leader", "members"].contains(name), "{found:#}");
    }
    let sum = figure(1, "resident_mib").zip(figure(2, "resident_mib")).map(|(one, two)| one + two);
    assert!(sum.zip(figure(3, "resident_mib")).is_some_and(|(sum, all)| (sum - all).abs() < 1e-6), "{found:#}");
    let command = |at: usize| managers[at]["command"].to_string();
    assert!(command(0).contains("--leader-elect=false") && command(2).contains("--shards=4"), "{found:#}");
    assert!(text(&output.stderr).contains("group, round 1: member-2: cpu_seconds"), "{}", text(&output.stderr));
    for kind in ["namespaces", "replicasets", "pods"] {
        assert_eq!(left(&cluster, kind), [""; 0], "{kind}");
    }

    let output = bench(&cluster, &["--shards", "2", "--members", "3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--members: found 3, expected at most one for each of the 2 shards"));
}

fn an_interrupt_leaves_nothing() {
    let cluster = cluster(&[]);
    let child = Command::new(MUSTER)
        .args(["bench", "manager", "--phases", "rest", "--rest", "10m", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a namespace of the bench's", || (!left(&cluster, "namespaces").is_empty()).then_some(()));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).ends_with("error: interrupted\n"), "{}", text(&output.stderr));
    assert_eq!(left(&cluster, "namespaces"), [""; 0]);
}

fn what_cannot_be_measured_is_told() {
    let cluster = cluster(&[]);
    let manager = |command: &str| {
        let output = bench(&cluster, &["--phases", "rest", "--manager", command]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        text(&output.stderr)
    };
    let said = manager("none=/nowhere/at/all");
    assert!(said.contains("rest: none: --manager none: /nowhere/at/all cannot be run"), "{said}");
    let said = manager("mute=sh -c 'echo no such luck; exit 7'");
    assert!(said.contains("manager mute ended (exit status: 7)") && said.contains("  no such luck"), "{said}");

    let idle = ["--phases", "rest", "--manager", "idle=sleep 600", "--timeout", "1s"];
    let output = bench(&cluster, &idle);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rest: idle: after 1s still waiting for the pod of probe-0-0"), "{said}");

    let twice = bench(&cluster, &["--manager", "muster", "--manager", "muster"]);
    assert!(text(&twice.stderr).contains("two of them are called muster"), "{}", text(&twice.stderr));
}

fn a_server_that_is_not_there_is_named_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = outside::write(
        folder.path(),
        "kubeconfig",
        "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {token: t}}],
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c, user: u}}]}",
    );
    let output = muster(&["bench", "manager", "--kubeconfig", &file]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("error: {file}: its server: ")), "{said}");
    let output = muster(&["bench", "manager", "--kubeconfig", "/nowhere/at/all"]);
    assert!(text(&output.stderr).starts_with("error: /nowhere/at/all: "), "{}", text(&output.stderr));
}
