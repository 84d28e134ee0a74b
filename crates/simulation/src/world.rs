//! A cluster in virtual time: start it, drive it by its client, read what it wrote.

use std::time::Duration;

use muster_apiserver::http::Service;
use muster_apiserver::storage::Storage;
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_cluster::{Capacity, Cluster, DelayRange, Options as ClusterOptions, controllers};
use muster_objects::time::Timestamp;
use muster_runtime::client::{Client, ClientError, Options as ClientOptions};
use muster_runtime::clock::Clock;
use muster_runtime::explain::Explainer;
use muster_runtime::manager::{Manager, Options as ManagerOptions};
use muster_runtime::metrics::Metrics;
use muster_runtime::shutdown::{self, Trigger};
use muster_tree::Value;
use tokio::task::JoinHandle;

use crate::api::segment;
use crate::faults::{Faults, Faulty};
use crate::history::{History, Recorded};

/// Where virtual time begins: 2026-01-01T00:00:00Z, in nanoseconds since the Unix epoch.
pub const EPOCH_NANOS: i64 = 1_767_225_600_000_000_000;

/// The name of the controllers in a [`History`].
pub const CONTROLLERS: &str = "controllers";
/// The name of nodes, scheduler and collectors in a [`History`].
pub const CLUSTER: &str = "cluster";
/// The name of the user of [`World::client`] in a [`History`].
pub const TEST: &str = "test";

/// The settings of a world.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of everything random.
    pub seed: u64,
    /// How many simulated nodes there are.
    pub nodes: u32,
    /// In how many zones they are; in none where it is 0.
    pub zones: u32,
    /// How long a pod takes to become ready.
    pub pod_startup: DelayRange,
    /// The longest time that a deleted pod keeps terminating.
    pub pod_shutdown: Duration,
    /// How the controllers run; the world's seed replaces theirs.
    pub manager: ManagerOptions,
    /// Whether there are only the server and the controllers, without nodes, scheduler and collectors: pods stay
    /// pending, and deleted pods are removed at once.
    pub bare: bool,
    /// The faults between the controllers and the server; none by default.
    pub faults: Option<Faults>,
    /// The controllers' clock, if it is not that of the server and the nodes.
    pub clock: Option<Clock>,
}

impl Settings {
    /// Three nodes, pods ready after 200 to 800 ms, every controller.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            nodes: 3,
            zones: 0,
            pod_startup: DelayRange::new(Duration::from_millis(200), Duration::from_millis(800)),
            pod_shutdown: Duration::from_secs(1),
            manager: ManagerOptions::default(),
            bare: false,
            faults: None,
            clock: None,
        }
    }
}

/// A cluster in virtual time. To be started inside a current-thread runtime whose time is paused.
pub struct World {
    client: Client,
    server: ApiServer,
    cluster: Option<Cluster>,
    manager: JoinHandle<()>,
    metrics: Metrics,
    explainer: Explainer,
    stop: Trigger,
    history: History,
    /// The server's and the nodes' clock.
    clock: Clock,
    faults: Option<Faults>,
}

impl World {
    /// Starts server, nodes and controllers.
    ///
    /// # Errors
    /// If the server does not answer, which in one process means that it is broken.
    pub async fn start(settings: Settings) -> Result<Self, ClientError> {
        let epoch = Timestamp::from_nanos(EPOCH_NANOS);
        let server = ApiServer::new(ServerOptions::seeded(settings.seed, epoch));
        let clock = Clock::starting_at(epoch);
        let history = History::default();
        let connection = Connection { server: &server, history: &history, clock, faults: settings.faults.as_ref() };
        let cluster = match settings.bare {
            true => None,
            false => Some(start_cluster(connection.open(CLUSTER, clock), &settings).await?),
        };
        let (stop, stopped) = shutdown::channel();
        let options = ManagerOptions { seed: settings.seed, ..settings.manager };
        let test = Connection { faults: None, ..connection }.open(TEST, clock);
        let manager = Manager::new(&connection.open(CONTROLLERS, settings.clock.unwrap_or(clock)), options);
        let faults = settings.faults;
        let (metrics, explainer) = (manager.metrics(), manager.explainer());
        let manager = tokio::spawn(manager.run(stopped));
        Ok(Self { client: test, server, cluster, manager, metrics, explainer, stop, history, clock, faults })
    }

    /// A client for the test.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// All writes so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A client for a process called `who`, with a clock of its own if one is given. The world's faults apply to it.
    #[must_use]
    pub fn client_of(&self, who: &'static str, clock: Option<Clock>) -> Client {
        let Self { server, history, clock: server_clock, faults, .. } = self;
        let connection = Connection { server, history, clock: *server_clock, faults: faults.as_ref() };
        connection.open(who, clock.unwrap_or(*server_clock))
    }

    /// Changes how many nodes there are: those that go are dead, and their pods with them.
    pub fn set_nodes(&self, count: u32) {
        if let Some(cluster) = &self.cluster {
            cluster.set_nodes(count);
        }
    }

    /// Where objects of this one's kind are created, those that have a namespace and do not say which in `default`; none where
    /// the server has no such kind.
    #[must_use]
    pub fn collection_of(&self, object: &Value) -> Option<String> {
        let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let catalogue = self.server.registry().catalogue();
        let resource = catalogue.of_kind(group, version, kind)?.resource();
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if !resource.namespaced {
            return Some(format!("{root}/{}", resource.plural));
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        Some(format!("{root}/namespaces/{}/{}", segment(namespace), resource.plural))
    }

    /// What the server has stored: to be compacted, or restored to an earlier version.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.server.registry().storage
    }

    /// The controllers' metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What the controllers think, and what they did.
    #[must_use]
    pub fn explainer(&self) -> &Explainer {
        &self.explainer
    }

    /// Waits, in virtual time, until the object at `path` satisfies `done`, and returns it.
    ///
    /// # Errors
    /// With the last state seen, where that takes longer than `within`.
    pub async fn until(&self, path: &str, within: Duration, done: impl Fn(&Value) -> bool) -> Result<Value, String> {
        // Virtual time costs nothing, so polling is cheap.
        const LOOK_EVERY: Duration = Duration::from_millis(100);
        let deadline = tokio::time::Instant::now() + within;
        loop {
            let answer = self.client.get(path).await.map_err(|error| error.to_string())?;
            let object: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
            if done(&object) {
                return Ok(object);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(format!("after {within:?}: {object}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ends controllers, nodes and server.
    pub async fn stop(self) {
        self.stop.stop();
        // A manager that panicked has nothing left to end.
        let _ = self.manager.await;
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
        self.server.stop();
    }
}

/// What it takes to reach the server.
#[derive(Clone, Copy)]
struct Connection<'w> {
    server: &'w ApiServer,
    history: &'w History,
    /// The server's clock, by which writes are recorded.
    clock: Clock,
    faults: Option<&'w Faults>,
}

impl Connection<'_> {
    /// A client with the faults, by this clock.
    fn open(&self, name: &'static str, clock: Clock) -> Client {
        let service: Recorded<Service> = Recorded::new(self.server.service(), name, self.clock, self.history.clone());
        match self.faults {
            Some(faults) => Client::in_process(Faulty::new(service, name, faults.clone()), &options(name, clock)),
            None => Client::in_process(service, &options(name, clock)),
        }
    }
}

fn options(name: &str, clock: Clock) -> ClientOptions {
    // As in `muster up`: the server keeps objects as JSON.
    ClientOptions { clock, user_agent: name.to_owned(), protobuf: false, ..ClientOptions::default() }
}

async fn start_cluster(client: Client, settings: &Settings) -> Result<Cluster, ClientError> {
    let options = ClusterOptions {
        nodes: settings.nodes,
        capacity: Capacity { zones: settings.zones, ..Capacity::default() },
        pod_startup: settings.pod_startup,
        pod_shutdown: settings.pod_shutdown,
        seed: settings.seed,
        // No law is about what they say of pods, nor about what else a cluster runs.
        events: false,
        controllers: [controllers::GARBAGE_COLLECTOR, controllers::NAMESPACE, controllers::SERVICE_ACCOUNT].into(),
        ..ClusterOptions::default()
    };
    Cluster::start(client, options).await
}
