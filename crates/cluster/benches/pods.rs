//! How many pods a second a cluster takes from their creation to Ready: created directly, bound, run and
//! reported, on an embedded server in the same process, with no startup delay.
//!
//! `cargo bench -p muster-cluster --bench pods [-- PODS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_apiserver::ApiServer;
use muster_cluster::{Cluster, DelayRange, Options};
use muster_machinery::Change;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::informer::{Informer, WatchedResource};
use tokio::task::JoinSet;

/// Creations under way at once.
const SIDE_BY_SIDE: usize = 64;

fn main() {
    let pods = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(10_000);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(async {
        let bare = measure(pods, false).await;
        println!("created only:     {:>7.0} pods/s ({pods} pods, {cores} cores)", rate(pods, bare));
        let whole = measure(pods, true).await;
        println!("created to Ready: {:>7.0} pods/s ({pods} pods, {cores} cores)", rate(pods, whole));
        let cpu = cpu_seconds();
        println!("process CPU:      {cpu:>7.2} s");
    });
}

fn rate(pods: usize, took: Duration) -> f64 {
    // Counts of pods are far below 2^52.
    u32::try_from(pods).map_or(f64::NAN, f64::from) / took.as_secs_f64()
}

async fn measure(pods: usize, simulate: bool) -> Duration {
    let server = ApiServer::new(muster_apiserver::Options::system().expect("the system has randomness"));
    let client = Client::in_process(server.service(), &ClientOptions { protobuf: false, ..ClientOptions::default() });
    let mut options = Options { pod_startup: DelayRange::ZERO, simulate, ..Options::default() };
    if !simulate {
        options.controllers.clear();
    }
    let cluster = Cluster::start(client.clone(), options).await.expect("the server answers");
    let ready = Arc::new(AtomicUsize::new(0));
    let mut informer: Informer<muster_objects::Pod> =
        Informer::new(client.clone(), WatchedResource::pods(), Duration::ZERO, 1);
    let counted = Arc::clone(&ready);
    informer.add_handler(move |change: &Change<muster_objects::Pod>| {
        let counts = match change {
            Change::Added(pod) => !simulate || pod.is_ready(),
            Change::Updated { old, new } => simulate && new.is_ready() && !old.is_ready(),
            Change::Deleted { .. } => false,
        };
        counted.fetch_add(usize::from(counts), Ordering::Relaxed);
    });
    let watch = tokio::spawn(informer.run());
    tokio::time::sleep(Duration::from_millis(300)).await;

    let began = Instant::now();
    let body = Bytes::from_static(
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"nginx:1.27","ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"1m","memory":"1Mi"}}}]}}"#,
    );
    let mut flights = JoinSet::new();
    for _ in 0..pods {
        if flights.len() == SIDE_BY_SIDE {
            flights.join_next().await;
        }
        let (client, body) = (client.clone(), body.clone());
        flights
            .spawn(async move { client.create("/api/v1/namespaces/default/pods", body).await.expect("it is created") });
    }
    while flights.join_next().await.is_some() {}
    while ready.load(Ordering::Relaxed) < pods {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = began.elapsed();
    watch.abort();
    cluster.stop().await;
    took
}

/// What this process has used so far, by the kernel's count.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: f64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}
