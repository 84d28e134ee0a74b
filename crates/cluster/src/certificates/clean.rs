//! Cleaning up: requests are deleted some time after their end, or after nothing happened to them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_objects::{ObjectKey, Timestamp};
use muster_runtime::client::Client;
use muster_runtime::informer::Store;

use super::request::Request;
use super::{Authority, requests};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};

/// How long a request is kept after it was issued, denied, or failed.
const ENDED: Duration = Duration::from_secs(3600);
/// How long one is kept of which nothing became.
const PENDING: Duration = Duration::from_secs(24 * 3600);

/// Sets up the `certificatesigningrequest-cleaner-controller`.
pub(crate) fn clean_requests(frame: &mut Frame<'_>) {
    let Some(authority) = frame.authority.clone().filter(|_| frame.serves(&requests())) else { return };
    let client = frame.client.clone();
    let mut setup = frame.controller("certificate_cleaner");
    let store = setup.watch_own::<Slim<Request>>(&requests());
    setup.run(1, Cleaner { client, authority, requests: store });
}

/// When a request is to be deleted, if nothing else happens to it.
pub(super) fn deadline(request: &Slim<Request>, authority: &dyn Authority) -> Option<Timestamp> {
    let body = &request.body;
    if body.status.conditions.is_empty() {
        return request.meta.creation_timestamp.map(|created| created + PENDING);
    }
    let of_conditions = body.status.conditions.iter().filter_map(|condition| {
        let kept = match &*condition.kind {
            "Denied" | "Failed" => ENDED,
            "Approved" if body.is_issued() => ENDED,
            "Approved" => PENDING,
            _ => return None,
        };
        condition.last_update_time.map(|time| time + kept)
    });
    let expiry = body.certificate().filter(|_| body.has("Approved"));
    let expiry = expiry.and_then(|certificate| authority.good_until(&certificate));
    of_conditions.chain(expiry).min()
}

struct Cleaner {
    client: Client,
    authority: Arc<dyn Authority>,
    requests: Store<Slim<Request>>,
}

impl Control for Cleaner {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(found) = self.requests.read().get(key).cloned() else { return Ok(Again::Never) };
            let Some(deadline) = deadline(&found, &*self.authority) else { return Ok(Again::Never) };
            let left = deadline.saturating_since(self.client.server_now());
            if left.is_zero() {
                let path = requests().object(None, &key.name);
                Writes { client: &self.client, store: &self.requests }.delete(&path, &found.meta.uid).await?;
                return Ok(Again::Never);
            }
            Ok(Again::After(left))
        })
    }
}
