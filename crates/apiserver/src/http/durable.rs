//! Nothing leaves the server before it is on disk: the one place where answers wait for that (API-24).

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use http_body_util::Empty;

use super::body::Body;
use super::metrics::Labels;
use super::path::Target;
use super::{Service, respond};
use crate::access::User;
use crate::registry::options::Query;

/// How often a read that has seen what was undone is done again.
const READS: usize = 8;

impl Service {
    /// Routes a request, and waits until all that its answer may tell of is on disk. A write whose commit the disk refused
    /// is answered with why; a read is done again.
    pub(super) async fn route_durably<B>(
        &self,
        user: &Arc<User>,
        parts: &Parts,
        target: &Target<'_>,
        query: Query,
        body: B,
    ) -> (Response<Body>, Labels)
    where
        B: http_body::Body<Data = Bytes>,
    {
        let storage = &self.shared.registry.storage;
        let undone = storage.undone();
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let again = (reads && storage.is_kept()).then(|| query.clone());
        let (mut response, mut labels) = self.route(user, parts, target, query, body).await;
        let mut settled = storage.settled(undone).await;
        for _ in 0..READS {
            let (Err(_), Some(query)) = (&settled, &again) else { break };
            let undone = storage.undone();
            (response, labels) = self.route(user, parts, target, query.clone(), Empty::new()).await;
            settled = storage.settled(undone).await;
        }
        match settled {
            Ok(()) => (response, labels),
            Err(refused) => (respond::error(&refused.into(), None), labels),
        }
    }
}
