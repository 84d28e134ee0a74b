//! A whole cluster beside an API server in the same process: nodes, the small loops, and the controllers of the manager.

use std::future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use muster_apiserver::ApiServer;
use muster_apiserver::certificates::Authority;
use muster_runtime::client::{Client, ClientError};
use muster_runtime::manager::{self, CONTROLLERS, Name};
use muster_runtime::shutdown::{self, Trigger};
use tokio::task::{JoinError, JoinSet};

use crate::managers::Managers;
use crate::{Cluster, Options, controllers};

/// The controllers that such a cluster can run: those of the manager, and those of [`Cluster`] that
/// kube-controller-manager has too, so that someone else's manager can take their place.
#[must_use]
pub fn known_controllers() -> Vec<Name> {
    [CONTROLLERS, controllers::CONTROLLERS].concat()
}

/// Whose requests go through which client.
#[derive(Clone)]
pub struct Clients {
    /// The client of nodes, scheduler and what else makes it a cluster.
    pub cluster: Client,
    /// The client of the managers.
    pub manager: Client,
}

/// A running cluster. Dropping it ends its loops where they are.
#[derive(Debug)]
pub struct Embedded {
    server: ApiServer,
    cluster: Cluster,
    managers: Arc<Managers>,
    /// What runs them; empty once it was seen to have ended.
    running: JoinSet<()>,
    stop: Trigger,
}

impl Embedded {
    /// Starts nodes and as many managers for a server; of several, one leads. Requests for certificates are signed by the
    /// authority, where there is one, and its certificate is published.
    ///
    /// # Errors
    /// Where the server cannot be asked which kinds it has.
    pub async fn start(
        server: &ApiServer,
        clients: Clients,
        authority: Option<Arc<Authority>>,
        cluster: Options,
        manager: manager::Options,
        managers: NonZeroUsize,
    ) -> Result<Self, ClientError> {
        if let Some(authority) = &authority {
            server.registry().publish_client_ca(&authority.pem());
        }
        server.registry().publish_component("scheduler", cluster.simulate);
        let is_controlled = !cluster.controllers.is_empty() || !manager.controllers.is_empty();
        server.registry().publish_component("controller-manager", is_controlled);
        let options = Options {
            ca_pem: Some(authority.as_ref().map(|authority| authority.pem()).unwrap_or_default()),
            authority: authority.map(|authority| authority as Arc<_>),
            tokens: Some(Arc::new(server.clone())),
            ..cluster
        };
        let cluster = Cluster::start(clients.cluster, options).await?;
        let (stop, stopped) = shutdown::channel();
        let (managers, run) = Managers::new(&clients.manager, manager, managers, stopped);
        let mut running = JoinSet::new();
        running.spawn(run);
        Ok(Self { server: server.clone(), cluster, managers, running, stop })
    }

    /// Its nodes.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Its managers.
    #[must_use]
    pub fn managers(&self) -> &Arc<Managers> {
        &self.managers
    }

    /// Waits for the controllers to fail: a part of them panicked. Never ends while they run; that a manager was killed or
    /// has lost its lease is no failure.
    pub async fn failed(&mut self) -> JoinError {
        if let Some(Err(error)) = self.running.join_next().await {
            return error;
        }
        future::pending().await
    }

    /// Ends controllers, nodes and the server's watches, in that order.
    pub async fn stop(mut self) {
        self.stop.stop();
        // A manager that panicked has nothing left to end.
        let _ = self.running.join_next().await;
        self.cluster.stop().await;
        self.server.stop();
    }
}
