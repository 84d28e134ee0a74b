//! `muster controller-manager`: the controllers for a cluster that somebody else serves, beside
//! kube-controller-manager or in its place.
//!
//! ```text
//!   arguments (--config, flags of others) -> flags -> client -> election --leading--> manager
//!                                                        \           \                  |
//!                                                         +-----------+---> endpoint <--+
//! ```
//!
//! With `--shards` it is [one of several](group) that all work.

pub(crate) mod arguments;
mod certificate;
mod controllers;
pub(crate) mod endpoint;
pub(crate) mod flags;
mod foreign;
mod group;
mod identity;
pub(crate) mod logging;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_runtime::client::{Client, ClientError, Options as ClientOptions, configuration};
use muster_runtime::election::{Elector, Lost};
use muster_runtime::manager::{Manager, Options};
use muster_runtime::shutdown::{self, Trigger};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::explain::authorizer::Authorizer;
use crate::explain::endpoint::Explaining;
use crate::explain::teller;
use crate::signals::Signals;
pub(crate) use arguments::Ignored;
use endpoint::Endpoint;
use flags::{Content, Flags};

/// The flags of the election's times.
const ELECTION_FLAGS: &str = "--leader-elect-lease-duration, -renew-deadline, -retry-period";

/// Signals that come within this time are one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Runs `muster controller-manager` until a signal ends it.
///
/// # Errors
/// Where a setting cannot be used, the lease was lost, or a second signal came.
pub(crate) async fn run(flags: &Flags, ignored: &[Ignored]) -> Result<()> {
    let mut signals = Signals::listen()?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting muster controller-manager");
    for Ignored { setting, reason } in ignored {
        tracing::warn!(setting, reason, "a setting has no effect here");
    }
    let controllers = controllers::select(&flags.controllers.join(","))?;
    let options = Options {
        controllers,
        concurrent_deployment_syncs: flags.concurrency.deployments,
        concurrent_replicaset_syncs: flags.concurrency.replicasets,
        concurrent_rc_syncs: flags.concurrency.replicationcontrollers,
        burst_replicas: flags.burst_replicas,
        range: None,
        min_resync_period: flags.min_resync_period,
        shutdown_timeout: flags.controller_shutdown_timeout,
        history_bytes: flags.history_bytes,
        seed: identity::seed(),
    };
    let config = connection(flags).await?;
    let agent = concat!("muster-controller-manager/", env!("CARGO_PKG_VERSION"));
    let client_options = ClientOptions {
        qps: flags.kube_api_qps,
        burst: flags.kube_api_burst,
        protobuf: flags.kube_api_content_type == Content::Protobuf,
        user_agent: agent.to_owned(),
        ..ClientOptions::default()
    };
    let client = Client::connect(&config, &client_options).map_err(whole)?;
    if flags.shadow.is_on() {
        return crate::shadow::run(flags, &client, Authorizer::new(&config), &options, &mut signals).await;
    }
    flags.check_lease()?;
    if flags.shards.is_some() {
        return group::run(flags, &client, agent, options, Authorizer::new(&config), &mut signals).await;
    }
    let elector = if flags.leader_elect { Some(elector(flags, &client, agent)?) } else { None };

    let leadership = elector.as_ref().map(Elector::leadership);
    let manager = match &leadership {
        Some(leadership) => {
            let writer = client.fenced(leadership.fence());
            Manager::with_writer(&client, Arc::new(writer), options)
        }
        None => Manager::new(&client, options),
    };
    if let Some(elector) = &elector {
        elector.register(&manager.metrics());
    }
    let (stop, stopped) = shutdown::channel();
    let explaining =
        (Explaining::new(teller::alone(manager.explainer(), leadership.as_ref())), Authorizer::new(&config));
    let endpoint = Endpoint::open(flags, &manager, leadership.clone(), explaining, stopped.clone())?;

    let (stop_election, election_stopped) = shutdown::channel();
    let events = manager.context().events.clone();
    let electing = elector.map(|elector| tokio::spawn(elector.run(events, election_stopped)));
    // Without an election there is nobody to wait for.
    let (_always, leading) = watch::channel(true);
    let leading = leadership.map_or(leading, |leadership| leadership.leading());
    let mut running = Running { manager: tokio::spawn(manager.run_leading(leading, stopped)), electing, stop_election };

    tokio::select! {
        biased;
        () = signals.next() => {}
        why = running.ends() => return Err(why),
    }
    tracing::info!("told to stop: syncs in flight finish, no new ones begin");
    stop.stop();
    tokio::select! {
        biased;
        () = another(&mut signals) => bail!("a second signal: syncs in flight and pending events are given up"),
        ended = running.finish() => ended?,
    }
    if let Some(endpoint) = endpoint {
        endpoint.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Waits for a signal that was sent on purpose: some senders, such as timeout(1), give the first one twice.
async fn another(signals: &mut Signals) {
    let first = Instant::now();
    loop {
        signals.next().await;
        if first.elapsed() >= SAME_SIGNAL {
            return;
        }
    }
}

/// The tasks of a manager that runs.
struct Running {
    manager: JoinHandle<()>,
    electing: Option<JoinHandle<Result<(), Lost>>>,
    stop_election: Trigger,
}

impl Running {
    /// Waits for an end that nobody asked for.
    async fn ends(&mut self) -> anyhow::Error {
        let electing = async {
            match &mut self.electing {
                Some(electing) => lost(electing.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            why = electing => why,
            ended = &mut self.manager => match ended {
                Ok(()) => anyhow!("the controllers ended by themselves"),
                Err(error) => anyhow!("the controllers ended: {error}"),
            }
        }
    }

    /// Waits for the orderly end of the manager, then gives up the lease: in this order, so that nobody else leads
    /// while something is still being written (CM-07).
    async fn finish(mut self) -> Result<()> {
        tokio::select! {
            biased;
            ended = &mut self.manager => ended.context("the controllers")?,
            why = async {
                match &mut self.electing {
                    Some(electing) => lost(electing.await),
                    None => std::future::pending().await,
                }
            } => return Err(why),
        }
        self.stop_election.stop();
        match self.electing {
            Some(electing) => Ok(electing.await.context("the election")??),
            None => Ok(()),
        }
    }
}

fn lost(ended: Result<Result<(), Lost>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("the election ended by itself"),
        Ok(Err(lost)) => lost.into(),
        Err(error) => anyhow!("the election ended: {error}"),
    }
}

/// Where the server is: `--kubeconfig`, else `KUBECONFIG`, else the service account (CM-03); `--master` overrides
/// the address, or is all there is.
async fn connection(flags: &Flags) -> Result<kube::Config> {
    let found = configuration(flags.kubeconfig.as_deref()).await;
    let Some(master) = &flags.master else { return found.map_err(whole) };
    match found {
        Ok(mut config) => {
            config.cluster_url = master.clone();
            Ok(config)
        }
        Err(error) if flags.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some() => Err(whole(error)),
        Err(_) => Ok(kube::Config::new(master.clone())),
    }
}

/// An error whose words have those of its causes in them already.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn whole(error: ClientError) -> anyhow::Error {
    anyhow!("{error}")
}

fn elector(flags: &Flags, client: &Client, agent: &str) -> Result<Elector> {
    let options = ClientOptions { user_agent: format!("{agent} leader-election"), ..ClientOptions::default() };
    let client = client.beside(&options);
    let election = flags.election(identity::identity()?);
    Elector::new(election, client, identity::seed()).context(ELECTION_FLAGS)
}
