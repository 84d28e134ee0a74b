//! `muster controller-manager --shadow` and `muster shadow report`: watching before switching.

mod flags;
mod kept;
mod log;
pub(crate) mod read;
pub(crate) mod report;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use muster_inspect::shadow::Line;
use muster_objects::{Deployment, Object as _, ReplicaSet, ReplicationController};
use muster_runtime::client::Client;
use muster_runtime::manager::{DEPLOYMENT, Name, Options, REPLICASET, REPLICATIONCONTROLLER};
use muster_runtime::shadow::{Options as ShadowOptions, Shadow};
use muster_runtime::shutdown;

use crate::controller_manager::endpoint::Endpoint;
use crate::controller_manager::flags::Flags;
use crate::explain::authorizer::Authorizer;
use crate::explain::endpoint::Explaining;
use crate::signals::Signals;
pub(crate) use flags::ShadowFlags;
pub(crate) use kept::Kept;
use log::Log;

/// What `muster shadow` can do.
#[derive(Debug, Subcommand)]
pub enum ShadowCommand {
    /// Summarise agreement logs
    Report(report::Report),
}

/// Watches until a signal, and ends with a summary.
///
/// # Errors
/// Where the endpoint cannot be opened or the log cannot be written.
pub(crate) async fn run(
    flags: &Flags,
    client: &Client,
    authorizer: Authorizer,
    options: &Options,
    signals: &mut Signals,
) -> Result<()> {
    if flags.leader_elect {
        tracing::info!("--shadow elects nobody and writes nothing: flags about leader election have no effect");
    }
    let mut log = Log::open(&flags.shadow.shadow_log)?;
    let kinds = kinds(&options.controllers);
    let kept = Kept::new(options.history_bytes, kinds.clone(), client.clone(), &flags.leader_elect_resource_namespace);
    let shadow_options = ShadowOptions {
        comparison: flags.shadow.comparison(kinds),
        burst: options.burst_replicas,
        min_resync_period: options.min_resync_period,
        seed: options.seed,
        ..ShadowOptions::default()
    };
    let shadow = Shadow::new(client, shadow_options);
    let (stop, stopped) = shutdown::channel();
    let explaining = (Explaining::of_shadow(kept.clone()), authorizer);
    let endpoint = Endpoint::open_for_shadow(flags, &shadow, explaining, stopped.clone())?;
    let sink = move |lines: &[Line]| {
        kept.keep(lines);
        log.write(lines)
    };
    let mut watching = tokio::spawn(shadow.run(Box::new(sink), stopped));
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
