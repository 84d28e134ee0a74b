//! `--shards` and `--group`: this process as one member of several that share the cluster.

use anyhow::{Context as _, Error, Result, bail};
use muster_machinery::group::GroupError;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::group::Member;
use muster_runtime::manager::Options;
use muster_runtime::shutdown;

use super::endpoint::Endpoint;
use super::flags::Flags;
use super::{ELECTION_FLAGS, another, identity, lost};
use crate::explain::authorizer::Authorizer;
use crate::explain::endpoint::Explaining;
use crate::signals::Signals;

/// Takes part in the group until a signal ends it.
///
/// # Errors
/// Where a setting cannot be used, its Lease was lost, or a second signal came.
pub(super) async fn run(
    flags: &Flags,
    client: &Client,
    agent: &str,
    options: Options,
    authorizer: Authorizer,
    signals: &mut Signals,
) -> Result<()> {
    if !flags.leader_elect {
        bail!("--shards: found --leader-elect=false, expected an election: a group knows of its members by Leases");
    }
    let identity = identity::identity()?;
    let config = flags.group(&identity).context("--shards and --group")?;
    let leases = ClientOptions { user_agent: format!("{agent} leader-election"), ..ClientOptions::default() };
    let controllers = options.controllers.iter().map(|name| name.name).collect();
    let member = Member::new(client, client.beside(&leases), config, options).map_err(|error| {
        let flags = if matches!(error, GroupError::Election(_)) { ELECTION_FLAGS } else { "--shards, --group" };
        Error::new(error).context(flags)
    })?;
    tracing::info!(identity, "a member of a group");
    let (stop, stopped) = shutdown::channel();
    let explaining = (Explaining::of_member(member.handle()), authorizer);
    let endpoint = Endpoint::open_for_member(flags, &member, controllers, explaining, stopped.clone())?;
    let mut running = tokio::spawn(member.run(stopped));
    tokio::select! {
        biased;
        () = signals.next() => {}
        ended = &mut running => return Err(lost(ended)),
    }
    tracing::info!("told to stop: the shards go to others, each when its syncs in flight have finished");
    stop.stop();
    tokio::select! {
        biased;
        () = another(signals) => bail!("a second signal: syncs in flight and pending events are given up"),
        ended = &mut running => ended.context("the member")??,
    }
    if let Some(endpoint) = endpoint {
        endpoint.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}
