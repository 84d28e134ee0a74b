//! How long a quiet namespace waits beside a crowd: its one ReplicaSet is scaled again and again, on an empty cluster,
//! beside thousands of ReplicaSets of another namespace that are scaled without a pause, and beside the same at a half
//! and at a quarter of that rate, which leaves cores free (B-27).
//!
//! ```text
//!   scale sent -> watched -> ready -> taken -> creation sent -> answered -> shown
//!        |-- watched --|-put off-|-queue-|------ sync -----|-- create --|-- shown --|
//!        |-- bare scale: until a watch of that namespace alone shows it
//! ```
//!
//! The server, the controllers and both writers are in this process and share its cores. What this costs is shown by
//! the bare scale, and by the bare note: a write to a pod of the quiet namespace that nobody owns, until a watch shows
//! it.
//!
//! `cargo bench -p muster-cluster --bench quiet [-- REPLICASETS [ROUNDS]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_apiserver::ApiServer;
use muster_controllers::plan::{Failure, Resource, Written};
use muster_inspect::explain::Role;
use muster_inspect::history::{On, Sync};
use muster_machinery::Change;
use muster_objects::meta::ObjectKey;
use muster_objects::{Pod, ReplicaSet};
use muster_runtime::client::{Client, Options as ClientOptions, PatchType};
use muster_runtime::explain::{Explainer, Kind};
use muster_runtime::informer::{Informer, WatchedResource};
use muster_runtime::manager::{Manager, Options};
use muster_runtime::metrics::Metrics;
use muster_runtime::shutdown;
use muster_runtime::writer::{Write, Writer};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How often the quiet ReplicaSet is scaled in each measurement, unless it is said.
const ROUNDS: usize = 100;
/// Its pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
/// Writes of the crowd that are under way at once.
const SIDE_BY_SIDE: usize = 16;
/// The crowd is given this long to be under way.
const UNDER_WAY: Duration = Duration::from_secs(3);

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let (crowd, rounds) = (numbers.next().unwrap_or(20_000), numbers.next().unwrap_or(ROUNDS));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    // As a task like the others: the thread that blocks here would have a turn of its own.
    runtime.block_on(async { tokio::spawn(run(crowd, rounds)).await }).expect("nothing panics");
}

async fn run(crowd: usize, rounds: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut stage = Stage::set().await;
    println!("{cores} cores; {rounds} rounds each; milliseconds");
    let empty = stage.measure("an empty cluster", rounds).await;
    stage.create_crowd(crowd).await;
    let without_pause = stage.measure_beside(crowd, None, rounds).await;
    without_pause.compare(&empty);
    for part in [2.0, 4.0] {
        let throttled = stage.measure_beside(crowd, Some(without_pause.crowd / part), rounds).await;
        throttled.compare(&empty);
    }
}

/// A server with its controllers, and the eyes on the quiet namespace.
struct Stage {
    client: Client,
    metrics: Metrics,
    explainer: Explainer,
    /// How many rounds there were.
    rounds: usize,
    seen: UnboundedReceiver<(Seen, Instant)>,
    _stop: shutdown::Trigger,
}

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// A watch of the quiet namespace showed the scale.
    Bare,
    /// The handlers of the controller have got the scale.
    Watched,
    /// The controller sent the creation.
    Sent,
    /// The creation was answered.
    Answered,
    /// A watch of the quiet namespace showed the pod.
    Created,
    /// It showed that the pod is gone.
    Deleted,
    /// It showed the write to a pod that nobody owns.
    Noted,
}

/// The parts of a round, in the order of their columns.
const PARTS: [&str; 10] =
    ["total", "answered", "watched", "put off", "queue", "sync", "create", "shown", "bare scale", "bare note"];

/// What was measured.
struct Found {
    /// Of each part, in order of size.
    parts: [Vec<Duration>; PARTS.len()],
    /// Scales of the crowd in a second.
    crowd: f64,
}

impl Found {
    fn total(&self, percent: usize) -> Duration {
        percentile(&self.parts[0], percent)
    }

    fn compare(&self, empty: &Self) {
        let ratio = |percent| self.total(percent).as_secs_f64() / empty.total(percent).as_secs_f64();
        println!("  ratio to an empty cluster: p50 {:.1}, p99 {:.1}", ratio(50), ratio(99));
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// The client of the controllers, which tells when the quiet namespace's pod is created.
struct Told {
    client: Client,
    tell: UnboundedSender<(Seen, Instant)>,
}

impl Writer for Told {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        let Write::Create { namespace: "quiet", resource: &Resource::PODS, .. } = write else {
            return Writer::write(&self.client, write);
        };
        Box::pin(async move {
            let _ = self.tell.send((Seen::Sent, Instant::now()));
            let written = Writer::write(&self.client, write).await;
            let _ = self.tell.send((Seen::Answered, Instant::now()));
            written
        })
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        self.client.read(resource, key)
    }
}

impl Stage {
    async fn set() -> Self {
        let server = ApiServer::new(muster_apiserver::Options::system().expect("the system has randomness"));
        let client = Client::in_process(server.service(), &ClientOptions::default());
        let (tell, seen) = mpsc::unbounded_channel();
        let writer = Told { client: client.clone(), tell: tell.clone() };
        let mut manager = Manager::with_writer(&client, Arc::new(writer), Options::default());
        let (metrics, explainer) = (manager.metrics(), manager.explainer());
        // After the controller's own handlers.
        let sets = manager.informers().of::<ReplicaSet>(&WatchedResource::replicasets());
        sets.add_handler(tell_scales(Seen::Watched, &tell));
        let (stop, stopped) = shutdown::channel();
        tokio::spawn(manager.run(stopped));
        for namespace in ["crowd", "quiet"] {
            let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
            client.create("/api/v1/namespaces", body.into()).await.expect("it is created");
        }
        let quiet = |resource| WatchedResource { namespace: Some("quiet".to_owned()), ..resource };
        let mut pods: Informer<Pod> = Informer::new(client.clone(), quiet(WatchedResource::pods()), Duration::ZERO, 1);
        let told = tell.clone();
        pods.add_handler(move |change: &Change<Pod>| {
            let seen = match change {
                Change::Added(pod) if &*pod.meta.name == "note" => return,
                Change::Updated { new, .. } if &*new.meta.name == "note" => Seen::Noted,
                Change::Added(_) => Seen::Created,
                Change::Updated { .. } => return,
                Change::Deleted { .. } => Seen::Deleted,
            };
            let _ = told.send((seen, Instant::now()));
        });
        let mut sets: Informer<ReplicaSet> =
            Informer::new(client.clone(), quiet(WatchedResource::replicasets()), Duration::ZERO, 2);
        sets.add_handler(tell_scales(Seen::Bare, &tell));
        let (seen_pods, seen_sets) = (pods.store(), sets.store());
        tokio::spawn(pods.run());
        tokio::spawn(sets.run());
        seen_pods.synced().await;
        seen_sets.synced().await;
        let stage = Self { client, metrics, explainer, rounds: 0, seen, _stop: stop };
        stage.create("quiet", "web", 0).await;
        let note = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"note"},
            "spec":{"containers":[{"name":"app","image":"nginx:1.27"}]}}"#;
        stage.client.create("/api/v1/namespaces/quiet/pods", note.into()).await.expect("it is created");
        stage
    }

    async fn create(&self, namespace: &str, name: &str, replicas: u32) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        self.client.create(&path, replica_set(name, replicas)).await.expect("it is created");
    }

    /// The same beside the crowd, at that many of its scales a second or as fast as it can.
    async fn measure_beside(&mut self, crowd: usize, rate: Option<f64>, rounds: usize) -> Found {
        let (writes, pushing) = self.push(crowd, rate);
        tokio::time::sleep(UNDER_WAY).await;
        let (before, began) = (writes.load(Ordering::Relaxed), Instant::now());
        let place = match rate {
            Some(rate) => format!("beside {crowd} ReplicaSets, {rate:.0} scales a second"),
            None => format!("beside {crowd} ReplicaSets, scaled without a pause"),
        };
        let mut found = self.measure(&place, rounds).await;
        found.crowd = as_float(writes.load(Ordering::Relaxed) - before) / began.elapsed().as_secs_f64();
        println!("  the crowd was scaled {:.0} times a second", found.crowd);
        drop(pushing);
        // What the crowd has left to do is not of the next measurement.
        while self.ready() > 0 {
            tokio::time::sleep(UNDER_WAY).await;
        }
        found
    }

    /// Scales the quiet ReplicaSet up and down again, and says how long the pod took to come.
    async fn measure(&mut self, place: &str, rounds: usize) -> Found {
        let mut parts: [Vec<Duration>; PARTS.len()] = Default::default();
        let (mut most_ready, began, cpu) = (0, Instant::now(), cpu());
        let mut slowest = (Duration::ZERO, String::new());
        for round in 0..rounds {
            self.rounds += 1;
            let found = self.round(self.rounds).await;
            if found[0] > slowest.0 {
                slowest = (found[0], self.told(found[0]));
            }
            parts.iter_mut().zip(found).for_each(|(part, found)| part.push(found));
            most_ready = most_ready.max(self.ready());
            tokio::time::sleep(PAUSE).await;
            if (round + 1) % 20 == 0 {
                println!("  {place}: {} of {rounds}, {} keys ready", round + 1, self.ready());
            }
        }
        let busy = (self::cpu() - cpu) / began.elapsed().as_secs_f64();
        parts.iter_mut().for_each(|part| part.sort_unstable());
        println!("{place}: {busy:.2} cores busy, at most {most_ready} keys ready");
        let row = |name: &str, cells: [String; PARTS.len()]| {
            let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
            println!("  {name:8} {}", cells.concat());
        };
        row("", PARTS.map(str::to_owned));
        for (name, percent) in [("p50", 50), ("p90", 90), ("p99", 99), ("longest", 100)] {
            row(name, std::array::from_fn(|part| millis(percentile(&parts[part], percent))));
        }
        println!("  the slowest: {}", slowest.1);
        Found { parts, crowd: 0.0 }
    }

    /// How long the parts of a round took.
    async fn round(&mut self, number: usize) -> [Duration; PARTS.len()] {
        let began = Instant::now();
        scale(&self.client, "quiet", "web", 1).await;
        let answered = Instant::now();
        let [bare, watched, sent, created, shown] =
            self.all([Seen::Bare, Seen::Watched, Seen::Sent, Seen::Answered, Seen::Created]).await;
        scale(&self.client, "quiet", "web", 0).await;
        self.all([Seen::Deleted]).await;
        let noting = Instant::now();
        let body = format!(r#"{{"metadata":{{"annotations":{{"round":"{number}"}}}}}}"#);
        let path = "/api/v1/namespaces/quiet/pods/note";
        self.client.patch_metadata(path, PatchType::Merge, body.into()).await.expect("it is noted");
        let [noted] = self.all([Seen::Noted]).await;

        // Those that came after the creation are of the scale to none.
        let mut syncs = self.syncs(began.elapsed());
        let creating = syncs.iter().position(|sync| sync.writes.iter().any(|write| write.action == "create"));
        syncs.truncate(creating.map_or(0, |at| at + 1));
        let waits = |of: fn(&On<'_>) -> bool| -> Duration {
            let of_those = syncs.iter().flat_map(|sync| &sync.waits).filter(|wait| of(&wait.on));
            of_those.map(|wait| wait.time).sum()
        };
        let queue = waits(|on| matches!(on, On::Queue));
        let put_off = waits(|on| !matches!(on, On::Queue));
        let own = sent.saturating_duration_since(watched);
        [
            shown - began,
            answered - began,
            watched - began,
            put_off,
            queue,
            own.saturating_sub(put_off).saturating_sub(queue),
            created.saturating_duration_since(sent),
            shown.saturating_duration_since(created),
            bare - began,
            noted - noting,
        ]
    }

    /// When these things happened, in whatever order.
    async fn all<const N: usize>(&mut self, expected: [Seen; N]) -> [Instant; N] {
        let mut found = [None; N];
        while found.contains(&None) {
            let (seen, at) = self.seen.recv().await.expect("the informers run");
            let place = expected.iter().position(|expected| *expected == seen);
            found[place.unwrap_or_else(|| panic!("{seen:?} was not expected"))] = Some(at);
        }
        found.map(|at| at.expect("none is missing"))
    }

    /// The syncs of the quiet ReplicaSet that have ended in this time.
    fn syncs(&self, since: Duration) -> Vec<Sync<'static>> {
        let key = ObjectKey::new("quiet", "web");
        let history = self.explainer.history(Kind::ReplicaSet, &key, Role::Leader, Some(since));
        history.expect("history is recorded").syncs
    }

    fn told(&self, since: Duration) -> String {
        let syncs = self.syncs(since + PAUSE);
        syncs
            .iter()
            .map(|sync| format!("\n    {} {:?} {:?} {}", sync.at, sync.woken, sync.waits, sync.summary))
            .collect()
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
    fn push(&self, crowd: usize, rate: Option<f64>) -> (Arc<AtomicUsize>, JoinSet<()>) {
        let (mut tasks, writes) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for lane in 0..SIDE_BY_SIDE {
            let (client, writes) = (self.client.clone(), Arc::clone(&writes));
            tasks.spawn(async move {
                let mut turns = rate.map(|rate| {
                    let period = Duration::from_secs_f64(as_float(SIDE_BY_SIDE) / rate);
                    // The lanes one after another, and none of them makes up for what it missed.
                    let first = tokio::time::Instant::now() + period.mul_f64(as_float(lane) / as_float(SIDE_BY_SIDE));
                    let mut turns = tokio::time::interval_at(first, period);
                    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    turns
                });
                for replicas in [2, 1].into_iter().cycle() {
                    for number in (lane..crowd).step_by(SIDE_BY_SIDE) {
                        if let Some(turns) = &mut turns {
                            turns.tick().await;
                        }
                        scale(&client, "crowd", &format!("web-{number}"), replicas).await;
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        (writes, tasks)
    }
}

/// A handler that tells when the quiet ReplicaSet was scaled up.
fn tell_scales(
    seen: Seen,
    tell: &UnboundedSender<(Seen, Instant)>,
) -> impl FnMut(&Change<ReplicaSet>) + Send + 'static {
    let tell = tell.clone();
    move |change| {
        if let Change::Updated { old, new } = change
            && &*new.meta.namespace == "quiet"
            && new.replicas > old.replicas
        {
            let _ = tell.send((seen, Instant::now()));
        }
    }
}

/// The CPU seconds that this process has used.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process can ask for its own usage");
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum()
}

fn as_float(count: usize) -> f64 {
    // Far below 2^32.
    u32::try_from(count).map_or(f64::NAN, f64::from)
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
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
