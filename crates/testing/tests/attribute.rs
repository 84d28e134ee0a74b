//! The attribute: what a test is handed, in which time it runs, and for which seeds.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, ListParams};
use muster_testing as muster;
use muster_testing::Cluster;
use tokio::time::{Instant, sleep};

#[muster::test]
async fn a_test_is_handed_a_client(client: Client) -> Result<(), kube::Error> {
    Api::<ConfigMap>::all(client).list(&ListParams::default()).await.map(drop)
}

#[muster::test(nodes = 3, controllers = "", pod_startup = Duration::ZERO)]
async fn or_a_cluster(cluster: &Cluster) {
    cluster.settled().await.unwrap();
    let nodes = Api::<Node>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), 3);
}

#[muster::test]
async fn or_both_in_any_order(cluster: &Cluster, client: Client) {
    Api::<ConfigMap>::all(client).list(&ListParams::default()).await.unwrap();
    cluster.settled().await.unwrap();
}

#[muster::test(nodes = 2)]
async fn or_an_api_of_a_kind(cluster: &Cluster, nodes: Api<Node>, maps: Api<ConfigMap>) {
    cluster.settled().await.unwrap();
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let map = ConfigMap { metadata: named("a"), ..Default::default() };
    assert_eq!(maps.create(&Default::default(), &map).await.unwrap().metadata.namespace.as_deref(), Some("default"));
}

#[muster::test]
async fn an_hour_takes_no_time(_client: Client) {
    let begun = std::time::Instant::now();
    sleep(Duration::from_secs(3000)).await;
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[muster::test(paused = false)]
async fn unless_time_passes(_client: Client) {
    let (begun, wall) = (Instant::now(), std::time::Instant::now());
    sleep(Duration::from_millis(20)).await;
    assert!(begun.elapsed() >= Duration::from_millis(20) && wall.elapsed() >= Duration::from_millis(20));
}

#[muster::test(seed = 5, seeds = 4, nodes = 0, controllers = "")]
async fn each_seed_has_its_own_cluster(client: Client) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&Default::default(), &ConfigMap { metadata: named("only"), ..Default::default() }).await.unwrap();
    assert!(run < 4);
}

#[muster::test]
#[should_panic(expected = "it failed")]
async fn a_test_that_returns_an_error_has_failed(_client: Client) -> Result<(), &'static str> {
    Err("it failed")
}

#[muster::test(timeout = 60)]
#[should_panic(expected = "has not ended after 60s")]
async fn a_test_that_does_not_end_has_failed() {
    std::future::pending::<()>().await;
}

/// What the next test runs it with, so that it fails with some seeds, and always with the same.
const PICKY: &str = "MUSTER_TESTING_PICKY";

#[muster::test(seeds = 20, nodes = 0, controllers = "")]
async fn fails_sometimes(client: Client) {
    if std::env::var_os(PICKY).is_none() {
        return;
    }
    let made = Api::<ConfigMap>::default_namespaced(client);
    let made =
        made.create(&Default::default(), &ConfigMap { metadata: generated(), ..Default::default() }).await.unwrap();
    assert!(!made.metadata.name.unwrap().ends_with(['b', 'c', 'd', 'f', 'g']), "a name that it does not like");
}

#[test]
fn a_failure_names_its_seed_and_is_repeated_by_it() {
    let run = |variables: &[(&str, &str)]| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "fails_sometimes", "--nocapture"]);
        test.env_remove("MUSTER_SEED").env_remove("MUSTER_SEEDS").env(PICKY, "").envs(variables.iter().copied());
        let output = test.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, said) = run(&[]);
    assert!(!passed);
    let line = said.lines().find(|line| line.starts_with("failed with seed ")).expect(&said);
    let seed = line.split("MUSTER_SEED=").nth(1).and_then(|rest| rest.split(' ').next()).expect(line);
    assert!(line.ends_with(" cargo test fails_sometimes -- --exact"), "{line}");
    let (passed, again) = run(&[("MUSTER_SEED", seed)]);
    assert!(!passed && again.contains(line), "{again}");
    // Those before it have passed.
    assert!(run(&[("MUSTER_SEEDS", seed)]).0);
    assert!(run(&[("MUSTER_SEEDS", "0")]).1.contains("found 0 seeds, expected 1 or more (`seeds`, or MUSTER_SEEDS)"));
    assert!(run(&[("MUSTER_SEED", "x")]).1.contains("MUSTER_SEED: found \"x\", expected a whole number"));
}

fn named(name: &str) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}

fn generated() -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { generate_name: Some("a-".to_owned()), ..Default::default() }
}
