//! Nothing leaves the server before it is on disk: the one place where answers wait for that (API-24).

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use http_body_util::Empty;

use super::body::Body;
use super::path::Target;
use super::{Handled, Service, respond};
use crate::registry::options::Query;
use crate::storage::disk::WriteError;

/// How often a read that has seen what was undone is done again. While the disk fails there is nothing to see, so that it
/// has to fail anew each time.
const READS: usize = 8;

/// The version of the object that an answer shows, where a request has written it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written(pub(super) u64);

impl Service {
    /// Handles a request, and waits until all that its answer may tell of is on disk: that somebody may not send it as well,
    /// for roles and accounts are objects too. A write that the disk refused is answered with why; a read is done again,
    /// and so is the question whether its sender may.
    pub(super) async fn handle_durably<'s, B>(
        &'s self,
        parts: &Parts,
        path: &str,
        target: &Target<'_>,
        query: Query,
        body: B,
    ) -> Handled<'s>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let again = (reads && self.shared.registry.storage.is_kept()).then(|| query.clone());
        let (mut handled, mut settled) = self.handle_once(parts, path, target, query, body).await;
        for _ in 0..READS {
            let (Err(_), Some(query)) = (&settled, &again) else { break };
            // Seldom, and boxed: the future of every request would be twice as large.
            (handled, settled) = Box::pin(self.handle_once(parts, path, target, query.clone(), Empty::new())).await;
        }
        if let Err(refused) = settled {
            handled.response = respond::error(&refused.into(), None);
        }
        handled
    }

    async fn handle_once<'s, B>(
        &'s self,
        parts: &Parts,
        path: &str,
        target: &Target<'_>,
        query: Query,
        body: B,
    ) -> (Handled<'s>, Result<(), WriteError>)
    where
        B: http_body::Body<Data = Bytes>,
    {
        let registry = &self.shared.registry;
        let storage = &registry.storage;
        let (undone, before) = (storage.undone(), storage.version());
        registry.settle_restored();
        let handled = self.handle(parts, path, target, query, body).await;
        // Before its own write there is all that it has seen; others may have written since.
        let written = handled.response.extensions().get::<Written>().map(|written| written.0);
        let seen = written.filter(|version| *version > before).unwrap_or_else(|| storage.version());
        let settled = storage.settled(undone, seen).await;
        (handled, settled)
    }
}

/// The answer of a write that shows what it has written.
pub(super) fn written(mut response: Response<Body>, version: u64) -> Response<Body> {
    response.extensions_mut().insert(Written(version));
    response
}
