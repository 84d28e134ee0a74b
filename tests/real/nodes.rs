//! Nodes, a scheduler and a garbage collector against a real server, so that pods turn Ready and what is owned goes
//! with its owner.

use std::path::Path;
use std::time::Duration;

use muster_cluster::{Cluster, DelayRange, Options, controllers};
use muster_runtime::client::{Client, Options as ClientOptions, configuration};
use tokio::runtime::Handle;

/// Simulated nodes. They end when dropped.
pub(crate) struct Nodes {
    _cluster: Cluster,
}

impl Nodes {
    /// Starts three, on which pods start and stop at once.
    pub(crate) fn start(kubeconfig: &Path, runtime: &Handle) -> Self {
        let options = Options {
            pod_startup: DelayRange::ZERO,
            pod_shutdown: Duration::ZERO,
            events: false,
            controllers: [controllers::GARBAGE_COLLECTOR].into(),
            ..Options::default()
        };
        let cluster = runtime.block_on(async {
            let config = configuration(Some(kubeconfig)).await.expect("a kubeconfig of our own");
            let client_options = ClientOptions { user_agent: "simulated-nodes".to_owned(), ..ClientOptions::default() };
            let client = Client::connect(&config, &client_options).expect("a client");
            Cluster::start(client, options).await
        });
        Self { _cluster: cluster.expect("the server says which kinds it has") }
    }
}
