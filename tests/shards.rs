//! `muster controller-manager --shards --group` from outside: members share a cluster, say who has what, hand over in
//! order, and keep a single leader waiting.

mod harness;
mod outside;

use std::process::Command;

use harness::tests;
use outside::asking::{Asked, explain};
use outside::manager::{Manager, wait_for};
use outside::{Cluster, MUSTER, muster, text};

tests! {
    members_share_the_namespaces_and_say_who_has_which: "kubectl",
    a_group_and_a_single_leader_keep_each_other_waiting: "kubectl",
    what_cannot_be_shared_is_refused,
}

const GROUP: &[&str] = &["--shards=8", "--group=main", "--leader-elect-retry-period=500ms"];
/// Two members have four shards each, and each shard about three of these.
const NAMESPACES: usize = 24;

/// Names that end differently, as those of teams do: they are near each other in the hash.
fn namespace(number: usize) -> String {
    format!("team-{number:03}")
}

/// A ReplicaSet of two pods in a namespace of its own.
fn replicaset(number: usize) -> String {
    let namespace = namespace(number);
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n---\n\
         apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web, namespace: {namespace}}}\nspec:\n  replicas: 2\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: c, image: nginx}}]}}\n---\n"
    )
}

fn cluster() -> Cluster {
    let cluster = Cluster::start(&["--controllers", "", "--nodes", "0"]);
    let all: String = (0..NAMESPACES).map(replicaset).collect();
    cluster.kubectl_with(&["apply", "-f", "-"], &all);
    cluster
}

fn pods(cluster: &Cluster) -> usize {
    cluster.kubectl(&["get", "pods", "--all-namespaces", "-o", "name"]).lines().count()
}

/// Who answers about the ReplicaSet of a namespace, once exactly one does and all others name another member.
fn holder(cluster: &Cluster, members: &[&Asked], number: usize) -> usize {
    let (config, namespace) = (cluster.kubeconfig(), namespace(number));
    wait_for(&format!("one member that has {namespace}"), || {
        let told = members.iter().map(|member| {
            let certificate = member.certificate();
            let asked = [&member.asked(&certificate, "rs/web")[..], &["-n", &namespace]].concat();
            let output = explain(&config, &asked);
            if output.status.success() {
                assert!(text(&output.stdout).contains("the manager that has its shard"), "{}", text(&output.stdout));
                return Some(true);
            }
            let said = text(&output.stderr);
            said.contains("is in a shard of another member of the group: ").then_some(false)
        });
        let told: Option<Vec<bool>> = told.collect();
        let told = told.filter(|told| told.iter().filter(|mine| **mine).count() == 1)?;
        told.iter().position(|mine| *mine)
    })
}

/// The line of an answer that names the shard, and the manager that has it.
fn shard(told: &str) -> Option<&str> {
    told.lines().find_map(|line| line.strip_prefix("  Manager: "))
}

/// Who has no manager at hand is told who has the object's shard, and so are the people who look at the metrics.
fn anybody_is_told(cluster: &Cluster, member: &Asked, number: usize) {
    let (config, namespace, certificate) = (cluster.kubeconfig(), namespace(number), member.certificate());
    let told = |asked: &[&str]| text(&explain(&config, &[asked, &["-n", &namespace]].concat()).stdout);
    let (by_api, by_member) = (told(&["rs/web"]), told(&member.asked(&certificate, "rs/web")));
    let said = shard(&by_api).unwrap_or_else(|| panic!("no shard in:\n{by_api}"));
    assert_eq!(shard(&by_member), Some(said));
    let number: u32 = said
        .strip_prefix("shard ")
        .and_then(|rest| rest.split_once(" of the group main, which "))
        .and_then(|(number, rest)| number.parse().ok().filter(|_| rest.ends_with(" has") && rest != "nobody has"))
        .unwrap_or_else(|| panic!("{said}"));
    let line = format!("muster_group_shard_held{{shard=\"{number}\"}} 1");
    wait_for(&line, || member.metrics().lines().any(|found| found == line).then_some(()));
}

/// Contract: SH-01, SH-05, SH-06
fn members_share_the_namespaces_and_say_who_has_which() {
    let cluster = cluster();
    let mut first = Asked::start_with(&cluster, GROUP, "working for a shard");
    let second = Asked::start_with(&cluster, GROUP, "working for a shard");
    wait_for("pods by either member", || (pods(&cluster) == 2 * NAMESPACES).then_some(()));
    let holders: Vec<usize> = (0..NAMESPACES).map(|number| holder(&cluster, &[&first, &second], number)).collect();
    // Nobody had pods when the shards were cut: it is the namespaces that were counted.
    for member in [0, 1] {
        let held = holders.iter().filter(|holder| **holder == member).count();
        assert!(held >= NAMESPACES / 4, "{held} by member {member}: {holders:?}");
    }

    // Whoever may write Leases in a namespace of their own is no group of this cluster.
    let another = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: a\n  namespace: default\n  \
                   labels: {muster.dev/group: another}\n  \
                   annotations: {muster.dev/cut: '', muster.dev/cut-generation: '9'}\n\
                   spec: {holderIdentity: group/another}\n";
    cluster.kubectl_with(&["apply", "-f", "-"], another);
    for (number, member) in holders.iter().enumerate().take(4) {
        anybody_is_told(&cluster, [&first, &second][*member], number);
    }
    let there = ["rs/web", "-n", &namespace(0), "--leader-elect-resource-namespace", "default"];
    let told = text(&explain(&cluster.kubeconfig(), &there).stdout);
    assert_eq!(shard(&told), Some("shard 0 of the group another, which nobody has"), "{told}");

    // A shadow beside them says it too.
    let into = tempfile::tempdir().expect("a temporary folder");
    let into = format!("--shadow-log={}", into.path().join("log").display());
    let shadow = Asked::start_with(&cluster, &["--shadow", "--shadow-manager", "muster", &into], "caches synced");
    let (certificate, config, namespace_of_it) = (shadow.certificate(), cluster.kubeconfig(), namespace(0));
    let story = [&shadow.asked(&certificate, "rs/web")[..], &["-n", &namespace_of_it, "--history"]].concat();
    let told = text(&explain(&config, &story).stdout);
    assert!(shard(&told).is_some_and(|said| said.contains(" of the group main, which ")), "{told}");
    drop(shadow);

    // What is not of one object is told of all shards of a member.
    let certificate = second.certificate();
    let inside = ["explain", "--inside", "--manager", &second.url, "--manager-certificate-authority", &certificate];
    let config = cluster.kubeconfig().to_string_lossy().into_owned();
    let told = text(&muster(&[&inside[..], &["--kubeconfig", &config]].concat()).stdout);
    assert!(told.contains("of the shards that it has") || told.contains("a manager of a group"), "{told}");
    for controller in ["deployment-controller", "replicaset-controller", "replicationcontroller-controller"] {
        assert_eq!(told.matches(controller).count(), 1, "{told}");
    }

    // An orderly end hands everything over, and nothing is lost or made twice.
    first.manager.signal("-TERM");
    assert_eq!(first.manager.ends().code(), Some(0), "{}", first.manager.log());
    for number in 0..NAMESPACES {
        assert_eq!(holder(&cluster, &[&second], number), 0);
        cluster.kubectl(&["scale", "rs/web", "-n", &namespace(number), "--replicas=3"]);
    }
    wait_for("pods by the other member", || (pods(&cluster) == 3 * NAMESPACES).then_some(()));
}

/// Contract: SH-05
fn a_group_and_a_single_leader_keep_each_other_waiting() {
    let cluster = cluster();
    let mut leader = Manager::start(&cluster, &["--secure-port=0", "--leader-elect-retry-period=500ms"]);
    leader.says("became leader");
    let mut member = Manager::start(&cluster, &[GROUP, &["--secure-port=0"]].concat());
    member.says("a member of a group");
    let holder = || {
        let lease = ["get", "lease", "-n", "kube-system", "muster-controller-manager", "-o"];
        cluster.kubectl(&[&lease[..], &["jsonpath={.spec.holderIdentity}"]].concat())
    };
    wait_for("pods by the leader", || (pods(&cluster) == 2 * NAMESPACES).then_some(()));
    assert!(!member.log().contains("working for a shard"), "{}", member.log());

    leader.signal("-TERM");
    assert_eq!(leader.ends().code(), Some(0), "{}", leader.log());
    member.says("working for a shard");
    assert_eq!(holder(), "group/main");

    let mut leader = Manager::start(&cluster, &["--secure-port=0", "--leader-elect-retry-period=500ms"]);
    leader.says("new leader");
    assert!(!leader.log().contains("became leader"), "{}", leader.log());
    member.signal("-TERM");
    assert_eq!(member.ends().code(), Some(0), "{}", member.log());
    leader.says("became leader");
    assert_eq!(pods(&cluster), 2 * NAMESPACES);
}

/// Contract: SH-05
fn what_cannot_be_shared_is_refused() {
    for (flags, code, said) in [
        (&["--shards=8"][..], 2, "--group"),
        (&["--group=main"], 2, "--shards"),
        (&["--shards=0", "--group=main"], 2, "--shards"),
        (&["--shards=8", "--group=main", "--shadow"], 2, "--shadow"),
        (&["--shards=8", "--group=main", "--leader-elect=false"], 1, "--leader-elect=false"),
        (&["--shards=8", "--group=No Name"], 1, "\"No Name\" must be 1 to 63 lower case letters"),
    ] {
        let output = Command::new(MUSTER)
            .args(["controller-manager", "--master=http://127.0.0.1:1", "--secure-port=0"])
            .args(flags)
            .output()
            .expect("the program runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {told}");
        assert!(told.contains(said), "{flags:?}: no {said:?} in:\n{told}");
    }
}
