//! What a shadow keeps for `muster explain --history`: the last lines of its agreement log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_inspect::shadow::{Keeper, Line, ShadowHistory};
use muster_objects::meta::ObjectKey;
use muster_runtime::client::Client;
use muster_runtime::explain::Kind;
use muster_runtime::group::shard_of;

/// What is kept; cloning shares it.
#[derive(Clone)]
pub(crate) struct Kept {
    /// None where nothing is to be kept.
    keeper: Option<Arc<Mutex<Keeper>>>,
    /// The kinds that are watched.
    kinds: BTreeSet<&'static str>,
    /// For the API server's time, and the Leases of groups.
    client: Client,
    /// Where those are.
    election: String,
}

impl Kept {
    /// Keeps at most so many bytes about owners of these kinds. The Leases of groups are in the namespace `election`.
    pub(crate) fn new(bytes: usize, kinds: BTreeSet<&'static str>, client: Client, election: &str) -> Self {
        let keeper = (bytes > 0).then(|| Arc::new(Mutex::new(Keeper::new(bytes))));
        Self { keeper, kinds, client, election: election.to_owned() }
    }

    /// Keeps lines, as far as they are about owners.
    pub(super) fn keep(&self, lines: &[Line]) {
        if let Some(keeper) = &self.keeper {
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().for_each(|line| keeper.keep(line));
        }
    }

    /// What there was to an object in the last `since`.
    ///
    /// # Errors
    /// Where nothing is kept of any object, or of any of its kind.
    pub(crate) async fn told(&self, kind: Kind, key: &ObjectKey, since: Option<Duration>) -> Result<ShadowHistory> {
        let name = kind.resource().kind;
        let controller = kind.controller().name;
        ensure!(self.kinds.contains(name), "this shadow does not watch the {controller} (--controllers)");
        let keeper = self.keeper.as_ref().context("this shadow keeps no history (--history-bytes=0)")?;
        let now = self.client.server_now();
        let told = keeper.lock().unwrap_or_else(PoisonError::into_inner).told(name, key, since, now);
        Ok(ShadowHistory { shard: shard_of(&self.client, &self.election, &key.namespace).await, ..told })
    }
}
