//! Who has what, asked by somebody who is no member.

use muster_inspect::explain::Shard;
use muster_machinery::group::{GROUP, held};

use super::leases::List;
use crate::client::{Client, ClientError};

/// The shard of a namespace, read from the Leases of all groups (SH-06); `None` where no group works, or where the Leases
/// may not be read: the answer is about something else, and is given without it.
pub async fn shard_of(client: &Client, namespace: &str) -> Option<Shard> {
    match read(client, namespace).await {
        Ok(shard) => shard,
        Err(error) => {
            tracing::debug!(%error, "the leases of groups were not read");
            None
        }
    }
}

async fn read(client: &Client, namespace: &str) -> Result<Option<Shard>, ClientError> {
    let path = format!("/apis/coordination.k8s.io/v1/leases?labelSelector={}", GROUP.replace('/', "%2F"));
    let leases = List::read(&path, &client.get(&path).await?.body)?.items.unwrap_or_default();
    Ok(held(&leases, namespace).map(Shard::from))
}
