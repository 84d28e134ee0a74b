//! What carries a request: any tower service, so that a socket and a server in this process are the same.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use tower::{Service, ServiceExt};

use super::{Fence, error::BoxError};

/// The body of a request: all of it, or nothing.
pub type RequestBody = Full<Bytes>;
/// The body of an answer, as it streams in.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// One way to a server. Calls run side by side.
pub(super) trait Transport: Send + Sync {
    /// Sends one request; the body of the answer may still be arriving.
    fn call(&self, request: Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    /// Waits until it is known who the requests come from, which a person may have to say.
    fn ready(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Another transport to the same server and user, with connections of its own; with a fence, it sends nothing that
    /// the fence does not allow at the last moment. `None` if a request reaches the server as soon as it is sent.
    fn another(&self, _fence: Option<&Fence>) -> Option<Box<dyn Transport>> {
        None
    }
}

/// A tower service as a transport: each call goes to a clone of its own.
pub(super) struct Through<S>(pub(super) S);

impl<S, B> Transport for Through<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> {
        let service = self.0.clone();
        Box::pin(async move {
            let answer = service.oneshot(request).await.map_err(Into::into)?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}
