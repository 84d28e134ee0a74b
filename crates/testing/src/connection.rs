//! What stands between a `kube::Client` and the server: nothing, or faults, and in the end that the cluster is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use muster_apiserver::ApiServer;
use muster_apiserver::http::Service as Server;
use tower::{BoxError, Service, ServiceExt as _};

/// The namespace of a client that names none.
const NAMESPACE: &str = "default";

/// The way to a server for as long as its cluster is there. All that came from one end together.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    server: Server,
    closed: Arc<AtomicBool>,
    #[cfg(feature = "faults")]
    faults: Option<crate::Faults>,
}

/// A request was sent after its cluster was dropped.
#[derive(Debug, thiserror::Error)]
#[error("the cluster of this client is no more: its `Cluster` was dropped")]
struct Closed;

impl Connection {
    /// The way of one who may do anything.
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self {
            server: server.service(),
            closed: Arc::default(),
            #[cfg(feature = "faults")]
            faults: None,
        }
    }

    /// The same way for the user of another service of the server.
    pub(crate) fn of(&self, server: Server) -> Self {
        Self { server, ..self.clone() }
    }

    /// The same way with these faults on it, or without any.
    #[cfg(feature = "faults")]
    pub(crate) fn with_faults(&self, faults: Option<crate::Faults>) -> Self {
        Self { faults, ..self.clone() }
    }

    /// A client that goes this way.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), NAMESPACE)
    }

    /// Refuses every further request.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { server, closed, .. } = self;
        if closed.load(Ordering::Acquire) {
            return Box::pin(async { Err(Closed.into()) });
        }
        let server = server.clone();
        #[cfg(feature = "faults")]
        if let Some(faults) = self.faults.clone() {
            return Box::pin(faulty(server, request, faults));
        }
        Box::pin(async move {
            let answer = server.oneshot(request).await?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

/// Sends a request through faults.
#[cfg(feature = "faults")]
async fn faulty(
    server: Server,
    request: Request<Body>,
    faults: crate::Faults,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::from_parts(parts, http_body_util::Full::new(body));
    muster_simulation::faults::Faulty::new(server, crate::CLIENT, faults).oneshot(request).await
}
