//! `muster controller-manager --shadow` and `muster shadow report`: watching before switching.

mod flags;
mod log;
pub(crate) mod read;
pub(crate) mod report;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use muster_objects::{Deployment, Object as _, ReplicaSet, ReplicationController};
use muster_runtime::client::Client;
use muster_runtime::manager::{DEPLOYMENT, Name, Options, REPLICASET, REPLICATIONCONTROLLER};
use muster_runtime::shadow::{Options as ShadowOptions, Shadow};
use muster_runtime::shutdown;

use crate::controller_manager::endpoint::Endpoint;
use crate::controller_manager::flags::Flags;
use crate::up::Signals;
pub(crate) use flags::ShadowFlags;
use log::Log;

/// What `muster shadow` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ShadowCommand {
    /// Summarise agreement logs
    Report(report::Report),
}

/// Watches until a signal, and ends with a summary.
///
/// # Errors
/// Where the endpoint cannot be opened or the log cannot be written.
pub(crate) async fn run(flags: &Flags, client: &Client, options: &Options, signals: &mut Signals) -> Result<()> {
    if flags.leader_elect {
        tracing::warn!("--shadow elects nobody and writes nothing: flags about leader election have no effect");
    }
    let mut log = Log::open(&flags.shadow.shadow_log)?;
    let shadow_options = ShadowOptions {
        comparison: flags.shadow.comparison(kinds(&options.controllers)),
        burst: options.burst_replicas,
        min_resync_period: options.min_resync_period,
        seed: options.seed,
        ..ShadowOptions::default()
    };
    let shadow = Shadow::new(client, shadow_options);
    let (stop, stopped) = shutdown::channel();
    let endpoint = Endpoint::open_for_shadow(flags, &shadow, stopped.clone())?;
    let mut watching = tokio::spawn(shadow.run(Box::new(move |lines| log.write(lines)), stopped));
    tokio::select! {
        biased;
        () = signals.next() => {}
        ended = &mut watching => {
            ended.context("the shadow")??;
            bail!("the shadow ended by itself");
        }
    }
    tracing::info!("told to stop: the counts are written");
    stop.stop();
    watching.await.context("the shadow")??;
    if let Some(endpoint) = endpoint {
        endpoint.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}

fn kinds(controllers: &BTreeSet<Name>) -> BTreeSet<&'static str> {
    let kind = |name: &Name| match *name {
        DEPLOYMENT => Some(Deployment::KIND),
        REPLICASET => Some(ReplicaSet::KIND),
        REPLICATIONCONTROLLER => Some(ReplicationController::KIND),
        _ => None,
    };
    controllers.iter().filter_map(kind).collect()
}
