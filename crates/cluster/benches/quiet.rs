//! How long a quiet namespace waits beside a crowd: its one ReplicaSet is scaled again and again, on an empty cluster
//! and then beside thousands of ReplicaSets of another namespace that are scaled without a pause (B-27).
//!
//! The server, the controllers and both writers are in this process and share its cores.
//!
//! `cargo bench -p muster-cluster --bench quiet [-- REPLICASETS [ROUNDS]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_apiserver::ApiServer;
use muster_machinery::Change;
use muster_objects::{Pod, ReplicaSet};
use muster_runtime::client::{Client, Options as ClientOptions, PatchType};
use muster_runtime::informer::{Informer, WatchedResource};
use muster_runtime::manager::{Manager, Options};
use muster_runtime::metrics::Metrics;
use muster_runtime::shutdown;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How often the quiet ReplicaSet is scaled in each measurement, unless it is said.
const ROUNDS: usize = 100;
/// Its pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
/// Writes of the crowd that are under way at once.
const SIDE_BY_SIDE: usize = 16;

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let (crowd, rounds) = (numbers.next().unwrap_or(20_000), numbers.next().unwrap_or(ROUNDS));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(async {
        let stage = Stage::set().await;
        println!("{cores} cores; {rounds} rounds each");
        let empty = stage.measure("on an empty cluster", rounds).await;
        stage.create_crowd(crowd).await;
        let (writes, pushing) = stage.push(crowd);
        // The crowd is under way.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (before, began) = (writes.load(Ordering::Relaxed), Instant::now());
        let beside = stage.measure(&format!("beside {crowd} ReplicaSets"), rounds).await;
        let rate = ratio(writes.load(Ordering::Relaxed) - before, 1) / began.elapsed().as_secs_f64();
        drop(pushing);
        println!("the crowd was scaled {rate:.0} times a second; {} keys were ready at most", beside.most_ready);
        println!(
            "ratio: p50 {:.1}, p99 {:.1}",
            beside.p50.as_secs_f64() / empty.p50.as_secs_f64(),
            beside.p99.as_secs_f64() / empty.p99.as_secs_f64(),
        );
    });
}

fn ratio(of: usize, to: usize) -> f64 {
    // Far below 2^52.
    u32::try_from(of / to).map_or(f64::NAN, f64::from)
}

/// A server with its controllers, and the eyes on the quiet namespace.
struct Stage {
    client: Client,
    metrics: Metrics,
    created: tokio::sync::Mutex<mpsc::UnboundedReceiver<(Seen, Instant)>>,
    _stop: shutdown::Trigger,
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Scaled,
    Created,
    Deleted,
}

/// What was measured from the write of a scale to the sight of its pod.
struct Found {
    p50: Duration,
    p99: Duration,
    most_ready: u64,
}

impl Stage {
    async fn set() -> Self {
        let server = ApiServer::new(muster_apiserver::Options::system().expect("the system has randomness"));
        let client = Client::in_process(server.service(), &ClientOptions::default());
        let manager = Manager::new(&client, Options::default());
        let metrics = manager.metrics();
        let (stop, stopped) = shutdown::channel();
        tokio::spawn(manager.run(stopped));
        for namespace in ["crowd", "quiet"] {
            let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
            client.create("/api/v1/namespaces", body.into()).await.expect("it is created");
        }
        let resource = WatchedResource { namespace: Some("quiet".to_owned()), ..WatchedResource::pods() };
        let mut pods: Informer<Pod> = Informer::new(client.clone(), resource, Duration::ZERO, 1);
        let (tell, created) = mpsc::unbounded_channel();
        let told = tell.clone();
        pods.add_handler(move |change: &Change<Pod>| {
            let seen = match change {
                Change::Added(_) => Seen::Created,
                Change::Updated { .. } => return,
                Change::Deleted { .. } => Seen::Deleted,
            };
            let _ = tell.send((seen, Instant::now()));
        });
        // As the controllers watch them: those of all namespaces.
        let mut sets: Informer<ReplicaSet> =
            Informer::new(client.clone(), WatchedResource::replicasets(), Duration::ZERO, 2);
        sets.add_handler(move |change: &Change<ReplicaSet>| {
            if let Change::Updated { old, new } = change
                && &*new.meta.namespace == "quiet"
                && new.replicas > old.replicas
            {
                let _ = told.send((Seen::Scaled, Instant::now()));
            }
        });
        let (seen_pods, seen_sets) = (pods.store(), sets.store());
        tokio::spawn(pods.run());
        tokio::spawn(sets.run());
        seen_pods.synced().await;
        seen_sets.synced().await;
        let stage = Self { client, metrics, created: tokio::sync::Mutex::new(created), _stop: stop };
        stage.create("quiet", "web", 0).await;
        stage
    }

    async fn create(&self, namespace: &str, name: &str, replicas: u32) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        self.client.create(&path, replica_set(name, replicas)).await.expect("it is created");
    }

    /// Scales the quiet ReplicaSet up and down again, and says how long the pod took to come.
    async fn measure(&self, place: &str, rounds: usize) -> Found {
        let mut created = self.created.lock().await;
        let (mut took, mut seen, mut most_ready) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds), 0);
        for round in 0..rounds {
            let began = Instant::now();
            scale(&self.client, "quiet", "web", 1).await;
            // The one watch may be behind the other.
            for _ in 0..2 {
                match next(&mut created).await {
                    (Seen::Scaled, at) => seen.push(at.duration_since(began)),
                    (_, at) => took.push(at.duration_since(began)),
                }
            }
            scale(&self.client, "quiet", "web", 0).await;
            next(&mut created).await;
            most_ready = most_ready.max(self.ready());
            tokio::time::sleep(PAUSE).await;
            if (round + 1) % 20 == 0 {
                let ready = self.ready();
                println!("  {place}: {} of {rounds}, the last in {:.2?}, {ready} keys ready", round + 1, took[round]);
            }
        }
        took.sort_unstable();
        seen.sort_unstable();
        let found = Found { p50: took[rounds / 2], p99: took[rounds * 99 / 100], most_ready };
        println!("{place}: p50 {:.2?}, p99 {:.2?}, longest {:.2?}", found.p50, found.p99, took[rounds - 1]);
        println!(
            "  of these until a watch of all ReplicaSets showed the scale: p50 {:.2?}, p99 {:.2?}",
            seen[rounds / 2],
            seen[rounds * 99 / 100]
        );
        found
    }

    /// How many ReplicaSets wait for a worker.
    fn ready(&self) -> u64 {
        let metrics = self.metrics.encode();
        let depth = metrics.lines().find_map(|line| line.strip_prefix(r#"workqueue_depth{name="replicaset"} "#));
        depth.and_then(|depth| depth.parse().ok()).expect("the queue's depth is a metric")
    }

    async fn create_crowd(&self, crowd: usize) {
        let mut flights = JoinSet::new();
        for number in 0..crowd {
            if flights.len() == SIDE_BY_SIDE {
                flights.join_next().await;
            }
            let client = self.client.clone();
            flights.spawn(async move {
                let body = replica_set(&format!("web-{number}"), 1);
                client.create("/apis/apps/v1/namespaces/crowd/replicasets", body).await.expect("it is created");
            });
            if (number + 1) % 4_000 == 0 {
                println!("  the crowd: {} of {crowd} created", number + 1);
            }
        }
        while flights.join_next().await.is_some() {}
    }

    /// Scales the crowd up and down for as long as the tasks live; counts.
    fn push(&self, crowd: usize) -> (Arc<AtomicUsize>, JoinSet<()>) {
        let (mut tasks, writes) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for lane in 0..SIDE_BY_SIDE {
            let (client, writes) = (self.client.clone(), Arc::clone(&writes));
            tasks.spawn(async move {
                for replicas in [2, 1].into_iter().cycle() {
                    for number in (lane..crowd).step_by(SIDE_BY_SIDE) {
                        scale(&client, "crowd", &format!("web-{number}"), replicas).await;
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        (writes, tasks)
    }
}

async fn next(created: &mut mpsc::UnboundedReceiver<(Seen, Instant)>) -> (Seen, Instant) {
    created.recv().await.expect("the informers run")
}

async fn scale(client: &Client, namespace: &str, name: &str, replicas: u32) {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}");
    let body = Bytes::from(format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#));
    client.patch_metadata(&path, PatchType::Merge, body).await.expect("it is scaled");
}

fn replica_set(name: &str, replicas: u32) -> Bytes {
    Bytes::from(format!(
        r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{"containers":[{{"name":"app","image":"nginx:1.27"}}]}}}}}}}}"#
    ))
}
