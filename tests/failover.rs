//! Two processes with one Lease, and real signals: the leader is killed or frozen while it creates thousands of pods.

mod harness;
mod outside;

use harness::tests;
use outside::Cluster;
use outside::manager::Manager;
use outside::pods::Watch;

tests! {
    a_leader_killed_in_a_scale_up_is_followed_without_a_pod_too_many: "kubectl",
    a_leader_frozen_in_a_scale_up_wakes_up_and_writes_nothing: "kubectl",
}

const PODS: usize = 2_000;
/// How many of them there are when the leader goes.
const ENOUGH: usize = 500;
/// An election that is over within seconds, with room for a busy machine; and a pace at which there is time to go in
/// the middle of the work.
const FLAGS: &[&str] = &[
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
    "--kube-api-qps=400",
    "--kube-api-burst=100",
    "--secure-port=0",
];

/// Contract: CM-04, CM-05, B-12
fn a_leader_killed_in_a_scale_up_is_followed_without_a_pod_too_many() {
    let mut scene = Scene::start();
    scene.first.signal("-KILL");
    scene.first.ends();
    scene.is_taken_over();
    scene.is_finished();
}

/// Contract: CM-04, CM-05, B-12
fn a_leader_frozen_in_a_scale_up_wakes_up_and_writes_nothing() {
    let mut scene = Scene::start();
    scene.first.signal("-STOP");
    scene.is_taken_over();
    // It wakes up while the other is at work, with its own work in its hands.
    scene.watch.read(|seen| seen.count() >= PODS / 2);
    scene.first.signal("-CONT");
    assert_eq!(scene.first.ends().code(), Some(1), "{}", scene.first.log());
    let said = scene.first.log();
    assert!(said.contains("error: the lease kube-system/muster-controller-manager is lost"), "{said}");
    scene.is_finished();
}

/// A leader in the middle of a scale-up, and another that stands by.
struct Scene {
    first: Manager,
    second: Manager,
    watch: Watch,
    cluster: Cluster,
}

impl Scene {
    fn start() -> Self {
        // Pods that nobody runs are enough, and cost less.
        let cluster = Cluster::start(&["--controllers", "", "--nodes", "0"]);
        let mut first = Manager::start(&cluster, FLAGS);
        first.says("became leader");
        let mut second = Manager::start(&cluster, FLAGS);
        second.says("new leader");
        second.says("caches synced");
        let set = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web, namespace: default}\nspec:\n  \
                   replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    \
                   metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: nginx}]}\n";
        cluster.kubectl_with(&["apply", "-f", "-"], set);
        let mut watch = Watch::start(&cluster);
        watch.read(|seen| seen.count() >= 1);
        cluster.kubectl(&["scale", "rs", "web", &format!("--replicas={PODS}")]);
        watch.read(|seen| seen.count() >= ENOUGH);
        Self { first, second, watch, cluster }
    }

    fn is_taken_over(&mut self) {
        self.second.says("became leader");
        assert!(self.pods() < PODS, "the scale-up was over before the leader went");
    }

    /// All pods are there, each was made once, and none was taken away.
    fn is_finished(&mut self) {
        let all = format!("--for=jsonpath={{.status.replicas}}={PODS}");
        self.cluster.kubectl(&["wait", "rs/web", &all, "--timeout=300s"]);
        assert_eq!(self.pods(), PODS);
        self.watch.read(|seen| seen.count() >= PODS);
        assert_eq!(self.watch.deleted, 0);
        let lease = ["get", "lease", "-n", "kube-system", "muster-controller-manager", "-o"];
        let field = |path: &str| self.cluster.kubectl(&[&lease[..], &[path]].concat());
        assert_eq!(field("jsonpath={.spec.leaseTransitions}"), "1", "one take-over");

        // Nobody writes any more: neither the one who leads nor the one who woke up.
        let version = || self.cluster.kubectl(&["get", "rs", "web", "-o", "jsonpath={.metadata.resourceVersion}"]);
        let before = version();
        self.second.signal("-TERM");
        assert_eq!(self.second.ends().code(), Some(0), "{}", self.second.log());
        assert_eq!(version(), before);
        assert_eq!(self.pods(), PODS);
    }

    /// How many pods there are, by a page of one: thousands are more than a test wants to read.
    fn pods(&self) -> usize {
        let page = self.cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/default/pods?limit=1"]);
        let page: serde_json::Value = serde_json::from_str(&page).expect("a list");
        let items = page["items"].as_array().map_or(0, Vec::len);
        items + page["metadata"]["remainingItemCount"].as_u64().map_or(0, |rest| usize::try_from(rest).unwrap())
    }
}
