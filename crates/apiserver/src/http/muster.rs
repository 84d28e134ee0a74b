//! Paths under `/muster/`, which Kubernetes does not have: a snapshot of the server (API-37), and what other parts of the
//! program answer. All of them are for the group system:masters only.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response};

use super::body::Body;
use super::{Service, Unread, respond};
use crate::access::User;
use crate::access::attributes::{Attributes, forbidden};
use crate::snapshot;
use crate::status::ApiError;

/// A part of the program that answers `/muster/NAME` and the paths below it.
pub trait Extension: Send + Sync {
    /// Answers a request of somebody in the group system:masters.
    fn answer(&self, asked: Asked) -> BoxFuture<'_, Response<Bytes>>;
}

/// A request to an extension.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its method; whatever it is.
    pub method: Method,
    /// What follows `/muster/NAME/` in the path, decoded; empty where nothing does.
    pub rest: String,
    /// The query as it was sent, without the question mark; empty where there is none.
    pub query: String,
    /// The body, of [`super::LARGEST_BODY`] bytes at most.
    pub body: Bytes,
}

/// The extensions of a server, by name.
#[derive(Default)]
pub(crate) struct Extensions(RwLock<BTreeMap<&'static str, Arc<dyn Extension>>>);

impl Extensions {
    /// Adds one, in place of one of the same name.
    pub(crate) fn add(&self, name: &'static str, extension: Arc<dyn Extension>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, extension);
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        // What they hold may hold the server.
        drop(all);
    }

    fn get(&self, name: &str) -> Option<Arc<dyn Extension>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone)
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.read().unwrap_or_else(PoisonError::into_inner).keys()).finish()
    }
}

impl Service {
    /// Answers a request whose path, after `/muster/`, has these parts. `whole` is the path as the caller may be told it.
    pub(super) async fn muster<B>(
        &self,
        user: &User,
        (path, whole): (&[&str], &str),
        parts: &Parts,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let Some((name, rest)) = path.split_first() else { return respond::no_such_page() };
        let identity = self.shared.identity.as_ref().filter(|_| path == ["snapshot"]);
        let extension = self.shared.extensions.get(name);
        if identity.is_none() && extension.is_none() {
            return respond::no_such_page();
        }
        // The keys that make anybody somebody else are in a snapshot, and extensions know objects of every namespace.
        if !user.may_do_anything() {
            let attributes = Attributes::Path { verb: parts.method.as_str().to_lowercase().into(), path: whole };
            return respond::error(&forbidden(user, &attributes, "only the group system:masters may"), None);
        }
        if let Some(extension) = extension {
            let (body, _hold) = match self.read(parts, body).await {
                Ok(read) => read,
                Err(Unread::Refused(error)) => return respond::error(&error, None),
                Err(Unread::TooMany) => return self.too_many(),
            };
            let query = parts.uri.query().unwrap_or_default().to_owned();
            let asked = Asked { method: parts.method.clone(), rest: rest.join("/"), query, body };
            return extension.answer(asked).await.map(Body::whole);
        }
        match identity {
            Some(_) if parts.method != Method::GET => respond::error(&ApiError::method_not_allowed(), None),
            Some(identity) => {
                let pieces = snapshot::of_storage(&self.shared.registry.storage, identity);
                respond::with_body(200, "application/gzip", Body::stream(futures::stream::iter(pieces)))
            }
            None => respond::no_such_page(),
        }
    }
}
