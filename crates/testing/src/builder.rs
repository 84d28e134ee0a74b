//! What a cluster is to be like, and its start.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube::CustomResourceExt;
use muster_apiserver::access::authorizer::Mode;
use muster_apiserver::certificates::Authority;
use muster_apiserver::generator::Generator;
use muster_apiserver::identity::random_token;
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_cluster::embedded::{Clients, Embedded, known_controllers};
use muster_cluster::{DelayRange, Options as ClusterOptions};
use muster_objects::time::Timestamp;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::clock::Clock;
use muster_runtime::manager::{self, Options as ManagerOptions};
use serde::Serialize;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::Error;
use crate::objects;

/// When clusters begin whose tests run in paused time, since the Unix epoch: 2026-01-01T00:00:00Z.
pub const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// What a cluster is to be like, to be started by [`Builder::start`].
#[derive(Debug)]
pub struct Builder {
    nodes: u32,
    controllers: String,
    pod_startup: DelayRange,
    pod_shutdown: Duration,
    seed: Option<u64>,
    begin: Option<SystemTime>,
    patience: Option<Duration>,
    authorization: Mode,
    objects: Vec<Result<Value, serde_json::Error>>,
    #[cfg(feature = "faults")]
    faults: Option<crate::Faults>,
}

impl Default for Builder {
    fn default() -> Self {
        let ClusterOptions { pod_startup, pod_shutdown, .. } = ClusterOptions::default();
        Self {
            nodes: 1,
            controllers: "*".to_owned(),
            pod_startup,
            pod_shutdown,
            seed: None,
            begin: None,
            patience: None,
            authorization: Mode::default(),
            objects: Vec::new(),
            #[cfg(feature = "faults")]
            faults: None,
        }
    }
}

impl Builder {
    /// How many simulated nodes there are; 1 by default. Without any, pods stay pending, as with envtest, and whoever
    /// deletes one is rid of it at once.
    #[must_use]
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Which controllers run, as `--controllers` of kube-controller-manager says it: a comma list of names, `*` for all,
    /// `-name` for all but; `""` runs none. `*` by default: garbage collection and namespace deletion, Deployments and
    /// ReplicaSets, and all others of [`known_controllers`].
    #[must_use]
    pub fn controllers(self, list: &str) -> Self {
        Self { controllers: list.to_owned(), ..self }
    }

    /// How long a pod takes to become ready: a duration, or a range to draw from; 200 to 800 ms by default.
    #[must_use]
    pub fn pod_startup(self, delay: impl Into<DelayRange>) -> Self {
        Self { pod_startup: delay.into(), ..self }
    }

    /// The longest that a deleted pod stays terminating; 1 s by default.
    #[must_use]
    pub fn pod_shutdown(self, delay: Duration) -> Self {
        Self { pod_shutdown: delay, ..self }
    }

    /// Draws uids, generated names and delays from this seed; by chance by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// What the server's clock shows at the start, which then moves with tokio's; the machine's time by default.
    #[must_use]
    pub fn begin(self, begin: SystemTime) -> Self {
        Self { begin: Some(begin), ..self }
    }

    /// How long [`Cluster::until`] and [`Cluster::settled`] wait, by tokio's clock; by default a minute, and what ten pods
    /// take to start and to stop one after another.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Whether roles decide what users may do, which is the default, or all who have a name may do anything. It is about
    /// [`Cluster::client_as`]: the owner of [`Cluster::client`] may do anything.
    #[must_use]
    pub fn authorization(self, authorization: Mode) -> Self {
        Self { authorization, ..self }
    }

    /// Defines a custom resource, which is served once the cluster has started.
    #[must_use]
    pub fn crd<K: CustomResourceExt>(self) -> Self {
        self.object(&K::crd())
    }

    /// Creates an object before the controllers start, with its status where it has one. Definitions and namespaces come
    /// first, the others in the order in which they were named.
    #[must_use]
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.objects.push(serde_json::to_value(object));
        self
    }

    /// Faults between the server and the clients of [`Cluster::client`] and [`Cluster::client_as`]; not those of
    /// [`Cluster::observer`], nor the cluster's own nodes and controllers.
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn faults(self, faults: crate::Faults) -> Self {
        Self { faults: Some(faults), ..self }
    }

    /// Starts it, within a runtime of tokio. Once this has returned everything that was asked for is there and served.
    ///
    /// # Errors
    /// [`Error`] where no such controller is known, or the server refuses an object.
    pub async fn start(self) -> Result<Cluster, Error> {
        let controllers = manager::select(&self.controllers, &known_controllers())?;
        let objects = self.objects.into_iter().collect::<Result<Vec<Value>, _>>().map_err(Error::NoObject)?;
        let begin = timestamp(self.begin.unwrap_or_else(SystemTime::now));
        let mut options = ServerOptions::seeded(self.seed.unwrap_or_default(), begin);
        options.authorization = self.authorization;
        // Whoever can reach a socket could guess the token of a seed, and no answer has it.
        options.token = random_token().map_err(Error::NoRandomness)?;
        if self.seed.is_none() {
            options.generator = Generator::random().map_err(Error::NoRandomness)?;
        }
        let seed = self.seed.unwrap_or_else(|| options.generator.seed());
        let server = ApiServer::new(options);
        let connection = Connection::new(&server);
        #[cfg(feature = "faults")]
        let connection = connection.with_faults(self.faults);
        objects::create(&server, objects).await?;

        let own = |user_agent: &str| {
            let clock = Clock::starting_at(begin);
            // The server keeps objects as JSON: within a process that is the shortest way.
            let options =
                ClientOptions { clock, user_agent: user_agent.to_owned(), protobuf: false, ..ClientOptions::default() };
            Client::in_process(server.service(), &options)
        };
        let cluster = ClusterOptions {
            nodes: self.nodes,
            simulate: self.nodes > 0,
            pod_startup: self.pod_startup,
            pod_shutdown: self.pod_shutdown,
            controllers: controllers.clone(),
            seed,
            ..ClusterOptions::default()
        };
        let manager = ManagerOptions { controllers, seed, ..ManagerOptions::default() };
        let clients = Clients { cluster: own("cluster"), manager: own("controllers") };
        let authority = Arc::new(Authority::generate().map_err(|error| Error::NoAuthority(error.into()))?);
        let embedded =
            Embedded::start(&server, clients, Some(Arc::clone(&authority)), cluster, manager, NonZeroUsize::MIN)
                .await?;
        let (startup, shutdown) = (self.pod_startup.max(), self.pod_shutdown);
        let usual = (startup + shutdown) * 10 + Duration::from_secs(60);
        // Longer than anything that was begun takes.
        let quiet = startup.max(shutdown) + Duration::from_secs(1);
        Ok(Cluster {
            server,
            embedded,
            client: connection.client(),
            connection,
            authority,
            quiet,
            patience: self.patience.unwrap_or(usual),
            tasks: Mutex::default(),
        })
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let nanos = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    Timestamp::from_nanos(nanos)
}
