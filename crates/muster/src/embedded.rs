//! The embedded cluster: server, nodes and controllers in this process, wired over a client with no socket between.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use muster_apiserver::access::{User, authorizer};
use muster_apiserver::certificates::Authority;
use muster_apiserver::clock::Clock;
use muster_apiserver::generator::Generator;
use muster_apiserver::registry::services::network::Network;
use muster_apiserver::serve::{self, Patience, serve_service};
use muster_apiserver::storage::Retention;
use muster_apiserver::tls::Tls;
use muster_apiserver::webhook::hosts::Hosts;
use muster_apiserver::{ApiServer, Kept, Options as ServerOptions};
use muster_cluster::embedded::{self, Clients, known_controllers};
use muster_cluster::{Capacity, DelayRange, Options as ClusterOptions};
use muster_manager::arguments::Concurrency;
use muster_manager::explain::teller::Teller;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::manager::{Name, Options as ManagerOptions};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::answers;
use crate::faults::front::Front;
use crate::faults::live::LiveFaults;
use crate::faults::{Stage, Watched, Watches};
use crate::requests::{Counted, Requests, Sender};

/// How many simulated nodes hold so many small pods: three or more.
pub(crate) fn nodes_for(pods: u64) -> u32 {
    let nodes = pods.div_ceil(u64::from(Capacity::default().pods));
    u32::try_from(nodes).unwrap_or(u32::MAX).max(Settings::default().nodes)
}

/// What an embedded cluster is made of.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) nodes: u32,
    /// In how many zones they are; in none where it is 0.
    pub(crate) zones: u32,
    pub(crate) pod_startup: DelayRange,
    pub(crate) pod_shutdown: Duration,
    pub(crate) namespace_grace: Duration,
    pub(crate) controllers: BTreeSet<Name>,
    pub(crate) concurrency: Concurrency,
    pub(crate) managers: NonZeroUsize,
    pub(crate) seed: Option<u64>,
    pub(crate) retention: Retention,
    pub(crate) authorization: authorizer::Mode,
    /// Where webhooks are that name a Service.
    pub(crate) webhook_hosts: Hosts,
    /// Whose bearer tokens are accepted.
    pub(crate) tokens: HashMap<String, Arc<User>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 3,
            zones: 0,
            pod_startup: DelayRange::ZERO,
            pod_shutdown: Duration::ZERO,
            namespace_grace: Duration::ZERO,
            controllers: known_controllers().into_iter().collect(),
            concurrency: Concurrency::default(),
            managers: NonZeroUsize::MIN,
            seed: None,
            retention: Retention::default(),
            authorization: authorizer::Mode::default(),
            webhook_hosts: Hosts::default(),
            tokens: HashMap::new(),
        }
    }
}

/// A server and a client of it; the nodes and controllers once [`Server::start`] was called.
pub(crate) struct Server {
    /// The program's own client.
    pub(crate) client: Client,
    /// The client of the managers.
    controllers: Client,
    /// The client of nodes, scheduler and what else makes it a cluster.
    cluster: Client,
    requests: Arc<Requests>,
    /// Those that the managers open.
    watches: Arc<Watches>,
    server: ApiServer,
    settings: Settings,
    seed: u64,
}

/// A running cluster.
pub(crate) struct Embedded {
    /// The program's own client.
    pub(crate) client: Client,
    /// The requests of everybody but the program itself.
    pub(crate) requests: Arc<Requests>,
    running: embedded::Embedded,
    stage: Stage,
}

/// Where a server listens.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) token: String,
    handle: serve::Handle,
}

impl Server {
    /// A server that nobody can reach yet but through `client`.
    pub(crate) fn new(settings: &Settings, clock: Clock, kept: Kept) -> Result<Self> {
        let mut options = ServerOptions::system().context("this machine gives no randomness")?;
        options.clock = clock;
        options.retention = settings.retention;
        options.authorization = settings.authorization;
        options.settings.webhook_hosts = settings.webhook_hosts.clone();
        options.tokens = settings.tokens.clone();
        if let Some(seed) = settings.seed {
            options.generator = Generator::seeded(seed);
        }
        let server = ApiServer::resume(options, kept).context("the server")?;
        Ok(Self::with(settings, server))
    }

    /// A server that was made before; of the settings only nodes and controllers are heeded.
    pub(crate) fn with(settings: &Settings, server: ApiServer) -> Self {
        let requests = Arc::new(Requests::default());
        // The server keeps objects as JSON: within a process that is the shortest way.
        let options = ClientOptions { user_agent: "muster".to_owned(), protobuf: false, ..ClientOptions::default() };
        let client = Client::in_process(server.service(), &options);
        let counted = |sender| Counted::new(server.service(), sender, &requests);
        let cluster = Client::in_process(counted(Sender::Cluster), &options);
        let watches = Arc::new(Watches::default());
        let controllers = Client::in_process(Watched::new(counted(Sender::Controllers), &watches), &options);
        let seed = settings.seed.unwrap_or_else(|| u64::from(std::process::id()));
        Self { client, controllers, cluster, requests, watches, server, settings: settings.clone(), seed }
    }

    /// Tells others whose client certificates are credentials here.
    pub(crate) fn publish_client_ca(&self, pem: &str) {
        self.server.registry().publish_client_ca(pem);
    }

    /// What is kept on disk, to let go of it.
    pub(crate) fn disk(&self) -> ApiServer {
        self.server.clone()
    }

    /// The faults for whoever comes over HTTP: none yet.
    pub(crate) fn live_faults(&self, on_disk: bool) -> LiveFaults {
        LiveFaults::new(&self.server, self.seed, on_disk)
    }

    /// Lets others in, by HTTPS on this listener and through these faults.
    pub(crate) fn listen(&self, listener: std::net::TcpListener, tls: &Tls, live: &LiveFaults) -> Result<Endpoint> {
        // As Go's programs do: each connection takes one.
        let mut patience = Patience::API;
        if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
            patience = patience.within(most);
        }
        listener.set_nonblocking(true).context("the listener")?;
        let listener = TcpListener::from_std(listener).context("the listener")?;
        let front = Front::new(self.server.guarded_service(), live.faults());
        let handle =
            serve_service(listener, front, Some(tls), self.server.stopping(), patience).context("the listener")?;
        let url = format!("https://{}", reachable(handle.address()));
        Ok(Endpoint { url, token: self.server.token().to_owned(), handle })
    }

    /// Starts nodes and controllers. Requests for certificates are signed by the authority, where there is one.
    pub(crate) async fn start(self, authority: Option<Authority>) -> Result<Embedded> {
        let Self { client, controllers: manager, cluster, requests, watches, server, settings, seed } = self;
        let cluster_options = ClusterOptions {
            nodes: settings.nodes,
            capacity: Capacity { zones: settings.zones, ..Capacity::default() },
            pod_startup: settings.pod_startup,
            pod_shutdown: settings.pod_shutdown,
            namespace_grace: settings.namespace_grace,
            seed,
            simulate: settings.nodes > 0,
            controllers: settings.controllers.clone(),
            ..ClusterOptions::default()
        };
        let options = ManagerOptions {
            controllers: settings.controllers,
            concurrent_deployment_syncs: settings.concurrency.deployments,
            concurrent_replicaset_syncs: settings.concurrency.replicasets,
            concurrent_rc_syncs: settings.concurrency.replicationcontrollers,
            seed,
            ..ManagerOptions::default()
        };
        let (clients, authority) = (Clients { cluster, manager }, authority.map(Arc::new));
        let started =
            embedded::Embedded::start(&server, clients, authority, cluster_options, options, settings.managers);
        let running = started.await?;
        let stage = Stage::new(watches, Arc::clone(running.managers()));
        answers::extend(&server, answers::leader(running.managers()));
        Ok(Embedded { client, requests, running, stage })
    }
}

impl Embedded {
    /// A whole cluster in this process, with no socket.
    pub(crate) async fn start(settings: &Settings) -> Result<Self> {
        Server::new(settings, Clock::system(), Kept::default())?.start(None).await
    }

    /// The manager that leads, to be asked what it thinks.
    pub(crate) fn teller(&self) -> Teller {
        answers::leader(self.running.managers())
    }

    /// Waits for the controllers to fail: a part of them panicked. Never ends while they run.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        anyhow::anyhow!("the controllers have failed: {}", self.running.failed().await)
    }

    /// Its managers, and what can be done to them.
    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Ends controllers, nodes and server, in that order.
    pub(crate) async fn stop(self) {
        self.running.stop().await;
    }
}

impl Endpoint {
    /// Stops listening.
    pub(crate) async fn close(self) {
        self.handle.shutdown().await;
    }
}

/// The addresses that the server's certificate has to be good for: where it listens, and where pods would reach it, at an
/// address of its own and by its Service.
pub(crate) fn addresses(listen: SocketAddr, network: &Network) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    addresses.extend([network.server.0, network.addresses.at(1).into()]);
    if !listen.ip().is_unspecified() && !addresses.contains(&listen.ip()) {
        addresses.push(listen.ip());
    }
    addresses
}

/// An address that a client on this machine can use: loopback where the server listens on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_nodes_for_every_pod() {
        for (pods, nodes) in [(0, 3), (15_360, 3), (15_361, 4), (200_000, 40), (u64::MAX, u32::MAX)] {
            assert_eq!(nodes_for(pods), nodes, "{pods} pods");
        }
    }
}
