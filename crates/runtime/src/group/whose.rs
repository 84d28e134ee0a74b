//! Who has what, asked by somebody who is no member.

use muster_machinery::group::{GROUP, Shard};

use super::leases::List;
use crate::client::{Client, ClientError};

/// Where managers elect a leader, and groups have their Leases, unless they are told otherwise.
pub const ELECTION_NAMESPACE: &str = "kube-system";

/// The shard of a namespace, read from the Leases of the election's namespace (SH-06); `None` where no group works, or where
/// they may not be read: the answer is about something else, and is given without it.
///
/// Only that namespace is looked at: who may write Leases elsewhere must not be able to name a member.
pub async fn shard_of(client: &Client, election: &str, namespace: &str) -> Option<Shard> {
    match read(client, election).await {
        Ok(leases) => muster_machinery::group::shard_of(&leases.items.unwrap_or_default(), namespace),
        Err(error) => {
            tracing::debug!(%error, "the leases of groups were not read");
            None
        }
    }
}

async fn read(client: &Client, election: &str) -> Result<List, ClientError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{election}/leases?labelSelector={GROUP}");
    List::read(&path, &client.get(&path).await?.body)
}
